//! `event!`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, LitStr, Token};

use crate::field::{self, Field};
use crate::point::{self, Point};
use crate::print;
use crate::site::{self, Gate};

struct Event {
    print: Option<LitStr>,
    gate: Gate,
    provider: Option<Ident>,
    name: Ident,
    fields: Vec<Field>,
}

pub(crate) fn expand(input: TokenStream) -> TokenStream {
    match syn::parse2::<Event>(input).and_then(|event| event.tokens()) {
        Ok(tokens) => tokens,
        Err(error) => error.into_compile_error(),
    }
}

impl Event {
    fn tokens(self) -> syn::Result<TokenStream> {
        let names: Vec<&str> = self
            .fields
            .iter()
            .map(|field| field.name.as_str())
            .collect();
        if let Some(print) = &self.print {
            print::check(print, &names)?;
        }
        let provider = self
            .provider
            .map_or_else(point::default_provider, |provider| {
                provider.unraw().to_string()
            });
        let name = self.name.unraw().to_string();
        let point = Point::new(provider, name, self.print.as_ref(), &self.fields);
        let statements = site::event(&point, self.gate, Span::call_site(), &self.fields);
        Ok(quote_spanned!(Span::mixed_site()=> { #statements }))
    }
}

impl Parse for Event {
    fn parse(input: ParseStream<'_>) -> syn::Result<Event> {
        let (mut print, mut gate) = (None, Gate::default());
        while input.peek(syn::Ident) && input.peek2(Token![:]) && !input.peek2(Token![::]) {
            let option: Ident = input.parse()?;
            input.parse::<Token![:]>()?;
            match option.to_string().as_str() {
                "print" => print = Some(input.parse()?),
                "gate" => gate = Gate::named(&input.parse()?)?,
                _ => {
                    return Err(Error::new(
                        option.span(),
                        format!(
                            "`{option}:` is no option of an event: there is `print: \"…\"` and `gate: \"…\"`"
                        ),
                    ));
                }
            }
            input.parse::<Token![,]>()?;
        }
        let (provider, name) = path(input)?;
        let fields = match input.is_empty() {
            true => Vec::new(),
            false => {
                input.parse::<Token![,]>()?;
                Punctuated::<Field, Token![,]>::parse_terminated(input)?
                    .into_iter()
                    .collect()
            }
        };
        field::check(&fields)?;
        Ok(Event {
            print,
            gate,
            provider,
            name,
            fields,
        })
    }
}

/// `provider::name` or `name`.
fn path(input: ParseStream<'_>) -> syn::Result<(Option<Ident>, Ident)> {
    const EXPECTED: &str = "an event begins with its name: `event!(provider::name, field = value, …)`, or `event!(name, …)` in this crate's provider";
    if !input.peek(Ident::peek_any) {
        return Err(input.error(EXPECTED));
    }
    let first = Ident::parse_any(input)?;
    if !input.peek(Token![::]) {
        if !input.is_empty() && !input.peek(Token![,]) {
            return Err(Error::new(first.span(), EXPECTED));
        }
        return Ok((None, first));
    }
    input.parse::<Token![::]>()?;
    let second = Ident::parse_any(input).map_err(|_| Error::new(first.span(), EXPECTED))?;
    if input.peek(Token![::]) {
        return Err(input.error("an event's name has two parts at most: `provider::name`"));
    }
    Ok((Some(first), second))
}

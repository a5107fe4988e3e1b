//! The options of `#[tracepoint(…)]`.

use proc_macro2::{Ident, Span};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, LitStr, Token, parenthesized, token};

use crate::field::{Field, Form};
use crate::point;
use crate::site::Gate;

const OPTIONS: &str = "name, provider, fields, skip, skip_all, ret, err, print, gate";

/// How `ret` and `err` read their value, and where they were asked for.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    /// `None` is the default, which `ret` and `err` choose themselves.
    pub(crate) form: Option<Form>,
    pub(crate) span: Span,
}

/// What stands in the attribute.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) name: Option<LitStr>,
    pub(crate) provider: Option<LitStr>,
    pub(crate) print: Option<LitStr>,
    pub(crate) gate: Gate,
    pub(crate) fields: Vec<Field>,
    pub(crate) skip: Vec<Ident>,
    pub(crate) skip_all: bool,
    pub(crate) ret: Option<Asked>,
    pub(crate) err: Option<Asked>,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> syn::Result<Options> {
        let mut options = Options::default();
        let mut seen: Vec<Ident> = Vec::new();
        while !input.is_empty() {
            if !input.peek(Ident::peek_any) {
                return Err(
                    input.error(format!("expected an option of `#[tracepoint]`: {OPTIONS}"))
                );
            }
            let option = Ident::parse_any(input)?;
            if seen.contains(&option) {
                return Err(Error::new(
                    option.span(),
                    format!("`{option}` is given twice"),
                ));
            }
            options.take(&option, input)?;
            seen.push(option);
            if input.is_empty() {
                break;
            }
            input.parse::<Token![,]>()?;
        }
        Ok(options)
    }
}

impl Options {
    /// The provider and the name of a function's tracepoint.
    pub(crate) fn names(&self, function: &Ident) -> syn::Result<(String, String)> {
        if let Some(provider) = &self.provider {
            point::check_name(&provider.value(), provider.span(), "provider")?;
        }
        if let Some(name) = &self.name {
            point::check_name(&name.value(), name.span(), "name")?;
        }
        Ok((
            self.provider
                .as_ref()
                .map_or_else(point::default_provider, LitStr::value),
            self.name
                .as_ref()
                .map_or_else(|| function.unraw().to_string(), LitStr::value),
        ))
    }

    fn take(&mut self, option: &Ident, input: ParseStream<'_>) -> syn::Result<()> {
        match option.to_string().as_str() {
            "name" => self.name = Some(text(option, input)?),
            "provider" => self.provider = Some(text(option, input)?),
            "print" => self.print = Some(text(option, input)?),
            "gate" => self.gate = Gate::named(&text(option, input)?)?,
            "fields" => {
                self.fields = list(option, input, "fields(name = value, %display, ?debug)")?
            }
            "skip" => {
                let names: Vec<Name> = list(option, input, "skip(argument, …)")?;
                self.skip = names.into_iter().map(|name| name.0).collect();
            }
            "skip_all" => self.skip_all = true,
            "ret" => self.ret = Some(asked(option, input)?),
            "err" => self.err = Some(asked(option, input)?),
            unknown => {
                return Err(Error::new(
                    option.span(),
                    format!("`{unknown}` is no option of `#[tracepoint]`: there is {OPTIONS}"),
                ));
            }
        }
        Ok(())
    }
}

/// `= "text"`.
fn text(option: &Ident, input: ParseStream<'_>) -> syn::Result<LitStr> {
    let wrong = || {
        Error::new(
            option.span(),
            format!("`{option}` takes a text: write `{option} = \"…\"`"),
        )
    };
    input.parse::<Token![=]>().map_err(|_| wrong())?;
    input.parse().map_err(|_| wrong())
}

/// `(a, b, …)`.
fn list<T: Parse>(option: &Ident, input: ParseStream<'_>, form: &str) -> syn::Result<Vec<T>> {
    if !input.peek(token::Paren) {
        return Err(Error::new(
            option.span(),
            format!("`{option}` takes a list: write `{form}`"),
        ));
    }
    let content;
    parenthesized!(content in input);
    Ok(Punctuated::<T, Token![,]>::parse_terminated(&content)?
        .into_iter()
        .collect())
}

/// An argument's name; `self` is one.
struct Name(Ident);

impl Parse for Name {
    fn parse(input: ParseStream<'_>) -> syn::Result<Name> {
        match input.peek(Ident::peek_any) {
            true => Ident::parse_any(input).map(Name),
            false => Err(input.error("expected the name of an argument")),
        }
    }
}

/// Nothing, `= %`, `= ?`, `(Display)` or `(Debug)`.
fn asked(option: &Ident, input: ParseStream<'_>) -> syn::Result<Asked> {
    let wrong = |span| {
        Error::new(
            span,
            format!(
                "`{option}` is read by Display with `{option} = %` and by Debug with `{option} = ?`"
            ),
        )
    };
    let mut form = None;
    if input.peek(token::Paren) {
        let content;
        parenthesized!(content in input);
        let name: Ident = content.parse().map_err(|_| wrong(option.span()))?;
        form = match name.to_string().as_str() {
            "Display" => Some(Form::Display),
            "Debug" => Some(Form::Debug),
            _ => return Err(wrong(name.span())),
        };
        if !content.is_empty() {
            return Err(wrong(content.span()));
        }
    } else if input.peek(Token![=]) {
        input.parse::<Token![=]>()?;
        form = Some(if input.peek(Token![%]) {
            input.parse::<Token![%]>()?;
            Form::Display
        } else if input.peek(Token![?]) {
            input.parse::<Token![?]>()?;
            Form::Debug
        } else {
            return Err(wrong(option.span()));
        });
    }
    Ok(Asked {
        form,
        span: option.span(),
    })
}

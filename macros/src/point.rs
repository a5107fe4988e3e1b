//! A point: what a tracepoint leaves in its DSO, once for all its sites.

use std::env;

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{format_ident, quote_spanned};
use syn::{Error, LitStr};

use crate::assembly;
use crate::field::Field;

/// The return of the tracepoint without `__return` in its name (`wire::schema`).
pub(crate) const FLAG_RETURN: u8 = 1;

/// How many fields a code describes, and in how many bits each (`tracebraid::__private::code`).
const CODE_FIELDS: usize = 3;
const CODE_BITS: usize = 20;

/// The longest name of a provider or a tracepoint, bytes.
const MAX_NAME: usize = 255;

/// A provider, a name and the names of fields. Their kinds are the compiler's to find.
pub(crate) struct Point {
    pub(crate) provider: String,
    pub(crate) name: String,
    pub(crate) print: String,
    pub(crate) flags: u8,
    pub(crate) fields: Vec<String>,
    /// Whether its fields are those that every return has: their kinds are known.
    pub(crate) is_plain_return: bool,
}

impl Point {
    pub(crate) fn new(
        provider: String,
        name: String,
        print: Option<&LitStr>,
        fields: &[Field],
    ) -> Point {
        let fields = fields.iter().map(|field| field.name.clone()).collect();
        Point {
            provider,
            name,
            print: print.map(LitStr::value).unwrap_or_default(),
            flags: 0,
            fields,
            is_plain_return: false,
        }
    }

    /// Its symbol, with a placeholder `{<prefix>c<chunk>}` for what each three fields are.
    fn symbol(&self, prefix: &str) -> Literal {
        let texts = [self.provider.as_str(), self.name.as_str()];
        let hash = assembly::hash(
            texts
                .into_iter()
                .chain(self.fields.iter().map(String::as_str)),
        );
        let mut symbol = format!(
            "tracebraid.{}.{}.{hash:016x}",
            assembly::symbol(&self.provider),
            assembly::symbol(&self.name)
        );
        for chunk in 0..self.chunks() {
            symbol.push_str(&format!(".{{{prefix}c{chunk}}}"));
        }
        Literal::string(&symbol)
    }

    /// Defines the function `emit`, which emits an event of this point.
    pub(crate) fn define(&self, emit: &Ident) -> TokenStream {
        let span = Span::mixed_site();
        let count = Literal::usize_unsuffixed(self.fields.len());
        let mut kinds = TokenStream::new();
        let mut fields = TokenStream::new();
        for index in 0..self.fields.len() {
            let (lowered, value) = (
                format_ident!("L{index}", span = span),
                format_ident!("v{index}", span = span),
            );
            let index = Literal::usize_unsuffixed(index);
            kinds.extend(quote_spanned!(span=> #lowered,));
            fields.extend(quote_spanned!(span=> { #index #lowered #value }));
        }
        let text = self.text();
        quote_spanned! {span=>
            ::tracebraid::__point! {
                emit: #emit,
                kinds: (#kinds),
                count: #count,
                fields: [#fields],
                text: #text
            }
        }
    }

    /// Defines the function `address`, which knows where this point is: a return without a result.
    pub(crate) fn define_address(&self, address: &Ident) -> TokenStream {
        let text = self.text();
        quote_spanned!(Span::mixed_site()=> ::tracebraid::__return_point! { address: #address, text: #text })
    }

    /// What its assembly is made of.
    fn text(&self) -> TokenStream {
        let point = self.symbol("");
        let text = |text: &str| Literal::string(&assembly::quoted(text));
        let (provider, name, print) = (text(&self.provider), text(&self.name), text(&self.print));
        let names: String = self.fields.iter().map(|name| format!("{name}\0")).collect();
        let names = text(&names);
        let flags = Literal::u8_unsuffixed(self.flags);
        let count = Literal::usize_unsuffixed(self.fields.len());
        let codes = self.codes("");
        let fields = (0..self.fields.len()).map(|index| {
            let code = code("", index / CODE_FIELDS);
            let shift = Literal::usize_unsuffixed(index % CODE_FIELDS * CODE_BITS);
            quote_spanned!(Span::mixed_site()=> #code #shift)
        });
        quote_spanned! {Span::mixed_site()=> {
            point: #point,
            provider: #provider,
            name: #name,
            print: #print,
            names: #names,
            flags: #flags,
            count: #count,
            codes: [#codes],
            fields: [#(#fields)*]
        }}
    }

    /// Its row in a gate's list. `prefix` tells its names from those of the gate's other points.
    pub(crate) fn row(&self, prefix: &str) -> TokenStream {
        let span = Span::mixed_site();
        let variable = format_ident!("{prefix}kinds", span = span);
        let point = self.symbol(prefix);
        let codes = self.codes(prefix);
        if self.is_plain_return {
            return quote_spanned!(span=> { #variable ::tracebraid::__private::Return, #point [] [#codes] });
        }
        let lowered = (0..self.fields.len())
            .map(|index| format_ident!("{}L{index}", prefix.to_uppercase(), span = span));
        let lowered: Vec<_> = lowered.collect();
        quote_spanned!(span=> { #variable (#(#lowered,)*), #point [#(#lowered)*] [#codes] })
    }

    fn chunks(&self) -> usize {
        self.fields.len().div_ceil(CODE_FIELDS)
    }

    /// The names of its codes, each with its number.
    fn codes(&self, prefix: &str) -> TokenStream {
        let codes = (0..self.chunks()).map(|chunk| {
            let (code, chunk) = (code(prefix, chunk), Literal::usize_unsuffixed(chunk));
            quote_spanned!(Span::mixed_site()=> #code #chunk)
        });
        codes.collect()
    }
}

fn code(prefix: &str, chunk: usize) -> Ident {
    format_ident!("{prefix}c{chunk}", span = Span::mixed_site())
}

/// The provider of what does not name one: the crate that is compiled.
pub(crate) fn default_provider() -> String {
    let package = || env::var("CARGO_PKG_NAME").map(|name| name.replace('-', "_"));
    env::var("CARGO_CRATE_NAME")
        .or_else(|_| package())
        .unwrap_or_else(|_| "main".to_owned())
}

/// Refuses names that tools could not be told: they write `provider:name` and use globs.
pub(crate) fn check_name(name: &str, span: Span, what: &str) -> syn::Result<()> {
    let allowed = |char: char| char.is_alphanumeric() || matches!(char, '_' | '-' | '.');
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(allowed) {
        return Err(Error::new(
            span,
            format!(
                "the {what} of a tracepoint is 1 to {MAX_NAME} bytes of letters, digits, `_`, `-` and `.`"
            ),
        ));
    }
    Ok(())
}

//! A site: the gate in the user's code, and what its cold block emits.

use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{format_ident, quote_spanned};
use syn::{Error, LitStr};

use crate::assembly;
use crate::field::{Field, Form};
use crate::point::Point;

/// How a site finds out that it is on.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Its code is patched.
    #[default]
    Key,
    /// It tests its tracepoint's semaphore.
    Semaphore,
}

impl Gate {
    pub(crate) fn named(name: &LitStr) -> syn::Result<Gate> {
        match name.value().as_str() {
            "key" => Ok(Gate::Key),
            "semaphore" => Ok(Gate::Semaphore),
            _ => Err(Error::new(
                name.span(),
                "a gate is \"key\" (code that is patched, the default) or \"semaphore\" (a word that is tested)",
            )),
        }
    }

    /// Defines the function `gate`: whether any of the points is on. Each comes with the prefix of its
    /// names.
    pub(crate) fn define(self, gate: &Ident, at: Span, points: &[(&str, &Point)]) -> TokenStream {
        let span = Span::mixed_site();
        let name = match self {
            Gate::Key => "__gate_key",
            Gate::Semaphore => "__gate_semaphore",
        };
        let define = Ident::new(name, span);
        let at = at.unwrap();
        let file = at.file();
        let line = Literal::usize_unsuffixed(at.line());
        let file_symbol = Literal::string(&format!(
            "tracebraid.file.{:016x}",
            assembly::hash([file.as_str()])
        ));
        let file = Literal::string(&assembly::quoted(&file));
        let rows = points.iter().map(|(prefix, point)| point.row(prefix));
        quote_spanned! {span=>
            ::tracebraid::#define! {
                gate: #gate,
                file: #file,
                file_symbol: #file_symbol,
                line: #line,
                points: [#(#rows)*]
            }
        }
    }
}

/// Calls `emit` with the words of the fields.
pub(crate) fn emission(emit: &Ident, kinds: &Ident, fields: &[Field]) -> TokenStream {
    let span = Span::mixed_site();
    let words = fields.iter().map(Field::lower);
    // What `Field::lower` calls `held` of.
    let methods = match fields.iter().any(|field| field.form != Form::Plain) {
        true => {
            quote_spanned!(span=> use ::tracebraid::__private::{Hold as _, HoldCopy as _, HoldReborrow as _};)
        }
        false => TokenStream::new(),
    };
    quote_spanned!(span=> ::tracebraid::__private::fields(|| { #methods #emit(#kinds, (#(#words,)*)) }))
}

/// Statements that emit an event of a point, from a site of its own.
pub(crate) fn event(point: &Point, gate: Gate, at: Span, fields: &[Field]) -> TokenStream {
    let span = Span::mixed_site();
    let (emit, test, kinds) = (name("emit"), name("gate"), name("kinds"));
    let (define_point, define_gate) = (point.define(&emit), gate.define(&test, at, &[("", point)]));
    let emission = emission(&emit, &kinds, fields);
    quote_spanned! {span=>
        #define_point
        #define_gate
        let #kinds = ::tracebraid::__private::kinds();
        if #test(#kinds) {
            #emission;
        }
    }
}

/// A generated name. Functions are seen by the user's code that stands beside them, so that their
/// names are ones that nobody uses.
pub(crate) fn name(name: &str) -> Ident {
    format_ident!("__tracebraid_{name}", span = Span::mixed_site())
}

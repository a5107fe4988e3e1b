//! What a return says of a function's result: `ret` and `err`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;
use syn::{Error, ReturnType, Signature, Type};

use crate::attribute::{Asked, Options};
use crate::field::{Form, generated};

/// The fields of a return beside `ns` and `end`.
pub(crate) struct Outcome {
    ret: Option<Asked>,
    err: Option<Asked>,
}

impl Outcome {
    pub(crate) fn new(options: &Options, signature: &Signature) -> syn::Result<Outcome> {
        let Options { ret, err, .. } = *options;
        if let (Some(err), ReturnType::Default) = (err, &signature.output) {
            return Err(Error::new(
                err.span,
                "`err` is for functions that return a `Result`",
            ));
        }
        match (ret, &signature.output) {
            (Some(ret), ReturnType::Type(_, of)) if matches!(**of, Type::Never(_)) => {
                Err(Error::new(ret.span, "this function never returns a value"))
            }
            _ => Ok(Outcome { ret, err }),
        }
    }

    /// Whether a return has one of them.
    pub(crate) fn is_asked(&self) -> bool {
        self.span().is_some()
    }

    /// Where one of them was asked for.
    pub(crate) fn span(&self) -> Option<Span> {
        self.ret.or(self.err).map(|asked| asked.span)
    }

    /// Where a `ret` was asked for whose form depends on its type.
    pub(crate) fn needs_type(&self) -> Option<Span> {
        self.ret
            .filter(|ret| ret.form.is_none())
            .map(|ret| ret.span)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.ret
            .map(|_| "ret")
            .into_iter()
            .chain(self.err.map(|_| "err"))
    }

    /// A closure that emits a return: `(start, end, Option<&result>)`.
    pub(crate) fn closure(&self, emit: &Ident, kinds: &Ident) -> TokenStream {
        let span = Span::mixed_site();
        let mut lets = TokenStream::new();
        let mut words = TokenStream::new();
        if let Some(ret) = self.ret {
            let at = generated(ret.span);
            let value = match self.err {
                Some(_) => quote_spanned!(at=> ::tracebraid::__private::ok(result)),
                None => quote_spanned!(at=> result),
            };
            let lower = match ret.form {
                Some(Form::Display) => quote_spanned!(at=> ::tracebraid::__private::display),
                Some(Form::Debug) => quote_spanned!(at=> ::tracebraid::__private::debug),
                // A method that two traits have: the compiler takes the one for values where it can.
                _ => {
                    quote_spanned!(at=> |ret| (&&::tracebraid::__private::Returned(ret)).lower_returned())
                }
            };
            if ret.form.is_none() {
                lets.extend(quote_spanned!(span=> use ::tracebraid::__private::{ReturnedDebug as _, ReturnedValue as _};));
            }
            lets.extend(quote_spanned!(span=> let ret = #value;));
            words.extend(
                quote_spanned!(at=> ::tracebraid::__private::optional(ret.as_ref().map(#lower)),),
            );
        }
        if let Some(err) = self.err {
            let at = generated(err.span);
            let lower = match err.form {
                Some(Form::Debug) => quote_spanned!(at=> ::tracebraid::__private::debug),
                _ => quote_spanned!(at=> ::tracebraid::__private::display),
            };
            lets.extend(quote_spanned!(at=> let err = ::tracebraid::__private::err(result);));
            words.extend(
                quote_spanned!(at=> ::tracebraid::__private::optional(err.as_ref().map(#lower)),),
            );
        }
        let call = quote_spanned! {span=>
            #emit(#kinds, (::tracebraid::__private::lower(&start), ::tracebraid::__private::lower(&end), #words))
        };
        quote_spanned!(span=> move |start, end, result| { #lets #call; })
    }
}

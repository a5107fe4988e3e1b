//! `#[tracepoint]` on a function without a body: an event that its callers share.

use proc_macro2::{Span, TokenStream};
use quote::quote_spanned;
use syn::spanned::Spanned;
use syn::{Error, ReturnType};

use crate::arguments;
use crate::attribute::Options;
use crate::item::Item;
use crate::point::Point;
use crate::print;
use crate::site;

pub(crate) fn expand(item: Item, mut options: Options) -> syn::Result<TokenStream> {
    check(&item, &options)?;
    let Item {
        attributes,
        visibility,
        mut signature,
        ..
    } = item;
    let bindings = arguments::bindings(&mut signature, true);
    let fields = arguments::fields(&signature, &bindings, &mut options)?;
    if let Some(print) = &options.print {
        print::check(
            print,
            &fields
                .iter()
                .map(|field| field.name.as_str())
                .collect::<Vec<_>>(),
        )?;
    }
    let (provider, name) = options.names(&signature.ident)?;
    let point = Point::new(provider, name, options.print.as_ref(), &fields);
    let statements = site::event(&point, options.gate, signature.ident.span(), &fields);
    // An argument that is left out is nobody's mistake here.
    let unread = bindings
        .iter()
        .map(|binding| &binding.name)
        .filter(|name| !arguments::looks_unused(name));
    let allow = arguments::allow_for(&bindings, &fields);
    Ok(quote_spanned! {Span::mixed_site()=>
        #(#attributes)*
        #allow
        #[inline(always)]
        #visibility #signature {
            #(let _ = &#unread;)*
            #statements
        }
    })
}

/// Refuses what only a function with a body can have.
fn check(item: &Item, options: &Options) -> syn::Result<()> {
    let signature = &item.signature;
    let refuse = |span, what: &str| {
        Err(Error::new(
            span,
            format!(
                "{what}: a function without a body declares an event, whose arguments are its fields"
            ),
        ))
    };
    if let Some(receiver) = signature.receiver() {
        return refuse(
            receiver.span(),
            "an event has no `self`; in a trait, put `#[tracepoint]` on methods with a body",
        );
    }
    if let ReturnType::Type(arrow, _) = &signature.output {
        return refuse(arrow.spans[0], "an event returns nothing");
    }
    if let Some(asked) = options.ret.or(options.err) {
        return refuse(asked.span, "an event has no result");
    }
    let qualifiers = [
        signature.constness.map(|token| token.span),
        signature.asyncness.map(|token| token.span),
        signature.unsafety.map(|token| token.span),
        signature.abi.as_ref().map(|abi| abi.extern_token.span),
        signature
            .variadic
            .as_ref()
            .map(|variadic| variadic.dots.spans[0]),
    ];
    match qualifiers.into_iter().flatten().next() {
        Some(span) => refuse(span, "an event is an ordinary function, without qualifiers"),
        None => Ok(()),
    }
}

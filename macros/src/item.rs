//! What `#[tracepoint]` stands on.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::buffer::Cursor;
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Error, Signature, Token, Visibility, token};

use crate::attribute::Options;
use crate::{declared, function};

/// A function; its body is not looked into.
pub(crate) struct Item {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) signature: Signature,
    /// `None` where a `;` stands instead.
    pub(crate) body: Option<Group>,
}

pub(crate) fn expand(options: TokenStream, tokens: TokenStream) -> TokenStream {
    let item = match syn::parse2::<Item>(tokens.clone()) {
        Ok(item) => item,
        Err(error) => {
            let error = error.into_compile_error();
            return quote!(#error #tokens);
        }
    };
    let body = item.body.clone();
    // Where the attribute is wrong the item is left as if it had none, so that nothing but the
    // mistake is reported.
    let plain = plain(&item);
    let expanded = syn::parse2::<Options>(options).and_then(|options| match &body {
        Some(body) => function::expand(item, body, options),
        None => declared::expand(item, options),
    });
    expanded.unwrap_or_else(|error| {
        let error = error.into_compile_error();
        quote!(#plain #error)
    })
}

/// The item without its tracepoint.
fn plain(item: &Item) -> TokenStream {
    let Item {
        attributes,
        visibility,
        signature,
        body,
    } = item;
    if let Some(body) = body {
        return quote!(#(#attributes)* #visibility #signature #body);
    }
    let mut signature = signature.clone();
    signature.constness = None;
    quote_spanned! {Span::mixed_site()=>
        #(#attributes)*
        #[allow(unused)]
        #visibility #signature { ::tracebraid::__private::never() }
    }
}

impl Parse for Item {
    fn parse(input: ParseStream<'_>) -> syn::Result<Item> {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        if !begins_function(input) {
            return Err(Error::new(
                input.span(),
                "`#[tracepoint]` stands on functions: on a free function, a method with a body, or, to declare an event, \
                 on a function without a body",
            ));
        }
        let signature = input.parse()?;
        let body = if input.peek(token::Brace) {
            Some(input.step(|cursor| block(*cursor))?)
        } else {
            input.parse::<Token![;]>()?;
            None
        };
        Ok(Item {
            attributes,
            visibility,
            signature,
            body,
        })
    }
}

/// A block, also one that a macro passed on as a fragment (`$body:block`).
fn block(cursor: Cursor<'_>) -> syn::Result<(Group, Cursor<'_>)> {
    let (content, span, rest) = cursor
        .group(Delimiter::Brace)
        .ok_or_else(|| Error::new(cursor.span(), "expected a body"))?;
    let mut block = Group::new(Delimiter::Brace, content.token_stream());
    block.set_span(span.join());
    Ok((block, rest))
}

fn begins_function(input: ParseStream<'_>) -> bool {
    let fork = input.fork();
    while fork.peek(Token![const])
        || fork.peek(Token![async])
        || fork.peek(Token![unsafe])
        || fork.peek(Token![extern])
    {
        if fork.parse::<Ident>().is_err()
            && fork.call(<Ident as syn::ext::IdentExt>::parse_any).is_err()
        {
            return false;
        }
        if fork.peek(syn::LitStr) && fork.parse::<syn::LitStr>().is_err() {
            return false;
        }
    }
    fork.peek(Token![fn])
}

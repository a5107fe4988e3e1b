//! The arguments of a function: the variables they bring into its body, and the fields they become.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::quote_spanned;
use syn::ext::IdentExt;
use syn::{Error, FnArg, Pat, PatIdent, Signature};

use crate::attribute::Options;
use crate::field::{self, Field};

/// A variable that an argument's pattern binds.
pub(crate) struct Binding {
    pub(crate) name: Ident,
    /// `mut` on the variable itself.
    pub(crate) mutable: bool,
}

/// The variables of all arguments, in order. `self` is not among them.
///
/// With `take_mut`, the signature loses the `mut` of its variables: they are moved into a body that
/// has it.
pub(crate) fn bindings(signature: &mut Signature, take_mut: bool) -> Vec<Binding> {
    let mut found = Vec::new();
    for argument in &mut signature.inputs {
        if let FnArg::Typed(argument) = argument {
            walk(&mut argument.pat, &mut |pattern| {
                // An upper-case name alone is a unit struct: an argument's pattern cannot fail.
                let plain = pattern.by_ref.is_none()
                    && pattern.mutability.is_none()
                    && pattern.subpat.is_none();
                if pattern.ident == "self"
                    || (plain
                        && pattern
                            .ident
                            .unraw()
                            .to_string()
                            .starts_with(char::is_uppercase))
                {
                    return;
                }
                let mutable = pattern.by_ref.is_none() && pattern.mutability.is_some();
                if mutable && take_mut {
                    pattern.mutability = None;
                }
                found.push(Binding {
                    name: pattern.ident.clone(),
                    mutable,
                });
            });
        }
    }
    found
}

/// Calls `each` for every variable that a pattern binds.
fn walk(pattern: &mut Pat, each: &mut impl FnMut(&mut PatIdent)) {
    match pattern {
        Pat::Ident(found) => {
            each(found);
            if let Some((_, inner)) = &mut found.subpat {
                walk(inner, each);
            }
        }
        Pat::Paren(found) => walk(&mut found.pat, each),
        Pat::Reference(found) => walk(&mut found.pat, each),
        Pat::Slice(found) => found.elems.iter_mut().for_each(|inner| walk(inner, each)),
        Pat::Struct(found) => found
            .fields
            .iter_mut()
            .for_each(|field| walk(&mut field.pat, each)),
        Pat::Tuple(found) => found.elems.iter_mut().for_each(|inner| walk(inner, each)),
        Pat::TupleStruct(found) => found.elems.iter_mut().for_each(|inner| walk(inner, each)),
        Pat::Type(found) => walk(&mut found.pat, each),
        // Every case of an or-pattern binds the same variables.
        Pat::Or(found) => found
            .cases
            .iter_mut()
            .take(1)
            .for_each(|inner| walk(inner, each)),
        _ => {}
    }
}

/// The fields of an entry: one a variable, those that the options put in its place, and the rest of
/// the options' fields.
pub(crate) fn fields(
    signature: &Signature,
    bindings: &[Binding],
    options: &mut Options,
) -> syn::Result<Vec<Field>> {
    let has_self = signature.receiver().is_some();
    for skipped in &options.skip {
        let known = bindings.iter().any(|binding| binding.name == *skipped)
            || (has_self && *skipped == "self");
        if !known {
            let names: Vec<String> = bindings
                .iter()
                .map(|binding| format!("`{}`", binding.name))
                .collect();
            let there_is = if names.is_empty() {
                "there is none".to_owned()
            } else {
                format!("there is {}", names.join(", "))
            };
            return Err(Error::new(
                skipped.span(),
                format!("no argument is named `{skipped}`: {there_is}"),
            ));
        }
    }
    let mut extra: Vec<Option<Field>> = options.fields.drain(..).map(Some).collect();
    let mut fields = Vec::new();
    for binding in bindings {
        let mut field = Field::of(&binding.name);
        let instead = extra
            .iter_mut()
            .find(|extra| extra.as_ref().is_some_and(|extra| extra.name == field.name));
        match instead.and_then(Option::take) {
            Some(instead) => field = instead,
            None if options.skip_all || options.skip.contains(&binding.name) => continue,
            None => {}
        }
        fields.push(field);
    }
    fields.extend(extra.into_iter().flatten());
    field::check(&fields)?;
    Ok(fields)
}

/// Whether an identifier stands anywhere in the tokens.
pub(crate) fn mentions(tokens: &TokenStream, name: &Ident) -> bool {
    tokens.clone().into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == *name,
        TokenTree::Group(group) => mentions(&group.stream(), name),
        _ => false,
    })
}

/// Whether a variable is named as if nobody used it.
pub(crate) fn looks_unused(name: &Ident) -> bool {
    name.to_string().starts_with('_')
}

/// Lets a statement use such a variable.
pub(crate) fn allow_underscores() -> TokenStream {
    quote_spanned!(Span::mixed_site()=> #[allow(clippy::used_underscore_binding)])
}

/// The same, if any of the fields does.
pub(crate) fn allow_for(bindings: &[Binding], fields: &[Field]) -> TokenStream {
    let mut unused = bindings
        .iter()
        .map(|binding| &binding.name)
        .filter(|name| looks_unused(name));
    match unused.any(|name| fields.iter().any(|field| mentions(&field.value, name))) {
        true => allow_underscores(),
        false => TokenStream::new(),
    }
}

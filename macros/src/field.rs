//! A field of a tracepoint: its name, where its value comes from, how it is read.

use proc_macro2::{Delimiter, Group, Ident, Literal, Span, TokenStream, TokenTree};
use quote::{quote, quote_spanned};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Expr, LitFloat, LitInt, LitStr, Token, token};

use crate::closed;

/// What a point has room for (`wire::schema`, `Fields` for tuples).
pub(crate) const MAX_FIELDS: usize = 32;

/// How a value becomes words.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// By `Value`.
    Plain,
    /// By `Display`: `%`.
    Display,
    /// By `Debug`: `?`.
    Debug,
}

/// One field.
pub(crate) struct Field {
    pub(crate) name: String,
    /// Where its name is.
    pub(crate) span: Span,
    pub(crate) form: Form,
    /// The expression, as the user wrote it.
    pub(crate) value: TokenStream,
}

/// A span for generated tokens that errors are to show at `span`.
pub(crate) fn generated(span: Span) -> Span {
    Span::mixed_site().located_at(span)
}

impl Field {
    /// A field that is a variable's value.
    pub(crate) fn of(variable: &Ident) -> Field {
        Field {
            name: variable.unraw().to_string(),
            span: variable.span(),
            form: Form::Plain,
            value: quote!(#variable),
        }
    }

    /// The words of the field. The value is borrowed until the end of the statement it stands in.
    pub(crate) fn lower(&self) -> TokenStream {
        let mut tokens = self.value.clone().into_iter();
        let first = tokens
            .next()
            .map_or_else(Span::mixed_site, |token| token.span());
        let last = tokens.last().map_or(first, |token| token.span());
        let (first, last) = (generated(first), generated(last));
        // The borrow begins and ends with the user's expression, so that this is what errors underline.
        let mut group = Group::new(Delimiter::Parenthesis, self.value.clone());
        group.set_span(last);
        let group = TokenTree::Group(group);
        match self.form {
            Form::Plain => quote_spanned!(first=> ::tracebraid::__private::lower(&#group)),
            Form::Display => {
                quote_spanned!(first=> ::tracebraid::__private::display(&(&&&::tracebraid::__private::Place(&#group)).held()))
            }
            Form::Debug => {
                quote_spanned!(first=> ::tracebraid::__private::debug(&(&&&::tracebraid::__private::Place(&#group)).held()))
            }
        }
    }
}

impl Parse for Field {
    fn parse(input: ParseStream<'_>) -> syn::Result<Field> {
        let sigil = form(input)?;
        if sigil == Form::Plain && input.peek(LitStr) {
            let name: LitStr = input.parse()?;
            if !input.peek(Token![=]) {
                return Err(Error::new(
                    name.span(),
                    "a text names a field and needs a value: write `\"name\" = value`; a message is a field too: `message = %format_args!(…)`",
                ));
            }
            return assigned(name.value(), name.span(), input);
        }
        if sigil == Form::Plain && input.peek(token::Brace) {
            return Err(input.error(
                "a field's name is an identifier, a dotted path of them, or a text: `name = value`",
            ));
        }
        let (name, path, span) = dotted(input)?;
        if input.is_empty() || input.peek(Token![,]) {
            return Ok(Field {
                name,
                span,
                form: sigil,
                value: path,
            });
        }
        if sigil == Form::Plain && input.peek(Token![=]) && !input.peek(Token![==]) {
            return assigned(name, span, input);
        }
        Err(input.error(match sigil {
            Form::Plain => "expected `=`, `,` or the end: an expression needs a name, `name = expression`",
            _ => "only a variable, or a field of one, can stand without a name: write `name = %expression` or `name = ?expression`",
        }))
    }
}

/// `= value`, `= %value`, `= ?value`.
fn assigned(name: String, span: Span, input: ParseStream<'_>) -> syn::Result<Field> {
    input.parse::<Token![=]>()?;
    if name.is_empty() || name.contains('\0') {
        return Err(Error::new(
            span,
            "a field's name is not empty and holds no NUL character",
        ));
    }
    let form = form(input)?;
    if input.is_empty() || input.peek(Token![,]) {
        return Err(Error::new(
            span,
            format!("field `{name}` has no value: write `{name} = value`"),
        ));
    }
    let mut value: Expr = input.parse()?;
    closed::check(&mut value)?;
    Ok(Field {
        name,
        span,
        form,
        value: quote!(#value),
    })
}

fn form(input: ParseStream<'_>) -> syn::Result<Form> {
    if input.peek(Token![%]) {
        input.parse::<Token![%]>()?;
        return Ok(Form::Display);
    }
    if input.peek(Token![?]) {
        input.parse::<Token![?]>()?;
        return Ok(Form::Debug);
    }
    Ok(Form::Plain)
}

/// `a.b.c`: as a name, and as it stands.
fn dotted(input: ParseStream<'_>) -> syn::Result<(String, TokenStream, Span)> {
    let first = segment(input)?;
    let span = first.span();
    let (mut name, mut path) = (first.unraw().to_string(), quote!(#first));
    while input.peek(Token![.]) {
        let dot: Token![.] = input.parse()?;
        // `pair.0`; a float is `pair.0.1`.
        if input.peek(LitInt) || input.peek(LitFloat) {
            let index: Literal = input.parse()?;
            name = format!("{name}.{index}");
            path.extend(quote!(#dot #index));
            continue;
        }
        let next = segment(input)?;
        name = format!("{name}.{}", next.unraw());
        path.extend(quote!(#dot #next));
    }
    Ok((name, path, span))
}

fn segment(input: ParseStream<'_>) -> syn::Result<Ident> {
    if input.peek(Ident::peek_any) {
        return input.call(Ident::parse_any);
    }
    Err(input.error("expected a field: `name = value`, `name`, `%name` or `?name` (for the parts of an expression give it a name)"))
}

/// Refuses what no point can have.
pub(crate) fn check(fields: &[Field]) -> syn::Result<()> {
    if let Some(surplus) = fields.get(MAX_FIELDS) {
        return Err(Error::new(
            surplus.span,
            format!(
                "a tracepoint has at most {MAX_FIELDS} fields, and this one has {}",
                fields.len()
            ),
        ));
    }
    for (at, field) in fields.iter().enumerate() {
        if fields[..at]
            .iter()
            .any(|earlier| earlier.name == field.name)
        {
            return Err(Error::new(
                field.span,
                format!("there are two fields named `{}`", field.name),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::punctuated::Punctuated;

    fn parse(text: &str) -> syn::Result<Vec<(String, char, String)>> {
        let parser = Punctuated::<Field, Token![,]>::parse_terminated;
        let fields = syn::parse::Parser::parse_str(parser, text)?;
        Ok(fields
            .into_iter()
            .map(|field| {
                let form = match field.form {
                    Form::Plain => '=',
                    Form::Display => '%',
                    Form::Debug => '?',
                };
                (field.name, form, field.value.to_string())
            })
            .collect())
    }

    #[test]
    fn a_field_has_each_of_the_forms_of_the_tracing_macros() {
        for (text, name, form, value) in [
            ("x", "x", '=', "x"),
            ("x.y.z", "x.y.z", '=', "x . y . z"),
            ("?self.0.1.x", "self.0.1.x", '?', "self . 0.1 . x"),
            ("self.x", "self.x", '=', "self . x"),
            ("%x", "x", '%', "x"),
            ("?x.y", "x.y", '?', "x . y"),
            ("r#type", "type", '=', "r#type"),
            ("type = 3", "type", '=', "3"),
            ("a.b = c + d", "a.b", '=', "c + d"),
            ("a = %b.c()", "a", '%', "b . c ()"),
            ("a = ?b + 1", "a", '?', "b + 1"),
            ("\"quoted key\" = %b", "quoted key", '%', "b"),
        ] {
            let fields = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(
                fields,
                [(name.to_owned(), form, value.to_owned())],
                "{text}"
            );
        }
    }

    #[test]
    fn fields_end_at_commas_outside_of_their_expressions() {
        let names: Vec<String> = parse("a = f(1, 2), b, c = [1, 2][0], ")
            .unwrap()
            .into_iter()
            .map(|field| field.0)
            .collect();
        assert_eq!(names, ["a", "b", "c"]);
    }

    #[test]
    fn what_is_no_field_is_refused() {
        for bad in [
            "3",
            "a =",
            "a = %",
            "\"message\"",
            "\"\" = 3",
            "a b",
            "a == 3",
            "%f(x)",
            "?x = 3",
            "{ K } = 3",
            "a.",
            "a = b?",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}

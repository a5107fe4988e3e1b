//! `print` templates: `{field}`, `{{`, `}}`.

use syn::{Error, LitStr};

/// Refuses a template that names what is no field.
pub(crate) fn check(template: &LitStr, fields: &[&str]) -> syn::Result<()> {
    let text = template.value();
    if text.contains('\0') {
        return Err(Error::new(
            template.span(),
            "a print format cannot hold a NUL character",
        ));
    }
    let mut rest = text.as_str();
    while let Some(at) = rest.find(['{', '}']) {
        let (brace, after) = rest[at..].split_at(1);
        if after.starts_with(brace) {
            rest = &after[1..];
            continue;
        }
        let Some(end) = after
            .find(['{', '}'])
            .filter(|end| brace == "{" && after[*end..].starts_with('}'))
        else {
            return Err(Error::new(
                template.span(),
                format!(
                    "unmatched `{brace}` in the print format: write `{brace}{brace}` for a brace, `{{field}}` for a field"
                ),
            ));
        };
        let name = &after[..end];
        if !fields.contains(&name) {
            return Err(Error::new(template.span(), unknown(name, fields)));
        }
        rest = &after[end + 1..];
    }
    Ok(())
}

fn unknown(name: &str, fields: &[&str]) -> String {
    if fields.is_empty() {
        return format!("the print format names `{name}`, but the tracepoint has no fields");
    }
    format!(
        "the print format names `{name}`, which is no field: there is {}",
        fields.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proc_macro2::Span;

    fn error(template: &str) -> Option<String> {
        let fields = ["id", "a.b", "any text"];
        check(&LitStr::new(template, Span::call_site()), &fields)
            .err()
            .map(|error| error.to_string())
    }

    #[test]
    fn fields_and_doubled_braces_are_accepted() {
        for good in [
            "",
            "plain",
            "{id}",
            "id={id} {{{a.b}}} {any text}",
            "{{id}}",
            "}}{{",
        ] {
            assert_eq!(error(good), None, "{good}");
        }
    }

    #[test]
    fn unknown_fields_and_single_braces_are_refused() {
        assert!(
            error("{ID}")
                .unwrap()
                .contains("`ID`, which is no field: there is id, a.b, any text")
        );
        assert!(error("{id:x}").unwrap().contains("`id:x`"));
        assert!(error("{}").unwrap().contains("``"));
        for unmatched in ["{", "}", "{id", "id}", "{id{", "{{}", "{i{{d}"] {
            assert!(
                error(unmatched).unwrap().starts_with("unmatched"),
                "{unmatched}"
            );
        }
    }
}

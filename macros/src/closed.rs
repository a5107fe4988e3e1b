//! Refuses expressions that would leave their field.
//!
//! A field is evaluated inside a closure in the cold block, and only when the tracepoint is on. What
//! jumps out of it would make a program that behaves differently while it is watched.

use proc_macro2::Span;
use syn::visit_mut::{self, VisitMut};
use syn::{Error, Expr, ExprAsync, ExprClosure, ExprForLoop, ExprLoop, ExprWhile, Item, Lifetime};

/// Refuses `return`, `?`, `.await`, `yield`, and `break` and `continue` of an outer loop.
pub(crate) fn check(expression: &mut Expr) -> syn::Result<()> {
    let mut leaving = Leaving::default();
    leaving.visit_expr_mut(expression);
    leaving.error.map_or(Ok(()), Err)
}

#[derive(Default)]
struct Leaving {
    loops: usize,
    labels: Vec<Lifetime>,
    error: Option<Error>,
}

impl Leaving {
    fn refuse(&mut self, span: Span, what: &str) {
        let error = Error::new(
            span,
            format!(
                "{what} is not allowed in a field of a tracepoint, which is evaluated only while the tracepoint is on: \
                 do it before, and give the field its value"
            ),
        );
        match &mut self.error {
            Some(errors) => errors.combine(error),
            None => self.error = Some(error),
        }
    }

    fn refuse_jump(&mut self, span: Span, what: &str, label: Option<&Lifetime>) {
        let inside = match label {
            Some(label) => self.labels.iter().any(|known| known.ident == label.ident),
            None => self.loops > 0,
        };
        if !inside {
            self.refuse(span, what);
        }
    }

    fn within(&mut self, label: Option<&syn::Label>, a_loop: bool, visit: impl FnOnce(&mut Self)) {
        self.loops += usize::from(a_loop);
        self.labels.extend(label.map(|label| label.name.clone()));
        visit(self);
        self.loops -= usize::from(a_loop);
        if label.is_some() {
            self.labels.pop();
        }
    }
}

impl VisitMut for Leaving {
    fn visit_expr_mut(&mut self, expression: &mut Expr) {
        match expression {
            Expr::Return(found) => self.refuse(found.return_token.span, "`return`"),
            Expr::Try(found) => self.refuse(found.question_token.span, "`?`"),
            Expr::Await(found) => self.refuse(found.await_token.span, "`.await`"),
            Expr::Yield(found) => self.refuse(found.yield_token.span, "`yield`"),
            Expr::Break(found) => {
                self.refuse_jump(found.break_token.span, "`break`", found.label.as_ref())
            }
            Expr::Continue(found) => self.refuse_jump(
                found.continue_token.span,
                "`continue`",
                found.label.as_ref(),
            ),
            Expr::Block(found) if found.label.is_some() => {
                let label = found.label.clone();
                self.within(label.as_ref(), false, |this| {
                    visit_mut::visit_block_mut(this, &mut found.block)
                });
                return;
            }
            _ => {}
        }
        visit_mut::visit_expr_mut(self, expression);
    }

    fn visit_expr_loop_mut(&mut self, found: &mut ExprLoop) {
        let label = found.label.clone();
        self.within(label.as_ref(), true, |this| {
            visit_mut::visit_expr_loop_mut(this, found)
        });
    }

    fn visit_expr_while_mut(&mut self, found: &mut ExprWhile) {
        let label = found.label.clone();
        self.within(label.as_ref(), true, |this| {
            visit_mut::visit_expr_while_mut(this, found)
        });
    }

    fn visit_expr_for_loop_mut(&mut self, found: &mut ExprForLoop) {
        self.visit_expr_mut(&mut found.expr);
        let label = found.label.clone();
        self.within(label.as_ref(), true, |this| {
            visit_mut::visit_block_mut(this, &mut found.body)
        });
    }

    // What jumps within these stays within them.
    fn visit_expr_closure_mut(&mut self, _: &mut ExprClosure) {}
    fn visit_expr_async_mut(&mut self, _: &mut ExprAsync) {}
    fn visit_item_mut(&mut self, _: &mut Item) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(expression: &str) -> Vec<String> {
        match check(&mut syn::parse_str(expression).unwrap()) {
            Ok(()) => Vec::new(),
            Err(error) => error.into_iter().map(|error| error.to_string()).collect(),
        }
    }

    #[test]
    fn what_leaves_a_field_is_refused_once_for_each_place() {
        for (leaving, count) in [
            ("return", 1),
            ("f(return 3)?", 2),
            ("{ if a { return } b.await }", 2),
            ("loop { break 'outer 3 }", 1),
            ("break", 1),
            ("while break { }", 0),
            ("for i in continue { }", 1),
            ("'a: { break }", 1),
        ] {
            assert_eq!(errors(leaving).len(), count, "{leaving}");
        }
    }

    #[test]
    fn what_stays_inside_is_allowed() {
        for staying in [
            "loop { break 3 }",
            "'a: loop { loop { break 'a } }",
            "'a: { break 'a 3 }",
            "(|| { return 3 })()",
            "f(async { g().await })",
            "v.iter().filter(|x| x.ok()?).count()",
            "{ fn f() -> u8 { return 3 } f() }",
            "for x in v { if x { continue } }",
        ] {
            assert_eq!(errors(staying), Vec::<String>::new(), "{staying}");
        }
    }
}

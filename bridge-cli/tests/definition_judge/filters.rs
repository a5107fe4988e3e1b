//! Filters of event probes, as the documented language has them.

use crate::grammar::{At, Grammar};

impl Grammar<'_> {
    pub(crate) fn filter(&mut self, at: &At) -> String {
        if at.fields.is_empty() || self.odd(10) {
            return self
                .random
                .text(&["", " x == 1", " (", " 1", " no_such == 4"])
                .to_owned();
        }
        let mut text = format!(" {}", self.term(at));
        for _ in 0..self.random.below(3) {
            let joint = self.random.text(&[" && ", " || ", " && !", " || (", "&&"]);
            text.push_str(joint);
            let more = self.term(at);
            text.push_str(&more);
            if joint.contains('(') && !self.odd(20) {
                text.push(')');
            }
        }
        text
    }

    fn term(&mut self, at: &At) -> String {
        let field = self.random.one(&at.fields).clone();
        if self.is_careful {
            let operator = self.random.text(&["==", "!="]);
            return format!(
                "{field} {operator} {}",
                self.random.text(&["0", "1", "0x10"])
            );
        }
        let operator = self
            .random
            .text(&["==", "!=", "<", ">", "<=", ">=", "&", "~", "="]);
        let values = [
            "0", "1", "-1", "0x10", "\"a*\"", "'x'", "x", "\"open", "1000000",
        ];
        let value = self.random.text(&values);
        let blank = self.random.text(&[" ", " ", " ", ""]);
        format!("{field}{blank}{operator}{blank}{value}")
    }
}

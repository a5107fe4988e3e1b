//! Comparisons joined by `&&`, `||`, `!` and parentheses: from text to a tree, from a tree to steps.
//!
//! Neither way calls itself: operators that wait for their right side lie on a stack of their own,
//! so that no depth of nesting reaches the thread's.

use alloc::vec;
use alloc::vec::Vec;

use crate::error::{ErrorKind, Fault};
use crate::field::Fields;
use crate::operand::Constants;
use crate::predicate;
use crate::program::{Next, Source, Span, Step, Test};
use crate::scan::Scan;

/// A node of the tree. Children stand before their parents.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Node {
    /// The comparison of the step with this index.
    Test(u16),
    /// Not that node.
    Not(u16),
    /// Both nodes.
    And(u16, u16),
    /// One of them or both.
    Or(u16, u16),
}

/// What a text was read into.
#[derive(Default)]
pub(crate) struct Expression {
    /// The tree; its root is the last node.
    pub(crate) nodes: Vec<Node>,
    /// The comparisons in the order of the text.
    pub(crate) tests: Vec<(Source, Test)>,
    /// Where each of them stands in the text.
    pub(crate) places: Vec<Span>,
    pub(crate) constants: Constants,
    /// Nodes that no other node has taken yet.
    loose: Vec<u16>,
}

/// An operator whose right side is still to come, or a parenthesis that is open.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Open,
    Or,
    And,
    Not,
}

/// Reads a whole text whose parentheses and quotes are balanced.
pub(crate) fn parse(text: &str, fields: &dyn Fields) -> Result<Expression, Fault> {
    let mut scan = Scan::new(text);
    let mut read = Expression::default();
    let mut waiting: Vec<Waiting> = Vec::new();
    loop {
        scan.skip_blanks();
        let Some(next) = scan.peek() else {
            let kind = if read.tests.is_empty() {
                ErrorKind::NoFilter
            } else {
                ErrorKind::Unfinished
            };
            return Err(Fault::at(kind, scan.next_place()));
        };
        match next {
            '(' => {
                waiting.push(Waiting::Open);
                scan.skip();
                continue;
            }
            // `!=` and `!~` are operators that lack their field.
            '!' if !scan.rest().starts_with("!=") && !scan.rest().starts_with("!~") => {
                waiting.push(Waiting::Not);
                scan.skip();
                continue;
            }
            _ => read.comparison(&mut scan, fields)?,
        }
        loop {
            read.join(&mut waiting, Waiting::Not);
            scan.skip_blanks();
            let place = scan.next_place();
            if scan.take("&&") {
                read.join(&mut waiting, Waiting::And);
                waiting.push(Waiting::And);
                break;
            }
            if scan.take("||") {
                read.join(&mut waiting, Waiting::Or);
                waiting.push(Waiting::Or);
                break;
            }
            let end = scan.peek().is_none();
            if !end && !scan.take(")") {
                return Err(Fault::at(ErrorKind::TooManyTerms, place));
            }
            read.join(&mut waiting, Waiting::Or);
            match (waiting.pop(), end) {
                (None, true) => return Ok(read),
                (None, false) => return Err(Fault::at(ErrorKind::TooFewOpen, place)),
                (Some(_), true) => return Err(Fault::at(ErrorKind::TooManyOpen, place)),
                (Some(_), false) => {}
            }
        }
    }
}

impl Expression {
    fn comparison(&mut self, scan: &mut Scan<'_>, fields: &dyn Fields) -> Result<(), Fault> {
        let start = scan.at();
        let test = predicate::read(scan, fields, &mut self.constants)?;
        let too_long = || Fault::at(ErrorKind::TextTooLong, start..scan.at());
        let index = u16::try_from(self.tests.len()).map_err(|_| too_long())?;
        let place = Span::new(start, scan.at() - start).ok_or_else(too_long)?;
        self.tests.push(test);
        self.places.push(place);
        self.push(Node::Test(index));
        Ok(())
    }

    fn push(&mut self, node: Node) {
        // The text is too short for more nodes than these numbers hold: see MAX_TEXT.
        self.loose.push(self.nodes.len() as u16);
        self.nodes.push(node);
    }

    /// Gives the operators that wait and bind as tightly as `least` or more what they wait for.
    fn join(&mut self, waiting: &mut Vec<Waiting>, least: Waiting) {
        while let Some(&operator) = waiting.last() {
            if (operator as u8) < least as u8 {
                break;
            }
            waiting.pop();
            let Some(right) = self.loose.pop() else { break };
            match operator {
                Waiting::Open => break,
                Waiting::Not => self.push(Node::Not(right)),
                Waiting::And | Waiting::Or => {
                    let Some(left) = self.loose.pop() else { break };
                    self.push(match operator {
                        Waiting::And => Node::And(left, right),
                        _ => Node::Or(left, right),
                    });
                }
            }
        }
    }

    /// The steps, and what to begin with.
    pub(crate) fn link(&self) -> (Next, Vec<Step>) {
        let mut firsts: Vec<Next> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            firsts.push(match *node {
                Node::Test(step) => Next::Step(step),
                Node::Not(child) | Node::And(child, _) | Node::Or(child, _) => at(&firsts, child),
            });
        }
        // From the root down: a node knows its ways when its parent has been looked at.
        let mut ways = vec![(Next::Accept, Next::Reject); self.nodes.len()];
        let mut steps: Vec<Step> = Vec::with_capacity(self.tests.len());
        let mut leaves = vec![(Next::Accept, Next::Reject); self.tests.len()];
        for (index, node) in self.nodes.iter().enumerate().rev() {
            let (then, otherwise) = ways[index];
            match *node {
                Node::Test(step) => set(&mut leaves, step, (then, otherwise)),
                Node::Not(child) => set(&mut ways, child, (otherwise, then)),
                Node::And(left, right) => {
                    set(&mut ways, left, (at(&firsts, right), otherwise));
                    set(&mut ways, right, (then, otherwise));
                }
                Node::Or(left, right) => {
                    set(&mut ways, left, (then, at(&firsts, right)));
                    set(&mut ways, right, (then, otherwise));
                }
            }
        }
        for (&(source, test), &(then, otherwise)) in self.tests.iter().zip(&leaves) {
            steps.push(Step {
                source,
                test,
                then,
                otherwise,
            });
        }
        let first = firsts.last().copied().unwrap_or(Next::Accept);
        (first, steps)
    }
}

fn at(list: &[Next], index: u16) -> Next {
    list.get(usize::from(index))
        .copied()
        .unwrap_or(Next::Reject)
}

fn set<T>(list: &mut [T], index: u16, value: T) {
    if let Some(place) = list.get_mut(usize::from(index)) {
        *place = value;
    }
}

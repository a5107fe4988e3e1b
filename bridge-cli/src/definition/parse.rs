//! What is carried along while one definition is read: where we are in it, what its place allows, and
//! what is known there.

use std::borrow::Cow;
use std::rc::Rc;

use super::by_user_name::UserFunction;
use super::knowledge::{EventField, Kernel, Prototype, Type, TypeId, Types};
use super::program::Program;
use super::rejection::{Code, Complaint, Errno, Rejection};

/// What a place allows its arguments.
#[derive(Clone, Debug, Default)]
pub(super) struct Surroundings {
    /// It is in a file, not in the kernel.
    pub(super) in_file: bool,
    /// Arguments are fetched when a function returns.
    pub(super) at_return: bool,
    /// It is where a function is entered.
    pub(super) at_entry: bool,
    /// By ftrace, which gives no registers: `f` and `t`.
    pub(super) by_ftrace: bool,
    /// It is a tracepoint; the first parameter of its function is not the tracepoint's.
    pub(super) tracepoint: bool,
    /// The fields of the event that it hangs on.
    pub(super) event: Option<Vec<EventField>>,
}

impl Surroundings {
    /// At the entry of a kernel function, where `$argN` are in their registers.
    pub(super) fn is_function_entry(&self) -> bool {
        !self.in_file && self.at_entry && !self.at_return && self.event.is_none()
    }

    /// At the return of a kernel function.
    pub(super) fn is_function_return(&self) -> bool {
        !self.in_file && self.at_return && self.event.is_none()
    }
}

/// See the module's page.
pub(super) struct Parse<'a> {
    /// The words of the definition: what columns count in.
    words: Cow<'a, [String]>,
    subsystem: &'static str,
    complaints: Vec<Complaint>,
    remarks: Vec<String>,
    /// The word that is looked at.
    pub(super) index: usize,
    /// Bytes into it.
    pub(super) offset: usize,
    pub(super) kernel: &'a dyn Kernel,
    pub(super) surroundings: Surroundings,
    /// The function whose parameters can be named.
    pub(super) function: Option<String>,
    prototype: Option<Option<Rc<Prototype>>>,
    /// The same of a function in a file.
    pub(super) user: Option<UserFunction<'a>>,
    /// How many bytes the text has that was named last, where it has no end mark.
    pub(super) length: Option<Program>,
    /// The type of what was named last, and where its bits are.
    pub(super) last: Option<Type>,
    pub(super) last_bit_offset: u32,
    pub(super) last_bits: u32,
    /// The structure that the argument is said to point to.
    pub(super) cast: Option<TypeId>,
    /// Arguments of the entry that a return probe keeps.
    pub(super) kept: Vec<u32>,
}

impl<'a> Parse<'a> {
    pub(super) fn new(
        words: &'a [String],
        subsystem: &'static str,
        kernel: &'a dyn Kernel,
    ) -> Self {
        Parse {
            words: Cow::Borrowed(words),
            subsystem,
            complaints: Vec::new(),
            remarks: Vec::new(),
            index: 0,
            offset: 0,
            kernel,
            surroundings: Surroundings::default(),
            function: None,
            prototype: None,
            user: None,
            length: None,
            last: None,
            last_bit_offset: 0,
            last_bits: 0,
            cast: None,
            kept: Vec::new(),
        }
    }

    /// Notes what is wrong so many bytes into the current word. Behind the last word is the end of the
    /// command.
    pub(super) fn complain(&mut self, at: usize, code: Code) {
        let before = |words: &[String]| words.iter().map(|word| word.len() + 1).sum::<usize>();
        let column = match self.words.get(..self.index) {
            Some(words) if self.index < self.words.len() => before(words) + at,
            _ => before(&self.words),
        };
        self.complaints.push(Complaint { code, column });
    }

    /// The same where it ends the reading.
    pub(super) fn fail<T>(&mut self, at: usize, code: Code, errno: Errno) -> Result<T, Errno> {
        self.complain(at, code);
        Err(errno)
    }

    /// The same at the current place.
    pub(super) fn fail_here<T>(&mut self, code: Code, errno: Errno) -> Result<T, Errno> {
        self.fail(self.offset, code, errno)
    }

    /// From now on columns count in these arguments: the kernel puts what `%pd` stands for in its place.
    pub(super) fn replace_arguments(&mut self, arguments: &[String]) {
        let words = self.words.to_mut();
        words.truncate(2);
        words.extend_from_slice(arguments);
    }

    pub(super) fn remark(&mut self, remark: String) {
        self.remarks.push(remark);
    }

    /// What the definition is refused with.
    pub(super) fn rejection(self, errno: Errno) -> Rejection {
        Rejection {
            errno,
            subsystem: self.subsystem,
            complaints: self.complaints,
            command: self.words.join(" "),
            remarks: self.remarks,
        }
    }

    /// Types of what can be named here.
    pub(super) fn types(&self) -> &dyn Types {
        match &self.user {
            Some(function) => function.binary.types(),
            None => self.kernel,
        }
    }

    /// The function's parameters and what it returns, without the first one of a tracepoint's.
    pub(super) fn prototype(&mut self) -> Option<Rc<Prototype>> {
        if self.prototype.is_none() {
            let mut found = self
                .function
                .as_deref()
                .and_then(|function| self.kernel.prototype(function));
            if let Some(prototype) = &mut found
                && self.surroundings.tracepoint
                && !prototype.parameters.is_empty()
            {
                prototype.parameters.remove(0);
            }
            self.prototype = Some(found.map(Rc::new));
        }
        self.prototype.clone().flatten()
    }

    /// The place of an argument of the entry among those that are kept.
    pub(super) fn keep(&mut self, argument: u32) -> u32 {
        if !self.kept.contains(&argument) {
            self.kept.push(argument);
        }
        argument
    }
}

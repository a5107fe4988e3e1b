//! The API on platforms without static keys: there are no tracepoints, and everything says so.

use std::convert::Infallible;
use std::fmt;

use crate::error::{Error, ErrorKind, Result};
use crate::field_value::FieldValue;
use crate::options::Options;
use crate::status::Status;
use crate::tracepoint::{Field, Site};

const WHY: &str = "tracepoints work on x86-64 and aarch64 Linux; here they expand to nothing";

/// A tracepoint: there is none on this platform.
#[derive(Clone, Debug)]
pub struct Tracepoint(Infallible);

impl Tracepoint {
    /// Who declares it.
    #[must_use]
    pub fn provider(&self) -> &str {
        match self.0 {}
    }

    /// Its name within the provider.
    #[must_use]
    pub fn name(&self) -> &str {
        match self.0 {}
    }

    /// The print format; empty for the default form.
    #[must_use]
    pub fn print(&self) -> &str {
        match self.0 {}
    }

    /// Its fields in order.
    #[must_use]
    pub fn fields(&self) -> &[Field] {
        match self.0 {}
    }

    /// Where it is hit.
    #[must_use]
    pub fn sites(&self) -> &[Site] {
        match self.0 {}
    }

    /// Whether this is the return of another.
    #[must_use]
    pub fn is_return(&self) -> bool {
        match self.0 {}
    }

    /// Whether a hit would be seen by anybody now.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        match self.0 {}
    }

    /// Calls `callback` on each hit.
    ///
    /// # Errors
    /// Never: there is no tracepoint to call it on.
    pub fn attach(
        &self,
        callback: impl Fn(&Event<'_>) + Send + Sync + 'static,
    ) -> Result<Attachment> {
        let _ = callback;
        match self.0 {}
    }
}

/// A callback that is attached: there is none on this platform.
#[derive(Debug)]
pub struct Attachment(#[allow(dead_code)] Infallible);

/// A hit: there is none on this platform.
pub struct Event<'a>(Infallible, std::marker::PhantomData<&'a ()>);

impl<'a> Event<'a> {
    /// Who declares the tracepoint.
    #[must_use]
    pub fn provider(&self) -> &'a str {
        match self.0 {}
    }

    /// The tracepoint's name.
    #[must_use]
    pub fn name(&self) -> &'a str {
        match self.0 {}
    }

    /// The time now.
    #[must_use]
    pub fn time(&self) -> u64 {
        match self.0 {}
    }

    /// The fields in order: name and value.
    pub fn fields(&self) -> impl Iterator<Item = (&'a str, FieldValue<'a>)> + use<'a> {
        std::iter::empty()
    }

    /// The value of the field with this name.
    #[must_use]
    pub fn field(&self, _: &str) -> Option<FieldValue<'a>> {
        match self.0 {}
    }
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}

impl fmt::Debug for Event<'_> {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}

/// An event from the rings: there is none on this platform.
pub struct Recorded<'a>(Infallible, std::marker::PhantomData<&'a ()>);

impl<'a> Recorded<'a> {
    /// Who declares the tracepoint.
    #[must_use]
    pub fn provider(&self) -> &'a str {
        match self.0 {}
    }

    /// The tracepoint's name.
    #[must_use]
    pub fn name(&self) -> &'a str {
        match self.0 {}
    }

    /// When it happened.
    #[must_use]
    pub fn time(&self) -> u64 {
        match self.0 {}
    }

    /// The thread it happened in.
    #[must_use]
    pub fn thread(&self) -> u32 {
        match self.0 {}
    }

    /// The fields in order: name and value.
    pub fn fields(&self) -> impl Iterator<Item = (&'a str, FieldValue<'_>)> + use<'_, 'a> {
        std::iter::empty()
    }

    /// The value of the field with this name.
    #[must_use]
    pub fn field(&self, _: &str) -> Option<FieldValue<'_>> {
        match self.0 {}
    }
}

impl fmt::Display for Recorded<'_> {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}

impl fmt::Debug for Recorded<'_> {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}

/// Lists the tracepoints: none.
#[must_use]
pub fn tracepoints() -> Vec<Tracepoint> {
    Vec::new()
}

/// Does nothing.
pub fn init() {}

/// Says that there is nothing to do.
///
/// # Errors
/// Always: [`ErrorKind::Unsupported`].
pub fn init_with(_: Options) -> Result<()> {
    Err(Error::new(ErrorKind::Unsupported, WHY))
}

/// Says that there is nothing to do.
///
/// # Errors
/// Always: [`ErrorKind::Unsupported`].
pub fn settle() -> Result<usize> {
    Err(Error::new(ErrorKind::Unsupported, WHY))
}

/// Says that there is nothing to switch on.
///
/// # Errors
/// Always: [`ErrorKind::Unsupported`].
pub fn enable(_: &str) -> Result<usize> {
    Err(Error::new(ErrorKind::Unsupported, WHY))
}

/// Says that there is nothing to switch off.
///
/// # Errors
/// Always: [`ErrorKind::Unsupported`].
pub fn disable(_: &str) -> Result<usize> {
    Err(Error::new(ErrorKind::Unsupported, WHY))
}

/// Whether any site is on: none is.
#[must_use]
pub fn is_enabled(_: &str) -> bool {
    false
}

/// Says why nothing works here.
#[must_use]
pub fn status() -> Status {
    Status {
        objects: 0,
        tracepoints: 0,
        sites: 0,
        sites_on: 0,
        text: Err(WHY.to_owned()),
        helper: Err(WHY.to_owned()),
        rings: Err(WHY.to_owned()),
        panics: 0,
        nested: 0,
    }
}

/// See [`before_vfork`].
#[derive(Debug)]
#[must_use = "tracepoints are safe in the child for as long as this is held"]
pub struct BeforeVfork(());

/// Does nothing: there are no tracepoints on this platform.
pub fn before_vfork() -> BeforeVfork {
    BeforeVfork(())
}

/// Asks a bridge for a snapshot: there is none on this platform.
pub fn snapshot(_reason: &str) -> bool {
    false
}

/// Says that there are no rings.
///
/// # Errors
/// Always: [`ErrorKind::Unsupported`].
pub fn drain(_: impl FnMut(&Recorded<'_>)) -> Result<usize> {
    Err(Error::new(ErrorKind::Unsupported, WHY))
}

/// How many events were lost: none.
#[must_use]
pub fn lost(_: &str) -> u64 {
    0
}

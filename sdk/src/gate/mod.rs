//! Switching: the text of a program is made equal to what is wanted.
//!
//! ```text
//! wanted (state)  ──reconcile──▶  the key of each site: NOP or jump
//! ```
//! `reconcile` reads the wanted state of an object's points and writes every site that differs. It is
//! called after each change and by the helper thread; running it twice or late does no harm. It is the
//! only code that writes text, and all of it runs under one lock of the process.

#![allow(unsafe_code)]

mod key;
pub(crate) mod text;

use std::sync::atomic::{AtomicU32, Ordering, fence};

use tracebraid_wire::table::{SITE_TESTS_SEMAPHORE, SiteRow};

use crate::dso::Dso;
use crate::error::{Error, ErrorKind};
use crate::state::Point;

pub(crate) use crate::lock::lock;
use key::Switch;
use text::Writer;

static MADE_SWITCHES: AtomicU32 = AtomicU32::new(0);

/// How many times a tracepoint made at run time was wanted and was not before, or the other way: whoever
/// keeps answers of theirs sees that they are old.
#[cfg(feature = "tracing")]
pub(crate) fn made_switches() -> u32 {
    MADE_SWITCHES.load(Ordering::Acquire)
}

/// What a reconcile did.
#[derive(Default)]
pub(crate) struct Outcome {
    /// Sites whose text was changed.
    pub(crate) switched: usize,
    /// The first thing that went wrong; the other sites were still done.
    pub(crate) error: Option<Error>,
}

/// The places of an object that are patched, each once, and whether somebody wants it on. An entry
/// and its return share a place, in rows next to one another.
pub(crate) fn places<'a>(dso: &'a Dso<'_>) -> impl Iterator<Item = (SiteRow, bool)> + use<'a> {
    let mut sites = dso
        .sites()
        .filter(|site| site.flags & SITE_TESTS_SEMAPHORE == 0)
        .peekable();
    // SAFETY: site rows lead to point rows of the same object, which is loaded while it is shown.
    let wants = |site: &SiteRow| unsafe { dso.point_at(site.point) }.wanted();
    std::iter::from_fn(move || {
        let site = sites.next()?;
        let mut wanted = wants(&site);
        while let Some(same) = sites.next_if(|next| next.code == site.code) {
            wanted |= wants(&same);
        }
        Some((site, wanted))
    })
}

/// Makes an object's text equal to its wanted state. The object is locked by the caller.
pub(crate) fn reconcile(dso: &Dso<'_>, writer: &mut Writer, outcome: &mut Outcome) {
    for row in dso.points() {
        // SAFETY: the row is of this object, which stays loaded while its `Dso` is shown.
        let point = unsafe { Point::of(&row) };
        let now = point.wanted_here().into();
        let before = point.semaphore.wanted.swap(now, Ordering::Relaxed);
        if dso.is_made() && before != now {
            MADE_SWITCHES.fetch_add(1, Ordering::Release);
        }
    }
    // A bridge that switches keys from outside writes text and then reads these words: one of us two sees
    // what the other did.
    fence(Ordering::SeqCst);
    for (site, on) in places(dso) {
        match switch(dso, &site, on, writer) {
            Ok(changed) => outcome.switched += usize::from(changed),
            Err(error) => {
                outcome.error.get_or_insert(error);
            }
        }
    }
}

/// Whether the site's text is on; `None` where it is no key, or its bytes are none's.
pub(crate) fn is_on(site: &SiteRow) -> Option<bool> {
    if site.flags & SITE_TESTS_SEMAPHORE != 0 {
        return None;
    }
    key::state(site)
}

fn switch(dso: &Dso<'_>, site: &SiteRow, on: bool, writer: &mut Writer) -> Result<bool, Error> {
    let now = is_on(site);
    if now == Some(on) {
        return Ok(false);
    }
    match Switch::of(site, on).filter(|_| now.is_some()) {
        Some(switch) => writer.write(dso, &switch).map(|()| true),
        None => Err(Error::new(
            ErrorKind::Site,
            format!(
                "the bytes at {:#x} (line {}) are not a static key: a breakpoint of another tool may stand there",
                site.code, site.line
            ),
        )),
    }
}

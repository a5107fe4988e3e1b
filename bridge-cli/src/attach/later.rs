//! What comes while it is attached: rings of programs that are started, libraries that are loaded.

use super::Note;
use super::stay::Attached;

impl Attached {
    /// Looks for rings of programs that are started or initialised meanwhile.
    pub(super) fn look_at_rings(&mut self, say: &mut dyn FnMut(Note)) {
        let (Some(rings), Some(follow)) = (self.pump.sdk(), &mut self.follow) else {
            return;
        };
        rings.look();
        for detail in rings.take_details() {
            say(Note::Detail(detail));
        }
        if self.may_fall_back && !rings.is_awaited() {
            self.may_fall_back = false;
            if !rings.has_helper() {
                rings.want_no_points();
                let resolved = follow.fall_back();
                if let Err(error) = resolved.and_then(|resolved| self.add(resolved, say)) {
                    say(Note::Warning(format!(
                        "the command makes no rings, and its tracepoints are not attached: {}",
                        error.with_causes()
                    )));
                }
                return;
            }
        }
        self.resolve_unknown(say);
    }

    /// Reads what regions list by now, and resolves what is new.
    pub(super) fn look_through(&mut self, say: &mut dyn FnMut(Note)) {
        if let Some(rings) = self.pump.sdk() {
            rings.look_through();
        }
        self.resolve_unknown(say);
    }

    /// Resolves what regions list that is new.
    pub(super) fn resolve_unknown(&mut self, say: &mut dyn FnMut(Note)) {
        let (Some(rings), Some(follow)) = (self.pump.sdk(), &mut self.follow) else {
            return;
        };
        let unknown = rings.unknown();
        if unknown.is_empty() {
            return;
        }
        let mut resolved = follow.listed(&unknown);
        for warning in resolved.warnings.drain(..) {
            say(Note::Warning(warning));
        }
        let names: Vec<String> = resolved.names.iter().map(|name| name.1.clone()).collect();
        if names.is_empty() {
            return;
        }
        // Rings only: nothing of it can fail.
        let _ = self.add(resolved, say);
        say(Note::Detail(format!(
            "attached to rings that were made meanwhile: {}",
            some_of(&names)
        )));
    }

    /// Attaches what the target has loaded meanwhile. That something cannot be attached stops nothing.
    pub(super) fn follow_target(&mut self, say: &mut dyn FnMut(Note)) {
        let Some(follow) = &mut self.follow else {
            return;
        };
        let pump = &mut self.pump;
        let listed = || {
            pump.sdk().map_or(Vec::new(), |rings| {
                rings.look_for_libraries();
                rings.listed()
            })
        };
        let added = match follow.look(listed) {
            Ok(None) => return,
            Ok(Some(mut resolved)) => {
                let names: Vec<String> = resolved
                    .names
                    .iter()
                    .map(|(_, name)| name.clone())
                    .collect();
                resolved
                    .warnings
                    .drain(..)
                    .for_each(|warning| say(Note::Warning(warning)));
                if names.is_empty() {
                    return;
                }
                self.add(resolved, say).map(|()| names)
            }
            Err(error) => Err(error),
        };
        say(match added {
            Ok(names) => Note::Detail(format!(
                "attached to what was loaded meanwhile: {}",
                some_of(&names)
            )),
            Err(error) => Note::Warning(format!(
                "what was loaded meanwhile is not attached: {}",
                error.with_causes()
            )),
        });
    }
}

/// The first few names, and how many more there are.
fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 5;
    match names.len().checked_sub(SHOWN) {
        Some(more @ 1..) => format!("{} and {more} more", names[..SHOWN].join(", ")),
        _ => names.join(", "),
    }
}

//! Whom the kernel side is asked about where children are followed: the targets and all that descends from them.
//!
//! The set of them lives in the kernel ([`Family`]), which takes each child in before it runs. It is made when
//! the first session is started: application events that come through rings need none, and no right for it.

use std::sync::Arc;

use tracebraid_bpf::Family;

use crate::error::Result;
use crate::target::{descendants, is_alive};

/// See the module's page.
#[derive(Debug)]
pub(super) struct Descent {
    /// Children are followed.
    wanted: bool,
    family: Option<Arc<Family>>,
    /// Children that found no room, as far as that was said.
    said: u64,
}

impl Descent {
    pub(super) fn new(wanted: bool) -> Descent {
        Descent {
            wanted,
            family: None,
            said: 0,
        }
    }

    /// The set that sessions filter by, made if there is none yet; `None` where children are not followed.
    ///
    /// # Errors
    /// Those of [`Family::of`].
    pub(super) fn family(&mut self, targets: &[u32]) -> Result<Option<Arc<Family>>> {
        if let (true, None, [first, others @ ..]) = (self.wanted, &self.family, targets) {
            let family = Family::of(*first)?;
            for &target in others {
                family.add(target)?;
            }
            // Children that they had before. What these fork while they are taken in is found by the next look.
            let mut known = targets.to_vec();
            loop {
                let mut found = descendants(&known);
                found.retain(|pid| !known.contains(pid));
                if found.is_empty() {
                    break;
                }
                for &pid in &found {
                    family.add(pid)?;
                    // The kernel has let go of it before it was taken in.
                    if !is_alive(pid) {
                        family.remove(pid);
                    }
                }
                known.extend(found);
            }
            self.family = Some(Arc::new(family));
        }
        Ok(self.family.clone())
    }

    /// Those of them that live; `None` where the kernel was not asked to follow.
    pub(super) fn living(&self) -> Option<Vec<u32>> {
        let mut members = self.family.as_ref()?.members();
        members.retain(|&pid| is_alive(pid));
        Some(members)
    }

    /// What is to be said of children that are not followed, once for each time that there are more.
    pub(super) fn warning(&mut self) -> Option<String> {
        let left_out = self.family.as_ref()?.left_out();
        let new = left_out - std::mem::replace(&mut self.said, left_out);
        (new != 0).then(|| {
            format!(
                "{new} children are not followed: the targets have too many processes at a time"
            )
        })
    }
}

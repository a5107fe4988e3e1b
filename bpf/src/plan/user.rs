//! Places in files: one address of a file is one site, whatever is fetched there and for whom.

use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::place::check;
use super::{Keep, Plan, Wanted};
use crate::abi;
use crate::error::{Error, ErrorKind, Result};
use crate::hit_filter::HitFilter;
use crate::spec::{Fetch, Location, ProbeId, Spec};

/// A file and where it is probed.
#[derive(Debug)]
pub(crate) struct Binary {
    pub(crate) path: PathBuf,
    pub(crate) sites: Vec<Site>,
}

/// One address of a file. `location` is its cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) offset: u64,
    pub(crate) semaphore: u64,
    pub(crate) location: u32,
    pub(crate) at_return: bool,
}

impl Plan {
    pub(super) fn user(&mut self, spec: &Spec) -> Result<()> {
        // The same file may be named by several paths; the kernel probes inodes.
        let mut files: Vec<(PathBuf, Addresses)> = Vec::new();
        let mut known: HashMap<(u64, u64), usize> = HashMap::new();
        for probe in &spec.user {
            let identity = identity(&probe.binary)?;
            let index = *known.entry(identity).or_insert_with(|| {
                files.push((probe.binary.clone(), BTreeMap::new()));
                files.len() - 1
            });
            for (number, location) in probe.locations.iter().enumerate() {
                check(&probe.binary, location)?;
                let at = (is_at_return(location), location.offset);
                let address = files[index].1.entry(at).or_default();
                let which = (probe.id, number as u32);
                let filter = spec.hits.get(&which);
                address.add(&probe.binary, location, filter, which)?;
            }
        }
        for (path, addresses) in files {
            let mut sites = Vec::with_capacity(addresses.len());
            let at_return = |((at_return, _), _): &((bool, u64), Address)| *at_return;
            let (returns, entries): (Vec<_>, Vec<_>) = addresses.into_iter().partition(at_return);
            let mut entries: BTreeMap<u64, (Address, Vec<Keep>)> = entries
                .into_iter()
                .map(|((_, offset), address)| (offset, (address, Vec::new())))
                .collect();
            for ((_, offset), address) in returns {
                let semaphore = address.semaphore;
                let kept: Vec<_> = address.wanted.iter().map(Wanted::kept).collect();
                let location = self.chain(address.wanted, Vec::new());
                for (location, words) in (location..).zip(kept) {
                    if !words.is_empty() {
                        let (entry, keeps) = entries.entry(offset).or_default();
                        entry.semaphore = entry.semaphore.max(semaphore);
                        keeps.push(Keep { location, words });
                    }
                }
                sites.push(Site {
                    offset,
                    semaphore,
                    location,
                    at_return: true,
                });
            }
            for (offset, (address, keeps)) in entries {
                if address.wanted.len() + keeps.len() > abi::CHAIN {
                    return Err(too_many(&path, offset));
                }
                sites.push(Site {
                    offset,
                    semaphore: address.semaphore,
                    location: self.chain(address.wanted, keeps),
                    at_return: false,
                });
            }
            // Entries stand before returns.
            sites.sort_by_key(|site| (site.at_return, site.offset));
            if !sites.is_empty() {
                self.binaries.push(Binary { path, sites });
            }
        }
        Ok(())
    }
}

/// What is wanted in one file: at the return of a function or not, and at which offset.
type Addresses = BTreeMap<(bool, u64), Address>;

/// What is wanted at one address.
#[derive(Default)]
struct Address {
    semaphore: u64,
    wanted: Vec<Wanted>,
}

impl Address {
    fn add(
        &mut self,
        file: &Path,
        location: &Location,
        filter: Option<&HitFilter>,
        probe: (ProbeId, u32),
    ) -> Result<()> {
        if location.semaphore != 0 {
            if self.semaphore != 0 && self.semaphore != location.semaphore {
                return Err(Error::bad_spec(format!(
                    "two probes at offset {:#x} of {} name different semaphores; the kernel keeps one \
                     for an address",
                    location.offset,
                    file.display()
                )));
            }
            self.semaphore = location.semaphore;
        }
        let same = self
            .wanted
            .iter_mut()
            .find(|one| one.fetch == location.fetch && one.filter.as_ref() == filter);
        if let Some(same) = same {
            same.probes.push(probe);
        } else if self.wanted.len() == abi::CHAIN {
            return Err(too_many(file, location.offset));
        } else {
            self.wanted.push(Wanted {
                fetch: location.fetch.clone(),
                filter: filter.cloned(),
                probes: vec![probe],
            });
        }
        Ok(())
    }
}

fn too_many(file: &Path, offset: u64) -> Error {
    Error::bad_spec(format!(
        "more than {} different probes at offset {offset:#x} of {}, with what is kept there for returns",
        abi::CHAIN,
        file.display()
    ))
}

fn is_at_return(location: &Location) -> bool {
    matches!(&location.fetch, Fetch::Program(program) if program.at_return)
}

fn identity(path: &Path) -> Result<(u64, u64)> {
    let metadata = std::fs::metadata(path).map_err(|error| {
        let kind = ErrorKind::Attach {
            file: Some(path.into()),
            offset: None,
        };
        Error::new(kind, format!("cannot open {} to probe it", path.display())).because(error)
    })?;
    Ok((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Argument, Place, Register, UserProbe};

    fn user(id: u32, offset: u64, semaphore: u64, fetch: Fetch) -> UserProbe {
        let binary = std::env::current_exe().unwrap();
        let locations = vec![Location {
            offset,
            semaphore,
            fetch,
        }];
        UserProbe {
            id: ProbeId(id),
            binary,
            locations,
        }
    }

    fn slots(count: u8, text: &[(u8, u8)]) -> Fetch {
        Fetch::Slots {
            count,
            text: text.to_vec(),
        }
    }

    fn plan(user: Vec<UserProbe>) -> Result<Plan> {
        Plan::new(&Spec {
            user,
            ..Spec::default()
        })
    }

    #[test]
    fn one_address_is_one_site_whatever_is_fetched_there() {
        let plan = plan(vec![
            user(1, 0x20, 0, slots(2, &[])),
            user(2, 0x10, 0, slots(1, &[])),
            user(3, 0x20, 0x900, Fetch::Arguments(vec![])),
            user(4, 0x20, 0, slots(2, &[])),
        ])
        .unwrap();
        assert_eq!(plan.binaries.len(), 1);
        let site = |offset, semaphore, location| Site {
            offset,
            semaphore,
            location,
            at_return: false,
        };
        assert_eq!(
            plan.binaries[0].sites,
            [site(0x10, 0, 0), site(0x20, 0x900, 1)]
        );
        let next: Vec<u32> = plan
            .locations
            .iter()
            .map(|location| location.next)
            .collect();
        assert_eq!(next, [0, 2, 0]);
        let probes: Vec<_> = plan
            .entries
            .iter()
            .map(|entry| entry.probes.clone())
            .collect();
        let id = |id| (ProbeId(id), 0);
        assert_eq!(probes, [vec![id(2)], vec![id(1), id(4)], vec![id(3)]]);
    }

    #[test]
    fn a_file_by_two_names_is_one_binary() {
        let mut other = user(2, 0x20, 0, slots(0, &[]));
        other.binary = "/proc/self/exe".into();
        let plan = plan(vec![user(1, 0x20, 0, slots(0, &[])), other]).unwrap();
        assert_eq!((plan.binaries.len(), plan.locations.len()), (1, 1));
    }

    #[test]
    fn an_argument_that_is_nowhere_keeps_its_place_in_the_row() {
        let argument = |place| Argument {
            width: 8,
            signed: false,
            float: false,
            place,
        };
        let base = Some(Register::Rsp);
        let fetch = Fetch::Arguments(vec![
            argument(Place::Unsupported("%xmm0".into())),
            argument(Place::Memory {
                base,
                index: Some((Register::Rax, 3)),
                displacement: 0,
            }),
            argument(Place::Constant(7)),
        ]);
        let plan = plan(vec![user(1, 0x10, 0, fetch)]).unwrap();
        let kinds: Vec<u8> = plan.places.iter().map(|place| place.kind).collect();
        assert_eq!(
            kinds,
            [abi::PLACE_NONE, abi::PLACE_NONE, abi::PLACE_CONSTANT]
        );
        assert_eq!(plan.locations[0].words, 3);
    }

    #[test]
    fn what_cannot_be_recorded_is_refused() {
        let argument = |width| {
            Fetch::Arguments(vec![Argument {
                width,
                signed: false,
                float: false,
                place: Place::Constant(0),
            }])
        };
        let chain = |count| {
            (0..count)
                .map(|number| user(number, 0x10, 0, slots(number as u8, &[])))
                .collect()
        };
        for bad in [
            vec![
                user(1, 0x10, 0x900, slots(0, &[])),
                user(2, 0x10, 0x902, slots(0, &[])),
            ],
            vec![user(1, 0x10, 0, slots(65, &[]))],
            vec![user(1, 0x10, 0, slots(2, &[(1, 2)]))],
            vec![user(1, 0x10, 0, slots(64, &[(0, 1); 33]))],
            vec![user(1, 0x10, 0, argument(3))],
            chain(5),
        ] {
            let error = plan(bad).unwrap_err();
            assert_eq!(error.kind(), &ErrorKind::BadSpec, "{error}");
        }
        assert!(plan(chain(4)).is_ok());
    }
}

//! Reading the program's own rings, with no bridge at all.

use std::fs::File;
use std::sync::{Mutex, TryLockError};

use tracebraid_ring::{Consumer, Region};
use tracebraid_wire::record::Header;

use super::clock::{Line, Ticks};
use super::{listing, page, service};
use crate::error::{Error, ErrorKind, Result};
use crate::recorded::Recorded;
use crate::registry::{self, Tracepoint};

/// What the first drain sets up.
struct Reader {
    consumers: Vec<Consumer<&'static Region>>,
    began: Ticks,
    damaged: usize,
    /// Holds the rings' lock.
    _claim: File,
}

static READER: Mutex<Option<(u32, Reader)>> = Mutex::new(None);

/// Takes what the rings hold and shows it in order of time: the events of every tracepoint that this
/// program has [`enable`](crate::enable())d. The first call starts the recording, so it finds nothing.
///
/// Returns how many events there were. Call it as often as the rings' size asks for: what does not fit
/// meanwhile is lost, and counted in [`lost`](crate::lost()).
///
/// # Errors
/// [`ErrorKind::Busy`] while a bridge has the rings; [`ErrorKind::Rings`] where there are none, since
/// [`init`](crate::init()) was not called or could not make them.
pub fn drain(mut each: impl FnMut(&Recorded<'_>)) -> Result<usize> {
    let mut reader = match READER.try_lock() {
        Ok(reader) => reader,
        Err(TryLockError::Poisoned(reader)) => reader.into_inner(),
        // Also in a child of fork, where the thread that drained is not.
        Err(TryLockError::WouldBlock) => {
            return Err(Error::new(
                ErrorKind::Busy,
                "another thread of this process is draining the rings",
            ));
        }
    };
    let pid = std::process::id();
    if reader.as_ref().is_none_or(|(owner, _)| *owner != pid) {
        // A child of fork must not read on in its parent's rings.
        *reader = Some((pid, claim()?));
        registry::settle()?;
        return Ok(0);
    }
    let Some((_, reader)) = reader.as_mut() else {
        return Ok(0);
    };
    let Some(rings) = page::current() else {
        return Ok(0);
    };

    let line = Line::through(rings.clock(), reader.began, Ticks::now());
    let mut records: Vec<(u64, Vec<u64>)> = Vec::new();
    for consumer in &mut reader.consumers {
        let until = consumer.head();
        let taken = consumer.drain(until, |record| {
            records.push((line.at(record[1]), record.to_vec()));
        });
        reader.damaged += usize::from(taken.is_err());
    }
    records.sort_by_key(|(time, _)| *time);
    let known = listing::listed();
    let mut shown = 0;
    for (time, record) in &records {
        let Some(header) = Header::parse(record[0], record[1]) else {
            continue;
        };
        let Some(point) = known.get(&header.event) else {
            continue;
        };
        each(&Recorded::new(
            &point.0,
            *time,
            header.tid,
            &record[2..],
            line,
        ));
        shown += 1;
    }
    Ok(shown)
}

fn claim() -> Result<Reader> {
    let rings = page::current_or_made().ok_or_else(|| {
        Error::new(
            ErrorKind::Rings,
            "there are no rings: tracebraid::init() makes them",
        )
    })?;
    if rings.overwrites() {
        return Err(Error::new(
            ErrorKind::Rings,
            "the rings are a flight recorder, which is not drained: bridge-cli snapshot shows what it holds",
        ));
    }
    let claim = service::claim(rings)
        .map_err(|cause| Error::new(ErrorKind::Rings, "the rings cannot be locked").because(cause))?
        .ok_or_else(|| Error::new(ErrorKind::Busy, "a bridge has the rings of this process"))?;
    let region = rings.region;
    // Those of children hold events of other processes.
    let own = region.geometry().rings() / 2;
    let consumers = (0..own).map(|ring| Consumer::new(region, ring)).collect();
    Ok(Reader {
        consumers,
        began: Ticks::now(),
        damaged: 0,
        _claim: claim,
    })
}

/// How many events of the tracepoints that `pattern` names found their ring full, since the program
/// began.
#[must_use]
pub fn lost(pattern: &str) -> u64 {
    let Some(rings) = page::current() else {
        return 0;
    };
    let named = |point: &Tracepoint| registry::names(pattern, point.provider(), point.name());
    listing::listed()
        .iter()
        .filter(|(_, point)| named(point))
        .map(|(&event, _)| rings.lost(event))
        .sum()
}

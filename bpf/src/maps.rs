//! The maps that all programs of a session share, made and sized for it, and the constants that the
//! verifier specialises the programs by.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd};

use libbpf_rs::libbpf_sys as sys;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};

use crate::abi::{self, Plain};
use crate::capability;
use crate::counters::Counters;
use crate::cpus;
use crate::error::{Error, ErrorKind, Result};
use crate::family::Family;
use crate::namespace;
use crate::plan::{Code, Plan};
use crate::registers;
use crate::rights;
use crate::solo_ring::SoloRing;
use crate::spec::Filter;

/// The maps of a session.
pub(crate) struct Maps {
    /// Online CPUs and their rings.
    pub(crate) rings: Vec<(u32, MapHandle)>,
    /// One of each CPU up to the last that is online, and the bytes of data in each.
    pub(crate) solo_rings: Option<(MapHandle, usize)>,
    pub(crate) counters: MapHandle,
    pub(crate) cpus: u32,
    pub(crate) shared: BTreeMap<&'static str, MapHandle>,
    pub(crate) constants: BTreeMap<&'static str, Vec<u8>>,
    /// What is written into the programs.
    pub(crate) code: Code,
}

impl Maps {
    pub(crate) fn new(plan: &Plan, filter: &Filter, family: Option<&Family>) -> Result<Maps> {
        let cpus = cpus::possible_bound()?;
        let none = map_options();
        let rings = cpus::online()?
            .into_iter()
            .map(|cpu| {
                let ring = create(
                    MapType::RingBuf,
                    "ring",
                    0,
                    0,
                    plan.shared_bytes() as u32,
                    &none,
                )?;
                Ok((cpu, ring))
            })
            .collect::<Result<Vec<_>>>()?;
        let first = rings
            .first()
            .ok_or_else(|| Error::bad_spec("no CPU is online"))?;
        let inner = sys::bpf_map_create_opts {
            inner_map_fd: first.1.as_fd().as_raw_fd() as u32,
            ..map_options()
        };
        let by_cpu = create(MapType::ArrayOfMaps, "rings", 4, 4, cpus, &inner)?;
        for (cpu, ring) in &rings {
            update(&by_cpu, *cpu, &ring.as_fd().as_raw_fd().to_ne_bytes())?;
        }
        let mapped = sys::bpf_map_create_opts {
            map_flags: sys::BPF_F_MMAPABLE,
            ..map_options()
        };
        let entries = Counters::stride(plan.entries.len()) as u32;
        let count = entries
            .checked_mul(cpus)
            .ok_or_else(|| Error::bad_spec("too many probes"))?;
        let counters = create(
            MapType::Array,
            "counters",
            4,
            size_of::<abi::Counter>() as u32,
            count,
            &mapped,
        )?;
        let scratch_slots = (4 * cpus).clamp(64, 1024).next_power_of_two();
        let text_bytes = plan.text_bytes as u32;
        let stack_slot = plan.stacks.slot().next_multiple_of(8);
        let scratch = abi::record::SCRATCH as u32 + text_bytes + stack_slot;
        let configs: Vec<abi::Tracepoint> = plan
            .tracepoints
            .iter()
            .map(|tracepoint| tracepoint.config)
            .collect();
        let mut maps = Maps {
            shared: BTreeMap::from([
                ("rings", by_cpu),
                ("counters", handle(&counters)?),
                (
                    "processes",
                    match family {
                        Some(family) => family.set()?,
                        None => ids("processes", &filter.processes)?,
                    },
                ),
                ("threads", ids("threads", &filter.threads)?),
                ("excluded", ids("excluded", &filter.exclude)?),
                ("locations", table("locations", &plan.locations)?),
                ("places", table("places", &plan.places)?),
                ("tracepoints", table("tracepoints", &configs)?),
                (
                    "stack_slots",
                    create(
                        MapType::Array,
                        "stack_slots",
                        4,
                        stack_slot,
                        abi::SLOTS * cpus,
                        &none,
                    )?,
                ),
            ]),
            constants: BTreeMap::new(),
            code: plan.code.clone(),
            rings,
            solo_rings: None,
            counters,
            cpus,
        };
        if let Some(filters) = &plan.code.filters {
            maps.shared
                .insert("text_tests", table("text_tests", &filters.texts)?);
        }
        if plan.keeps() {
            let calls = create(
                MapType::LruHash,
                "calls",
                abi::CALL_BYTES,
                abi::KEPT_BYTES,
                abi::CALLS,
                &none,
            )?;
            maps.shared.insert("calls", calls);
        }
        if !plan.locations.is_empty() {
            let slots = create(
                MapType::Array,
                "scratch_slots",
                4,
                scratch,
                scratch_slots,
                &none,
            )?;
            maps.shared.insert("scratch_slots", slots);
        }
        if let Some(data) = plan.solo_bytes() {
            let last = maps.rings.iter().map(|&(cpu, _)| cpu).max();
            let rings = create(
                MapType::Array,
                "solo_rings",
                4,
                SoloRing::bytes(data) as u32,
                last.map_or(1, |last| last + 1),
                &mapped,
            )?;
            maps.shared.insert("solo_rings", handle(&rings)?);
            maps.solo_rings = Some((rings, data));
        }
        let mut settings = settings(plan, filter, entries, text_bytes, scratch_slots);
        settings.count_only = plan.count_only.into();
        if family.is_some() {
            settings.single_process = 0;
            settings.filter_processes = 1;
        }
        maps.constants
            .insert(".rodata.settings", settings.bytes().to_vec());
        maps.constants.extend([namespace::constant()]);
        maps.constants
            .insert(".rodata.stacks", plan.stacks.bytes().to_vec());
        for (name, calls) in [(".rodata.enter", &plan.enter), (".rodata.exit", &plan.exit)] {
            if let Some(calls) = calls {
                maps.constants.insert(name, calls.numbers.bytes().to_vec());
            }
        }
        Ok(maps)
    }
}

fn settings(
    plan: &Plan,
    filter: &Filter,
    entries: u32,
    text_bytes: u32,
    scratch_slots: u32,
) -> abi::Settings {
    let single = match filter.processes[..] {
        [process] if process != 0 => process,
        _ => 0,
    };
    let mut cpu_mask = [0; abi::CPUS / 64];
    for &cpu in &filter.cpus {
        if let Some(word) = cpu_mask.get_mut(cpu as usize / 64) {
            *word |= 1 << (cpu % 64);
        }
    }
    // Looking it up reads all of the kernel's types.
    let exit_tells_last =
        plan.typed[abi::PROCESS_EXIT] != abi::NO_ENTRY && capability::exit_tells_last();
    abi::Settings {
        entries,
        string_limit: plan.string_limit as u32,
        text_bytes,
        scratch_slots,
        registers: registers::LAYOUT.words,
        first_argument: registers::LAYOUT.first_argument,
        instruction_pointer: registers::LAYOUT.instruction_pointer,
        single_process: single,
        filter_processes: (!filter.processes.is_empty()).into(),
        filter_threads: (!filter.threads.is_empty()).into(),
        filter_excluded: excludes(filter).into(),
        filter_cpus: (!filter.cpus.is_empty()).into(),
        kernel_events_of_all: filter.kernel_events_of_all.into(),
        exit_tells_last: exit_tells_last.into(),
        fetch_room: plan.fetch_room as u32,
        count_only: 0,
        filters: plan.code.filters.is_some().into(),
        keeps: plan.keeps().into(),
        keeps_registers: plan.keeps_registers().into(),
        asks_function: plan.asks_function().into(),
        solo_bytes: plan.solo_bytes().unwrap_or(0) as u32,
        cgroup: filter.cgroup.map_or(0, |cgroup| cgroup.number),
        cgroup_level: filter.cgroup.map_or(0, |cgroup| cgroup.level),
        kernel_entry: plan.typed,
        cpu_mask,
    }
}

/// Whether it must be looked up who is left out: it need not where one process is wanted that is not.
fn excludes(filter: &Filter) -> bool {
    match filter.processes[..] {
        [process] if !filter.kernel_events_of_all => filter.exclude.contains(&process),
        _ => !filter.exclude.is_empty(),
    }
}

fn create(
    kind: MapType,
    name: &str,
    key: u32,
    value: u32,
    entries: u32,
    options: &sys::bpf_map_create_opts,
) -> Result<MapHandle> {
    MapHandle::create(kind, Some(name), key, value, entries, options).map_err(|error| {
        match rights::missing_right() {
            Some(missing) if error.kind() == libbpf_rs::ErrorKind::PermissionDenied => {
                missing.error(&format!("the BPF map {name}")).because(error)
            }
            _ => {
                let message = format!("cannot create the BPF map {name} of {entries} elements");
                Error::new(ErrorKind::System, message).because(error)
            }
        }
    })
}

fn map_options() -> sys::bpf_map_create_opts {
    sys::bpf_map_create_opts {
        sz: size_of::<sys::bpf_map_create_opts>() as _,
        ..Default::default()
    }
}

fn update(map: &MapHandle, key: u32, value: &[u8]) -> Result<()> {
    map.update(&key.to_ne_bytes(), value, MapFlags::ANY)
        .map_err(|error| Error::new(ErrorKind::System, "cannot fill a BPF map").because(error))
}

pub(crate) fn handle(map: &MapHandle) -> Result<MapHandle> {
    MapHandle::try_from(map)
        .map_err(|error| Error::new(ErrorKind::System, "cannot keep a BPF map").because(error))
}

/// An empty set of process ids, with room for so many.
pub(crate) fn set(name: &str, room: u32) -> Result<MapHandle> {
    create(MapType::Hash, name, 4, 4, room, &map_options())
}

/// A single number of 64 bits.
pub(crate) fn count(name: &str) -> Result<MapHandle> {
    create(MapType::Array, name, 4, 8, 1, &map_options())
}

/// A set of process or thread ids.
fn ids(name: &str, ids: &[u32]) -> Result<MapHandle> {
    let map = create(
        MapType::Hash,
        name,
        4,
        4,
        ids.len().max(1) as u32,
        &map_options(),
    )?;
    for &id in ids {
        update(&map, id, &1u32.to_ne_bytes())?;
    }
    Ok(map)
}

/// An array, filled.
fn table<T: Plain>(name: &str, rows: &[T]) -> Result<MapHandle> {
    let size = size_of::<T>() as u32;
    let map = create(
        MapType::Array,
        name,
        4,
        size,
        rows.len().max(1) as u32,
        &map_options(),
    )?;
    for (index, row) in rows.iter().enumerate() {
        update(&map, index as u32, row.bytes())?;
    }
    Ok(map)
}

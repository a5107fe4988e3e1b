//! Runs a program and reads its probes as a session would, without a kernel that can.
//!
//! Probes and semaphores are placed by **file offset** into the process's mappings of the file, which is
//! what the kernel does with a uprobe and its reference counter; arguments are read by `spec::Place` from
//! registers and memory at the stop. So what is tested is all that a session is told.

#![allow(unsafe_code)]

use std::collections::HashMap;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use bridge::target::{Binary, Mapping, Process, UsdtProbe};
use nix::libc::user_regs_struct;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use tracebraid_bpf::spec::{Argument, Fetch, Location, Place, Register};

/// One hit: which probe, and its arguments; `None` where one cannot be read.
pub(crate) type Hit = (String, Vec<Option<u64>>);

/// Runs the program to its end with its USDT probes attached. The status has to be 0.
pub(crate) fn hits(program: &Path) -> Vec<Hit> {
    let binary = Binary::open(program).unwrap();
    let probes: Vec<(String, Vec<Location>)> = binary
        .usdt_probes()
        .iter()
        .map(|probe| (probe.full_name(), locations(probe)))
        .collect();
    run(program, &probes)
}

fn locations(probe: &UsdtProbe) -> Vec<Location> {
    probe.attachable().locations
}

fn run(program: &Path, probes: &[(String, Vec<Location>)]) -> Vec<Hit> {
    let mut command = Command::new(program);
    // SAFETY: the closure makes one system call and touches no memory that the parent may hold.
    unsafe {
        command.pre_exec(|| ptrace::traceme().map_err(std::io::Error::from));
    }
    // The handle is kept, and the child waited for below.
    #[allow(clippy::zombie_processes)]
    let child = command.spawn().unwrap();
    let pid = Pid::from_raw(child.id() as i32);
    assert_eq!(
        waitpid(pid, None).unwrap(),
        WaitStatus::Stopped(pid, Signal::SIGTRAP)
    );

    let process = Process::open(child.id()).unwrap();
    let file = Binary::open(program).unwrap();
    let mappings: Vec<Mapping> = process
        .mappings()
        .unwrap()
        .into_iter()
        .filter(|mapping| mapping.inode == file.id().inode)
        .collect();
    let mut placed: HashMap<u64, Vec<(&str, &Location)>> = HashMap::new();
    for (name, locations) in probes {
        for location in locations {
            let code = at_offset(&mappings, location.offset, |mapping| mapping.executable);
            placed
                .entry(code.unwrap())
                .or_default()
                .push((name, location));
            if location.semaphore != 0 {
                let word = at_offset(&mappings, location.semaphore, |mapping| mapping.writable);
                raise(pid, word.unwrap());
            }
        }
    }
    for &address in placed.keys() {
        let word = peek(pid, address).unwrap();
        assert_eq!(word & 0xff, 0x90, "a probe stands on a nop");
        poke(pid, address, word & !0xff | 0xcc);
    }

    let mut hits = Vec::new();
    loop {
        ptrace::cont(pid, None).unwrap();
        match waitpid(pid, None).unwrap() {
            WaitStatus::Exited(_, status) => {
                assert_eq!(status, 0, "the program is as it was without probes");
                return hits;
            }
            WaitStatus::Stopped(_, Signal::SIGTRAP) => {
                let registers = ptrace::getregs(pid).unwrap();
                let address = registers.rip - 1;
                for (name, location) in &placed[&address] {
                    let Fetch::Arguments(arguments) = &location.fetch else {
                        panic!("{name}")
                    };
                    let values = arguments
                        .iter()
                        .map(|one| value(pid, &registers, address, one))
                        .collect();
                    hits.push(((*name).to_owned(), values));
                }
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Where a byte of the file is in the process. A page of the file may be mapped more than once; the
/// last writable mapping is that of `.data`, since what will be read-only after relocation comes first.
fn at_offset(mappings: &[Mapping], offset: u64, fits: fn(&Mapping) -> bool) -> Option<u64> {
    mappings
        .iter()
        .rev()
        .filter(|mapping| fits(mapping))
        .find_map(|mapping| {
            let within = offset.checked_sub(mapping.offset)?;
            (within < mapping.range.end - mapping.range.start).then(|| mapping.range.start + within)
        })
}

fn raise(pid: Pid, address: u64) {
    let word = peek(pid, address).unwrap();
    poke(pid, address, word & !0xffff | (word + 1) & 0xffff);
}

fn value(pid: Pid, registers: &user_regs_struct, probe: u64, argument: &Argument) -> Option<u64> {
    let of = |register| register_value(registers, register);
    let word = match &argument.place {
        Place::Constant(value) => return Some(*value as u64),
        Place::Register { register, high } => of(*register) >> if *high { 8 } else { 0 },
        Place::Memory {
            base,
            index,
            displacement,
        } => {
            let base = base.map_or(0, of);
            let index = index.map_or(0, |(register, scale)| of(register) * u64::from(scale));
            peek(
                pid,
                base.wrapping_add(index).wrapping_add_signed(*displacement),
            )?
        }
        Place::ProbeRelative {
            displacement,
            address_only,
        } => {
            let address = probe.wrapping_add_signed(*displacement);
            if *address_only {
                address
            } else {
                peek(pid, address)?
            }
        }
        Place::Unsupported(_) => return None,
    };
    let unused = 64 - 8 * u32::from(argument.width);
    Some(match argument.signed {
        true => ((word << unused) as i64 >> unused) as u64,
        false => word << unused >> unused,
    })
}

fn register_value(registers: &user_regs_struct, register: Register) -> u64 {
    match register {
        Register::Rax => registers.rax,
        Register::Rbx => registers.rbx,
        Register::Rcx => registers.rcx,
        Register::Rdx => registers.rdx,
        Register::Rsi => registers.rsi,
        Register::Rdi => registers.rdi,
        Register::Rbp => registers.rbp,
        Register::Rsp => registers.rsp,
        Register::R8 => registers.r8,
        Register::R9 => registers.r9,
        Register::R10 => registers.r10,
        Register::R11 => registers.r11,
        Register::R12 => registers.r12,
        Register::R13 => registers.r13,
        Register::R14 => registers.r14,
        Register::R15 => registers.r15,
        Register::Rip => registers.rip,
        Register::Flags => registers.eflags,
        Register::Cs => registers.cs,
        Register::Ss => registers.ss,
        Register::OrigRax => registers.orig_rax,
    }
}

fn peek(pid: Pid, address: u64) -> Option<u64> {
    ptrace::read(pid, address as ptrace::AddressType)
        .ok()
        .map(|word| word as u64)
}

fn poke(pid: Pid, address: u64, word: u64) {
    ptrace::write(pid, address as ptrace::AddressType, word as i64).unwrap();
}

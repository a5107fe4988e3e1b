//! What a thousand tracepoints cost the compiler and in bytes, beside a thousand `tracing` events.
//!
//! ```text
//! program with 1,000 events  ┐ compiled in turn: seconds
//! program with 1 event       ┘ sections, divided by 999: bytes an event
//!                              ├ hot: instructions that ran while it was off, in the function
//!                              ├ cold: all other code
//!                              ├ metadata: everything else in memory
//!                              └ file: what is not loaded
//! ```
//! The first event of a program brings the library with it, so it is in both.

use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use tracebraid_benches::callgrind;
use tracebraid_benches::generated::{FUNCTIONS, Flavour, Package, Program};
use tracebraid_benches::part::{Part, Thoroughness};

fn main() -> Result<(), Box<dyn Error>> {
    let thoroughness = Thoroughness::wanted();
    let mut part = Part::default();
    if thoroughness == Thoroughness::Full {
        let mut programs = Vec::new();
        for flavour in Flavour::ALL {
            for events in [1, FUNCTIONS] {
                let package = Program { flavour, events }.write()?;
                succeed(&mut package.build()?)?;
                programs.push((flavour, events, package));
            }
        }
        times(&programs, &mut part)?;
        for pair in programs.chunks(2) {
            if let [(flavour, _, one), (_, _, all)] = pair {
                sizes(*flavour, one, all, &mut part)?;
            }
        }
    } else {
        part.skip("compile", "it takes minutes: run without --quick");
    }
    part.write("compile_cost")?;
    Ok(())
}

/// Seconds to compile and link each program, its dependencies being there; in turn, three times.
/// The least of each is reported: a busy machine only adds, least of all to the time on CPUs.
fn times(programs: &[(Flavour, usize, Package)], part: &mut Part) -> Result<(), Box<dyn Error>> {
    let mut least = vec![(f64::INFINITY, f64::INFINITY); programs.len()];
    for _ in 0..3 {
        for ((_, _, package), (wall, cpu)) in programs.iter().zip(&mut least) {
            package.touch()?;
            let (start, before) = (Instant::now(), cpu_seconds_of_children()?);
            succeed(&mut package.build()?)?;
            *wall = wall.min(start.elapsed().as_secs_f64());
            *cpu = cpu.min(cpu_seconds_of_children()? - before);
        }
    }
    for ((flavour, events, _), (wall, cpu)) in programs.iter().zip(least) {
        let name = format!("compile/{}/{events}-events", flavour.name());
        part.number(name.clone(), "seconds", wall);
        part.number(name, "cpu_seconds", cpu);
    }
    Ok(())
}

/// What all children together spent on CPUs, those of theirs included, once they have ended.
fn cpu_seconds_of_children() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // proc_pid_stat(5): after the name in parentheses, the 14th and 15th words are cutime and cstime, in
    // ticks of 10 ms.
    let (_, words) = stat.rsplit_once(')').ok_or("/proc/self/stat has no name")?;
    let ticks: Vec<f64> = words
        .split_whitespace()
        .skip(13)
        .take(2)
        .map(str::parse)
        .collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<f64>() / 100.0)
}

/// Bytes an event.
fn sizes(
    flavour: Flavour,
    one: &Package,
    all: &Package,
    part: &mut Part,
) -> Result<(), Box<dyn Error>> {
    let (one, all) = (one.program()?, all.program()?);
    let (base, full) = (Sections::of(&one)?, Sections::of(&all)?);
    let per_event = |full: f64, base: f64| (full - base) / (FUNCTIONS - 1) as f64;
    let code = per_event(full.code, base.code);
    let name = format!("size/{}", flavour.name());
    if callgrind::is_here() {
        let hot = per_event(hot_bytes(&all)?, hot_bytes(&one)?);
        part.number(name.clone(), "hot_bytes", hot);
        part.number(name.clone(), "cold_bytes", code - hot);
    } else {
        part.skip(&format!("{name}/hot"), "valgrind is not installed");
        part.number(name.clone(), "code_bytes", code);
    }
    part.number(
        name.clone(),
        "metadata_bytes",
        per_event(full.data, base.data),
    );
    part.number(name, "file_bytes", per_event(full.file, base.file));
    Ok(())
}

/// Bytes of the program's functions that ran, each called once.
fn hot_bytes(program: &Path) -> Result<f64, Box<dyn Error>> {
    let ran = callgrind::run(program, &[])?.addresses;
    let listing = read(
        Command::new("objdump")
            .args(["-d", "-C", "--insn-width=16"])
            .arg(program),
    )?;
    Ok(bytes_that_ran(&listing, &ran) as f64)
}

/// Sums the lengths of instructions at `ran` that stand in functions named `…::f0123`.
fn bytes_that_ran(listing: &str, ran: &BTreeSet<u64>) -> usize {
    let mut inside = false;
    let mut bytes = 0;
    for line in listing.lines() {
        if let Some(name) = line.strip_suffix(">:") {
            let name = name.rsplit("::").next().unwrap_or("");
            inside = name
                .strip_prefix('f')
                .is_some_and(|digits| digits.len() == 4 && digits.parse::<u16>().is_ok());
        } else if inside && let Some((address, rest)) = line.trim_start().split_once(":\t") {
            let is_hot =
                u64::from_str_radix(address, 16).is_ok_and(|address| ran.contains(&address));
            if is_hot {
                bytes += rest
                    .split('\t')
                    .next()
                    .map_or(0, |hex| hex.split_whitespace().count());
            }
        }
    }
    bytes
}

/// Sizes of a file's sections, by what they are.
struct Sections {
    code: f64,
    data: f64,
    file: f64,
}

impl Sections {
    fn of(program: &Path) -> Result<Sections, Box<dyn Error>> {
        // `size -A` prints name, size and address; what is not loaded has no address.
        let listing = read(Command::new("size").args(["-A", "-d"]).arg(program))?;
        let mut sections = Sections {
            code: 0.0,
            data: 0.0,
            file: 0.0,
        };
        for line in listing.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let &[name, size, address] = &words[..] else {
                continue;
            };
            let Ok(size) = size.parse::<f64>() else {
                continue;
            };
            let is_loaded = address != "0";
            if is_loaded
                && [".text", ".plt", ".init", ".fini"]
                    .iter()
                    .any(|code| name.starts_with(code))
            {
                sections.code += size;
            } else if is_loaded {
                sections.data += size;
            } else if !name.starts_with(".debug") {
                sections.file += size;
            }
        }
        Ok(sections)
    }
}

fn succeed(command: &mut Command) -> Result<(), Box<dyn Error>> {
    match command.status()? {
        status if status.success() => Ok(()),
        status => Err(format!("{command:?} failed ({status})").into()),
    }
}

fn read(command: &mut Command) -> Result<String, Box<dyn Error>> {
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("{command:?} failed ({})", output.status).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

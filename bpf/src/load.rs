//! Programs: what of the kernel side a session needs, loaded and nothing more.
//!
//! An object is loaded only if one of its programs is wanted, and of its programs only those: one that a
//! kernel does not know would fail the others with it. The session's maps are handed to it before.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Once;

use libbpf_rs::{MapHandle, ObjectBuilder, OpenObject, PrintLevel};

use crate::capability;
use crate::error::{Error, ErrorKind, Result};
use crate::fetch_code::Registers;
use crate::filter_code::Values;
use crate::kernel::Blueprint;
use crate::maps::Maps;
use crate::plan::Code;
use crate::rights;

/// A loaded program.
pub(crate) struct Program {
    pub(crate) fd: OwnedFd,
    /// More of the same, as many as were asked for; each has the kernel's counts for itself.
    pub(crate) copies: Vec<OwnedFd>,
}

/// Which object a program is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Object {
    Usdt,
    Kprobe,
    KprobeMulti,
    Fentry,
    Arguments,
    Event,
    Tracepoint,
    Sched,
    Process,
    Family,
    Syscalls,
}

impl Object {
    /// As it was compiled.
    fn image(self) -> &'static [u8] {
        macro_rules! compiled {
            ($name:literal) => {
                include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".bpf.o"))
            };
        }
        match self {
            Object::Usdt => compiled!("usdt"),
            Object::Kprobe => compiled!("kprobe"),
            Object::KprobeMulti => compiled!("kprobe_multi"),
            Object::Fentry => compiled!("fentry"),
            Object::Arguments => compiled!("arguments"),
            Object::Event => compiled!("event"),
            Object::Tracepoint => compiled!("tracepoint"),
            Object::Sched => compiled!("sched"),
            Object::Process => compiled!("process"),
            Object::Family => compiled!("family"),
            Object::Syscalls => compiled!("syscalls"),
        }
    }

    /// Where the code of its fetch programs finds registers; `None` where it has none.
    fn registers(self) -> Option<Registers> {
        match self {
            Object::Usdt | Object::Kprobe => Some(Registers::Context),
            Object::KprobeMulti | Object::Fentry | Object::Arguments | Object::Event => {
                Some(Registers::Scratch)
            }
            Object::Tracepoint
            | Object::Sched
            | Object::Process
            | Object::Family
            | Object::Syscalls => None,
        }
    }

    /// Where its filters find values; `None` where it has none.
    fn values(self) -> Option<Values> {
        match self {
            Object::Usdt
            | Object::Kprobe
            | Object::KprobeMulti
            | Object::Fentry
            | Object::Arguments
            | Object::Event => Some(Values::Scratch),
            Object::Tracepoint => Some(Values::Tracepoint),
            Object::Sched | Object::Process | Object::Syscalls => Some(Values::Record),
            Object::Family => None,
        }
    }
}

/// Loads the named programs of an object, and that many more copies of each, with the session's code.
pub(crate) fn programs(
    object: Object,
    names: &[&str],
    copies: usize,
    maps: &Maps,
) -> Result<BTreeMap<String, Program>> {
    with(
        object,
        names,
        copies,
        &maps.shared,
        &maps.constants,
        &maps.code,
    )
}

/// Takes one of them out.
pub(crate) fn take(programs: &mut BTreeMap<String, Program>, name: &str) -> Result<Program> {
    programs.remove(name).ok_or_else(|| {
        let message = format!("the BPF object has no program named {name}");
        Error::new(ErrorKind::Load, message)
    })
}

type Shared = BTreeMap<&'static str, MapHandle>;
type Constants = BTreeMap<&'static str, Vec<u8>>;

/// The same with these maps and constants, by name, and this code.
pub(crate) fn with(
    object: Object,
    names: &[&str],
    copies: usize,
    shared: &Shared,
    constants: &Constants,
    code: &Code,
) -> Result<BTreeMap<String, Program>> {
    let object = load(object, names, (shared, constants), code, |_| Ok(()))?;
    let mut loaded = BTreeMap::new();
    for program in object.progs() {
        let name = program.name().to_string_lossy().into_owned();
        if names.contains(&name.as_str()) {
            let fd = program
                .as_fd()
                .try_clone_to_owned()
                .map_err(|error| Error::system("cannot keep a BPF program", error))?;
            let copies = Blueprint::of(&object, &program)
                .and_then(|blueprint| (0..copies).map(|_| blueprint.load(0)).collect())
                .map_err(|error| {
                    let message = format!("the kernel refused a copy of the BPF program {name}");
                    Error::new(ErrorKind::Load, message).because(error)
                })?;
            loaded.insert(name, Program { fd, copies });
        }
    }
    Ok(loaded)
}

/// A program of the object of trampolines for each of these functions, which are numbers in the kernel's type
/// information. What a function's is refused for is that function's alone.
///
/// # Errors
/// No such program can be loaded at all; `template` is a function that it is tried with.
pub(crate) fn trampolines(
    name: &str,
    template: &str,
    functions: &[u32],
    maps: &Maps,
) -> Result<Vec<std::io::Result<OwnedFd>>> {
    let (shared, code) = ((&maps.shared, &maps.constants), &maps.code);
    let object = load(Object::Fentry, &[name], shared, code, |open| {
        let mut programs = open.progs_mut();
        let program = programs.find(|program| program.name() == name);
        program.map_or(Ok(()), |mut program| {
            program.set_attach_target(0, Some(template.to_owned()))
        })
    })?;
    let program = object
        .progs()
        .find(|program| program.name() == name)
        .ok_or_else(|| Error::new(ErrorKind::Load, format!("there is no program {name}")))?;
    let blueprint = Blueprint::of(&object, &program)
        .map_err(|error| Error::system("cannot copy a BPF program", error))?;
    Ok(functions.iter().map(|&it| blueprint.load(it)).collect())
}

fn what(names: &[&str]) -> String {
    format!("the BPF programs {}", names.join(", "))
}

/// Opens an object, prepares it and loads it. Where the kernel refuses it with the code of fetch programs, their
/// steps are followed.
fn load(
    object: Object,
    names: &[&str],
    (shared, constants): (&Shared, &Constants),
    code: &Code,
    prepare: impl Fn(&mut OpenObject) -> libbpf_rs::Result<()>,
) -> Result<libbpf_rs::Object> {
    let messages = Messages::listen();
    let once = |code: &Code| {
        let mut constants = constants.clone();
        let has_code = u32::from(code.programs.is_some());
        constants.insert(".rodata.fetch_code", has_code.to_ne_bytes().to_vec());
        let mut open = open(object, names, (shared, &constants), code, &messages)?;
        let loaded = prepare(&mut open).and_then(|()| open.load());
        loaded.map_err(|error| refused_load(&what(names), error, &messages.take()))
    };
    match once(code) {
        Err(error)
            if *error.kind() == ErrorKind::Load
                && code.programs.is_some()
                && object.registers().is_some() =>
        {
            let loaded = once(&Code {
                programs: None,
                ..code.clone()
            })?;
            // Of several objects one is enough.
            let _ = code.refused.set(last_word(&error));
            Ok(loaded)
        }
        other => other,
    }
}

/// Of a refusal.
fn last_word(error: &Error) -> String {
    let text = error.to_string();
    text.lines().last().unwrap_or_default().trim().to_owned()
}

/// Opens an object: with the session's maps, constants and code, and of its programs only the named ones.
fn open(
    object: Object,
    names: &[&str],
    (shared, constants): (&Shared, &Constants),
    code: &Code,
    messages: &Messages,
) -> Result<OpenObject> {
    let refused = |error| refused_load(&what(names), error, &messages.take());
    let mut image = object.image().to_vec();
    if let (Some(filters), Some(values)) = (&code.filters, object.values()) {
        filters.write_into(&mut image, values)?;
    }
    if let (Some(programs), Some(registers)) = (&code.programs, object.registers()) {
        programs.write_into(&mut image, registers)?;
    }
    let mut open = ObjectBuilder::default()
        .open_memory(&image)
        .map_err(refused)?;
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        if let Some(shared) = shared.get(name.as_str()) {
            map.reuse_fd(shared.as_fd()).map_err(refused)?;
        }
        if let Some(constant) = constants.get(name.as_str())
            && let Some(value) = map.initial_value_mut()
        {
            if value.len() != constant.len() {
                let message = format!("{name} has {} bytes, not {}", value.len(), constant.len());
                return Err(Error::new(ErrorKind::Load, message));
            }
            value.copy_from_slice(constant);
        }
    }
    for mut program in open.progs_mut() {
        let wanted = names.iter().any(|name| program.name() == *name);
        program.set_autoload(wanted);
    }
    Ok(open)
}

fn refused_load(what: &str, error: libbpf_rs::Error, messages: &str) -> Error {
    if error.kind() == libbpf_rs::ErrorKind::PermissionDenied
        && let Some(missing) = rights::missing_right()
    {
        return missing.error(what).because(error);
    }
    if !Path::new(capability::KERNEL_TYPES).exists() {
        let needs = "CONFIG_DEBUG_INFO_BTF".to_owned();
        let message = format!(
            "cannot load {what}: this kernel has no {}",
            capability::KERNEL_TYPES
        );
        return Error::new(ErrorKind::Unsupported { needs }, message).because(error);
    }
    // The verifier's verdict is at the end, before its statistics.
    let lines: Vec<&str> = messages
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let tail = lines[lines.len().saturating_sub(12)..].join("\n");
    let message = if tail.is_empty() {
        format!("the kernel refused {what}")
    } else {
        format!("the kernel refused {what}:\n{tail}")
    };
    Error::new(ErrorKind::Load, message).because(error)
}

thread_local! {
    static MESSAGES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// More than the end of any verifier log that is worth reading.
const MESSAGES_KEPT: usize = 64 << 10;

/// What libbpf has to say on this thread while it works, the verifier's log among it. Nothing is ever
/// printed: this crate is libbpf's only user in the program.
struct Messages;

impl Messages {
    fn listen() -> Messages {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            libbpf_rs::set_print(Some((PrintLevel::Warn, |_, text| Messages::keep(&text))));
        });
        MESSAGES.with_borrow_mut(Vec::clear);
        Messages
    }

    fn keep(text: &str) {
        MESSAGES.with_borrow_mut(|all| {
            all.extend(text.as_bytes());
            if all.len() > MESSAGES_KEPT {
                all.drain(..all.len() - MESSAGES_KEPT / 2);
            }
        });
    }

    fn take(&self) -> String {
        String::from_utf8_lossy(&MESSAGES.with_borrow_mut(std::mem::take)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    /// The stack of a BPF function, as the highest offset below `r10` that its section uses.
    fn deepest(object: &[u8]) -> i64 {
        let u16_at = |at: usize| u16::from_le_bytes([object[at], object[at + 1]]) as usize;
        let u64_at = |at: usize| {
            u64::from_le_bytes(object[at..at + 8].try_into().expect("8 bytes")) as usize
        };
        let (table, size, count) = (u64_at(0x28), u16_at(0x3a), u16_at(0x3c));
        let mut deepest = 0;
        let mut instructions = 0;
        for section in (0..count).map(|index| table + index * size) {
            // SHF_EXECINSTR
            if u64_at(section + 8) & 4 == 0 {
                continue;
            }
            let (start, length) = (u64_at(section + 0x18), u64_at(section + 0x20));
            let mut copied = None;
            for code in object[start..start + length].chunks_exact(8) {
                let (class, to, from) = (code[0] & 7, code[1] & 15, code[1] >> 4);
                let offset = i64::from(i16::from_le_bytes([code[2], code[3]]));
                let immediate = i64::from(i32::from_le_bytes([code[4], code[5], code[6], code[7]]));
                let below = match class {
                    // Loads name it as source, stores as destination.
                    1 if from == 10 => offset,
                    2 | 3 if to == 10 => offset,
                    // rX = r10; rX += immediate
                    7 if code[0] == 0x07 && copied == Some(to) => immediate,
                    _ => 0,
                };
                copied = (code[0] == 0xbf && from == 10).then_some(to);
                deepest = deepest.max(-below);
                instructions += 1;
            }
        }
        assert!(
            instructions > 100,
            "{instructions} instructions cannot be all"
        );
        deepest
    }

    #[test]
    fn programs_that_may_sleep_stay_off_the_private_stack_of_a_cpu() {
        let object = include_bytes!(concat!(env!("OUT_DIR"), "/usdt.bpf.o"));
        let deepest = deepest(object);
        assert!(
            deepest <= 48,
            "a function uses {deepest} bytes of stack; 48 are safe"
        );
        let of_functions: [&[u8]; 5] = [
            include_bytes!(concat!(env!("OUT_DIR"), "/kprobe.bpf.o")),
            include_bytes!(concat!(env!("OUT_DIR"), "/kprobe_multi.bpf.o")),
            include_bytes!(concat!(env!("OUT_DIR"), "/fentry.bpf.o")),
            include_bytes!(concat!(env!("OUT_DIR"), "/arguments.bpf.o")),
            include_bytes!(concat!(env!("OUT_DIR"), "/event.bpf.o")),
        ];
        for object in of_functions {
            let deepest = self::deepest(object);
            assert!(
                deepest <= 48,
                "a function uses {deepest} bytes of stack; 48 are safe"
            );
        }
        // The scheduler's programs hold whole records there, which the kernel's guard allows.
        assert!(self::deepest(include_bytes!(concat!(env!("OUT_DIR"), "/sched.bpf.o"))) > 48);
    }
}

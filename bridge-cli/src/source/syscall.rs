//! System calls as events: one probe a call (`syscalls:sys_enter_fsync`), made when it is first hit.
//!
//! The names and types of a call's arguments are those of its `format` file. The kernel prints all of
//! them as `0x%08lx`; here an argument is printed as what it is: `fd=9`, `dfd=-100`, `mode=0644`,
//! `flags=0x80000`, pointers in hex and never followed. Fields that begin with `__` hold texts that the
//! kernel copies for its own buffer; no BPF program ever receives them, so they are left out.

use std::sync::{Arc, OnceLock};

use tracebraid_filter::Type;

use crate::event::{Base, Field, Origin, Print, Probe, Value};
use crate::tracefs::Tracefs;
use crate::tracefs::c_type::{self, Scalar};
use crate::tracefs::format::Format;

/// Whether calls begin or end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `sys_enter_…`
    Enter,
    /// `sys_exit_…`
    Exit,
}

/// Makes the probes and values of system calls.
#[derive(Debug)]
pub struct Syscalls {
    way: Way,
    tracefs: Option<Arc<Tracefs>>,
    /// By number.
    calls: Box<[OnceLock<Call>]>,
    /// Stands for all of them.
    any: Arc<Probe>,
}

#[derive(Debug)]
struct Call {
    probe: Arc<Probe>,
    arguments: Vec<Argument>,
}

/// How one argument is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Argument {
    /// Which of the six.
    index: usize,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Number(Scalar),
    Pointer,
}

impl Form {
    fn compared(self) -> Type {
        match self {
            Form::Pointer => Type::Unsigned { bytes: 8 },
            Form::Number(Scalar { size, signed }) if signed => Type::Signed { bytes: size.into() },
            Form::Number(Scalar { size, .. }) => Type::Unsigned { bytes: size.into() },
        }
    }
}

/// Numbers from here on get no probe of their own. The kernel's highest is below 600.
const NUMBERS: usize = 1024;

/// Calls that return an address.
const RETURN_ADDRESSES: [&str; 4] = ["mmap", "mremap", "brk", "shmat"];

impl Syscalls {
    /// For calls of these numbers, or of all when there are none.
    pub fn new(way: Way, numbers: &[u32], tracefs: Option<Arc<Tracefs>>) -> Syscalls {
        let calls = (0..NUMBERS).map(|_| OnceLock::new()).collect();
        let mut syscalls = Syscalls {
            way,
            tracefs,
            calls,
            any: Arc::new(probe(way, None, Vec::new())),
        };
        if let [number] = numbers {
            syscalls.any = Arc::clone(&syscalls.call(i64::from(*number)).probe);
        }
        syscalls
    }

    /// The probe that losses are reported under: that of the only call, or `syscalls:sys_enter`.
    pub fn any(&self) -> &Arc<Probe> {
        &self.any
    }

    /// The probe of the call of a number.
    pub fn probe(&self, number: u32) -> &Arc<Probe> {
        &self.call(number.into()).probe
    }

    /// The number of the call whose probe this is.
    pub(super) fn number_of(&self, probe: &Arc<Probe>) -> Option<u32> {
        let is_it = |call: &OnceLock<Call>| {
            let call = call.get();
            call.is_some_and(|call| Arc::ptr_eq(&call.probe, probe))
        };
        let place = self.calls.iter().position(is_it)?;
        u32::try_from(place).ok()
    }

    /// Of a field of a call: which of the six arguments it is, its bytes and whether it has a sign.
    pub(super) fn argument(&self, number: u32, index: usize) -> Option<(Way, u8, u8, bool)> {
        let call = self.call(number.into());
        let argument = call.arguments.get(index)?;
        let (bytes, signed) = match argument.form {
            Form::Number(scalar) => (scalar.size, scalar.signed),
            Form::Pointer => (8, false),
        };
        Some((self.way, argument.index as u8, bytes, signed))
    }

    /// Appends the values of a call that begins; its probe.
    pub fn entered(&self, number: i64, args: [u64; 6], values: &mut Vec<Value>) -> &Arc<Probe> {
        let call = self.call(number);
        let value = |argument: &Argument| {
            let bits = args.get(argument.index).copied().unwrap_or(0);
            match argument.form {
                Form::Pointer => Value::Pointer(bits),
                Form::Number(scalar) if scalar.signed => Value::Signed(scalar.wrap(bits) as i64),
                Form::Number(scalar) => Value::Unsigned(scalar.wrap(bits)),
            }
        };
        values.extend(call.arguments.iter().map(value));
        &call.probe
    }

    /// Appends the value of a call that ends; its probe.
    pub fn returned(&self, number: i64, result: i64, values: &mut Vec<Value>) -> &Arc<Probe> {
        let call = self.call(number);
        let is_error = (-4095..0).contains(&result);
        let address = matches!(
            call.arguments[..],
            [Argument {
                form: Form::Pointer,
                ..
            }]
        );
        values.push(match address && !is_error {
            true => Value::Pointer(result as u64),
            false => Value::Signed(result),
        });
        &call.probe
    }

    fn call(&self, number: i64) -> &Call {
        // The last place is that of all numbers without one of their own.
        let place = usize::try_from(number)
            .unwrap_or(usize::MAX)
            .min(NUMBERS - 1);
        self.calls[place].get_or_init(|| match self.way {
            Way::Enter => self.entry(place as u32),
            Way::Exit => exit(place as u32),
        })
    }

    fn entry(&self, number: u32) -> Call {
        let name = crate::syscalls::name(number);
        let format = name.and_then(|name| {
            self.tracefs
                .as_ref()?
                .format("syscalls", &format!("sys_enter_{name}"))
                .ok()
        });
        let (fields, arguments) = match format {
            Some(format) => arguments(&format),
            None => (0..6).map(unnamed).unzip(),
        };
        Call {
            probe: Arc::new(probe(Way::Enter, Some(number), fields)),
            arguments,
        }
    }
}

fn exit(number: u32) -> Call {
    let returns_address =
        crate::syscalls::name(number).is_some_and(|name| RETURN_ADDRESSES.contains(&name));
    let form = match returns_address {
        true => Form::Pointer,
        false => Form::Number(Scalar {
            size: 8,
            signed: true,
        }),
    };
    let fields = vec![Field::new("ret", "long")];
    Call {
        probe: Arc::new(probe(Way::Exit, Some(number), fields)),
        arguments: vec![Argument { index: 0, form }],
    }
}

fn probe(way: Way, number: Option<u32>, fields: Vec<Field>) -> Probe {
    let prefix = match way {
        Way::Enter => "sys_enter",
        Way::Exit => "sys_exit",
    };
    let name = match number.map(|number| (number, crate::syscalls::name(number))) {
        None => prefix.to_owned(),
        Some((_, Some(name))) => format!("{prefix}_{name}"),
        Some((number, None)) => format!("{prefix}_{number}"),
    };
    Probe {
        group: "syscalls".to_owned(),
        name,
        origin: Origin::Kernel,
        fields,
        print: Print::Plain,
    }
}

fn unnamed(index: usize) -> (Field, Argument) {
    let mut field = Field::new(format!("arg{index}"), "unsigned long");
    field.base = Base::Hexadecimal;
    (
        field,
        Argument {
            index,
            form: Form::Number(Scalar::ULONG),
        },
    )
}

/// Whether a field of a system call's `format` is one that BPF never receives, or the number.
pub fn is_copied(field: &str) -> bool {
    field.starts_with("__")
}

/// The arguments of a call: words of 8 bytes behind the record's first 16.
fn arguments(format: &Format) -> (Vec<Field>, Vec<Argument>) {
    let is_argument = |field: &&crate::tracefs::format::FormatField| {
        !is_copied(&field.name)
            && field.offset >= 16
            && field.offset.is_multiple_of(8)
            && field.size == 8
    };
    let argument = |field: &crate::tracefs::format::FormatField| {
        let (form, base) = form(&field.name, &field.type_name);
        let index = (field.offset as usize - 16) / 8;
        let shown = Field {
            name: field.name.clone(),
            type_name: field.type_name.clone(),
            base,
            compared: Some(form.compared()),
        };
        (shown, Argument { index, form })
    };
    format
        .fields
        .iter()
        .filter(is_argument)
        .map(argument)
        .unzip()
}

fn form(name: &str, type_name: &str) -> (Form, Base) {
    if type_name.contains('*') {
        return (Form::Pointer, Base::Decimal);
    }
    let scalar = c_type::named(type_name).unwrap_or(Scalar::ULONG);
    let unsigned = Form::Number(Scalar {
        signed: false,
        ..scalar
    });
    if type_name == "umode_t" {
        return (unsigned, Base::Octal);
    }
    let is_mask = ["flag", "mask", "prot"]
        .iter()
        .any(|part| name.contains(part));
    if is_mask || (name == "cmd" && type_name == "unsigned int") {
        return (unsigned, Base::Hexadecimal);
    }
    let is_address = ["addr", "start", "brk"]
        .iter()
        .any(|part| name.contains(part));
    if is_address && scalar == Scalar::ULONG {
        return (Form::Pointer, Base::Decimal);
    }
    (Form::Number(scalar), Base::Decimal)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPENAT: &str = "name: sys_enter_openat\nID: 782\nformat:\n\
        field:int __syscall_nr;offset:8;size:4;signed:1;\n\
        field:int dfd;offset:16;size:8;signed:0;\n\
        field:const char * filename;offset:24;size:8;signed:0;\n\
        field:int flags;offset:32;size:8;signed:0;\n\
        field:umode_t mode;offset:40;size:8;signed:0;\n\
        field:__data_loc char[] __filename_val;offset:48;size:4;signed:0;\n\nprint fmt: \"\"";

    #[test]
    fn arguments_are_read_and_printed_as_what_they_are() {
        let (fields, arguments) = arguments(&Format::parse(OPENAT).unwrap());
        let places: Vec<usize> = arguments.iter().map(|argument| argument.index).collect();
        assert_eq!(places, [0, 1, 2, 3]);
        let call = Call {
            probe: Arc::new(probe(Way::Enter, Some(257), fields)),
            arguments,
        };
        let mut syscalls = Syscalls::new(Way::Enter, &[], None);
        syscalls.calls[257] = OnceLock::from(call);
        let mut values = Vec::new();
        let args = [-100_i32 as u32 as u64, 0x7f00, 0x8_0042, 0o644, 0, 0];
        let probe = syscalls.entered(257, args, &mut values);
        let mut out = Vec::new();
        crate::print::body(probe, &values, &mut out);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "dfd=-100 filename=0x7f00 flags=0x80042 mode=0644"
        );
        assert_eq!(probe.name, "sys_enter_openat");
    }

    #[test]
    fn without_tracefs_or_a_name_a_call_still_prints() {
        let syscalls = Syscalls::new(Way::Enter, &[], None);
        let mut values = Vec::new();
        let probe = syscalls.entered(-1, [1, 2, 3, 4, 5, 6], &mut values);
        assert_eq!((probe.name.as_str(), values.len()), ("sys_enter_1023", 6));
        assert_eq!(
            Syscalls::new(Way::Enter, &[74], None).any().name,
            "sys_enter_fsync"
        );
        assert_eq!(syscalls.any().name, "sys_enter");
    }

    #[test]
    fn results_are_numbers_and_addresses_are_addresses_unless_they_are_errors() {
        let syscalls = Syscalls::new(Way::Exit, &[], None);
        let mut values = Vec::new();
        for (number, result) in [(74, -5), (9, 0x7f00_0000_0000), (9, -12)] {
            syscalls.returned(number, result, &mut values);
        }
        let expected = [
            Value::Signed(-5),
            Value::Pointer(0x7f00_0000_0000),
            Value::Signed(-12),
        ];
        assert_eq!(values, expected);
    }
}

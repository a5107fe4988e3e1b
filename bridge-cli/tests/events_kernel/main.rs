//! What the running kernel says of its tracepoints, against what is made of it here.
//!
//! These need tracefs, one of them BPF too, and so root. Without they are reported as ignored, with the
//! reason; with `TRACEBRAID_REQUIRE=tracefs,bpf` that is a failure.

mod bpf;
mod instance;
mod trace;
mod workload;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bridge::event::Value;
use bridge::tracefs::builtin;
use bridge::tracefs::format::Format;
use bridge::tracefs::print_fmt::PrintFmt;
use bridge::tracefs::{Tracefs, record};
use libtest_mimic::{Arguments, Failed, Trial};

type Test = fn(&Arc<Tracefs>) -> Result<(), Failed>;

const TESTS: [(&str, &str, Test); 6] = [
    (
        "tracefs",
        "every_format_file_of_the_running_kernel_parses",
        every_format_parses,
    ),
    (
        "tracefs",
        "nearly_every_print_fmt_is_understood_and_the_others_say_why",
        print_fmts_are_understood,
    ),
    (
        "tracefs",
        "the_builtin_events_are_those_of_the_running_kernel",
        builtins_are_the_kernels,
    ),
    (
        "tracefs",
        "any_bytes_in_place_of_a_record_are_printed_and_nothing_panics",
        any_bytes_are_printed,
    ),
    (
        "tracefs",
        "a_record_prints_what_trace_pipe_prints_for_the_same_hit",
        trace::records_print_as_trace_does,
    ),
    (
        "bpf",
        "a_hit_that_bpf_delivers_prints_what_trace_pipe_prints_for_it",
        bpf::hits_print_as_trace_does,
    ),
];

fn main() {
    let arguments = Arguments::from_args();
    let tracefs = bridge::mount::ensure_tracefs()
        .and_then(|()| Tracefs::find())
        .map(Arc::new);
    let bpf = bpf::is_possible();
    let required = std::env::var("TRACEBRAID_REQUIRE").unwrap_or_default();
    let trials = TESTS.into_iter().map(|(needs, name, test)| {
        let missing = match (&tracefs, &bpf) {
            (Err(error), _) => Some(format!("needs tracefs: {error}")),
            (_, Err(error)) if needs == "bpf" => Some(format!("needs BPF: {error}")),
            _ => None,
        };
        match (&tracefs, missing) {
            (Ok(tracefs), None) => {
                let tracefs = Arc::clone(tracefs);
                Trial::test(name, move || test(&tracefs))
            }
            (_, missing) => {
                let missing = missing.unwrap_or_default();
                let ignored = !required.split(',').any(|part| part == needs);
                let trial = Trial::test(format!("{name} ({missing})"), move || Err(missing.into()));
                trial.with_ignored_flag(ignored)
            }
        }
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

/// Category and text of every `format` file.
fn formats(tracefs: &Tracefs) -> Vec<(String, String)> {
    let directories = |path: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        entries.filter(|path| path.is_dir()).collect()
    };
    let mut formats = Vec::new();
    for category in directories(&tracefs.root().join("events")) {
        for event in directories(&category) {
            let name = category.file_name().unwrap().to_string_lossy().into_owned();
            formats.push((name, fs::read_to_string(event.join("format")).unwrap()));
        }
    }
    formats
}

fn every_format_parses(tracefs: &Arc<Tracefs>) -> Result<(), Failed> {
    let formats = formats(tracefs);
    for (category, text) in &formats {
        let format = Format::parse(text).map_err(|error| format!("{category}: {error}\n{text}"))?;
        let own = text.matches("field:").count() - text.matches(" common_").count();
        assert_eq!(format.fields.len(), own, "{}", format.name);
    }
    let names = tracefs.tracepoints()?;
    assert!(!names.is_empty());
    for name in names {
        let format = tracefs.format(&name.category, &name.name)?;
        assert_eq!(format.name, name.name);
    }
    println!("{} format files", formats.len());
    Ok(())
}

fn print_fmts_are_understood(tracefs: &Arc<Tracefs>) -> Result<(), Failed> {
    let mut unknown = BTreeMap::new();
    let formats = formats(tracefs);
    for (category, text) in &formats {
        let format = Format::parse(text)?;
        if let Err(error) = tracefs.print_fmt(&format) {
            unknown.insert(format!("{category}:{}", format.name), error.to_string());
        }
    }
    for (name, why) in &unknown {
        println!("{name}: {why}");
    }
    println!("{} of {} not understood", unknown.len(), formats.len());
    assert!(unknown.len() * 50 <= formats.len(), "{unknown:#?}");
    Ok(())
}

/// The kernel's `print fmt`, compiled for the fields that it lists, says the same as ours.
fn builtins_are_the_kernels(tracefs: &Arc<Tracefs>) -> Result<(), Failed> {
    for builtin in builtin::ALL {
        let format = tracefs.format("sched", builtin.name)?;
        let names: Vec<&str> = format
            .fields
            .iter()
            .map(|field| field.name.as_str())
            .collect();
        let own: Vec<&str> = builtin.fields.iter().map(|field| field.0).collect();
        // Before 6.16 the kernel's has no such field; ours is computed there.
        let is_newer = builtin.name == "sched_process_exit" && !names.contains(&"group_dead");
        let added = if is_newer { 1 } else { 0 };
        assert_eq!(names, own[..own.len() - added], "{}", builtin.name);
        let (theirs, ours) = (tracefs.print_fmt(&format)?, builtin.compile()?);
        for state in [
            0, 1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0x81, 0x100, 0x101, 0x402, -1,
        ] {
            let value = |(name, type_name): &(&str, &str)| match *type_name {
                "char[16]" | "char[]" => Value::text(name.as_bytes()),
                "bool" => Value::Bool(state & 1 == 1),
                _ => Value::Signed(state),
            };
            let values: Vec<Value> = builtin.fields.iter().map(value).collect();
            let mut ours = printed(&ours, &values);
            if is_newer {
                ours.truncate(ours.find(" group_dead=").expect("the field is printed"));
            }
            assert_eq!(printed(&theirs, &values), ours, "{}", builtin.name);
        }
    }
    Ok(())
}

fn printed(print: &PrintFmt, values: &[Value]) -> String {
    let mut out = Vec::new();
    print.write(values, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn any_bytes_are_printed(tracefs: &Arc<Tracefs>) -> Result<(), Failed> {
    for (_, text) in formats(tracefs) {
        let format = Format::parse(&text)?;
        let size = format.record_size() as usize;
        let print = tracefs.print_fmt(&format).ok();
        let patterns = [
            vec![0; size],
            vec![0xff; size],
            (0..size + 64).map(|at| at as u8).collect(),
            Vec::new(),
        ];
        for bytes in patterns {
            let values = record::values(&format, &bytes);
            assert_eq!(values.len(), format.fields.len());
            if let Some(print) = &print {
                printed(print, &values);
            }
        }
    }
    Ok(())
}

//! What the running kernel says of its tracepoints, against what is made of it here.
//!
//! These need tracefs, and so root. Without it they are reported as ignored, with the reason; with
//! `TRACEBRAID_REQUIRE=tracefs` that is a failure.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use bridge::event::{Print, Value};
use bridge::tracefs::builtin;
use bridge::tracefs::format::Format;
use bridge::tracefs::print_fmt::PrintFmt;
use bridge::tracefs::{Tracefs, record};
use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let arguments = Arguments::from_args();
    let tracefs = bridge::mount::ensure_tracefs()
        .and_then(|()| Tracefs::find())
        .map(Arc::new);
    let required = std::env::var("TRACEBRAID_REQUIRE")
        .is_ok_and(|required| required.split(',').any(|part| part == "tracefs"));
    type Test = fn(&Tracefs) -> Result<(), Failed>;
    let tests: [(&str, Test); 5] = [
        (
            "every_format_file_of_the_running_kernel_parses",
            every_format_parses,
        ),
        (
            "nearly_every_print_fmt_is_understood_and_the_others_say_why",
            print_fmts_are_understood,
        ),
        (
            "the_builtin_events_are_those_of_the_running_kernel",
            builtins_are_the_kernels,
        ),
        (
            "a_record_prints_what_trace_pipe_prints_for_the_same_hit",
            records_print_as_trace_does,
        ),
        (
            "any_bytes_in_place_of_a_record_are_printed_and_nothing_panics",
            any_bytes_are_printed,
        ),
    ];
    let trials = tests.into_iter().map(|(name, test)| match &tracefs {
        Ok(tracefs) => {
            let tracefs = Arc::clone(tracefs);
            Trial::test(name, move || test(&tracefs))
        }
        Err(error) if required => {
            let error = error.to_string();
            Trial::test(name, move || Err(error.into()))
        }
        Err(error) => Trial::test(format!("{name} (needs tracefs: {error})"), || Ok(()))
            .with_ignored_flag(true),
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

fn every_format_parses(tracefs: &Tracefs) -> Result<(), Failed> {
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

fn print_fmts_are_understood(tracefs: &Tracefs) -> Result<(), Failed> {
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
    assert!(unknown.len() * 100 <= formats.len(), "{unknown:#?}");
    Ok(())
}

/// The kernel's `print fmt`, compiled for the fields that it lists, says the same as ours.
fn builtins_are_the_kernels(tracefs: &Tracefs) -> Result<(), Failed> {
    for builtin in builtin::ALL {
        let format = tracefs.format("sched", builtin.name)?;
        let names: Vec<&str> = format
            .fields
            .iter()
            .map(|field| field.name.as_str())
            .collect();
        let own: Vec<&str> = builtin.fields.iter().map(|field| field.0).collect();
        assert_eq!(names, own, "{}", builtin.name);
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
            assert_eq!(
                printed(&theirs, &values),
                printed(&ours, &values),
                "{}",
                builtin.name
            );
        }
    }
    Ok(())
}

fn printed(print: &PrintFmt, values: &[Value]) -> String {
    let mut out = Vec::new();
    print.write(values, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn any_bytes_are_printed(tracefs: &Tracefs) -> Result<(), Failed> {
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

/// A tracing instance of our own, removed when dropped.
struct Instance(PathBuf);

impl Instance {
    fn new(tracefs: &Tracefs) -> Instance {
        let path = tracefs
            .root()
            .join(format!("instances/tracebraid-test-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Instance(path)
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.0.join(file);
        let file = fs::OpenOptions::new().write(true).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .unwrap_or_else(|error| panic!("{path:?}: {error}"));
    }

    fn read(&self, file: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.0.join(file)).unwrap()).into_owned()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.write("tracing_on", "0");
        self.write("events/enable", "0");
        let _ = fs::remove_dir(&self.0);
    }
}

fn records_print_as_trace_does(tracefs: &Tracefs) -> Result<(), Failed> {
    let instance = Instance::new(tracefs);
    instance.write("tracing_on", "0");
    instance.write("buffer_size_kb", "8192");
    // %p as an address, which is what is printed here, instead of a hash that nobody can compute.
    instance.write("options/hash-ptr", "0");
    for category in fs::read_dir(tracefs.root().join("events"))? {
        let category = category?.file_name().to_string_lossy().into_owned();
        // system calls are printed by other means than their print fmt; the others are no tracepoints
        // or more than a buffer holds.
        if !["syscalls", "ftrace", "initcall", "enable"].contains(&category.as_str()) {
            let file = format!("events/{category}/enable");
            if instance.0.join(&file).exists() {
                instance.write(&file, "1");
            }
        }
    }
    instance.write("tracing_on", "1");
    workload();
    instance.write("tracing_on", "0");

    let mut by_id = HashMap::new();
    for name in tracefs.tracepoints()? {
        let format = tracefs.format(&name.category, &name.name)?;
        let (print, _) = tracefs.print(&format);
        by_id.insert(
            format.id,
            (format!("{}:{}", name.category, name.name), format, print),
        );
    }
    let mut compared: BTreeMap<&str, usize> = BTreeMap::new();
    let mut wrong: BTreeMap<&str, (usize, String, String)> = BTreeMap::new();
    for cpu in 0.. {
        let directory = format!("per_cpu/cpu{cpu}");
        if !instance.0.join(&directory).exists() {
            break;
        }
        let text = instance.read(&format!("{directory}/trace"));
        let is_event = |line: &&str| {
            !line.starts_with('#') && !line.starts_with("CPU:") && line.contains(": ")
        };
        let lines: Vec<&str> = text.lines().filter(is_event).collect();
        let raw = raw_records(&instance.0.join(&directory));
        println!("cpu {cpu}: {} lines {} records", lines.len(), raw.len());
        assert_eq!(lines.len(), raw.len());
        for (line, raw) in lines.iter().zip(&raw) {
            let id = u32::from(u16::from_le_bytes([raw[0], raw[1]]));
            let Some((name, format, print)) = by_id.get(&id) else {
                continue;
            };
            let Print::Kernel(print) = print else {
                continue;
            };
            let (_, body) = line
                .split_once(&format!(": {}: ", format.name))
                .ok_or_else(|| format!("{name}: {line}"))?;
            // What BPF delivers has no common_ fields.
            let mut record = raw.clone();
            record[..8].fill(0xee);
            let mut ours = Vec::new();
            print.write(&record::values(format, &record), &mut ours);
            let ours = String::from_utf8_lossy(&ours).into_owned();
            *compared.entry(name).or_default() += 1;
            if !says(&ours, body) {
                wrong.entry(name).or_insert((0, body.into(), ours)).0 += 1;
            }
        }
    }
    println!(
        "{} events of {} tracepoints",
        compared.values().sum::<usize>(),
        compared.len()
    );
    for (name, (count, theirs, ours)) in &wrong {
        println!("WRONG {count:6} {name}\n  kernel {theirs}\n  ours   {ours}");
    }
    assert!(wrong.is_empty());
    let expected = [
        "block:block_rq_issue",
        "irq:softirq_raise",
        "kmem:kmalloc",
        "kmem:mm_page_alloc",
        "sched:sched_switch",
        "signal:signal_generate",
        "sock:inet_sock_set_state",
        "timer:hrtimer_start",
    ];
    for name in expected {
        assert!(compared.contains_key(name), "the workload made no {name}");
    }
    Ok(())
}

/// Whether a line is the kernel's, but for what nobody outside the kernel can compute.
fn says(ours: &str, theirs: &str) -> bool {
    let mut parts = ours.split("<unsupported>");
    let Some(mut rest) = parts.next().and_then(|first| theirs.strip_prefix(first)) else {
        return false;
    };
    let mut last = None;
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else {
            return false;
        };
        rest = after;
        last = Some(part);
    }
    rest.is_empty() || last == Some("")
}

/// Some of everything: allocations, files, sockets, signals, timers, threads that take turns.
fn workload() {
    let file = std::env::temp_dir().join(format!("tracebraid-events-{}", std::process::id()));
    for round in 0..20 {
        let mut output = fs::File::create(&file).unwrap();
        output.write_all(&vec![round; 20_000]).unwrap();
        output.sync_all().unwrap();
        let mut child = Command::new("sleep").arg("10").spawn().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let client = std::thread::spawn(move || {
            let mut stream = std::net::TcpStream::connect(address).unwrap();
            stream.write_all(b"hello").unwrap();
        });
        let mut answer = Vec::new();
        listener
            .accept()
            .unwrap()
            .0
            .read_to_end(&mut answer)
            .unwrap();
        client.join().unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    fs::remove_file(file).unwrap();
}

/// The records of a CPU's buffer, oldest first, as `trace_pipe_raw` gives its pages:
/// `u64 time  u64 bytes committed  then records`, each with a word of 5 bits type or length and 27 bits
/// of time (Documentation/trace/ring-buffer-design and `events/header_page`).
fn raw_records(cpu: &Path) -> Vec<Vec<u8>> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(cpu.join("trace_pipe_raw"))
        .unwrap();
    let mut records = Vec::new();
    let mut page = vec![0; 4096];
    while let Ok(length) = file.read(&mut page) {
        if length == 0 {
            break;
        }
        let word = |at: usize| u32::from_le_bytes(page[at..at + 4].try_into().unwrap());
        let committed = (word(8) & 0xf_ffff) as usize;
        let mut at = 16;
        while at < 16 + committed {
            let (kind, delta) = (word(at) & 31, word(at) >> 5);
            at += 4;
            let data = match kind {
                0 => at + 4..at + word(at) as usize,
                1..=28 => at..at + kind as usize * 4,
                29 if delta == 0 => break,
                29 => {
                    at += word(at) as usize;
                    continue;
                }
                _ => {
                    at += 4;
                    continue;
                }
            };
            records.push(page[data.clone()].to_vec());
            at = data.end;
        }
    }
    records
}

//! Raw records of tracefs, printed here, against the text that the kernel makes of the same records.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::sync::Arc;

use bridge::event::Print;
use bridge::tracefs::{Tracefs, record};
use libtest_mimic::Failed;

use crate::instance::{Instance, lines, raw_records};
use crate::workload::{of_disks, workload};

pub(crate) fn records_print_as_trace_does(tracefs: &Arc<Tracefs>) -> Result<(), Failed> {
    let instance = Instance::new(tracefs, "all");
    for category in fs::read_dir(tracefs.root().join("events"))? {
        let category = category?.file_name().to_string_lossy().into_owned();
        // System calls are printed by other means than their print fmt; the others are no tracepoints
        // or more than a buffer holds.
        if !["syscalls", "ftrace", "initcall", "enable"].contains(&category.as_str()) {
            let file = format!("events/{category}/enable");
            if instance.path.join(&file).exists() {
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
    for cpu in instance.cpus() {
        let lines = lines(&cpu);
        let raw = raw_records(&cpu);
        let ids = raw
            .iter()
            .map(|raw| u32::from(u16::from_le_bytes([raw[0], raw[1]])));
        let mut unprinted: BTreeMap<u32, i64> = BTreeMap::new();
        for id in ids {
            *unprinted.entry(id).or_default() += 1;
        }
        for (id, count) in &mut unprinted {
            let Some((_, format, _)) = by_id.get(id) else {
                continue;
            };
            let mark = format!(": {}: ", format.name);
            *count -= lines.iter().filter(|line| line.contains(&mark)).count() as i64;
        }
        unprinted.retain(|_, count| *count != 0);
        let names = unprinted
            .iter()
            .map(|(id, count)| (by_id.get(id).map(|it| &it.0), count));
        let names: Vec<_> = names.collect();
        assert_eq!(
            lines.len(),
            raw.len(),
            "records that trace does not print: {names:?}"
        );
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
            if !says(&instance.comparable(&ours), &instance.comparable(body)) {
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
        "irq:softirq_raise",
        "kmem:kmalloc",
        "kmem:mm_page_alloc",
        "sched:sched_switch",
        "signal:signal_generate",
        "sock:inet_sock_set_state",
        "timer:hrtimer_start",
    ];
    for name in expected.into_iter().chain(of_disks()) {
        assert!(compared.contains_key(name), "the workload made no {name}");
    }
    Ok(())
}

/// Whether a line is the kernel's, but for what nobody outside the kernel can compute.
pub(crate) fn says(ours: &str, theirs: &str) -> bool {
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

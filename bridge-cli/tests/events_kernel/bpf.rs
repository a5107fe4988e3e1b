//! Hits that BPF programs deliver, against what the kernel prints for the same hits: both record the same
//! workload, with the same clock.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use bridge::event::What;
use bridge::print;
use bridge::source::decode::{Decoder, Decoders, tracepoint_probe};
use bridge::source::spare::Spare;
use bridge::tracefs::Tracefs;
use libtest_mimic::Failed;
use tracebraid_bpf::Session;
use tracebraid_bpf::record::Record;
use tracebraid_bpf::spec::{KernelEvent, KernelProbe, ProbeId, Spec};

use crate::instance::{Instance, lines};
use crate::trace::says;
use crate::workload::{of_disks, workload};

const TRACEPOINTS: [&str; 20] = [
    "kmem:kmalloc",
    "kmem:kmem_cache_alloc",
    "kmem:mm_page_alloc",
    "block:block_bio_queue",
    "block:block_rq_issue",
    "block:block_rq_complete",
    "block:block_plug",
    "block:block_unplug",
    "irq:irq_handler_entry",
    "irq:irq_handler_exit",
    "irq:softirq_entry",
    "irq:softirq_raise",
    "signal:signal_generate",
    "signal:signal_deliver",
    "sock:inet_sock_set_state",
    "tcp:tcp_probe",
    "timer:hrtimer_start",
    "sched:sched_stat_runtime",
    "workqueue:workqueue_execute_start",
    "net:net_dev_queue",
];

const KERNEL: [(&str, KernelEvent); 7] = [
    ("sched:sched_switch", KernelEvent::SchedSwitch),
    ("sched:sched_waking", KernelEvent::SchedWaking),
    ("sched:sched_wakeup_new", KernelEvent::SchedWakeupNew),
    ("sched:sched_migrate_task", KernelEvent::SchedMigrateTask),
    ("sched:sched_process_fork", KernelEvent::ProcessFork),
    ("sched:sched_process_exec", KernelEvent::ProcessExec),
    ("sched:sched_process_exit", KernelEvent::ProcessExit),
];

/// Whether a session can be started here.
pub(crate) fn is_possible() -> Result<(), String> {
    let kernel = vec![KernelProbe {
        id: ProbeId(0),
        event: KernelEvent::ProcessExec,
    }];
    let spec = Spec {
        kernel,
        ..Spec::default()
    };
    Session::start(&spec)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// A printed hit: when, and what.
struct Hit {
    time: u64,
    body: String,
    found: bool,
}

/// How far apart, in ns, the two may stamp one hit: a virtual CPU may be taken away between them.
const APART: u64 = 200_000_000;

pub(crate) fn hits_print_as_trace_does(tracefs: &Arc<Tracefs>) -> Result<(), Failed> {
    let mut spec = Spec {
        ring_bytes: 16 << 20,
        ..Spec::default()
    };
    let mut decoders = Decoders::default();
    let instance = Instance::new(tracefs, "bpf");
    instance.write("trace_clock", "mono");
    for (number, name) in TRACEPOINTS
        .iter()
        .chain(KERNEL.iter().map(|(name, _)| name))
        .enumerate()
    {
        let (category, event) = name.split_once(':').unwrap();
        let id = ProbeId(number as u32);
        if let Some((_, kernel)) = KERNEL.iter().find(|(known, _)| known == name) {
            decoders.insert(id, Decoder::kernel(kernel, Some(tracefs)));
            spec.kernel.push(KernelProbe {
                id,
                event: kernel.clone(),
            });
        } else {
            let format = tracefs.format(category, event)?;
            spec.tracepoints
                .push(tracepoint_probe(id, category, &format));
            let (decoder, unknown) = Decoder::tracepoint(tracefs, category, format);
            assert_eq!(unknown, None);
            decoders.insert(id, decoder);
        }
        instance.write(&format!("events/{category}/{event}/enable"), "1");
    }

    // BPF begins before the kernel and ends after it, so that it has to have all that the kernel has.
    let mut session = Session::start(&spec)?;
    instance.write("tracing_on", "1");
    workload();
    instance.write("tracing_on", "0");
    let (mut records, mut lost) = (Vec::new(), Vec::new());
    session.finish(&mut records, &mut lost)?;
    let hidden = hidden_tasks(&records);
    let mut lost: u64 = lost.iter().map(|lost| lost.count).sum();
    // What this kernel's guard dropped it may not have counted; a tenth is more than was ever seen.
    if session.counts().iter().any(|count| count.missed.is_none()) {
        lost += session.counts().iter().map(|count| count.hits).sum::<u64>() / 10;
    }

    // Ours says it of every kernel.
    let exit = tracefs.format("sched", "sched_process_exit")?;
    let is_newer = !exit.fields.iter().any(|field| field.name == "group_dead");
    let mut hits: HashMap<(u32, String), Vec<Hit>> = HashMap::new();
    for record in records {
        let event = decoders.event(record, &mut Spare::default()).unwrap();
        let What::Hit { probe, values } = &event.what else {
            continue;
        };
        let mut body = Vec::new();
        print::body(probe, values, &mut body);
        let key = (event.cpu, format!("{}:{}", probe.group, probe.name));
        let mut body = instance.comparable(&String::from_utf8(body)?);
        if is_newer && probe.name == "sched_process_exit" {
            body.truncate(body.find(" group_dead=").unwrap_or(body.len()));
        }
        hits.entry(key).or_default().push(Hit {
            time: event.time,
            body,
            found: false,
        });
    }

    let mut same: BTreeMap<&str, usize> = BTreeMap::new();
    let mut missing = Vec::new();
    for (cpu, directory) in instance.cpus().iter().enumerate() {
        for line in lines(directory) {
            let Some((name, time, body)) = parts(&line) else {
                return Err(format!("not a line of trace: {line}").into());
            };
            if task(&line).is_some_and(|tid| hidden.contains(&tid)) {
                continue;
            }
            let body = instance.comparable(body);
            let hits = hits
                .get_mut(&(cpu as u32, name.to_owned()))
                .map_or(&mut [][..], Vec::as_mut_slice);
            let from = hits.partition_point(|hit| hit.time + APART < time);
            let near = hits[from..]
                .iter_mut()
                .take_while(|hit| hit.time < time + APART);
            match near
                .filter(|hit| !hit.found)
                .find(|hit| says(&hit.body, &body))
            {
                Some(hit) => {
                    hit.found = true;
                    *same.entry(name).or_default() += 1;
                }
                None => missing.push(line),
            }
        }
    }
    let total: usize = same.values().sum();
    println!(
        "{total} hits the same, {} not found, {lost} lost by the rings and the guard",
        missing.len()
    );
    println!("{same:?}");
    if missing.len() as u64 > lost {
        let some: Vec<&str> = missing.iter().take(20).map(String::as_str).collect();
        let message = format!(
            "{} hits that the kernel printed are not among the {total} that BPF delivered, and {lost} are \
             said to be lost; the first ones are\n{}",
            missing.len(),
            some.join("\n")
        );
        return Err(message.into());
    }
    let expected = [
        "kmem:kmalloc",
        "irq:softirq_raise",
        "signal:signal_generate",
        "sched:sched_switch",
    ];
    for name in expected.into_iter().chain(of_disks()) {
        assert!(same.contains_key(name), "the workload made no {name}");
    }
    Ok(())
}

/// Threads in whose name no BPF program runs: kernels of some virtual machines keep their agent, which is
/// process 1, from being watched that way, while trace shows what interrupts it.
fn hidden_tasks(records: &[Record]) -> HashSet<u32> {
    if records.iter().any(|record| record.tgid == 1) {
        return HashSet::new();
    }
    let threads = std::fs::read_dir("/proc/1/task").into_iter().flatten();
    threads
        .filter_map(|thread| thread.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

/// The thread in whose name a line of `trace` happened: `comm-TID [CPU] …`.
fn task(line: &str) -> Option<u32> {
    let (task, _) = line.split_once(" [")?;
    task.trim_end().rsplit_once('-')?.1.parse().ok()
}

/// Name with category, time in nanoseconds, and body of a line of `trace`.
fn parts(line: &str) -> Option<(&'static str, u64, &str)> {
    let names = TRACEPOINTS
        .into_iter()
        .chain(KERNEL.iter().map(|(name, _)| *name));
    names
        .filter_map(|name| {
            let event = name.split_once(':')?.1;
            let (head, body) = line.split_once(&format!(": {event}: "))?;
            let (seconds, fraction) = head.rsplit_once(' ')?.1.split_once('.')?;
            let time =
                seconds.parse::<u64>().ok()? * 1_000_000_000 + fraction.parse::<u64>().ok()? * 1000;
            Some((name, time, body))
        })
        .next()
}

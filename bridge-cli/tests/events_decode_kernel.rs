//! Records of kernel events into events: those with records of their own, system calls, and tracepoints that
//! tracefs describes.

mod decoded;

use bridge::source::decode::{Decoder, tracepoint_probe};
use bridge::source::spare::Spare;
use bridge::tracefs::Tracefs;
use bridge::tracefs::format::Format;
use decoded::{body, record};
use tracebraid_bpf::record::{Body, Task, Text};
use tracebraid_bpf::spec::{KernelEvent, ProbeId};

fn task(name: &[u8], tid: u32) -> Task {
    let mut comm = [0; 16];
    comm[..name.len()].copy_from_slice(name);
    Task {
        tid,
        tgid: 4242,
        prio: 120,
        comm,
    }
}

fn kernel(event: KernelEvent, body_: Body) -> (String, String) {
    let decoder = Decoder::kernel(&event, None);
    let event = decoder.event(record(body_), &mut Spare::default());
    let probe = event.probe();
    (format!("{}:{}", probe.group, probe.name), body(&event))
}

#[test]
fn kernel_events_carry_the_kernel_s_names_and_print_as_it_does() {
    let orders = || task(b"orders", 4242);
    let idle = task(b"swapper/1", 0);
    let switch = Body::SchedSwitch {
        prev: orders(),
        prev_state: 1,
        next: idle,
    };
    assert_eq!(
        kernel(KernelEvent::SchedSwitch, switch),
        (
            "sched:sched_switch".into(),
            "prev_comm=orders prev_pid=4242 prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120".into()
        )
    );
    let wake = |event| {
        kernel(
            event,
            Body::Wake {
                task: orders(),
                target_cpu: 1,
            },
        )
    };
    for (event, name) in [
        (KernelEvent::SchedWaking, "sched:sched_waking"),
        (KernelEvent::SchedWakeup, "sched:sched_wakeup"),
        (KernelEvent::SchedWakeupNew, "sched:sched_wakeup_new"),
    ] {
        assert_eq!(
            wake(event),
            (
                name.into(),
                "comm=orders pid=4242 prio=120 target_cpu=001".into()
            )
        );
    }
    let (_, migrate) = kernel(
        KernelEvent::SchedMigrateTask,
        Body::Migrate {
            task: orders(),
            from: 0,
            to: 1,
        },
    );
    assert_eq!(
        migrate,
        "comm=orders pid=4242 prio=120 orig_cpu=0 dest_cpu=1"
    );
    let child = task(b"ch\nild", 4300);
    let (_, fork) = kernel(
        KernelEvent::ProcessFork,
        Body::Fork {
            parent: orders(),
            child,
        },
    );
    assert_eq!(
        fork,
        r"comm=orders pid=4242 child_comm=ch\nild child_pid=4300"
    );
    let filename = Text::Bytes {
        bytes: b"/bin/x".to_vec(),
        full_length: 6,
    };
    let (_, exec) = kernel(
        KernelEvent::ProcessExec,
        Body::Exec {
            filename,
            old_tid: 4250,
        },
    );
    assert_eq!(exec, "filename=/bin/x pid=4243 old_pid=4250");
    let (_, exit) = kernel(
        KernelEvent::ProcessExit,
        Body::Exit {
            task: orders(),
            group_dead: true,
        },
    );
    assert_eq!(exit, "comm=orders pid=4242 prio=120 group_dead=true");
}

#[test]
fn system_calls_are_events_of_their_own_names() {
    let enter = |number| Body::SysEnter {
        number,
        args: [9, 0, 0, 0, 0, 0],
    };
    let (name, body) = kernel(KernelEvent::SysEnter(vec![]), enter(74));
    assert_eq!(name, "syscalls:sys_enter_fsync");
    assert!(body.starts_with("arg0=0x9 arg1=0x0"), "{body}");
    let (name, body) = kernel(
        KernelEvent::SysExit(vec![74]),
        Body::SysExit {
            number: 74,
            result: -5,
        },
    );
    assert_eq!(
        (name.as_str(), body.as_str()),
        ("syscalls:sys_exit_fsync", "ret=-5")
    );
}

const CMD: &str = "name: block_x\nID: 9\nformat:\n\
    field:unsigned int bytes;offset:8;size:4;signed:0;\n\
    field:__data_loc char[] cmd;offset:12;size:4;signed:0;\n\
    field:__rel_loc u8[] raw;offset:16;size:4;signed:0;\n\n\
    print fmt: \"%u (%s) %s\", REC->bytes, __get_str(cmd), __print_hex(__get_rel_dynamic_array(raw), 2)";

#[test]
fn a_kernel_tracepoint_is_read_by_its_format_and_printed_by_its_print_fmt() {
    let tracefs = Tracefs::at("/nonexistent");
    let format = Format::parse(CMD).unwrap();
    let probe = tracepoint_probe(ProbeId(3), "block", &format);
    assert_eq!(
        (probe.size, probe.dynamic.len(), probe.dynamic[1].relative),
        (20, 2, true)
    );
    let (decoder, unknown) = Decoder::tracepoint(&tracefs, "block", format);
    assert_eq!(unknown, None);
    // 20 bytes fixed; text at 20, three bytes at 24, which is 4 behind the second descriptor's end.
    let mut bytes = vec![0xee; 8];
    bytes.extend_from_slice(&512_u32.to_le_bytes());
    bytes.extend_from_slice(&(4_u32 << 16 | 20).to_le_bytes());
    bytes.extend_from_slice(&(3_u32 << 16 | 4).to_le_bytes());
    bytes.extend_from_slice(b"rq\0\0\x01\x02\x03");
    assert_eq!(
        body(&decoder.event(record(Body::Tracepoint(bytes)), &mut Spare::default())),
        "512 (rq) 01 02"
    );
    assert_eq!(
        body(&decoder.event(record(Body::Tracepoint(vec![])), &mut Spare::default())),
        "<fault> (<fault>) "
    );
}

#[test]
fn a_print_fmt_that_is_not_understood_gives_names_and_values_and_the_reason() {
    let text = CMD.replace("REC->bytes", "some_function(REC->bytes)");
    let tracefs = Tracefs::at("/nonexistent");
    let (decoder, unknown) = Decoder::tracepoint(&tracefs, "block", Format::parse(&text).unwrap());
    assert_eq!(
        unknown.unwrap().to_string(),
        "print fmt not understood: the function some_function"
    );
    assert!(
        body(&decoder.event(record(Body::Tracepoint(vec![0; 20])), &mut Spare::default()))
            .starts_with("bytes=0 cmd=")
    );
}

//! A tracepoint's format file, its `print fmt`, and a record: the text, a NUL, the record's bytes.

use std::sync::Arc;

use bridge::tracefs::format::Format;
use bridge::tracefs::print_fmt::{NoNames, PrintFmt};
use bridge::tracefs::symbols::Symbols;
use bridge::tracefs::{fields, record};

/// A record and its text are bounded; what is made of them is a small multiple.
const MOST: usize = 8 << 20;

/// Reads the format, compiles its `print fmt`, prints the record.
pub fn check(data: &[u8]) {
    let end = data
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(data.len());
    let (text, bytes) = (&data[..end], data.get(end + 1..).unwrap_or(&[]));
    let Ok(format) = Format::parse(&String::from_utf8_lossy(text)) else {
        return;
    };
    let _ = (format.record_size(), fields(&format));
    let values = record::values(&format, bytes);
    let symbols = Arc::new(Symbols::none());
    let compiled = PrintFmt::compile(&format.print_fmt, &format.fields, &NoNames, symbols);
    if let Ok(print) = compiled {
        let mut out = Vec::new();
        print.write(&values, &mut out);
        assert!(out.len() <= MOST, "{} bytes", out.len());
    }
}

/// A field of each sort with a `print fmt` of each form, and some of this machine's.
pub fn seeds() -> Vec<Vec<u8>> {
    const FIELDS: &str = "name: x\nID: 1\nformat:\n\
        field:unsigned short common_type;offset:0;size:2;signed:0;\n\
        field:int i;offset:8;size:4;signed:1;\n\
        field:u64 l;offset:16;size:8;signed:0;\n\
        field:bool yes;offset:25;size:1;signed:0;\n\
        field:char comm[8];offset:28;size:8;signed:0;\n\
        field:u8 mac[6];offset:36;size:6;signed:0;\n\
        field:u32 pair[2];offset:44;size:8;signed:0;\n\
        field:void * ptr;offset:56;size:8;signed:0;\n\
        field:__data_loc char[] text;offset:64;size:4;signed:0;\n\
        field:__data_loc u64[] longs;offset:68;size:4;signed:0;\n\
        field:__data_loc cpumask_t cpus;offset:72;size:4;signed:0;\n\
        field:__rel_loc char[] rel;offset:76;size:4;signed:0;\n\nprint fmt: ";
    let prints = [
        r#""%d %08lx %-20s|%.3s", REC->i, REC->l, REC->comm, __get_str(text)"#,
        r#""%s", REC->yes ? "yes" : (REC->i & 3) << 2 > 5 ? "a" : "b""#,
        r#""%s", __print_flags(REC->l, "|", { 1, "ONE" }, { 0x2UL, "TWO" })"#,
        r#""%s %s", __print_symbolic(REC->i, { -1, "no" }, { 7, "seven" }), __print_hex(REC->mac, 6)"#,
        r#""%s", __print_array(__get_dynamic_array(longs), __get_dynamic_array_len(longs) / 8, 8)"#,
        r#""%pM %pI4 %pS %*d %#x %c", REC->mac, &REC->pair, REC->ptr, REC->i, 3, REC->i, 'x'"#,
        r#""%s %s", __get_rel_str(rel), __get_cpumask(cpus)"#,
        r#""%lld.%06ld", REC->l / 1000000, (long)(REC->l % 1000000)"#,
        r#""%u", ({ u32 x = REC->i; x * 2; })"#,
    ];
    let record: Vec<u8> = (0..160).collect();
    let text = |format: String| [format.as_bytes(), b"\0", &record].concat();
    let mut seeds: Vec<Vec<u8>> = prints
        .iter()
        .map(|print| text(format!("{FIELDS}{print}\n")))
        .collect();
    for event in [
        "sched/sched_switch",
        "block/block_rq_issue",
        "net/net_dev_xmit",
        "ext4/ext4_da_write_begin",
        "irq/softirq_entry",
        "signal/signal_generate",
        "tcp/tcp_probe",
        "timer/hrtimer_start",
    ] {
        let file = format!("/sys/kernel/tracing/events/{event}/format");
        seeds.extend(std::fs::read_to_string(file).ok().map(text));
    }
    seeds
}

//! A filter has one answer, whoever gives it: the same filters over the same hits, evaluated by the kernel and
//! by the bridge, let the same events through and count the same hits.
#![allow(unsafe_code)] // The probed function is found by its symbol, and handed addresses.

mod generated_filter;
mod support;

use std::ffi::CStr;
use std::hint::black_box;

use bridge::event::{Event, What};
use bridge::resolve::Resolver;
use bridge::resolve::definitions::Written;
use bridge::selector::Selector;
use bridge::source::Rings;
use bridge::source::bpf_ring::{BpfRings, How};
use bridge::source::spare::Spare;
use bridge::target::Targets;
use generated_filter::{Of, Random, filter};
use support::bpf_test;
use tracebraid_bpf::spec::{Filter, Spec};

/// Some of all that can go into a register.
const WORDS: &[u64] = &[
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0x1234_5678_9abc_def0,
    u64::MAX - 1,
    u64::MAX,
];

const TEXTS: &[&CStr] = &[
    c"",
    c"a",
    c"alice",
    c"alicia",
    c"malice",
    c"bob",
    c"al",
    c"lice",
    c"a text that is longer than the sixteen bytes of a name, and ends in alice",
];

const SIGNED: Of = Of::Numbers(&[
    0,
    -1,
    1,
    -128,
    127,
    255,
    -32768,
    32767,
    i32::MIN as i128,
    i32::MAX as i128,
    u32::MAX as i128,
    i64::MIN as i128,
    i64::MAX as i128,
]);
const UNSIGNED: Of = Of::Numbers(&[
    0,
    1,
    0x7f,
    0x80,
    0xff,
    0x8000,
    0xffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    i64::MAX as i128,
    i64::MAX as i128 + 1,
    u64::MAX as i128,
    0x1234_5678_9abc_def0,
]);
const TEXT: Of = Of::Texts(&[
    "", "a", "alice", "al*", "*ice", "*lic*", "!al*", "!*ice", "*", "bob", "alicia*", "*a text*",
]);
const COMMON: &[(&str, Of)] = &[
    ("common_pid", Of::Numbers(&[0, 1, 4_000_000])),
    ("cpu", Of::Cpus(&["0", "0-1"])),
    ("cpu", Of::Numbers(&[0, 1, 2])),
    (
        "comm",
        Of::Texts(&[
            "filter_ways",
            "filter*",
            "*ways*",
            "*x",
            "!filter*",
            "ways_comm",
        ]),
    ),
];

/// What each `-e` gave, by the name of its probe, and the hits that were filtered.
#[derive(Debug, PartialEq, Eq)]
struct Given {
    events: Vec<String>,
    filtered: u64,
    hits: u64,
}

/// Which thread's events count: tests run one after the other, each in a thread of its own.
fn attached(mut resolver: Resolver, here: bool) -> (BpfRings, Vec<String>) {
    resolver.filter_here(here);
    let resolved = resolver.resolve(&Targets::default(), &[]).unwrap();
    assert_eq!(resolved.spec.hits.is_empty(), here, "who evaluates");
    let spec = Spec {
        filter: Filter {
            processes: vec![std::process::id()],
            threads: vec![nix::unistd::gettid().as_raw() as u32],
            ..Filter::default()
        },
        ..resolved.spec
    };
    let names = resolved.names.into_iter().map(|(_, name)| name).collect();
    let rings =
        BpfRings::start(&spec, resolved.decoders, resolved.filters, How::default()).unwrap();
    (rings, names)
}

fn given(mut rings: BpfRings) -> Given {
    let mut shares = Vec::new();
    rings.finish(&mut Spare::default(), &mut shares).unwrap();
    assert_eq!(rings.take_warnings(), Vec::<String>::new());
    let mut events: Vec<Event> = shares.into_iter().flat_map(|share| share.events).collect();
    events.sort_by_key(|event| event.time);
    let mut given = Given {
        events: Vec::new(),
        filtered: 0,
        hits: 0,
    };
    for event in events {
        let What::Hit { probe, values } = event.what else {
            panic!("nothing may be lost: {event:?}");
        };
        given.events.push(format!("{} {values:?}", probe.name));
    }
    for count in rings.counts() {
        assert_eq!(count.delivered + count.filtered, count.hits, "{count:?}");
        given.filtered += count.filtered;
        given.hits += count.hits;
    }
    given
}

/// What both ways give while `hit` runs; it must be the same.
#[track_caller]
fn both(resolver: &dyn Fn() -> Resolver, filters: &[String], hit: &dyn Fn()) -> Given {
    let (kernel, _) = attached(resolver(), false);
    let (here, _) = attached(resolver(), true);
    hit();
    let (kernel, here) = (given(kernel), given(here));
    assert_eq!(kernel, here, "{filters:#?}");
    kernel
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn filter_ways_hit(
    narrow: u64,
    wide: u64,
    text: *const u8,
    other: *const u8,
    memory: *const u64,
) -> u64 {
    black_box(text);
    black_box(other);
    black_box(memory);
    narrow ^ wide
}

const ARGUMENTS: &str = "s1=%di:s8 u1=%di:u8 s2=%di:s16 u2=%si:u16 s4=%si:s32 u4=%di:u32 s8=%di:s64 u8=%si:u64 \
     x=%si:x32 bits=%di:b5@3/16 name=+0(%dx):string other=+0(%cx):string m4=+0(%r8):s32 m8=+0(%r8):u64 \
     who=$comm";

fn of_function() -> Vec<(&'static str, Of)> {
    let mut fields = vec![
        ("s1", SIGNED),
        ("u1", UNSIGNED),
        ("s2", SIGNED),
        ("u2", UNSIGNED),
        ("s4", SIGNED),
        ("u4", UNSIGNED),
        ("s8", SIGNED),
        ("u8", UNSIGNED),
        ("x", UNSIGNED),
        ("bits", UNSIGNED),
        ("name", TEXT),
        ("name", TEXT),
        ("other", TEXT),
        ("m4", SIGNED),
        ("m8", UNSIGNED),
        ("who", Of::Texts(&["filter_ways*", "*a*", "x"])),
    ];
    fields.extend(COMMON);
    fields
}

/// Every word in every place, texts that are there and some that are not.
fn hit_function() {
    for (index, &word) in WORDS.iter().enumerate() {
        let other = WORDS[(index * 7 + 3) % WORDS.len()];
        let text = TEXTS[index % TEXTS.len()].as_ptr().cast();
        let second = match index % 4 {
            0 => std::ptr::null(),
            1 => std::ptr::without_provenance(0x10),
            _ => TEXTS[(index * 5 + 1) % TEXTS.len()].as_ptr().cast(),
        };
        let memory = match index % 5 {
            0 => std::ptr::without_provenance(0x20),
            _ => &raw const other,
        };
        black_box(filter_ways_hit(word, other, text, second, memory));
    }
}

fn by_definitions(filters: &[String]) -> Resolver {
    let own = std::env::current_exe().unwrap().display().to_string();
    let written: Vec<Written> = filters
        .iter()
        .enumerate()
        .map(|(index, filter)| Written {
            place: "-e".to_owned(),
            text: format!("p:way{index} {own}:filter_ways_hit {ARGUMENTS}"),
            filters: vec![filter.clone()],
        })
        .collect();
    Resolver::new(&[], &written, false).unwrap()
}

fn by_name(event: &str, filters: &[String]) -> Resolver {
    // Several filters behind one -e hold together, several -e each.
    let selectors: Vec<Selector> = filters
        .iter()
        .map(|filter| {
            let selector = Selector::parse(event).unwrap();
            selector.with_filters(vec![filter.clone()])
        })
        .collect();
    Resolver::new(&selectors, &[], false).unwrap()
}

/// How often something is tried: an emulated CPU (`TRACEBRAID_SHORT`) is given less to do.
fn rounds(many: usize) -> usize {
    match std::env::var_os("TRACEBRAID_SHORT") {
        None => many,
        Some(_) => many.div_ceil(8),
    }
}

/// Some pass of everything that is tried, and some do not.
fn is_a_test(all: &[Given]) {
    let events: usize = all.iter().map(|given| given.events.len()).sum();
    let filtered: u64 = all.iter().map(|given| given.filtered).sum();
    // A few rounds may be one-sided.
    let enough = match std::env::var_os("TRACEBRAID_SHORT") {
        None => all.len() as u64,
        Some(_) => 0,
    };
    assert!(
        events as u64 >= enough && filtered >= enough,
        "{events} {filtered}"
    );
}

fn main() {
    support::run(vec![
        bpf_test(
            "arguments_of_a_user_probe_are_filtered_alike_either_way",
            || {
                let mut random = Random(0x5eed_0001);
                let fields = of_function();
                let mut all = Vec::new();
                for round in 0..rounds(8) {
                    let comparisons = 1 + round % 7;
                    let filters: Vec<String> = (0..4)
                        .map(|_| filter(&mut random, &fields, comparisons))
                        .collect();
                    all.push(both(&|| by_definitions(&filters), &filters, &hit_function));
                }
                is_a_test(&all);
            },
        ),
        bpf_test("a_tracepoint_is_filtered_alike_either_way", || {
            let mut random = Random(0x5eed_0002);
            const NAMES: &[&CStr] = &[
                c"alice",
                c"al",
                c"malice",
                c"bob",
                c"alicia",
                c"fifteen letters",
            ];
            const NAME: Of = Of::Texts(&[
                "alice",
                "al*",
                "*ice",
                "*lic*",
                "!*l*",
                "bob",
                "fifteen letters",
            ]);
            let mut fields = vec![
                ("pid", Of::Numbers(&[0, 1, -1, 4_000_000])),
                ("oldcomm", NAME),
                ("newcomm", NAME),
                ("oom_score_adj", Of::Numbers(&[0, -1, 1000])),
            ];
            fields.extend(COMMON);
            let mut all = Vec::new();
            for round in 0..rounds(16) {
                let filters: Vec<String> = (0..1 + round % 3)
                    .map(|_| filter(&mut random, &fields, 1 + round % 5))
                    .collect();
                let rename = || {
                    for name in NAMES {
                        nix::sys::prctl::set_name(name).unwrap();
                    }
                };
                all.push(both(
                    &|| by_name("task:task_rename", &filters),
                    &filters,
                    &rename,
                ));
            }
            is_a_test(&all);
        }),
        bpf_test("system_calls_are_filtered_alike_either_way", || {
            let mut random = Random(0x5eed_0003);
            let mut fields = vec![("fd", UNSIGNED), ("offset", SIGNED), ("whence", UNSIGNED)];
            fields.extend(COMMON);
            let mut all = Vec::new();
            for round in 0..rounds(12) {
                let filters = vec![filter(&mut random, &fields, 1 + round % 5)];
                let seek = || {
                    for (index, &word) in WORDS.iter().enumerate() {
                        let other = WORDS[(index * 5 + 2) % WORDS.len()];
                        // SAFETY: lseek looks at no memory; no descriptor has such a number.
                        unsafe {
                            nix::libc::lseek(word as i32 | 0x1000, other as i64, index as i32)
                        };
                    }
                };
                let name = "syscalls:sys_enter_lseek";
                all.push(both(&|| by_name(name, &filters), &filters, &seek));
            }
            is_a_test(&all);
        }),
    ]);
}

//! Stacks at probes in kernel functions, by whichever mechanism: the function and who called it, down to the
//! system call, and behind that the program.

mod support;

use serde_json::Value;
use support::{build, kprobe_test, run_bridge};

/// What each call that opens a file goes through, innermost first.
const CALLERS: [&str; 3] = [
    "__x64_sys_openat",
    "do_syscall_64",
    "entry_SYSCALL_64_after_hwframe",
];

/// Name, definition, how it is attached, and whether the function is on the stack: it is while it runs, and a
/// return may be its last instruction or its caller's next.
const PROBES: [(&str, &str, &str, bool); 4] = [
    ("inside", "p:inside do_sys_openat2 sp=%sp", "kprobe", true),
    ("entry", "p:entry do_sys_openat2", "fentry", true),
    (
        "returned",
        "r:returned do_sys_openat2 sp=%sp",
        "kretprobe",
        false,
    ),
    ("exit", "r:exit do_sys_openat2 $retval:s32", "fexit", false),
];

fn main() {
    let trials = vec![kprobe_test(
        "a_stack_has_the_kernels_frames_without_ours_and_then_the_programs",
        look,
    )];
    support::run(trials);
}

fn look() {
    let target = build("told").display().to_string();
    let mut all = vec!["attach", "-v", "--format", "json", "-g"];
    all.extend(PROBES.iter().flat_map(|probe| ["-e", probe.1]));
    all.extend(["--", &target, "openat", "-100", "/etc/passwd", "0", "0"]);
    let ran = run_bridge(&all);
    let lines = ran.out.lines().filter(|line| line.starts_with('{'));
    let events: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    for (name, _, mechanism, is_inside) in PROBES {
        let shown = format!("{name}\n{}{}", ran.out, ran.err);
        let through = ran.err.lines().find(|line| {
            line.starts_with("bridge-cli: through ") && line.contains(&format!(":{name}"))
        });
        let through = through.unwrap_or_else(|| panic!("{shown}"));
        assert!(through.contains(mechanism), "{shown}");
        let mut of_name = events
            .iter()
            .filter(|event| event["event"] == format!("kprobes:{name}"));
        let event = of_name.next().unwrap_or_else(|| panic!("{shown}"));
        let stack = event["stack"].as_array().expect("a stack");
        let is_kernel = |frame: &&Value| frame["kernel"] == true;
        let kernel: Vec<&str> = stack
            .iter()
            .take_while(is_kernel)
            .map(|frame| frame["symbol"].as_str().unwrap_or("?"))
            .collect();
        let begin = kernel.iter().position(|&name| name == CALLERS[0]);
        let begin = begin.unwrap_or_else(|| panic!("{shown}"));
        assert_eq!(kernel[begin..], CALLERS, "{shown}");
        match is_inside {
            // Since 6.19 the kernel jumps to what fentry attaches, and leaves nothing of the function behind.
            true if mechanism == "fentry" && begin == 0 => assert!(jumps(), "{shown}"),
            true => assert_eq!(kernel[..begin], ["do_sys_openat2"], "{shown}"),
            false => assert!(begin < 2, "{shown}"),
        }
        let user = &stack[kernel.len()..];
        let is_main = |frame: &Value| frame["symbol"] == "main" && frame["module"] == *target;
        assert!(user.iter().any(is_main), "{shown}");
    }
}

/// Whether this kernel is one of those.
fn jumps() -> bool {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("/proc is mounted");
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    let mut next = || -> u32 { numbers.next().unwrap().unwrap() };
    (next(), next()) >= (6, 19)
}

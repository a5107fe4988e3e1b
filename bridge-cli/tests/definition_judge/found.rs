//! Lines of kinds that were once judged otherwise than by the kernel: judged in every run, before those that
//! are generated.

use crate::grammar::Made;

const FOUND: &[(&str, &str)] = &[
    // Groups may begin with `-`.
    ("kprobe_events", "p:-g/ev vfs_read"),
    ("kprobe_events", "p:1g/ev vfs_read"),
    ("dynamic_events", "e:-g. sched.sched_switch"),
    // Only event probes cast, and that is said first.
    ("kprobe_events", "p vfs_read (file)file->f_mode"),
    ("kprobe_events", "p vfs_read a=(no_such)file->x:string"),
    ("dynamic_events", "f vfs_read ("),
    ("dynamic_events", "t sched_switch +4(+u8((x)))"),
    ("uprobe_events", "p {probed}:0x1440 (file)x"),
    // `%pd` is replaced in what columns count in, unless parameters were replaced in a copy.
    ("kprobe_events", "p vfs_read a=%di:%pD %rdi"),
    ("kprobe_events", "p vfs_read a=+0(%di):%pd b=file->no_such"),
    ("kprobe_events", "p vfs_read $arg1:%pD %rdi"),
    ("dynamic_events", "f vfs_read a=$arg1:%pD $arg2 @+x"),
    // The entry of a function is behind its endbr too, also where the kernel has put something in its place,
    // and where the next one begins.
    ("kprobe_events", "r vfs_read+4"),
    ("kprobe_events", "r vfs_write+4 $retval"),
    ("kprobe_events", "p vfs_write+4 $arg1"),
    ("kprobe_events", "p vfs_read+4 no_such"),
    // ftrace does not know the parts of functions.
    ("dynamic_events", "f kernel_clone.cold"),
    // Letters are those of Latin-1.
    ("dynamic_events", "t csd\u{3042}_queue_cpu"),
    ("kprobe_events", "p vfs_read \u{e9}"),
    ("kprobe_events", "p:\u{e9} vfs_read"),
    // The number of arguments is looked at first.
    ("uprobe_events", "p /no/such:0x10(-4) {many}"),
    ("uprobe_events", "p nothing {many}"),
    ("kprobe_events", "p no_such {many}"),
    // An offset in a file stands behind the last colon.
    ("uprobe_events", "p {probed}::0x1440"),
    ("uprobe_events", "p {probed}/x:0x1440"),
    ("uprobe_events", "p /tmp/{long}:0x1440"),
    // The function of f is a name, and a pointer to text is compared as a number.
    ("dynamic_events", "f vfs\\_read"),
    (
        "dynamic_events",
        "e syscalls.sys_enter_open if filename != 0",
    ),
    (
        "dynamic_events",
        "e syscalls.sys_enter_open if filename != 0x10",
    ),
];

/// They, with the file that is probed.
pub(crate) fn found(probed: &str) -> Vec<Made> {
    let many = vec!["%di"; 129].join(" ");
    let fill = |line: &str| {
        line.replace("{probed}", probed)
            .replace("{many}", &many)
            .replace("{long}", &"x".repeat(300))
    };
    let made = |&(file, line): &(&'static str, &str)| Made {
        file,
        lines: vec![fill(line)],
    };
    FOUND.iter().map(made).collect()
}

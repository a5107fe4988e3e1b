//! Probes in a kernel module, which may be unloaded while it is probed.
//!
//! They need a module of the running kernel that nobody uses: `TRACEBRAID_MODULE` names the file of one that
//! makes a network device `dummy0`, as the guests of `cargo xtask vm` have it.

mod support;

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use support::{Attached, Target, kprobe_test};

/// A module that is loaded. Dropped, it is unloaded.
struct Module(&'static str);

impl Module {
    #[allow(unsafe_code)]
    fn load(name: &'static str, path: &str) -> Module {
        let file = File::open(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let none = CString::default();
        // SAFETY: a descriptor of ours and an empty text.
        let done =
            unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), none.as_ptr(), 0) };
        assert_eq!(done, 0, "{path}: {}", io::Error::last_os_error());
        Module(name)
    }

    #[allow(unsafe_code)]
    fn unload(&self) -> io::Result<()> {
        let name = CString::new(self.0).unwrap();
        // SAFETY: a text that ends.
        match unsafe { libc::syscall(libc::SYS_delete_module, name.as_ptr(), libc::O_NONBLOCK) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // It may have been unloaded.
        let _ = self.unload();
    }
}

fn main() {
    let name = "a_function_of_a_module_is_probed_and_the_module_may_go_meanwhile";
    let trial = match std::env::var("TRACEBRAID_MODULE") {
        Ok(path) => kprobe_test(name, move || probed(&path)),
        Err(_) => libtest_mimic::Trial::test(name, || Ok(()))
            .with_kind("needs a module to probe: TRACEBRAID_MODULE")
            .with_ignored_flag(true),
    };
    support::run(vec![trial]);
}

fn probed(path: &str) {
    let file = support::scratch("attach_module").join("opened");
    std::fs::write(&file, "").unwrap();
    let module = Module::load("dummy", path);
    let mut target = Target::start("frames", &["dummy0", file.to_str().unwrap()]);
    let pid = target.pid.to_string();
    let attached = Attached::start(&[
        "-p",
        &pid,
        "-e",
        "p:xmit dummy:dummy_xmit skb=%di",
        "-e",
        "r:sent dummy:dummy_xmit ret=$retval:s32",
        "-e",
        "p:open do_sys_openat2 file=+0(%si):ustring",
    ]);
    target.go();
    assert_eq!(target.line(), "SENT 3");
    module
        .unload()
        .expect("a module that is probed may be unloaded");
    target.go();
    let ran = attached.finish();
    let (status, _) = target.finish();
    assert!(status.success(), "{status}");
    assert_eq!(ran.status, 0, "{}", ran.err);
    let (entries, returns) = (ran.bodies("kprobes:xmit"), ran.bodies("kprobes:sent"));
    // The device may have sent something of its own.
    assert!(entries.len() >= 3, "{}{}", ran.out, ran.err);
    assert_eq!(entries.len(), returns.len(), "{}{}", ran.out, ran.err);
    assert!(
        entries.iter().all(|body| body.contains(") skb=0xff")),
        "{}",
        ran.out
    );
    assert!(
        returns.iter().all(|body| body.ends_with(") ret=0")),
        "{}",
        ran.out
    );
    // What is probed elsewhere goes on.
    let opened = format!("file=\"{}\"", file.display());
    assert!(
        ran.bodies("kprobes:open")
            .iter()
            .any(|body| body.ends_with(&opened)),
        "{}",
        ran.out
    );
}

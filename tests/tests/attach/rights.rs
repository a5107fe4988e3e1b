//! What a user may do with own programs, and with those of others.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::bridge::{self, Attached, Via};
use super::target::{Target, built};

const USER: u32 = 65534;
const OTHER: u32 = 65533;

/// Rings need no right; what goes through the kernel does, and another user may not look at all.
pub(crate) fn rings_need_none() {
    let place = Place::new();
    let mut target = Target::spawn(place.command(&built().traced, USER).arg("serve"));
    let pid = target.pid().to_string();

    let attach = |user: u32, via: Via| {
        let mut command = place.command(bridge::path(), user);
        command.args([
            "attach",
            "-v",
            "-p",
            &pid,
            "--via",
            via.name(),
            "-e",
            "serve:asked",
        ]);
        command
    };
    let mut attached = Attached::spawn(&mut attach(USER, Via::Ring));
    attached.read();
    assert_eq!(target.ask("hit 7"), "7");
    let ran = attached.interrupt();
    ran.assert_well();
    assert_eq!(ran.row("serve:asked"), (7, 7, 0));

    for (user, via, right) in [
        (USER, Via::Usdt, "CAP_BPF"),
        (OTHER, Via::Ring, "CAP_SYS_PTRACE"),
    ] {
        let output = attach(user, via).output().expect("the bridge starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(6), "{errors}");
        assert!(errors.contains(right), "{errors}");
    }
    assert_eq!(target.ask("sites_on"), "0");
}

/// A program that has more rights than its user does not do what that user's environment says.
pub(crate) fn environment_of_a_set_user_id_program() {
    let place = Place::new();
    let rings = |mode: u32| {
        let mut command = place.command(&built().traced, USER);
        chown(command.get_program(), Some(OTHER), Some(OTHER)).expect("another owner");
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(command.get_program(), mode).expect("its mode");
        let target = Target::spawn(command.arg("serve").env("TRACEBRAID_RING", "64K"));
        let descriptors = fs::read_dir(format!("/proc/{}/fd", target.pid())).expect("descriptors");
        let mut sizes = descriptors
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| {
                fs::read_link(path).is_ok_and(|link| link.ends_with("memfd:tracebraid (deleted)"))
            })
            .map(|path| fs::metadata(path).expect("the rings").len());
        sizes.next().expect("rings")
    };
    let (plain, set_user_id) = (rings(0o755), rings(0o4755));
    assert!(
        set_user_id > plain + (1 << 20),
        "{set_user_id} and {plain} bytes"
    );
}

/// Why no program here gets another user's rights; `None` where one does.
pub(crate) fn no_set_user_id() -> Option<String> {
    let directory = std::env::temp_dir();
    let path = CString::new(directory.as_os_str().as_bytes()).expect("a path");
    // SAFETY: all zeros is a valid statvfs, which the call fills; the path is terminated.
    let flags = unsafe {
        let mut answer: libc::statvfs = std::mem::zeroed();
        assert_eq!(libc::statvfs(path.as_ptr(), &raw mut answer), 0);
        answer.f_flag
    };
    (flags & libc::ST_NOSUID != 0).then(|| format!("{} is mounted nosuid", directory.display()))
}

/// A directory from which every user may run programs; removed when dropped.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        let path = std::env::temp_dir().join(format!("tracebraid-{}", std::process::id()));
        fs::create_dir(&path).expect("a directory");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("for all");
        Place(path)
    }

    /// A program, copied here, as a user without any right.
    fn command(&self, program: &Path, user: u32) -> Command {
        let copy = self.0.join(program.file_name().expect("a name"));
        if !copy.exists() {
            fs::copy(program, &copy).expect("the program is copied");
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).expect("for all");
        }
        let mut command = Command::new(copy);
        command.uid(user).gid(user).current_dir("/");
        command
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What is left in a directory of temporary files is no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

//! LTTng-UST as a peer: a C library with its tracepoints, and recording sessions that want them.
//!
//! ```text
//! this program ── builds ─▶ one library a mode ◀─ dlopen ── the process that measures
//!      └── lttng create, enable-event, start ─▶ lttng-sessiond: the one that runs, else one of our own
//! ```
//! In mode `discard` the daemon's consumer writes to files meanwhile, as it does for its users; `overwrite`
//! is a snapshot session, whose buffers nobody reads.

use std::error::Error;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tracebraid_benches::children;

/// How to get it.
const ABSENT: &str = "not installed: liblttng-ust-dev and lttng-tools of Debian, lttng-ust-devel and \
                      lttng-tools of Fedora, bring it";
/// How long its daemon may take for anything.
const PATIENCE: Duration = Duration::from_secs(10);

/// What happens where its buffers are full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The newest event is dropped, and counted.
    Discard,
    /// The oldest are overwritten.
    Overwrite,
}

impl Mode {
    /// Both of them.
    const ALL: [Mode; 2] = [Mode::Discard, Mode::Overwrite];

    /// The name of its tracepoint provider, and of its library.
    fn provider(self) -> &'static str {
        match self {
            Mode::Discard => "tracebraid_discard",
            Mode::Overwrite => "tracebraid_overwrite",
        }
    }

    fn session(self) -> String {
        format!("{}_{}", self.provider(), std::process::id())
    }
}

/// Sessions that record, until they are dropped; and the daemon, where we started it.
#[derive(Debug)]
pub(crate) struct Sessions {
    directory: PathBuf,
    started: Vec<Mode>,
    daemon: Option<Child>,
}

impl Sessions {
    /// Builds the libraries in `directory` and starts a session for each mode. The error is why it is not to
    /// be had here.
    pub(crate) fn start(directory: PathBuf) -> Result<Sessions, Box<dyn Error>> {
        if !lttng(&["--version"]).is_ok_and(|text| !text.is_empty()) {
            return Err(ABSENT.into());
        }
        for mode in Mode::ALL {
            build(&directory, mode)?;
        }
        let mut sessions = Sessions {
            directory,
            started: Vec::new(),
            daemon: None,
        };
        sessions.find_daemon()?;
        for mode in Mode::ALL {
            sessions.record(mode)?;
        }
        Ok(sessions)
    }

    /// Where the libraries are.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// How many events found their buffers full so far.
    pub(crate) fn discarded(&self) -> Result<u64, Box<dyn Error>> {
        // What was written last is counted once it was read.
        lttng(&["stop", &Mode::Discard.session()])?;
        let text = lttng(&["list", &Mode::Discard.session()])?;
        lttng(&["start", &Mode::Discard.session()])?;
        let count = text.split("Discarded events:").nth(1);
        let count = count.and_then(|rest| rest.split_whitespace().next());
        Ok(count
            .ok_or("lttng tells no count of discarded events")?
            .parse()?)
    }

    fn find_daemon(&mut self) -> Result<(), Box<dyn Error>> {
        if lttng(&["list"]).is_ok() {
            return Ok(());
        }
        let mut command = Command::new("lttng-sessiond");
        command
            .arg("--no-kernel")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.daemon = Some(children::spawn(&mut command)?);
        let limit = Instant::now() + PATIENCE;
        while let Err(error) = lttng(&["list"]) {
            if Instant::now() > limit {
                return Err(error);
            }
            sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn record(&mut self, mode: Mode) -> Result<(), Box<dyn Error>> {
        let (session, events) = (mode.session(), format!("{}:*", mode.provider()));
        let traces = self.directory.join(mode.provider()).join("traces");
        let traces = format!("--output={}", traces.display());
        let mut create = vec!["create", &session, &traces];
        let mut channel = vec!["enable-channel", "-u", "-s", &session, "--subbuf-size=1M"];
        match mode {
            Mode::Discard => {
                channel.extend(["--discard", "--num-subbuf=8"]);
                // What it writes is never read: it need not fill the disk.
                channel.extend(["--tracefile-size=16M", "--tracefile-count=2"]);
            }
            Mode::Overwrite => {
                create.push("--snapshot");
                channel.extend(["--overwrite", "--num-subbuf=4"]);
            }
        }
        channel.push("channel");
        lttng(&create)?;
        self.started.push(mode);
        lttng(&channel)?;
        lttng(&[
            "enable-event",
            "-u",
            "-s",
            &session,
            "-c",
            "channel",
            &events,
        ])?;
        lttng(&["start", &session])?;
        Ok(())
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        for mode in &self.started {
            // Nothing is left to do where the daemon has ended before us.
            let _ = lttng(&["destroy", &mode.session()]);
        }
        for mode in Mode::ALL {
            let _ = fs::remove_dir_all(self.directory.join(mode.provider()));
        }
        if let Some(daemon) = &mut self.daemon {
            // It has ended or cannot be waited for; nothing is left to do in either case.
            let _ = children::end(daemon, libc::SIGTERM);
        }
    }
}

/// Runs `lttng` with a daemon that is there already, and gives what it prints.
fn lttng(arguments: &[&str]) -> Result<String, Box<dyn Error>> {
    let mut command = Command::new("lttng");
    let output = command.arg("--no-sessiond").args(arguments).output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("lttng {}: {}", arguments.join(" "), text.trim()).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Compiles the library of a mode.
fn build(directory: &Path, mode: Mode) -> Result<(), Box<dyn Error>> {
    let place = directory.join(mode.provider());
    fs::create_dir_all(&place)?;
    for (name, text) in [
        ("provider.h", include_str!("lttng/provider.h")),
        ("provider.c", include_str!("lttng/provider.c")),
    ] {
        // The name of a provider is pasted into others before the preprocessor would replace it.
        fs::write(
            place.join(name),
            text.replace("bench_provider", mode.provider()),
        )?;
    }
    let output = Command::new("cc")
        .args(["-O2", "-shared", "-fPIC", "-I.", "provider.c", "-o"])
        .arg(Library::file(directory, mode))
        .args(["-llttng-ust", "-ldl"])
        .current_dir(&place)
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false if text.contains("lttng/tracepoint.h") => Err(ABSENT.into()),
        false => Err(format!("cc: {}", text.trim()).into()),
    }
}

/// The functions of a mode's library, in the process that measures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Library {
    is_enabled: extern "C" fn() -> c_int,
    three: extern "C" fn(u64, u64, u64),
    text: extern "C" fn(u64, *const c_char),
    empty: extern "C" fn(u64),
    pair: extern "C" fn(u64),
}

static LIBRARIES: [OnceLock<Library>; 2] = [const { OnceLock::new() }; 2];

impl Library {
    fn file(directory: &Path, mode: Mode) -> PathBuf {
        directory.join(mode.provider()).with_extension("so")
    }

    /// Loads the library of a mode, and waits until its session has taken notice.
    pub(crate) fn load(directory: &Path, mode: Mode) -> Result<(), Box<dyn Error>> {
        let path = Library::file(directory, mode);
        let file = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: the path is text with an end. The library's constructors are LTTng's own; it is never
        // unloaded.
        let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() {
            return Err(format!("{} cannot be loaded", path.display()).into());
        }
        // SAFETY: these are the functions of `provider.c`, with the types that they have there.
        let library = unsafe {
            Library {
                is_enabled: std::mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(symbol(
                    handle,
                    c"is_enabled",
                )?),
                three: std::mem::transmute::<*mut c_void, extern "C" fn(u64, u64, u64)>(symbol(
                    handle, c"three",
                )?),
                text: std::mem::transmute::<*mut c_void, extern "C" fn(u64, *const c_char)>(
                    symbol(handle, c"text")?,
                ),
                empty: std::mem::transmute::<*mut c_void, extern "C" fn(u64)>(symbol(
                    handle, c"empty",
                )?),
                pair: std::mem::transmute::<*mut c_void, extern "C" fn(u64)>(symbol(
                    handle, c"pair",
                )?),
            }
        };
        let limit = Instant::now() + PATIENCE;
        while (library.is_enabled)() == 0 {
            if Instant::now() > limit {
                return Err("the session of LTTng did not switch its events on".into());
            }
            sleep(Duration::from_millis(10));
        }
        LIBRARIES[mode as usize]
            .set(library)
            .map_err(|_| "a library of LTTng is loaded twice".into())
    }

    /// The library of a mode; `None` before it was loaded.
    pub(crate) fn of(mode: Mode) -> Option<&'static Library> {
        LIBRARIES[mode as usize].get()
    }

    /// So many events with three words.
    pub(crate) fn three(&self, rounds: u64, two: u64, three: u64) {
        (self.three)(rounds, two, three);
    }

    /// So many events with a text.
    pub(crate) fn text(&self, rounds: u64, text: &CStr) {
        (self.text)(rounds, text.as_ptr());
    }

    /// So many events without a field.
    pub(crate) fn empty(&self, rounds: u64) {
        (self.empty)(rounds);
    }

    /// So many entries and returns.
    pub(crate) fn pair(&self, rounds: u64) {
        (self.pair)(rounds);
    }
}

/// A function of a library.
///
/// # Safety
/// `handle` comes from `dlopen` and is still open.
unsafe fn symbol(handle: *mut c_void, name: &CStr) -> Result<*mut c_void, Box<dyn Error>> {
    // SAFETY: the caller's promise; the name has an end.
    let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
    if address.is_null() {
        return Err(format!("the library of LTTng has no {}", name.to_string_lossy()).into());
    }
    Ok(address)
}

//! How long it takes until all functions of the kernel are listed, with their arguments and without.

use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use tracebraid_benches::part::{Bar, Part, Thoroughness};
use tracebraid_benches::statistics::Median;

/// Fewer are not all.
const LEAST: usize = 10_000;

/// Ours, and those of others that say as much, or less.
pub(crate) fn measure(
    bridge: &Path,
    thoroughness: Thoroughness,
    part: &mut Part,
) -> Result<(), Box<dyn Error>> {
    let times = thoroughness.pick(5, 2, 1);
    let bridge = bridge.to_string_lossy();
    let all = "kprobe:*";
    let lists: [(&str, &[&str]); 5] = [
        ("tracebraid-v", &[&bridge, "list", "-v", all]),
        ("tracebraid", &[&bridge, "list", all]),
        ("bpftrace-v", &["bpftrace", "-lv", all]),
        ("bpftrace", &["bpftrace", "-l", all]),
        ("perf-probe", &["perf", "probe", "-F"]),
    ];
    for (name, words) in lists {
        let entry = format!("probes/list/{name}-ms");
        let took: Result<Vec<f64>, String> = (0..times).map(|_| list(words)).collect();
        match took.map(Median::of) {
            Ok(Some(took)) if name == "tracebraid-v" => {
                part.bar(&entry, took, Bar::AtMost(2000.0));
            }
            Ok(Some(took)) => part.number(entry, "ms", took.value),
            Ok(None) => {}
            Err(reason) if name.starts_with("tracebraid") => return Err(reason.into()),
            Err(reason) => part.skip(&entry, &reason),
        }
    }
    Ok(())
}

/// Milliseconds. The error is that it lists nothing.
fn list(words: &[&str]) -> Result<f64, String> {
    let begin = Instant::now();
    let output = Command::new(words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{}: {error}", words[0]))?;
    let took = begin.elapsed().as_secs_f64() * 1e3;
    let lines = output.stdout.split(|&byte| byte == b'\n').count();
    if lines > LEAST {
        return Ok(took);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{} lists nothing: {}",
        words.join(" "),
        said.trim()
    ))
}

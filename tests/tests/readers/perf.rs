//! perf: its cache of build ids, its probes, its records. What it adds is taken away again.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::served::{Kind, Served, assert_hits, directory, names, output};

/// perf with a cache of build ids of its own.
struct Perf {
    cache: PathBuf,
    events: Vec<String>,
}

impl Perf {
    fn knowing(file: &Path) -> Perf {
        let cache = directory().join(format!("perf-build-ids-{}", std::process::id()));
        fs::create_dir_all(&cache).expect("a directory");
        let perf = Perf {
            cache,
            events: Vec::new(),
        };
        output(perf.command("buildid-cache").arg("--add").arg(file));
        perf
    }

    fn command(&self, subcommand: &str) -> Command {
        let mut perf = Command::new("perf");
        perf.arg("--buildid-dir").arg(&self.cache).arg(subcommand);
        perf
    }

    /// Makes an event of a probe in the cache.
    fn add(&mut self, event: &str) {
        output(self.command("probe").args(["--quiet", "--add", event]));
        self.events.push(event.to_owned());
    }
}

impl Drop for Perf {
    fn drop(&mut self) {
        for event in &self.events {
            // Nothing more can be done here.
            let _ = self
                .command("probe")
                .args(["--quiet", "--del", event])
                .status();
        }
        let _ = fs::remove_dir_all(&self.cache);
    }
}

pub(crate) fn lists() {
    let built = Kind::Release.build();
    let perf = Perf::knowing(&built.gate);
    let text = output(perf.command("list").arg("sdt"));
    let listed: BTreeSet<String> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("sdt_")?.split_whitespace().next())
        .map(str::to_owned)
        .collect();
    assert_eq!(listed, names(&built.gate));
}

pub(crate) fn receives(kind: Kind) {
    let built = kind.build();
    let mut perf = Perf::knowing(&kind.file(&built));
    let (provider, name) = kind.tracepoint();
    let event = format!("sdt_{provider}:{name}");
    perf.add(&event);
    let served = Served::start(&built);
    let data = perf.cache.join("perf.data");
    output(
        perf.command("record")
            .args([
                "--quiet",
                "--event",
                &event,
                "--pid",
                &served.pid(),
                "--output",
            ])
            .arg(&data)
            .args(["--", "sleep", "1"]),
    );
    let text = output(
        perf.command("script")
            .args(["--fields", "event,trace", "--input"])
            .arg(&data),
    );
    let hits: Vec<Vec<String>> = text.lines().map(|line| values(kind, line)).collect();
    assert_hits(kind, &hits);
    served.assert_left_alone(kind, &built);
}

/// The values of a line such as `sdt_shapes:plain: (55d8…) arg1=7 arg2=-7 arg3=14`. perf shows a text as
/// its address: its length stands for it here.
fn values(kind: Kind, line: &str) -> Vec<String> {
    let values: Vec<String> = line
        .split_whitespace()
        .filter_map(|word| {
            word.split_once('=')
                .filter(|(name, _)| name.starts_with("arg"))
        })
        .map(|(_, value)| value.to_owned())
        .collect();
    match kind {
        Kind::Release | Kind::FatLto => values,
        Kind::Library => {
            assert_eq!(values[2], "plugin".len().to_string(), "{line}");
            vec![values[0].clone(), "plugin".to_owned()]
        }
    }
}

//! Compiles the BPF programs, one object a probe kind, under `OUT_DIR`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "load")]
    programs::build();
}

#[cfg(feature = "load")]
mod programs {
    use std::path::PathBuf;
    use std::process::Command;

    use libbpf_cargo::SkeletonBuilder;

    const SOURCES: &[&str] = &[
        "usdt",
        "kprobe",
        "kprobe_multi",
        "fentry",
        "arguments",
        "event",
        "tracepoint",
        "sched",
        "process",
        "family",
        "syscalls",
    ];

    pub(super) fn build() {
        println!("cargo::rerun-if-changed=src/bpf");
        println!("cargo::rerun-if-env-changed=CLANG");
        let clang = std::env::var_os("CLANG").unwrap_or_else(|| "clang".into());
        require(&clang);
        let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
        for name in SOURCES {
            let built = SkeletonBuilder::new()
                .source(format!("src/bpf/{name}.bpf.c"))
                .obj(out.join(format!("{name}.bpf.o")))
                .clang(&clang)
                // v3 has the compare-and-swap that scratch slots are taken with.
                .clang_args(["-mcpu=v3", "-Wall"])
                .build();
            if let Err(error) = built {
                fail(&format!("src/bpf/{name}.bpf.c does not compile: {error:#}"));
            }
        }
    }

    fn require(clang: &std::ffi::OsStr) {
        let found = Command::new(clang)
            .args(["-target", "bpf", "--version"])
            .output();
        match found {
            Ok(output) if output.status.success() => {}
            _ => fail(&format!(
                "tracebraid-bpf compiles BPF programs and needs clang 14 or later; {clang:?} does not \
                 run. Install it (Debian, Ubuntu: `apt-get install clang libelf-dev zlib1g-dev \
                 pkg-config`; Fedora: `dnf install clang elfutils-libelf-devel zlib-devel`), name \
                 another with CLANG=…, or build with `default-features = false` for `spec` and \
                 `record` alone"
            )),
        }
    }

    fn fail(message: &str) -> ! {
        for line in message.lines() {
            println!("cargo::error={line}");
        }
        std::process::exit(1);
    }
}

//! Says whether the target has static keys: `cfg(tracebraid_keys)`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(tracebraid_keys)");
    println!("cargo::rustc-check-cfg=cfg(tracebraid_gate, values(\"load\"))");
    let target = |name: &str| std::env::var(format!("CARGO_CFG_{name}")).unwrap_or_default();
    let known = matches!(target("TARGET_ARCH").as_str(), "x86_64" | "aarch64")
        && target("TARGET_ENDIAN") == "little";
    if known && target("TARGET_OS") == "linux" && std::env::var_os("CARGO_CFG_MIRI").is_none() {
        println!("cargo::rustc-cfg=tracebraid_keys");
    }
}

//! Which part may know of which.
//!
//! An event goes one way (declare, gate, encode, drain, merge, correlate, record, export) and no later
//! stage is imported by an earlier one. What cargo resolves says which crate reaches which; paths in
//! the source say which module does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use syn::visit::{self, Visit};

/// Crates that need an event loop, or bring one.
const ASYNC_RUNTIMES: &[&str] = &[
    "tokio",
    "async-std",
    "smol",
    "async-executor",
    "futures-executor",
];
/// Crates that hold bindings of libbpf.
const LIBBPF: &[&str] = &["libbpf-rs", "libbpf-sys", "libbpf-cargo"];

#[test]
fn the_sdk_brings_no_kernel_side_no_bridge_no_serde_and_no_async_runtime() {
    let workspace = Workspace::read();
    let mut forbidden = vec![
        "tracebraid-bpf",
        "bridge-cli",
        "serde",
        "serde_core",
        "tracebraid-tests",
    ];
    forbidden.extend(ASYNC_RUNTIMES);
    forbidden.extend(LIBBPF);
    let reached = workspace.reaches("tracebraid");
    assert!(reached.contains("tracebraid-wire"), "{reached:?}");
    for name in forbidden {
        assert!(!reached.contains(name), "tracebraid reaches {name}");
    }
}

#[test]
fn the_bridge_and_the_kernel_side_use_nothing_of_the_sdk_but_what_bytes_mean() {
    let workspace = Workspace::read();
    for crate_name in ["bridge-cli", "tracebraid-bpf"] {
        let reached = workspace.reaches(crate_name);
        assert!(reached.contains("libbpf-rs"), "{reached:?}");
        for name in ["tracebraid", "tracebraid-macros"] {
            assert!(!reached.contains(name), "{crate_name} reaches {name}");
        }
    }
}

#[test]
fn what_bytes_mean_needs_nothing() {
    assert_eq!(Workspace::read().direct("tracebraid-wire"), BTreeSet::new());
}

#[test]
fn the_ring_and_what_bytes_mean_do_not_know_each_other() {
    let workspace = Workspace::read();
    if workspace.members().any(|name| name == "tracebraid-ring") {
        assert!(
            !workspace
                .reaches("tracebraid-ring")
                .contains("tracebraid-wire")
        );
        assert!(
            !workspace
                .reaches("tracebraid-wire")
                .contains("tracebraid-ring")
        );
    }
}

#[test]
fn the_kernel_side_alone_binds_libbpf() {
    let workspace = Workspace::read();
    for name in workspace.members().filter(|name| *name != "tracebraid-bpf") {
        for dependency in workspace.direct(name) {
            assert!(
                !LIBBPF.contains(&dependency.as_str()),
                "{name} depends on {dependency}"
            );
        }
    }
    assert!(
        workspace
            .direct("tracebraid-bpf")
            .iter()
            .any(|name| LIBBPF.contains(&name.as_str()))
    );
}

/// In the bridge: a module, and what it must not name.
const MODULES: &[(&str, &[&str])] = &[
    (
        "export",
        &[
            "source",
            "bpf",
            "tracebraid_bpf",
            "symbolize",
            "attach",
            "cli",
            "target",
        ],
    ),
    (
        "print",
        &[
            "source",
            "tracebraid_bpf",
            "symbolize",
            "attach",
            "cli",
            "export",
        ],
    ),
    (
        "event",
        &[
            "source",
            "merge",
            "correlate",
            "record",
            "export",
            "attach",
            "cli",
        ],
    ),
    ("source", &["merge", "correlate", "export", "attach", "cli"]),
    ("merge", &["correlate", "record", "export", "attach", "cli"]),
    ("correlate", &["record", "export", "attach", "cli"]),
    (
        "definition",
        &["libbpf_rs", "libbpf_sys", "source", "attach", "cli"],
    ),
    ("symbolize", &["source", "merge", "export", "attach", "cli"]),
    ("target", &["source", "merge", "export", "attach", "cli"]),
    ("tracefs", &["source", "merge", "export", "attach", "cli"]),
];

#[test]
fn no_module_of_the_bridge_names_a_later_one() {
    let sources = Sources::of("bridge-cli/src");
    let mut named = 0;
    for (module, forbidden) in MODULES {
        for (file, paths) in sources.module(module) {
            named += paths.len();
            for path in paths {
                let target = target_of(file, path);
                assert!(
                    !forbidden.contains(&target),
                    "{} names {}",
                    file.display(),
                    path.join("::")
                );
            }
        }
    }
    assert!(named > 100, "the paths were not found: {named}");
}

#[test]
fn clap_is_named_by_the_command_line_only_and_blazesym_by_symbolize_only() {
    let sources = Sources::of("bridge-cli/src");
    for (name, allowed) in [
        ("clap", ["cli", "main"]),
        ("blazesym", ["symbolize", "symbolize"]),
    ] {
        for (file, paths) in &sources.files {
            let module = module_of(file);
            assert!(
                allowed.contains(&module.as_str())
                    || paths
                        .iter()
                        .all(|path| path.first().is_none_or(|first| first != name)),
                "{} names {name}",
                file.display()
            );
        }
    }
}

#[test]
fn only_the_gate_writes_text() {
    // What can change a page's protection or write through /proc/self/mem.
    for (file, text) in texts(&root().join("sdk/src")) {
        if file.starts_with("gate") {
            continue;
        }
        for call in [
            "libc::mprotect",
            "write_all_at",
            "libc::pwrite",
            "libc::process_vm_writev",
        ] {
            assert!(
                !text.contains(call),
                "sdk/src/{} has {call}",
                file.display()
            );
        }
    }
}

/// What cargo says of the workspace.
struct Workspace {
    /// Name of each package by its id.
    names: BTreeMap<String, String>,
    members: Vec<String>,
    /// Ids of what each package needs to be built or run; dev-dependencies left out.
    needs: BTreeMap<String, Vec<String>>,
}

impl Workspace {
    fn read() -> Workspace {
        let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["metadata", "--format-version", "1", "--locked", "--offline"])
            .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
            .current_dir(root())
            .output()
            .expect("cargo starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let list = |value: &Value| value.as_array().expect("a list").clone();
        let names = list(&metadata["packages"])
            .iter()
            .map(|package| (text(&package["id"]), text(&package["name"])))
            .collect();
        let needs = list(&metadata["resolve"]["nodes"])
            .iter()
            .map(|node| {
                let needed = list(&node["deps"])
                    .iter()
                    .filter(|dependency| {
                        list(&dependency["dep_kinds"])
                            .iter()
                            .any(|kind| kind["kind"].as_str() != Some("dev"))
                    })
                    .map(|dependency| text(&dependency["pkg"]))
                    .collect();
                (text(&node["id"]), needed)
            })
            .collect();
        let members = list(&metadata["workspace_members"])
            .iter()
            .map(text)
            .collect();
        Workspace {
            names,
            members,
            needs,
        }
    }

    fn members(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|id| self.names[id].as_str())
    }

    fn id(&self, name: &str) -> &String {
        self.members
            .iter()
            .find(|id| self.names[*id] == name)
            .unwrap_or_else(|| panic!("no member is named {name}"))
    }

    /// Names of what a member itself depends on.
    fn direct(&self, name: &str) -> BTreeSet<String> {
        let needed = &self.needs[self.id(name)];
        needed.iter().map(|id| self.names[id].clone()).collect()
    }

    /// Names of everything that a member brings with it.
    fn reaches(&self, name: &str) -> BTreeSet<String> {
        let mut seen = BTreeSet::new();
        let mut left = vec![self.id(name)];
        while let Some(id) = left.pop() {
            for needed in &self.needs[id] {
                if seen.insert(needed) {
                    left.push(needed);
                }
            }
        }
        seen.iter().map(|id| self.names[*id].clone()).collect()
    }
}

/// A path as it is written, `use` trees unfolded.
type NamedPath = Vec<String>;

/// Every path that the source files of a crate name outside of their unit tests.
struct Sources {
    files: BTreeMap<PathBuf, Vec<NamedPath>>,
}

impl Sources {
    fn of(directory: &str) -> Sources {
        let files = texts(&root().join(directory))
            .into_iter()
            .map(|(file, text)| {
                let tree = syn::parse_file(&text)
                    .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
                let mut paths = Paths::default();
                paths.visit_file(&tree);
                (file, paths.found)
            })
            .collect();
        Sources { files }
    }

    fn module(&self, name: &str) -> impl Iterator<Item = (&PathBuf, &Vec<NamedPath>)> {
        self.files
            .iter()
            .filter(move |(file, _)| module_of(file) == name)
    }
}

/// The top module that a file (relative to `src`) belongs to.
fn module_of(file: &Path) -> String {
    let first = file.components().next().expect("a relative path");
    let name = Path::new(first.as_os_str()).file_stem().expect("a name");
    name.to_string_lossy().into_owned()
}

/// The module of the bridge, or the other crate, that a path written in `file` begins with.
fn target_of<'a>(file: &Path, path: &'a [String]) -> &'a str {
    let supers = path.iter().take_while(|part| *part == "super").count();
    let is_directory = file.file_stem().is_some_and(|name| name == "mod");
    let depth = file.components().count() - usize::from(is_directory);
    let at = match path.first().map(String::as_str) {
        Some("crate") => 1,
        Some("super") if supers == depth => supers,
        // Within the file's own top module.
        Some("super" | "self") => return "",
        _ => 0,
    };
    path.get(at).map_or("", String::as_str)
}

#[test]
fn a_path_is_told_from_where_it_is_written() {
    for (file, path, target) in [
        ("merge.rs", "crate::event::Event", "event"),
        ("merge.rs", "super::source::Ring", "source"),
        ("export/text.rs", "super::Writer", ""),
        ("export/text.rs", "super::super::source", "source"),
        ("export/mod.rs", "super::source", "source"),
        ("export/mod.rs", "libbpf_rs::Map", "libbpf_rs"),
    ] {
        let path: NamedPath = path.split("::").map(str::to_owned).collect();
        assert_eq!(target_of(Path::new(file), &path), target, "{file} {path:?}");
    }
}

/// The Rust files below a directory, by their paths relative to it.
fn texts(directory: &Path) -> BTreeMap<PathBuf, String> {
    fn collect(directory: &Path, root: &Path, into: &mut BTreeMap<PathBuf, String>) {
        for entry in std::fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                collect(&path, root, into);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("a source file");
                let relative = path.strip_prefix(root).expect("below its root").to_owned();
                into.insert(relative, text);
            }
        }
    }
    let mut found = BTreeMap::new();
    collect(directory, directory, &mut found);
    assert!(!found.is_empty(), "{} has no source", directory.display());
    found
}

#[derive(Default)]
struct Paths {
    found: Vec<NamedPath>,
}

impl Paths {
    fn unfold(&mut self, tree: &syn::UseTree, before: &[String]) {
        let with = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.unfold(&path.tree, &with(&path.ident)),
            syn::UseTree::Name(name) => self.found.push(with(&name.ident)),
            syn::UseTree::Rename(rename) => self.found.push(with(&rename.ident)),
            syn::UseTree::Glob(_) => self.found.push(before.to_vec()),
            syn::UseTree::Group(group) => group
                .items
                .iter()
                .for_each(|tree| self.unfold(tree, before)),
        }
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.unfold(&item.tree, &[]);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        // One segment is a local name, or what a `use` has brought in.
        if path.segments.len() > 1 {
            self.found.push(
                path.segments
                    .iter()
                    .map(|part| part.ident.to_string())
                    .collect(),
            );
        }
        visit::visit_path(self, path);
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        let is_test = module.attrs.iter().any(|attribute| {
            attribute.path().is_ident("cfg")
                && attribute
                    .parse_args::<syn::Path>()
                    .is_ok_and(|condition| condition.is_ident("test"))
        });
        if !is_test {
            visit::visit_item_mod(self, module);
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

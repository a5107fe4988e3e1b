//! Probe definitions: any text, a definition a line, as `bridge-cli probe` reads it.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::rc::Rc;

use bridge::definition::files_here::FilesHere;
use bridge::definition::knowledge::{
    Binary, EventField, FileTrouble, Files, Kernel, Knowledge, Member, Probeable, Prototype,
    Symbol, Type, TypeId, Types,
};
use bridge::definition::{Language, Line, Reader, compile};
use bridge::glob::Glob;

use crate::dwarf;
use crate::elf::memory_file;

/// Two files: one in memory, that has no symbols and no libraries to be looked through, and one that has.
struct TwoFiles {
    here: FilesHere,
    memory: File,
}

/// What the one in memory is called.
const PATH: &str = "/bin/app";
/// The other one.
const OTHER: &str = "/bin/true";

impl TwoFiles {
    fn new() -> TwoFiles {
        let memory = memory_file();
        memory
            .write_all_at(&dwarf::elf(&[]), 0)
            .expect("a memory file");
        TwoFiles {
            here: FilesHere::new(),
            memory,
        }
    }
}

impl Files for TwoFiles {
    fn open(&self, path: &str) -> Result<Rc<dyn Binary>, FileTrouble> {
        match path {
            PATH => {
                let path = format!("/proc/self/fd/{}", self.memory.as_raw_fd());
                self.here.open(&path)
            }
            OTHER => self.here.open(OTHER),
            "/tmp" => Err(FileTrouble::NotRegular),
            _ => Err(FileTrouble::NotFound),
        }
    }

    fn find(&self, name: &str) -> Option<PathBuf> {
        (name == "app").then(|| PathBuf::from(PATH))
    }
}

/// A kernel with few functions, types and events: a real one has so many that few definitions could be tried.
struct SmallKernel;

/// `ssize_t vfs_read(struct file *file, char *buf, unsigned count)`, twice `vfs_write`, and a tracepoint's.
const FUNCTIONS: [(&str, u64); 5] = [
    ("vfs_read", 0x1000),
    ("vfs_write", 0x1100),
    ("vfs_write", 0x1200),
    ("__probestub_sched_switch", 0x1300),
    ("linux_banner", 0x1400),
];

impl Types for SmallKernel {
    fn look(&self, id: TypeId) -> Option<Type> {
        let member = |name: &str, type_id, bit_offset, bits| Member {
            name: name.to_owned(),
            type_id: TypeId(type_id),
            bit_offset,
            bits,
        };
        Some(match id.0 {
            0 => Type::Void,
            1 => Type::Integer {
                bits: 32,
                bit_offset: 0,
                signed: true,
            },
            2 => Type::Pointer(TypeId(3)),
            3 => Type::Composite(vec![
                member("flags", 1, 0, 3),
                member("", 5, 32, 0),
                member("f_path", 5, 64, 0),
                member("self", 2, 128, 0),
                member("comm", 6, 192, 0),
            ]),
            4 => Type::Enumeration { bytes: 4 },
            5 => Type::Composite(vec![member("dentry", 2, 0, 0), member("d_name", 7, 64, 0)]),
            6 => Type::Array(TypeId(8)),
            7 => Type::Composite(vec![member("name", 9, 64, 0)]),
            8 => Type::Character,
            9 => Type::Pointer(TypeId(8)),
            10 => Type::Float { bytes: 8 },
            _ => return None,
        })
    }
}

impl Kernel for SmallKernel {
    fn symbols(&self, module: Option<&str>, name: &str) -> Vec<Symbol> {
        let named = FUNCTIONS
            .iter()
            .filter(|one| one.0 == name && module.is_none());
        named.map(|one| symbol(one)).collect()
    }

    fn has_module(&self, name: &str) -> bool {
        name == "dummy"
    }

    fn symbol_at(&self, address: u64) -> Option<(Symbol, u64)> {
        let mut around = FUNCTIONS
            .iter()
            .filter(|one| (one.1..one.1 + 0x100).contains(&address));
        around.next().map(|one| (symbol(one), address - one.1))
    }

    fn is_boundary(&self, _symbol: &Symbol, offset: u64) -> Option<bool> {
        (offset < 0x80).then_some(offset % 3 == 0)
    }

    fn is_entry(&self, _symbol: &Symbol, offset: u64) -> bool {
        offset == 4
    }

    fn is_traced(&self, function: &str) -> Option<bool> {
        let mut named = FUNCTIONS.iter().filter(|one| one.0 == function);
        named
            .next()
            .map(|one| symbol(one).probeable == Probeable::Yes)
    }

    fn prototype(&self, function: &str) -> Option<Prototype> {
        let parameter = |name: &str, id| (Some(name.to_owned()), TypeId(id));
        FUNCTIONS
            .iter()
            .any(|one| one.0 == function)
            .then(|| Prototype {
                parameters: vec![
                    parameter("file", 2),
                    parameter("buf", 9),
                    parameter("count", 1),
                    (None, TypeId(10)),
                ],
                returns: Some(TypeId(1)),
            })
    }

    fn structure(&self, name: &str) -> Option<TypeId> {
        let known = [("file", 3), ("dentry", 5), ("path", 5), ("qstr", 7)];
        let found = known.iter().find(|one| one.0 == name);
        found.map(|one| TypeId(one.1))
    }

    fn tracepoint_function(&self, tracepoint: &str) -> Option<String> {
        (tracepoint == "sched_switch").then(|| FUNCTIONS[3].0.to_owned())
    }

    fn event(&self, group: &str, name: &str) -> Option<Vec<EventField>> {
        let field = |name: &str, offset, size, type_name: &str| EventField {
            name: name.to_owned(),
            offset,
            size,
            signed: false,
            type_name: type_name.to_owned(),
        };
        (group == "sched" && name == "sched_switch").then(|| {
            vec![
                field("next_comm", 8, 16, "char"),
                field("next_pid", 24, 4, "pid_t"),
                field("text", 28, 4, "__data_loc char[]"),
            ]
        })
    }

    fn similar_functions(&self, name: &str) -> Vec<String> {
        bridge::nearest::nearest(name, FUNCTIONS.iter().map(|one| one.0))
    }

    fn matching_functions(&self, pattern: &Glob) -> Vec<String> {
        let names = FUNCTIONS.iter().map(|one| one.0);
        names
            .filter(|name| pattern.matches(name))
            .map(str::to_owned)
            .collect()
    }
}

fn symbol((name, address): &(&str, u64)) -> Symbol {
    Symbol {
        name: (*name).to_owned(),
        address: *address,
        size: Some(0x100),
        probeable: match address % 0x200 {
            0 => Probeable::Yes,
            _ => Probeable::NoTrace,
        },
    }
}

thread_local! {
    static FILES: TwoFiles = TwoFiles::new();
}

/// Reads the definitions in each of the kernel's languages, and makes programs of what is accepted.
pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    FILES.with(|files| {
        for language in [Language::Dynamic, Language::Kprobe, Language::Uprobe] {
            let kernel = &SmallKernel;
            let mut reader = Reader::new(Knowledge { kernel, files }, language);
            for (_, line) in reader.read(&text) {
                if let Line::Refused(rejection) = line {
                    let _ = rejection.render();
                }
            }
            for definition in reader.finish().into_definitions() {
                let _ = (
                    definition.place.to_string(),
                    compile::compile(&definition, kernel),
                );
            }
        }
    });
}

/// A definition of each form, and argument of each kind.
pub fn seeds() -> Vec<Vec<u8>> {
    let lines = [
        "p:up /bin/app:0x1000 a=%di:s32 b=+0(%si):string c=@+0x10:u16\n",
        "r:down /bin/app:main $retval:x64 +8(+u16(%sp)):ustring $comm \\7 \\\"text\"\n",
        "p /bin/app:main%return(0x20) a=%ax:b4@28/32 b=$stack2 c=-4(%bp):u8[16]\n",
        "p:kprobes/open do_sys_openat2 dfd=%di:s32 file=+0(%si):ustring flags=+0(%dx):x64\n",
        "r4:ret vfs_read%return $retval @linux_banner+4:string $stack0:symbol\n",
        "f:entry vfs_read $arg* count file->f_path.dentry:%pd\n",
        "t sched_switch prev->pid next=next->comm:string\n",
        "e:probe sched.sched_switch pid=$next_pid comm=$next_comm:string if next_pid > 1\n",
        "-:kprobes/open\n# a comment\n\n-:kprobes/\n",
        "uprobe:/bin/true:*alloc* n=%di # more\nuretprobe:app:main $retval\nusdt:app:pro*:n* text=arg0:string\n",
        "kprobe:vfs_* %di\nkretprobe:vfs_read\nfentry:vfs_read count\nfexit:vfs_read $retval\n",
    ];
    let all = lines.concat();
    let each = lines.iter().copied().chain([all.as_str()]);
    each.map(|line| line.as_bytes().to_vec()).collect()
}

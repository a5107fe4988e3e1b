//! Why a definition is refused: the kernel's error number and words, the column, and what would be
//! right.
//!
//! A definition is looked at as the kernel looks at it, so its first error is the kernel's first. The
//! column counts bytes from 0 in the command with its blanks folded to one, which is how the kernel's
//! `error_log` shows it.

use std::fmt;

use crate::print;

/// The error number that writing the definition would give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errno {
    /// What is written is wrong.
    Einval,
    /// It names something that there is not.
    Enoent,
    /// A number is too large.
    Erange,
    /// Too much of something.
    E2big,
    /// There is such an event already.
    Eexist,
    /// Nothing is known of the function's arguments.
    Eopnotsupp,
    /// Not at the beginning of an instruction.
    Eilseq,
    /// There is no such event to attach to.
    Enodev,
    /// The buffer for what `%pd` stands for is full.
    Enomem,
    /// A part of a path is too long, or all of it.
    Enametoolong,
    /// A part of a path is no directory.
    Enotdir,
    /// A path leads through too many links.
    Eloop,
    /// A part of a path may not be searched.
    Eacces,
}

impl Errno {
    /// Its name, such as `EINVAL`.
    pub const fn name(self) -> &'static str {
        match self {
            Errno::Einval => "EINVAL",
            Errno::Enoent => "ENOENT",
            Errno::Erange => "ERANGE",
            Errno::E2big => "E2BIG",
            Errno::Eexist => "EEXIST",
            Errno::Eopnotsupp => "EOPNOTSUPP",
            Errno::Eilseq => "EILSEQ",
            Errno::Enodev => "ENODEV",
            Errno::Enomem => "ENOMEM",
            Errno::Enametoolong => "ENAMETOOLONG",
            Errno::Enotdir => "ENOTDIR",
            Errno::Eloop => "ELOOP",
            Errno::Eacces => "EACCES",
        }
    }
}

impl From<super::text::NotANumber> for Errno {
    fn from(why: super::text::NotANumber) -> Errno {
        match why {
            super::text::NotANumber::TooLarge => Errno::Erange,
            super::text::NotANumber::Malformed => Errno::Einval,
        }
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident: $text:literal, $advice:literal;)*) => {
        /// What is wrong, in the kernel's terms.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            /// The kernel's words for it; our own where the kernel has none.
            pub const fn text(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }

            /// What would be right.
            pub const fn advice(self) -> &'static str {
                match self { $(Code::$name => $advice,)* }
            }

            /// Every one.
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];
        }
    };
}

codes! {
    #[allow(missing_docs)]
    FileNotFound: "Failed to find the given file",
        "write PATH:OFFSET or PATH:SYMBOL with the path of an existing program or library; blanks in paths cannot be written";
    #[allow(missing_docs)]
    NoRegularFile: "Not a regular file",
        "name a program or a library, not a directory or a device";
    #[allow(missing_docs)]
    BadRefcnt: "Invalid reference counter offset",
        "write the file offset of the counter between the braces, such as (0xa5b38)";
    #[allow(missing_docs)]
    RefcntOpenBrace: "Reference counter brace is not closed",
        "end it with ')'";
    #[allow(missing_docs)]
    BadRefcntSuffix: "Reference counter has wrong suffix",
        "nothing may follow the ')'; %return stands before it: PATH:OFFSET%return(REF_CTR)";
    #[allow(missing_docs)]
    BadUprobeOffs: "Invalid uprobe offset",
        "write a file offset such as 0x1615 (10 is decimal, 010 is octal), or a symbol";
    #[allow(missing_docs)]
    BadMaxactType: "Maxactive is only for function exit",
        "only r takes a number: r10:EVENT SYMBOL";
    #[allow(missing_docs)]
    BadMaxact: "Invalid maxactive number",
        "r takes a number from 1 to 4096 or none; p, f, t and e take none";
    #[allow(missing_docs)]
    MaxactTooBig: "Maxactive is too big",
        "at most 4096";
    #[allow(missing_docs)]
    BadProbeAddr: "Invalid probed address or symbol",
        "name a function of the kernel or of a module (MODULE:FUNCTION), with +OFFSET if wanted, or an address";
    #[allow(missing_docs)]
    NonUniqSymbol: "The symbol is not unique",
        "several functions have this name: name its module, or give the address of the one you mean";
    #[allow(missing_docs)]
    BadRetprobe: "Retprobe address must be an function entry",
        "a return probe stands at a function, without an offset";
    #[allow(missing_docs)]
    BadTpName: "Invalid character in tracepoint name",
        "t takes the name of a tracepoint alone, without its category";
    #[allow(missing_docs)]
    BadAddrSuffix: "Invalid probed address suffix",
        "only %return may follow the symbol, at its end";
    #[allow(missing_docs)]
    NoGroupName: "Group name is not specified",
        "write GROUP/EVENT, or EVENT alone";
    #[allow(missing_docs)]
    GroupTooLong: "Group name is too long",
        "at most 63 characters";
    #[allow(missing_docs)]
    BadGroupName: "Group name must follow the same rules as C identifiers",
        "letters, digits, '_' and '-', a letter or '_' first";
    #[allow(missing_docs)]
    NoEventName: "Event name is not specified",
        "write a name behind the ':', or leave the ':' out";
    #[allow(missing_docs)]
    EventTooLong: "Event name is too long",
        "at most 63 characters";
    #[allow(missing_docs)]
    BadEventName: "Event name must follow the same rules as C identifiers",
        "letters, digits and '_', no digit first";
    #[allow(missing_docs)]
    EventExist: "Given group/event name is already used by another event",
        "choose another name, or another group";
    #[allow(missing_docs)]
    RetvalOnProbe: "$retval is not available on probe",
        "only return probes have it: r:EVENT SYMBOL, or SYMBOL%return";
    #[allow(missing_docs)]
    BadStackNum: "Invalid stack number",
        "$stack0 to $stack2048";
    #[allow(missing_docs)]
    BadArgNum: "Invalid argument number",
        "arguments count from $arg1";
    #[allow(missing_docs)]
    BadVar: "Invalid $-variable specified",
        "there are $stackN, $stack, $retval, $comm, $argN and $arg*; an event probe has its event's fields and $comm, and f and t have no registers";
    #[allow(missing_docs)]
    BadRegName: "Invalid register name",
        "registers are called di, si, dx, cx, ax, bx, sp, bp, ip, r8 to r15, flags, cs, ss, orig_ax";
    #[allow(missing_docs)]
    BadMemAddr: "Invalid memory address",
        "write @0x… or @SYMBOL";
    #[allow(missing_docs)]
    BadImm: "Invalid immediate value",
        "write a number, such as \\5 or \\-1, or a text: \\\"text\"";
    #[allow(missing_docs)]
    ImmstrNoClose: "String is not closed with '\"'",
        "end the text with '\"'; it holds no blanks, no ':' and no '#'";
    #[allow(missing_docs)]
    FileOnKprobe: "File offset is not available with kprobe",
        "@+OFFSET is for probes in files; write @ADDRESS or @SYMBOL";
    #[allow(missing_docs)]
    BadFileOffs: "Invalid file offset value",
        "write a number behind @+";
    #[allow(missing_docs)]
    SymOnUprobe: "Symbol is not available with uprobe",
        "in files write @+OFFSET, or @ADDRESS";
    #[allow(missing_docs)]
    TooManyOps: "Dereference is too much nested",
        "at most 14 dereferences, fewer over @SYMBOL, arrays and bitfields";
    #[allow(missing_docs)]
    DerefNeedBrace: "Dereference needs a brace",
        "write +OFFSET(ARGUMENT), such as +0(%di)";
    #[allow(missing_docs)]
    BadDerefOffs: "Invalid dereference offset",
        "write a number between the sign and the brace: +8(%di), -0x10(%sp), +u0(%si)";
    #[allow(missing_docs)]
    DerefOpenBrace: "Dereference brace is not closed",
        "end it with ')'";
    #[allow(missing_docs)]
    CommCantDeref: "$comm can not be dereferenced",
        "$comm and texts stand alone";
    #[allow(missing_docs)]
    BadFetchArg: "Invalid fetch argument",
        "write %REGISTER, @SYMBOL, $VARIABLE, +OFFSET(ARGUMENT), \\IMMEDIATE or a parameter's name";
    #[allow(missing_docs)]
    ArrayNoClose: "Array is not closed",
        "end it with ']'";
    #[allow(missing_docs)]
    BadArraySuffix: "Array has wrong suffix",
        "nothing may follow the ']'";
    #[allow(missing_docs)]
    BadArrayNum: "Invalid array size",
        "a number from 1 to 64";
    #[allow(missing_docs)]
    ArrayTooBig: "Array number is too big",
        "at most 64 elements";
    #[allow(missing_docs)]
    BadType: "Unknown type is specified",
        "u8 to u64, s8 to s64, x8 to x64, char, string, ustring, b<width>@<offset>/<8|16|32|64>; in the kernel also symbol, symstr, %pd, %pD; arrays as TYPE[N]";
    #[allow(missing_docs)]
    BadString: "String accepts only memory argument",
        "strings and arrays are read from memory: +0(ARGUMENT):string, not ARGUMENT:string";
    #[allow(missing_docs)]
    BadSymstring: "Symbol String doesn't accept data/userdata",
        "symstr takes a value of the kernel";
    #[allow(missing_docs)]
    BadBitfield: "Invalid bitfield",
        "b<width>@<offset>/<size>: width from 1, width + offset no more than size";
    #[allow(missing_docs)]
    ArgNameTooLong: "Argument name is too long",
        "at most 32 characters";
    #[allow(missing_docs)]
    NoArgName: "Argument name is not specified",
        "write NAME=ARGUMENT, or the argument alone";
    #[allow(missing_docs)]
    BadArgName: "Argument name must follow the same rules as C identifiers",
        "letters, digits and '_', no digit first";
    #[allow(missing_docs)]
    UsedArgName: "This argument name is already used",
        "each name once; arguments without one are called arg1, arg2, …; common_… and __probe_… are the record's own";
    #[allow(missing_docs)]
    ArgTooLong: "Argument expression is too long",
        "at most 63 characters behind the '='";
    #[allow(missing_docs)]
    NoArgBody: "No argument expression",
        "write what to fetch behind the '='";
    #[allow(missing_docs)]
    BadInsnBndry: "Probe point is not an instruction boundary",
        "the offset must be where an instruction of the function begins";
    #[allow(missing_docs)]
    FailRegProbe: "Failed to register probe event",
        "the function cannot be probed: it is part of the tracing machinery (notrace, blacklisted) or no code";
    #[allow(missing_docs)]
    DiffProbeType: "Probe type is different from existing probe",
        "entry and return probes cannot be one event: choose another name";
    #[allow(missing_docs)]
    DiffArgType: "Argument type or name is different from existing probe",
        "a second place of an event has the same arguments by number, name and type";
    #[allow(missing_docs)]
    SameProbe: "There is already the exact same probe event",
        "leave one of them out";
    #[allow(missing_docs)]
    NoEventInfo: "This requires both group and event name to attach",
        "write GROUP.EVENT, such as sched.sched_switch";
    #[allow(missing_docs)]
    BadAttachEvent: "Attached event does not exist",
        "bridge-cli list shows the kernel's events";
    #[allow(missing_docs)]
    BadAttachArg: "Attached event does not have this field",
        "name a field of the event, as its format file lists them";
    #[allow(missing_docs)]
    NoEpFilter: "No filter rule after 'if'",
        "write a filter behind 'if', or leave it out";
    #[allow(missing_docs)]
    NosupBtfarg: "BTF is not available or not supported",
        "names of parameters are known at the entry and the return of kernel functions, and in event probes behind a (STRUCTURE)";
    #[allow(missing_docs)]
    NoBtfarg: "This variable is not found at this probe point",
        "the function has no such parameter";
    #[allow(missing_docs)]
    NoBtfEntry: "No BTF entry for this probe point",
        "the kernel's type information does not hold this function: use $argN or registers";
    #[allow(missing_docs)]
    NofentryArgs: "$arg* can be used only on function entry or exit",
        "elsewhere use registers: %di, %si, %dx, %cx, %r8, %r9 at an entry";
    #[allow(missing_docs)]
    DoubleArgs: "$arg* can be used only once in the parameters",
        "leave the second one out";
    #[allow(missing_docs)]
    Args2long: "$arg* failed because the argument list is too long",
        "name the parameters one by one";
    #[allow(missing_docs)]
    TooManyArgs: "Too many arguments are specified",
        "at most 128";
    #[allow(missing_docs)]
    TooManyEargs: "Too many entry arguments specified",
        "a return probe keeps at most 15 arguments of the entry";
    #[allow(missing_docs)]
    NosupTypecast: "Typecasts are only for eprobe fields",
        "(STRUCTURE)NAME->MEMBER is for the fields of events (e); parameters have their types: NAME->MEMBER";
    #[allow(missing_docs)]
    NoPtrStrct: "This is not a pointer to union/structure.",
        "'->' goes on from a pointer to a structure";
    #[allow(missing_docs)]
    NosupDatArg: "Non pointer structure/union argument is not supported.",
        "write '->' behind a parameter that is a pointer";
    #[allow(missing_docs)]
    BadHyphen: "Failed to parse single hyphen. Forgot '>'?",
        "write '->'";
    #[allow(missing_docs)]
    NoBtfField: "This field is not found.",
        "the structure has no such member";
    #[allow(missing_docs)]
    BadBtfTid: "Failed to get BTF type info.",
        "only members of structures and unions can be named";
    #[allow(missing_docs)]
    NoRetval: "This function returns 'void' type",
        "leave $retval out";
    #[allow(missing_docs)]
    BadType4str: "This type does not fit for string.",
        "text is read from char * and char []";
    #[allow(missing_docs)]
    NeedStringType: "$comm and immediate-string only accepts string type",
        "leave the type out, or write :string";
    #[allow(missing_docs)]
    EventTooBig: "Event too big (too many fields?)",
        "all values of an event together have at most 3072 bytes";
    #[allow(missing_docs)]
    NoMatch: "No matching dynamic event type",
        "a definition begins with p, r, f, t or e, or with -: to take one back, and has a place: p:NAME PLACE ARGUMENTS";
    /// Ours: the kernel says `EINVAL` and no more.
    LineTooLong: "The line is too long",
        "at most 4094 bytes a line, comments included";
    /// Ours: the kernel says the number and no more.
    NoSuchProbe: "No definition before it has this name",
        "-:EVENT or -:GROUP/EVENT takes back one of the lines above";
    /// Ours.
    BadDeletion: "A name is missing behind -:",
        "write -:EVENT, -:GROUP/EVENT or -:GROUP/";
    /// Ours.
    RefcntDiffers: "Another probe at this place has another reference counter",
        "the kernel keeps one counter for an address";
    /// Ours: the kernel has synthetic events, which are made of others by histogram triggers.
    NoSynthetic: "Synthetic events are not supported",
        "they are filled by the kernel's histogram triggers only; an event probe (e:) records fields of another event";
    /// Ours.
    NotElf: "The file is no program for this machine",
        "name an ELF file of this architecture";
    /// Ours.
    NoSuchSymbol: "The file has no such function",
        "bridge-cli list 'uprobe:FILE:*' shows what there is; an offset in the file is taken too";
    /// Ours.
    AmbiguousSymbol: "The file has several functions of this name",
        "give the file offset of the one you mean";
    /// Ours.
    BadShortForm: "A part of the short form is missing",
        "kprobe:SYMBOL, kretprobe:SYMBOL, fentry:SYMBOL, fexit:SYMBOL, uprobe:PATH:SYMBOL[+OFFSET], uretprobe:PATH:SYMBOL or usdt:PATH:PROVIDER:NAME";
    /// Ours.
    NoSuchUsdt: "The file has no such USDT probe of another provider",
        "types are given to arguments of probes that do not say them; tracepoints of tracebraid have theirs already";
    /// Ours.
    BadUsdtArgument: "This argument cannot be fetched",
        "arguments are called arg0, arg1, … as bridge-cli list -v shows them: arg0, arg0:string, NAME=+8(arg0):u32";
    /// Ours.
    NothingMatches: "No function matches the pattern",
        "* stands for any run of characters, ? for one";
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// What.
    pub code: Code,
    /// Where, in bytes from the beginning of [`Rejection::command`]; it may be its end.
    pub column: usize,
}

/// See the module's page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// What the kernel would answer.
    pub errno: Errno,
    /// The part of the kernel that would log it, such as `trace_kprobe`; empty where none would.
    pub subsystem: &'static str,
    /// In the order in which they were found. The kernel logs nothing where this is empty.
    pub complaints: Vec<Complaint>,
    /// The definition with its blanks folded.
    pub command: String,
    /// What is nearest to what was asked for, or what else there is to say.
    pub remarks: Vec<String>,
}

impl Rejection {
    /// The message, the command and the caret, and what would be right: several lines.
    pub fn render(&self) -> String {
        let mut out = String::new();
        if self.complaints.is_empty() {
            let command = escaped(&self.command);
            out.push_str(&format!("refused ({})\n    {command}\n", self.errno.name()));
        }
        for complaint in &self.complaints {
            out.push_str(&format!(
                "{} ({})\n",
                complaint.code.text(),
                self.errno.name()
            ));
            self.point(complaint.column, &mut out);
            out.push_str(&format!("    {}\n", complaint.code.advice()));
        }
        for line in self.remarks.iter().flat_map(|remark| remark.lines()) {
            out.push_str(&format!("    {}\n", escaped(line)));
        }
        out
    }

    /// The command and a caret below the column; of a long command the part around it.
    fn point(&self, column: usize, out: &mut String) {
        const AROUND: usize = 60;
        let text = escaped(&self.command);
        // Where something was escaped, columns are those of what is shown.
        let column = escaped(self.command.get(..column).unwrap_or(&self.command))
            .chars()
            .count()
            + column.saturating_sub(self.command.len());
        let characters: Vec<char> = text.chars().collect();
        let start = column.saturating_sub(AROUND);
        let end = (column + AROUND).min(characters.len());
        let shown: String = characters[start.min(end)..end].iter().collect();
        let (before, after) = (
            if start > 0 { "…" } else { "" },
            if end < characters.len() { "…" } else { "" },
        );
        out.push_str(&format!("    {before}{shown}{after}\n"));
        let indent = column - start + before.chars().count();
        out.push_str(&format!("    {}^\n", " ".repeat(indent)));
    }
}

impl fmt::Display for Rejection {
    /// As the kernel's log would have it: `EINVAL; trace_kprobe: "Invalid register name" @14`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.errno.name())?;
        if self.subsystem.is_empty() {
            return Ok(());
        }
        for complaint in &self.complaints {
            let subsystem = self.subsystem;
            write!(
                f,
                "; {subsystem}: \"{}\" @{}",
                complaint.code.text(),
                complaint.column
            )?;
        }
        Ok(())
    }
}

fn escaped(text: &str) -> String {
    let mut out = Vec::new();
    print::escape(text.as_bytes(), &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

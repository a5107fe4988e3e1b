//! `/proc/PID/maps`: what a process has mapped, and where.
//!
//! ```text
//! 55d0c8e00000-55d0c8e21000 r-xp 00002000 fe:01 1835  /opt/app (deleted)
//! ```
//! The name is the rest of the line and may hold anything: blanks, more than `PATH_MAX` bytes, a real
//! name that ends in ` (deleted)`. The kernel writes a newline in it as `\012` but leaves a backslash as it
//! is, so the text alone does not say which file it is. It serves for showing; device and inode decide.

use std::ops::Range;

/// One mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Run-time addresses.
    pub range: Range<u64>,
    /// `w`
    pub writable: bool,
    /// `x`
    pub executable: bool,
    /// Of the first byte, in the file.
    pub offset: u64,
    /// Major and minor number of the file system's device. Some file systems (btrfs, overlayfs) give
    /// files another one on `stat`.
    pub device: (u32, u32),
    /// Inode; 0 where there is no file: anonymous memory, stacks, the vdso.
    pub inode: u64,
    /// The name as the line has it; empty where it has none.
    pub name: Vec<u8>,
}

/// Reads the lines of a `maps` file; what is no mapping of a file, or no line as described, is passed over.
pub fn parse_maps(text: &[u8]) -> Vec<Mapping> {
    let mut mappings = parse_all_maps(text);
    mappings.retain(|mapping| mapping.inode != 0 && !mapping.name.is_empty());
    mappings
}

/// The same with memory that has no file.
pub(crate) fn parse_all_maps(text: &[u8]) -> Vec<Mapping> {
    text.split(|&byte| byte == b'\n')
        .filter_map(parse_line)
        .collect()
}

fn parse_line(line: &[u8]) -> Option<Mapping> {
    let mut rest = line;
    let mut word = || {
        let start = rest.iter().position(|&byte| byte != b' ')?;
        let length = rest[start..].iter().position(|&byte| byte == b' ');
        let end = length.map_or(rest.len(), |length| start + length);
        let word = std::str::from_utf8(&rest[start..end]).ok()?;
        rest = &rest[end..];
        Some(word)
    };
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = word()?.split_once('-')?;
    let permissions = word()?;
    let offset = hex(word()?)?;
    let (major, minor) = word()?.split_once(':')?;
    let inode: u64 = word()?.parse().ok()?;
    let range = hex(start)?..hex(end)?;
    if range.is_empty() {
        return None;
    }
    let name_at = rest.iter().position(|&byte| byte != b' ');
    let name_at = name_at.unwrap_or(rest.len());
    Some(Mapping {
        range,
        writable: permissions.as_bytes().get(1) == Some(&b'w'),
        executable: permissions.as_bytes().get(2) == Some(&b'x'),
        offset,
        device: (hex(major)?.try_into().ok()?, hex(minor)?.try_into().ok()?),
        inode,
        name: rest[name_at..].to_vec(),
    })
}

/// The suffix that the kernel adds to the name of a file that has none any more.
pub(crate) const DELETED: &[u8] = b" (deleted)";

/// A name with each `\012` of the kernel turned back into a newline.
pub(crate) fn with_newlines(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&first, after)) = rest.split_first() {
        match rest.strip_prefix(b"\\012") {
            Some(after) => {
                out.push(b'\n');
                rest = after;
            }
            None => {
                out.push(first);
                rest = after;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_rest_of_the_line_whatever_it_holds() {
        let deep = format!("/{}", "d/".repeat(4000));
        for name in [
            "/srv/with space",
            "/srv/real (deleted)",
            "/srv/new\\012line",
            "/srv/quo\"te'",
            "/srv/%n%s, [x]:?*",
            "/srv/é",
            deep.as_str(),
        ] {
            let line = format!("7f00-8f00 r-xp 00001000 fe:01 77                   {name}\n");
            let [mapping] = &parse_maps(line.as_bytes())[..] else {
                panic!("{name}")
            };
            assert_eq!(mapping.name, name.as_bytes());
            assert_eq!(
                (mapping.range.clone(), mapping.offset),
                (0x7f00..0x8f00, 0x1000)
            );
            assert_eq!((mapping.device, mapping.inode), ((0xfe, 1), 77));
            assert!(mapping.executable && !mapping.writable);
        }
    }

    #[test]
    fn memory_without_a_file_and_lines_without_sense_are_passed_over() {
        let text = b"7f00-8f00 rw-p 00000000 00:00 0\n\
            7f00-8f00 rw-p 00000000 00:00 0   [heap]\n\
            7ffd000-7ffe000 r-xp 00000000 00:00 0   [vdso]\n\
            \n7f00\nzz-aa r-xp 0 fe:01 7 /a\n8f00-7f00 r-xp 00000000 fe:01 7 /a\n\
            1-2 r-xp 00000000 fe:01 99999999999999999999999 /a\n\xff\xfe";
        assert_eq!(parse_maps(text), Vec::new());
    }

    #[test]
    fn a_line_cut_anywhere_is_read_or_passed_over() {
        let line = b"7f00-8f00 rwxp 00001000 fe:01 77   /srv/app";
        for end in 0..line.len() {
            parse_maps(&line[..end]);
        }
    }

    #[test]
    fn an_escaped_newline_is_one_and_other_backslashes_stay() {
        assert_eq!(with_newlines(b"a\\012b\\01"), b"a\nb\\01");
    }
}

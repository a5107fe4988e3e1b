//! The integer types that kernel records and their `print fmt` name, on a 64-bit kernel.

/// An integer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scalar {
    /// Bytes: 1, 2, 4 or 8.
    pub size: u8,
    /// Whether it is signed.
    pub signed: bool,
}

impl Scalar {
    /// `int`.
    pub const INT: Scalar = Scalar {
        size: 4,
        signed: true,
    };
    /// `unsigned long`, and what addresses are.
    pub const ULONG: Scalar = Scalar {
        size: 8,
        signed: false,
    };
    /// `unsigned char`.
    pub const UCHAR: Scalar = Scalar {
        size: 1,
        signed: false,
    };

    /// The value that a variable of this type holds after `bits` was assigned to it, extended to 64
    /// bits by its sign.
    pub fn wrap(self, bits: u64) -> u64 {
        let shift = 64 - 8 * u32::from(self.size.clamp(1, 8));
        if self.signed {
            (((bits << shift) as i64) >> shift) as u64
        } else {
            (bits << shift) >> shift
        }
    }
}

/// The type of this name: `unsigned long long`, `u32`, `gfp_t`, `enum x`. `None` for all others.
pub fn named(name: &str) -> Option<Scalar> {
    let mut long = 0;
    let mut base = None;
    let mut sign = None;
    for word in name.split_whitespace() {
        match word {
            "const" | "volatile" | "__force" | "__user" => {}
            "unsigned" => sign = Some(false),
            "signed" | "__signed__" => sign = Some(true),
            "long" => long += 1,
            "enum" => {
                return Some(Scalar {
                    size: 4,
                    signed: false,
                });
            }
            _ if base.is_none() => base = Some(word),
            _ => return None,
        }
    }
    let of = |size, signed| Scalar {
        size,
        signed: sign.unwrap_or(signed),
    };
    let scalar = match base {
        None if long > 0 => of(8, true),
        None => {
            sign?;
            of(4, true)
        }
        Some("int") if long > 0 => of(8, true),
        Some("int") => of(4, true),
        Some("short") => of(2, true),
        // Plain char is signed on x86 and unsigned on arm64; kernel code is built for unsigned.
        Some("char") => of(1, false),
        Some("bool" | "_Bool" | "u8" | "__u8" | "uint8_t" | "u_char" | "unchar") => of(1, false),
        Some("s8" | "__s8" | "int8_t") => of(1, true),
        Some("u16" | "__u16" | "uint16_t" | "ushort" | "__be16" | "__le16" | "umode_t") => {
            of(2, false)
        }
        Some("s16" | "__s16" | "int16_t") => of(2, true),
        Some(
            "u32" | "__u32" | "uint32_t" | "uint" | "__be32" | "__le32" | "gfp_t" | "dev_t"
            | "uid_t" | "gid_t" | "blk_opf_t" | "fmode_t" | "__poll_t" | "slab_flags_t" | "tid_t"
            | "qid_t" | "projid_t" | "ext4_lblk_t" | "ext4_group_t" | "isolate_mode_t"
            | "vm_fault_t" | "xfs_extlen_t" | "xfs_agnumber_t" | "xfs_agblock_t" | "xfs_dahash_t",
        ) => of(4, false),
        Some(
            "s32" | "__s32" | "int32_t" | "pid_t" | "clockid_t" | "key_t" | "timer_t" | "mqd_t",
        ) => of(4, true),
        Some("__kernel_rwf_t") => of(4, true),
        Some(
            "u64" | "__u64" | "uint64_t" | "size_t" | "ulong" | "__be64" | "__le64" | "sector_t"
            | "ino_t" | "blkcnt_t" | "phys_addr_t" | "dma_addr_t" | "resource_size_t" | "uintptr_t"
            | "vm_flags_t" | "pgoff_t" | "xfs_ino_t" | "ext4_fsblk_t" | "cputime_t"
            | "aio_context_t",
        ) => of(8, false),
        Some(
            "s64" | "__s64" | "int64_t" | "ssize_t" | "loff_t" | "off_t" | "ktime_t" | "time64_t"
            | "ptrdiff_t" | "intptr_t" | "xfs_lsn_t" | "xfs_daddr_t" | "xfs_fsize_t",
        ) => of(8, true),
        Some(_) => return None,
    };
    Some(scalar)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_in_whatever_order_their_words_stand() {
        let is =
            |name, size, signed| assert_eq!(named(name), Some(Scalar { size, signed }), "{name}");
        is("unsigned long long", 8, false);
        is("long unsigned int", 8, false);
        is("unsigned", 4, false);
        is("const unsigned char", 1, false);
        is("gfp_t", 4, false);
        is("loff_t", 8, true);
        assert_eq!(named("struct page"), None);
        assert_eq!(named("void"), None);
        assert_eq!(named(""), None);
    }

    #[test]
    fn wrapping_keeps_what_a_variable_of_the_type_would_keep() {
        assert_eq!(Scalar::INT.wrap(0xffff_ffff) as i64, -1);
        assert_eq!(
            Scalar {
                size: 4,
                signed: false
            }
            .wrap(u64::MAX),
            0xffff_ffff
        );
        assert_eq!(
            Scalar {
                size: 1,
                signed: true
            }
            .wrap(0x80) as i64,
            -128
        );
        assert_eq!(Scalar::ULONG.wrap(u64::MAX), u64::MAX);
    }
}

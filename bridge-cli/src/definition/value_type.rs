//! The types behind the `:`, and how the kernel's format files show them.

/// How a value is stored and printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValueType {
    /// `u8` to `u64`: bytes.
    Unsigned(u8),
    /// `s8` to `s64`: bytes.
    Signed(u8),
    /// `x8` to `x64`: bytes.
    Hexadecimal(u8),
    /// One byte as a character.
    Char,
    /// An address with the name of its symbol.
    Symbol,
    /// Text in the kernel's memory, or the process's where a user probe reads it.
    Text,
    /// Text in the process's memory.
    UserText,
    /// The name of a symbol as text.
    SymbolText,
}

impl ValueType {
    /// What a value is where nothing else is said.
    pub const DEFAULT: ValueType = ValueType::Hexadecimal(8);

    /// By its name; `in_file` has no names of the kernel's symbols.
    pub(super) fn by_name(name: &str, in_file: bool) -> Option<ValueType> {
        if name.starts_with('b') {
            let (_, size) = name.split_once('/')?;
            return match super::text::unsigned(size, 0).ok()? {
                8 => Some(ValueType::Unsigned(1)),
                16 => Some(ValueType::Unsigned(2)),
                32 => Some(ValueType::Unsigned(4)),
                64 => Some(ValueType::Unsigned(8)),
                _ => None,
            };
        }
        Some(match name {
            "string" => ValueType::Text,
            "ustring" => ValueType::UserText,
            "symstr" if !in_file => ValueType::SymbolText,
            "symbol" if !in_file => ValueType::Symbol,
            "char" => ValueType::Char,
            _ => {
                let bytes = match name.get(1..)? {
                    "8" => 1,
                    "16" => 2,
                    "32" => 4,
                    "64" => 8,
                    _ => return None,
                };
                match name.as_bytes().first()? {
                    b'u' => ValueType::Unsigned(bytes),
                    b's' => ValueType::Signed(bytes),
                    b'x' => ValueType::Hexadecimal(bytes),
                    _ => return None,
                }
            }
        })
    }

    /// Bytes in the record's fixed part.
    pub const fn size(self) -> u32 {
        match self {
            ValueType::Unsigned(bytes)
            | ValueType::Signed(bytes)
            | ValueType::Hexadecimal(bytes) => bytes as u32,
            ValueType::Char => 1,
            ValueType::Symbol => 8,
            ValueType::Text | ValueType::UserText | ValueType::SymbolText => 4,
        }
    }

    /// Whether the value is text.
    pub const fn is_text(self) -> bool {
        matches!(
            self,
            ValueType::Text | ValueType::UserText | ValueType::SymbolText
        )
    }

    /// Whether it is a number that may be negative.
    pub const fn is_number_with_sign(self) -> bool {
        matches!(self, ValueType::Signed(_))
    }

    /// Whether the kernel's format file says that it is signed.
    pub const fn is_signed(self) -> bool {
        self.is_text() || matches!(self, ValueType::Signed(_))
    }

    /// Its name in a format file.
    pub const fn format_name(self) -> &'static str {
        match self {
            ValueType::Unsigned(1) | ValueType::Hexadecimal(1) | ValueType::Char => "u8",
            ValueType::Unsigned(2) | ValueType::Hexadecimal(2) => "u16",
            ValueType::Unsigned(4) | ValueType::Hexadecimal(4) => "u32",
            ValueType::Unsigned(_) | ValueType::Hexadecimal(_) | ValueType::Symbol => "u64",
            ValueType::Signed(1) => "s8",
            ValueType::Signed(2) => "s16",
            ValueType::Signed(4) => "s32",
            ValueType::Signed(_) => "s64",
            ValueType::Text | ValueType::UserText | ValueType::SymbolText => "__data_loc char[]",
        }
    }

    /// How a format file prints it.
    pub const fn conversion(self) -> &'static str {
        match self {
            ValueType::Unsigned(8) => "%Lu",
            ValueType::Unsigned(_) => "%u",
            ValueType::Signed(8) => "%Ld",
            ValueType::Signed(_) => "%d",
            ValueType::Hexadecimal(8) => "0x%Lx",
            ValueType::Hexadecimal(_) => "0x%x",
            ValueType::Char => "'%c'",
            ValueType::Symbol => "%pS",
            ValueType::Text | ValueType::UserText | ValueType::SymbolText => "\\\"%s\\\"",
        }
    }
}

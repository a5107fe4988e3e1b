//! The unwind tables of a file (`.eh_frame`): how the caller of a function is found at each instruction.

use std::ops::Range;
use std::sync::Arc;

use framehop::{ExplicitModuleSectionInfo, Module as Unwound};
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, NativeEndian, UnwindContext, UnwindSection,
};

use crate::target::{Image, Section};

/// The largest table that is read, bytes.
const MOST: u64 = 256 << 20;

/// See the module's page.
#[derive(Debug)]
pub(super) struct Tables {
    frames: Part,
    /// The index into it.
    header: Option<Part>,
    text: Option<Range<u64>>,
}

#[derive(Debug)]
struct Part {
    addresses: Range<u64>,
    bytes: Arc<[u8]>,
}

impl Tables {
    pub(super) fn of(image: &Image) -> Option<Tables> {
        let section =
            |name: &'static str| image.sections_named(name).find(|section| section.has_bytes);
        let part = |name: &'static str| {
            let section = section(name)?;
            let bytes = image.read(section.offset, section.size, MOST)?;
            Some(Part {
                addresses: addresses(section),
                bytes: bytes.into(),
            })
        };
        Some(Tables {
            frames: part(".eh_frame")?,
            header: part(".eh_frame_hdr"),
            text: section(".text").map(addresses),
        })
    }

    /// For the unwinder: a file that is mapped at `range`, its addresses plus `base`.
    pub(super) fn at(&self, name: &str, range: Range<u64>, base: u64) -> Unwound<Arc<[u8]>> {
        let header = self.header.as_ref();
        let sections = ExplicitModuleSectionInfo {
            text_svma: self.text.clone(),
            eh_frame_svma: Some(self.frames.addresses.clone()),
            eh_frame: Some(Arc::clone(&self.frames.bytes)),
            eh_frame_hdr_svma: header.map(|part| part.addresses.clone()),
            eh_frame_hdr: header.map(|part| Arc::clone(&part.bytes)),
            ..ExplicitModuleSectionInfo::default()
        };
        Unwound::new(name.to_owned(), range, base, sections)
    }

    /// Whether the function's caller is found by its frame pointer at this virtual address; `None` where the
    /// tables do not say.
    pub(super) fn has_frame_pointer(&self, address: u64) -> Option<bool> {
        let header = self.header.as_ref()?;
        let bases = BaseAddresses::default()
            .set_eh_frame(self.frames.addresses.start)
            .set_eh_frame_hdr(header.addresses.start);
        let frames = EhFrame::new(&self.frames.bytes, NativeEndian);
        let index = EhFrameHdr::new(&header.bytes, NativeEndian)
            .parse(&bases, 8)
            .ok()?;
        let entry = index
            .table()?
            .fde_for_address(&frames, &bases, address, EhFrame::cie_from_offset)
            .ok()?;
        let mut context = UnwindContext::new();
        let row = entry
            .unwind_info_for_address(&frames, &bases, &mut context, address)
            .ok()?;
        Some(match row.cfa() {
            CfaRule::RegisterAndOffset { register, .. } => *register == FRAME_POINTER,
            CfaRule::Expression(_) => false,
        })
    }
}

/// As DWARF numbers it.
#[cfg(target_arch = "x86_64")]
const FRAME_POINTER: gimli::Register = gimli::X86_64::RBP;
/// See the other one.
#[cfg(not(target_arch = "x86_64"))]
const FRAME_POINTER: gimli::Register = gimli::AArch64::X29;

fn addresses(section: &Section) -> Range<u64> {
    section.address..section.address.saturating_add(section.size)
}

//! What is known of x86-64 code by decoding it: where instructions begin, which addresses they take.

use std::collections::HashSet;

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};

/// Whether an instruction begins `offset` bytes into code that is decoded from its beginning; `None` where
/// it cannot be decoded that far.
pub fn is_boundary(code: &[u8], offset: u64) -> Option<bool> {
    let mut decoder = Decoder::new(64, code, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while (decoder.position() as u64) < offset {
        if !decoder.can_decode() {
            return None;
        }
        decoder.decode_out(&mut instruction);
        if instruction.is_invalid() {
            return None;
        }
    }
    Some(decoder.position() as u64 == offset)
}

/// The addresses that code at `address` takes without reading what is there (`lea ADDRESS(%rip)`).
pub fn addresses_taken(code: &[u8], address: u64) -> HashSet<u64> {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let taken = decoder.iter().filter_map(|instruction| {
        let is_taken =
            instruction.mnemonic() == Mnemonic::Lea && instruction.is_ip_rel_memory_operand();
        is_taken.then(|| instruction.ip_rel_memory_address())
    });
    taken.collect()
}

#[cfg(test)]
mod tests {
    use super::{addresses_taken, is_boundary};

    /// `endbr64; nopl 0(%rax,%rax); push %rbp; mov %rsp,%rbp; ret`
    const CODE: [u8; 14] = [
        0xf3, 0x0f, 0x1e, 0xfa, 0x0f, 0x1f, 0x44, 0x00, 0x00, 0x55, 0x48, 0x89, 0xe5, 0xc3,
    ];

    #[test]
    fn instructions_begin_where_the_one_before_ends() {
        let starts: Vec<u64> = (0..=14)
            .filter(|&offset| is_boundary(&CODE, offset) == Some(true))
            .collect();
        assert_eq!(starts, [0, 4, 9, 10, 13, 14]);
    }

    #[test]
    fn what_cannot_be_decoded_is_not_known() {
        assert_eq!(is_boundary(&[0x06, 0x90], 1), None);
        assert_eq!(is_boundary(&CODE[..10], 13), None);
    }

    /// `lea 0x10(%rip),%rax; lea 8(%rax),%rdx; mov 0x20(%rip),%rcx; ret`
    const TAKES: [u8; 19] = [
        0x48, 0x8d, 0x05, 0x10, 0x00, 0x00, 0x00, 0x48, 0x8d, 0x50, 0x08, 0x48, 0x8b, 0x0d, 0x20,
        0x00, 0x00, 0x00, 0xc3,
    ];

    #[test]
    fn an_address_that_is_taken_is_told_from_one_that_is_read() {
        let taken = addresses_taken(&TAKES, 0x1000);
        assert_eq!(taken.into_iter().collect::<Vec<_>>(), [0x1017]);
    }
}

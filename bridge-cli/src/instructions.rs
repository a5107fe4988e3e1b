//! Where instructions of x86-64 begin.

use iced_x86::{Decoder, DecoderOptions, Instruction};

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

#[cfg(test)]
mod tests {
    use super::is_boundary;

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
}

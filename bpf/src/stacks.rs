//! What is taken of stacks, as the programs are told it, and read again from behind a record.
//!
//! ```text
//! record … │ sizes │ ip sp bp │ kernel addresses │ user addresses │ bytes from sp on
//! ```
//! The kernel follows frame pointers by itself and gives addresses. Of the user's stack a piece is copied
//! too, from the stack pointer on: who knows a program's unwind tables finds with it what no frame pointer
//! leads to.

use crate::abi;
use crate::error::{Error, Result};
use crate::record::{Stack, UserRegisters};
use crate::registers;
use crate::spec::{Stacks, UserStack};

/// Bytes of the user's stack that are taken along with its addresses: callers of functions without a
/// frame stand there, behind what these have pushed.
const BESIDE_FRAMES: u32 = 256;

/// The constants of a session.
pub(crate) fn constants(stacks: Option<&Stacks>) -> Result<abi::Stacks> {
    let layout = registers::LAYOUT;
    let mut constants = abi::Stacks {
        room: 0,
        kernel_frames: 0,
        user_frames: 0,
        memory: 0,
        instruction_pointer: layout.instruction_pointer,
        stack_pointer: layout.stack_pointer,
        frame_pointer: layout.frame_pointer,
        reserved: 0,
    };
    let Some(stacks) = stacks else {
        return Ok(constants);
    };
    if !(1..=Stacks::MOST_FRAMES).contains(&stacks.frames) {
        return Err(Error::bad_spec(format!(
            "stacks of {} frames; from 1 to {} can be taken",
            stacks.frames,
            Stacks::MOST_FRAMES
        )));
    }
    let frames = 8 * u32::from(stacks.frames);
    constants.kernel_frames = frames;
    (constants.user_frames, constants.memory) = match stacks.user {
        UserStack::Frames => (frames, BESIDE_FRAMES),
        UserStack::Memory(bytes) => (0, u32::from(bytes).next_multiple_of(8)),
    };
    if !(8..=abi::STACK_MEMORY).contains(&constants.memory) {
        return Err(Error::bad_spec(format!(
            "{} bytes of a stack; from 8 to {} can be taken",
            constants.memory,
            abi::STACK_MEMORY
        )));
    }
    constants.room = abi::record::STACK as u32 + frames + constants.user_frames + constants.memory;
    Ok(constants)
}

impl abi::Stacks {
    /// Bytes of a slot: the last piece of memory may be tried for in full, whatever is still wanted.
    pub(crate) fn slot(&self) -> u32 {
        match self.room {
            0 => abi::record::STACK as u32,
            room => room + self.memory.min(4096),
        }
    }
}

/// Reads what stands behind a record. `None`: it is not of our making.
pub(crate) fn decode(bytes: &[u8]) -> Option<Stack> {
    let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    if word(0)? as usize != bytes.len() {
        return None;
    }
    // A negative one is an error: there is no such stack, or it cannot be read.
    let size = |at| Some(usize::try_from(word(at)? as i32).unwrap_or(0));
    let (kernel, user, memory) = (size(4)?, size(8)?, size(12)?);
    let rest = bytes.get(abi::record::STACK..)?;
    let (kernel, rest) = rest.split_at_checked(kernel)?;
    let (user, memory_bytes) = rest.split_at_checked(user)?;
    if memory_bytes.len() != memory {
        return None;
    }
    Some(Stack {
        kernel: addresses(kernel),
        user: addresses(user),
        registers: UserRegisters {
            instruction_pointer: long(16)?,
            stack_pointer: long(24)?,
            frame_pointer: long(32)?,
        },
        memory: memory_bytes.into(),
    })
}

fn addresses(bytes: &[u8]) -> Vec<u64> {
    let words = bytes
        .chunks_exact(8)
        .filter_map(|word| word.try_into().ok());
    words.map(u64::from_ne_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(kernel: &[u64], user: &[u64], memory: &[u8]) -> Vec<u8> {
        let bytes = abi::record::STACK + 8 * (kernel.len() + user.len()) + memory.len();
        let sizes = [bytes, 8 * kernel.len(), 8 * user.len(), memory.len()];
        let mut all: Vec<u8> = sizes
            .iter()
            .flat_map(|&size| (size as u32).to_ne_bytes())
            .collect();
        for word in [0x401000, 0x7ffe_0000, 0x7ffe_0040]
            .iter()
            .chain(kernel)
            .chain(user)
        {
            all.extend(word.to_ne_bytes());
        }
        all.extend(memory);
        all
    }

    #[test]
    fn a_stack_is_read_as_it_was_taken_and_a_cut_one_is_refused() {
        let whole = stack(&[u64::MAX - 1], &[0x401000, 0x402000], b"eight by");
        let read = decode(&whole).unwrap();
        assert_eq!(
            (&*read.kernel, &*read.user),
            (&[u64::MAX - 1][..], &[0x401000, 0x402000][..])
        );
        assert_eq!(&*read.memory, b"eight by");
        assert_eq!(read.registers.frame_pointer, 0x7ffe_0040);
        for length in 0..whole.len() {
            assert_eq!(decode(&whole[..length]), None, "{length} bytes");
        }
    }

    #[test]
    fn a_stack_that_could_not_be_read_is_empty() {
        let mut bytes = stack(&[], &[], b"");
        bytes[4..8].copy_from_slice(&(-14i32).to_ne_bytes());
        bytes[8..12].copy_from_slice(&(-22i32).to_ne_bytes());
        let read = decode(&bytes).unwrap();
        assert!(read.kernel.is_empty() && read.user.is_empty() && read.memory.is_empty());
    }

    #[test]
    fn sizes_beyond_what_can_be_taken_are_refused() {
        let constants = |frames, user| constants(Some(&Stacks { frames, user }));
        assert!(constants(0, UserStack::Frames).is_err());
        assert!(constants(Stacks::MOST_FRAMES + 1, UserStack::Frames).is_err());
        assert!(constants(1, UserStack::Memory(0)).is_err());
        assert!(constants(1, UserStack::Memory(u16::MAX)).is_err());
        let memory = constants(1, UserStack::Memory(65_521)).unwrap();
        assert_eq!((memory.memory, memory.user_frames), (65_528, 0));
        assert_eq!(super::constants(None).unwrap().room, 0);
    }
}

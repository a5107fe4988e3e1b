//! Room in a compiled object for code of a session's own.
//!
//! A function of the object consists of a mark, so many times, and then of calls of the functions that the
//! code may call: by these it is known where they are.

use crate::assembler::Assembler;
use crate::error::{Error, ErrorKind, Result};

const INSTRUCTION: usize = 8;

/// Such a function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// The number in each instruction of the room: `r0 = mark`.
    pub(crate) mark: i32,
    /// How many there are.
    pub(crate) instructions: usize,
    /// How many functions are called behind it.
    pub(crate) functions: usize,
}

impl Room {
    /// Puts code there. It must itself see to it that what is left of the room is reachable for the verifier.
    ///
    /// # Errors
    /// [`Load`](ErrorKind::Load) where the object is not as it was compiled.
    pub(crate) fn fill(&self, object: &mut [u8], code: &Assembler) -> Result<()> {
        self.try_fill(object, code)
            .ok_or_else(|| Error::new(ErrorKind::Load, "a BPF object has no room for code"))
    }

    fn try_fill(&self, object: &mut [u8], code: &Assembler) -> Option<()> {
        let [a, b, c, d] = self.mark.to_ne_bytes();
        let mark = [0xb7, 0, 0, 0, a, b, c, d];
        let start = (0..object.len())
            .step_by(INSTRUCTION)
            .find(|&at| object[at..].starts_with(&mark))?;
        let (room, behind) =
            object[start..].split_at_mut_checked(self.instructions * INSTRUCTION)?;
        if room.chunks_exact(INSTRUCTION).any(|one| one != mark) {
            return None;
        }
        let functions = (0..self.functions)
            .map(|number| {
                let call = behind.get(number * INSTRUCTION..)?;
                let call = call.first_chunk::<INSTRUCTION>()?;
                let is_own_call = call[0] == 0x85 && call[1] >> 4 == 1;
                let distance = i32::from_ne_bytes([call[4], call[5], call[6], call[7]]);
                let next = (self.instructions + number + 1) as i32;
                is_own_call.then_some(next + distance)
            })
            .collect::<Option<Vec<i32>>>()?;
        let bytes = code.finish(&functions)?;
        room.get_mut(..bytes.len())?.copy_from_slice(&bytes);
        Some(())
    }
}

//! From registers and a piece of the stack to return addresses, by the tables of the program.
//!
//! Functions compiled without frame pointers are invisible to whoever follows these: the kernel, at a leaf
//! function or at the first instruction of any, gives the caller's caller next. So the tables have the first
//! word, from the registers on and for as long as the piece lasts; then the addresses that the kernel found
//! go on, where the frame pointer is still the one that it began with:
//!
//! ```text
//! registers ─tables─▶ leaf ▶ its caller ▶ … end of the piece
//! frame pointer ─kernel─▶             … ▶ callers with frame pointers ▶ main
//! ```

use framehop::{FrameAddress, Unwinder as _};
use tracebraid_bpf::record::Stack as Taken;

use super::space::Space;

/// The unwinder's memory of what it has looked up.
#[cfg(target_arch = "x86_64")]
pub(super) type Cache = framehop::CacheNative<framehop::MayAllocateDuringUnwind>;

/// Return addresses, innermost first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Unwound {
    pub(super) addresses: Vec<u64>,
    /// How many of them the tables vouch for.
    pub(super) by_tables: usize,
    /// The thread's first function was reached.
    pub(super) whole: bool,
}

/// Unwinds what was taken of a process that has this mapped; at most so many frames.
#[cfg(target_arch = "x86_64")]
pub(super) fn unwind(space: &mut Space, taken: &Taken, cache: &mut Cache, most: usize) -> Unwound {
    let registers = taken.registers;
    let start = registers.instruction_pointer;
    let mut unwound = Unwound::default();
    // Frames of an address that is nowhere lead nowhere.
    if taken.memory.is_empty() || space.region(start).is_none() {
        unwound.addresses.clone_from(&taken.user);
        return unwound;
    }
    let (pointer, frame) = (registers.stack_pointer, registers.frame_pointer);
    let mut state = framehop::x86_64::UnwindRegsX86_64::new(start, pointer, frame);
    let mut read = |address: u64| {
        let at = usize::try_from(address.wrapping_sub(pointer)).map_err(drop)?;
        let word = taken.memory.get(at..).and_then(|rest| rest.get(..8));
        let word = word.and_then(|word| word.try_into().ok());
        word.map(u64::from_ne_bytes).ok_or(())
    };
    let mut address = FrameAddress::from_instruction_pointer(start);
    unwound.addresses.push(start);
    // One more than is wanted tells that there is more.
    while unwound.addresses.len() <= most {
        let known = space.region(address.address_for_lookup()).is_some();
        let unwinder = space.unwinder();
        let next = match unwinder.unwind_frame(address, &mut state, cache, &mut read) {
            Ok(Some(next)) if known => next,
            Ok(None) => {
                unwound.whole = true;
                break;
            }
            _ => break,
        };
        let Some(next) = FrameAddress::from_return_address(next) else {
            unwound.whole = true;
            break;
        };
        if space.region(next.address_for_lookup()).is_none() {
            break;
        }
        address = next;
        unwound.addresses.push(next.address());
    }
    unwound.by_tables = unwound.addresses.len();
    if !unwound.whole {
        let is_first_frame = state.bp() == frame;
        join(&mut unwound.addresses, &taken.user, is_first_frame);
    }
    unwound
}

/// See the other one: here the kernel's addresses are all there is.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn unwind(_: &mut Space, taken: &Taken, _: &mut Cache, _: usize) -> Unwound {
    Unwound {
        addresses: taken.user.clone(),
        ..Unwound::default()
    }
}

/// The unwinder's memory of what it has looked up.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Default)]
pub(super) struct Cache;

/// Goes on with the addresses that frame pointers lead to: behind those that the tables found as well, or, as
/// long as the frame pointer has not been moved, with the first of them.
fn join(addresses: &mut Vec<u64>, frames: &[u64], is_first_frame: bool) {
    // The first of each is where the process is.
    let frames = frames.get(1..).unwrap_or_default();
    let mut both = 0;
    for address in &addresses[1..] {
        both += usize::from(frames.get(both) == Some(address));
    }
    if both > 0 || is_first_frame {
        addresses.extend(&frames[both..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(tables: &[u64], frames: &[u64], is_first_frame: bool) -> Vec<u64> {
        let mut addresses = tables.to_vec();
        join(&mut addresses, frames, is_first_frame);
        addresses
    }

    #[test]
    fn callers_that_only_the_tables_know_stand_before_those_of_frame_pointers() {
        assert_eq!(joined(&[1, 2, 3], &[1, 4, 5], true), [1, 2, 3, 4, 5]);
        assert_eq!(joined(&[1], &[1, 4, 5], true), [1, 4, 5]);
    }

    #[test]
    fn what_both_found_stands_once() {
        assert_eq!(joined(&[1, 2, 4], &[1, 4, 5], false), [1, 2, 4, 5]);
        assert_eq!(joined(&[1, 2, 4, 5], &[1, 4, 5, 6], true), [1, 2, 4, 5, 6]);
        assert_eq!(joined(&[1, 7, 7], &[1, 7, 7, 7, 9], false), [1, 7, 7, 7, 9]);
    }

    #[test]
    fn a_frame_pointer_that_was_used_for_something_else_leads_nowhere() {
        assert_eq!(joined(&[1, 2, 3], &[1, 99], false), [1, 2, 3]);
    }
}

//! Where unoptimised code has its parameters when it is entered.
//!
//! Such code moves its parameters from registers to the stack first, and its debug information says where
//! they are from then on:
//!
//! ```text
//! push rbp │ mov rbp,rsp │ sub rsp,32 │ mov [rbp-20],edi     DW_OP_fbreg -36 is edi at the entry
//! sub rsp,56 │ mov [rsp+16],rdi │ mov [rsp+24],rsi           DW_OP_fbreg 16, frame base rsp: rdi, rsi
//! ```
//! So the first instructions are followed, up to the first that does not go on to the next: what each
//! register holds of what there was at the entry, and which of it is stored where. The calling convention
//! is not asked: Rust has none that is written down.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};
use tracebraid_bpf::spec::Register;

use super::followed::{Contents, GENERAL, State, Store, above_return};
use super::location::floating;
use crate::definition::knowledge::{Piece, UserPlace};

/// What an address in a frame is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// The stack pointer before the call.
    Cfa,
    /// A register, as it is at that moment.
    Register(Register),
}

/// A function's first instructions.
#[derive(Debug)]
pub(super) struct Prologue {
    stores: Vec<Store>,
    /// What the registers hold before the instruction at each address; the last is behind them.
    steps: Vec<(u64, [Contents; 16])>,
}

/// Instructions that are followed.
const LONGEST: usize = 200;

impl Prologue {
    /// Follows code that begins at this address.
    pub(super) fn of(code: &[u8], address: u64) -> Prologue {
        let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
        let mut state = State::default();
        let mut instruction = Instruction::default();
        let mut steps = vec![(address, state.registers)];
        for _ in 0..LONGEST {
            if !decoder.can_decode() {
                break;
            }
            decoder.decode_out(&mut instruction);
            if instruction.is_invalid() || instruction.flow_control() != FlowControl::Next {
                break;
            }
            state.follow(&instruction);
            steps.push((instruction.next_ip(), state.registers));
        }
        Prologue {
            stores: state.stores,
            steps,
        }
    }

    /// What at the entry was where a register is at this address, which is reached by the first
    /// instructions; `None` where that is not known.
    pub(super) fn held(&self, address: u64, register: Register) -> Option<UserPlace> {
        let (_, registers) = self.steps.iter().find(|(at, _)| *at == address)?;
        let number = GENERAL.iter().position(|own| *own == register)?;
        registers[number].place()
    }

    /// What a place of the frame is from the stack pointer before the call, when all is set up.
    fn settled(&self, base: Base, offset: i64) -> Option<i64> {
        let Base::Register(register) = base else {
            return Some(offset);
        };
        let (_, registers) = self.steps.last()?;
        let number = GENERAL.iter().position(|own| *own == register)?;
        match registers[number] {
            Contents::Frame(at) => Some(at.wrapping_add(offset)),
            _ => None,
        }
    }

    /// Where at the entry is what so many bytes at this place of the frame hold later.
    pub(super) fn find(&self, base: Base, offset: i64, size: u64) -> Result<UserPlace, String> {
        // What the caller has put there is there already.
        if let Some(at @ 0..) = self.settled(base, offset) {
            return Ok(above_return(at));
        }
        let mut pieces: Vec<Piece> = Vec::new();
        for store in &self.stores {
            let begin = match base {
                Base::Cfa => offset,
                Base::Register(register) => {
                    let contents = match register {
                        Register::Rsp => store.stack_pointer,
                        _ => store.frame_pointer,
                    };
                    match contents {
                        Contents::Frame(at) => at.wrapping_add(offset),
                        _ => continue,
                    }
                }
            };
            let Ok(within) = u64::try_from(store.address.wrapping_sub(begin)) else {
                continue;
            };
            let is_new = pieces.iter().all(|piece| {
                within >= piece.offset.saturating_add(piece.size)
                    || within.saturating_add(store.size) <= piece.offset
            });
            if within < size && is_new {
                let place = match store.what {
                    Ok(contents) => contents.place().ok_or_else(|| UNCLEAR.to_owned()),
                    Err(number) => Err(floating(number)),
                };
                if within == 0 && store.size >= size {
                    return place;
                }
                pieces.push(Piece {
                    offset: within,
                    size: store.size,
                    place,
                });
            }
        }
        if pieces.is_empty() {
            return Err(UNCLEAR.to_owned());
        }
        pieces.sort_by_key(|piece| piece.offset);
        Ok(UserPlace::Pieces(pieces))
    }
}

const UNCLEAR: &str =
    "the function puts it into its frame behind its entry, in a way that was not understood";

#[cfg(test)]
mod tests {
    use super::*;

    /// `push rbp; mov rbp,rsp; mov [rbp-20],edi; mov eax,[rbp+16]; mov [rbp-24],ax; movss [rbp-28],xmm1; ret`
    const WITH_FRAME: [u8; 24] = [
        0x55, 0x48, 0x89, 0xe5, 0x89, 0x7d, 0xec, 0x8b, 0x45, 0x10, 0x66, 0x89, 0x45, 0xe8, 0xf3,
        0x0f, 0x11, 0x4d, 0xe4, 0xc3, 0x90, 0x90, 0x90, 0x90,
    ];

    #[test]
    fn what_is_stored_is_where_it_was_at_the_entry() {
        let prologue = Prologue::of(&WITH_FRAME, 0x1000);
        let edi = Ok(UserPlace::Register(Register::Rdi));
        assert_eq!(prologue.find(Base::Cfa, -36, 4), edi);
        assert_eq!(prologue.find(Base::Register(Register::Rbp), -20, 4), edi);
        let on_stack = |offset| {
            Ok(UserPlace::Memory {
                base: Register::Rsp,
                offset,
            })
        };
        assert_eq!(prologue.find(Base::Cfa, -40, 2), on_stack(8));
        assert_eq!(prologue.find(Base::Cfa, 8, 8), on_stack(16));
        assert_eq!(
            prologue.find(Base::Register(Register::Rbp), 16, 8),
            on_stack(8)
        );
        assert_eq!(prologue.find(Base::Cfa, -44, 4), Err(floating(1)));
        assert_eq!(prologue.find(Base::Cfa, -80, 4), Err(UNCLEAR.to_owned()));
    }

    /// `sub rsp,24; mov [rsp+8],rcx; mov rcx,rdx; mov rdx,[rsp+8]; mov [rsp+16],rdx; ret`
    const WITHOUT: [u8; 23] = [
        0x48, 0x83, 0xec, 0x18, 0x48, 0x89, 0x4c, 0x24, 0x08, 0x48, 0x89, 0xd1, 0x48, 0x8b, 0x54,
        0x24, 0x08, 0x48, 0x89, 0x54, 0x24, 0x10, 0xc3,
    ];

    #[test]
    fn what_is_kept_aside_and_taken_back_is_followed() {
        let prologue = Prologue::of(&WITHOUT, 0);
        let stack = Base::Register(Register::Rsp);
        let rcx = UserPlace::Register(Register::Rcx);
        assert_eq!(prologue.find(stack, 16, 8), Ok(rcx.clone()));
        assert_eq!(prologue.held(17, Register::Rdx), Some(rcx));
        let rdx = UserPlace::Register(Register::Rdx);
        assert_eq!(prologue.held(17, Register::Rcx), Some(rdx));
        assert_eq!(prologue.held(18, Register::Rcx), None);
    }

    #[test]
    fn any_bytes_are_followed_to_an_end() {
        for first in 0..=u8::MAX {
            for second in (0..=u8::MAX).step_by(7) {
                let code = [
                    0x48, first, second, 0xe5, 0x24, first, 0x08, second, 0xf0, 0x0f,
                ];
                let prologue = Prologue::of(&code, u64::MAX - 4);
                let _ = prologue.find(Base::Register(Register::Rsp), i64::MIN, u64::MAX);
            }
        }
    }
}

//! From a cold block to everybody who wants the event.
//!
//! ```text
//! cold block: slots ──fire (registers)──▶ trampoline ──▶ emit: callbacks ─▶ USDT stub
//! ```

mod trampoline;

pub use trampoline::fire;

pub(crate) extern "C" fn emit(point: *const u8, slots: *const u64) {
    #[allow(unsafe_code)]
    unsafe {
    println!("hit {point:p} {slots:p} {}", *slots);
    let stub = point.add(8).offset(*(point.add(8) as *const i32) as isize);
    core::arch::asm!("call {}", in(reg) stub, in("rdi") slots, clobber_abi("C"));
    }
}

//! Stacks: what is behind a record, and that nothing is where none was asked for.

use tracebraid_bpf::Options;
use tracebraid_bpf::record::Stack;
use tracebraid_bpf::spec::{KernelEvent, Spec, Stacks, UserStack};

use crate::user::{slot_probe, user};
use crate::{Outcome, Test, UserTest, kernel, same, stubs, under};

/// Each is run for both ways of attaching.
pub(crate) const TESTS: &[UserTest] = &[
    ("a_hit_has_the_addresses_and_the_end_of_its_stack", frames),
    ("a_hit_has_as_much_of_its_stack_as_is_asked_for", memory),
    ("a_hit_has_no_stack_where_none_is_asked_for", none),
];

/// The same of kernel events.
pub(crate) const KERNEL_TESTS: &[Test] = &[(
    "a_system_call_has_the_stack_of_the_kernel_and_of_its_caller",
    system_call,
)];

fn hit(
    options: &Options,
    stacks: Option<Stacks>,
    words: &[u64],
) -> Result<Option<Box<Stack>>, String> {
    let spec = Spec {
        stacks,
        ..user(vec![slot_probe(1, words.len() as u8, &[])])
    };
    let seen = under(&spec, options, || {
        // Near the end of the stack.
        let mut near = [0; 8];
        near[..words.len()].copy_from_slice(words);
        stubs::hit_slots(&std::hint::black_box(near)[..words.len()]);
    });
    let mut seen = seen.map_err(|failed| failed.message().unwrap_or_default().to_owned())?;
    match &mut seen.records[..] {
        [record] => Ok(record.stack.take()),
        records => Err(format!("{} records", records.len())),
    }
}

/// The word at the stack pointer is where the function returns to.
fn return_address(stack: &Stack) -> Result<u64, String> {
    let word = stack.memory.first_chunk().ok_or("no memory")?;
    Ok(u64::from_ne_bytes(*word))
}

fn frames(options: &Options) -> Outcome {
    let stacks = Stacks {
        frames: 8,
        user: UserStack::Frames,
    };
    let stack = hit(options, Some(stacks), &[17; 4])?.ok_or("no stack")?;
    same(
        "kernel frames of a probe in a program",
        stack.kernel.len(),
        0,
    )?;
    same(
        "first",
        stack.user.first(),
        Some(&stack.registers.instruction_pointer),
    )?;
    same("at most 8", stack.user.len() <= 8, true)?;
    same("memory", stack.memory.len(), 256)?;
    let own = stubs::hit_slots as fn(&[u64]) as usize as u64;
    let caller = return_address(&stack)?;
    same("returns near", caller.abs_diff(own) < 1 << 24, true)
}

fn memory(options: &Options) -> Outcome {
    const WORD: u64 = 0x1234_5678_9abc_def0;
    let stacks = Stacks {
        frames: 8,
        user: UserStack::Memory(8000),
    };
    let stack = hit(options, Some(stacks), &[WORD; 8])?.ok_or("no stack")?;
    same("addresses", stack.user.len(), 0)?;
    same("memory", stack.memory.len(), 8000)?;
    let on_it = WORD.to_ne_bytes().repeat(8);
    let mut pieces = stack.memory.windows(on_it.len());
    same("what is on it", pieces.any(|piece| piece == on_it), true)
}

fn none(options: &Options) -> Outcome {
    same("stack", hit(options, None, &[1, 2])?, None)
}

fn system_call() -> Outcome {
    let event = KernelEvent::SysEnter(vec![libc::SYS_getppid as u32]);
    let spec = Spec {
        stacks: Some(Stacks {
            frames: 32,
            user: UserStack::Frames,
        }),
        ..kernel::spec(&[event])
    };
    let seen = under(&spec, &Options::default(), || {
        // SAFETY: getppid has no preconditions.
        #[allow(unsafe_code)]
        unsafe {
            libc::getppid()
        };
    })?;
    let stack = seen
        .records
        .first()
        .and_then(|record| record.stack.as_ref());
    let stack = stack.ok_or("no stack")?;
    let is_kernel = |address: &u64| address >> 63 == 1;
    same(
        "kernel",
        stack.kernel.len() > 3 && stack.kernel.iter().all(is_kernel),
        true,
    )?;
    same("user", stack.user.iter().any(is_kernel), false)?;
    same(
        "first",
        stack.user.first(),
        Some(&stack.registers.instruction_pointer),
    )
}

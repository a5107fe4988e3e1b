//! All of the SDK once, whatever the kernel refuses: what does not work is told by errors.

pub fn run() {
    let init = tracebraid::init_with(crate::options());
    std::thread::sleep(std::time::Duration::from_millis(30));
    let claimed = tracebraid::drain(|_| ());
    let enabled = tracebraid::enable("refused:*");
    let hits: u32 = (0..100).map(|n| u32::from(hit(n))).sum();
    let in_thread = std::thread::spawn(|| hit(100)).join().expect("no panic");
    let drained = tracebraid::drain(|_| ());
    let disabled = tracebraid::disable("refused:*");
    let off = !hit(101);
    assert_eq!(hits, if enabled.is_ok() { 100 } else { 0 });
    assert_eq!(in_thread, enabled.is_ok());
    assert!(off);
    println!(
        "init {init:?}, claimed {claimed:?}, enabled {enabled:?}, drained {drained:?}, disabled {disabled:?}"
    );
    println!("{}", tracebraid::status());
}

/// Whether it was on.
#[inline(never)]
fn hit(n: u64) -> bool {
    let on = std::cell::Cell::new(false);
    tracebraid::event!(refused::hit, n, text = "some", on = on.replace(true));
    on.get()
}

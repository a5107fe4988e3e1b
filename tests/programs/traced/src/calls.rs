//! What the SDK asks of the kernel, for somebody who watches system calls: each step is marked.

pub fn run() {
    mark("init");
    tracebraid::init_with(crate::options()).expect("the helper thread starts");
    mark("pause");
    // Until the helper thread has gone round a few times.
    std::thread::sleep(std::time::Duration::from_millis(100));
    mark("events");
    hit(1);
    mark("drain");
    tracebraid::drain(|_| ()).expect("nobody has the rings");
    mark("switch");
    tracebraid::enable("calls:*").expect("the process can patch itself");
    mark("first");
    hit(2);
    mark("events");
    (3..1000).for_each(hit);
    mark("drain");
    let mut seen = 0;
    tracebraid::drain(|_| seen += 1).expect("the rings are ours");
    mark("switch");
    tracebraid::disable("calls:*").expect("the process can patch itself");
    mark("end");
    assert_eq!(seen, 2 * 998);
}

#[inline(never)]
fn hit(n: u64) {
    tracebraid::event!(calls::words, n, m = -1_i8);
    tracebraid::event!(calls::texts, n, text = "some", formatted = %n);
}

/// A call that fails, and whose argument a watcher sees.
fn mark(step: &str) {
    // SAFETY: bytes of a text, and no descriptor.
    unsafe { libc::write(-1, step.as_ptr().cast(), step.len()) };
}

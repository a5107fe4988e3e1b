//! Hits before `main` and after it: constructors, destructors of thread-locals, handlers of `exit`.

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::io::Write;

use tracebraid::{FieldValue, event};
use tracebraid_tests::scenario::Scenario;

use super::tracepoint;

pub(crate) const TEARDOWN: Scenario = Scenario::new(
    "hits_before_main_in_destructors_of_thread_locals_and_at_exit_are_all_seen",
    &[],
    teardown,
)
.printing(
    "constructor\nmain\nthe second thread-local of a thread\nthe first thread-local of a thread\nmain's thread-local\nat exit\n",
);

#[inline(never)]
fn mark(place: &str) {
    event!(mark, place);
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = {
    extern "C" fn constructor() {
        if std::env::var("TRACEBRAID_SCENARIO").is_ok_and(|name| name == TEARDOWN.name) {
            let attachment = tracepoint("mark").attach(|event| {
                if let Some(FieldValue::Str(place)) = event.field("place") {
                    // Unbuffered: what `exit` flushes is flushed in an order of its own.
                    let _ = std::fs::File::options()
                        .append(true)
                        .open("/proc/self/fd/1")
                        .and_then(|mut out| writeln!(out, "{place}"));
                }
            });
            std::mem::forget(attachment.expect("the process can patch itself"));
            mark("constructor");
        }
    }
    constructor
};

struct Last(&'static str);

impl Drop for Last {
    fn drop(&mut self) {
        mark(self.0);
    }
}

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
    static LATER: RefCell<Option<Last>> = const { RefCell::new(None) };
}

extern "C" fn at_exit() {
    mark("at exit");
}

fn teardown() {
    // SAFETY: the function stays loaded.
    unsafe { libc::atexit(at_exit) };
    mark("main");
    std::thread::spawn(|| {
        LAST.with(|last| *last.borrow_mut() = Some(Last("the first thread-local of a thread")));
        LATER.with(|last| *last.borrow_mut() = Some(Last("the second thread-local of a thread")));
    })
    .join()
    .expect("the thread ends");
    LAST.with(|last| *last.borrow_mut() = Some(Last("main's thread-local")));
}

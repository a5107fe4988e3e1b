//! Entries and returns of `async fn`.

use std::future::{pending, ready};
use std::panic::catch_unwind;
use std::pin::pin;

use tracebraid::tracepoint;

use crate::log::{Log, poll, run};

#[tracepoint(ret, err)]
async fn wait(n: u64) -> Result<u64, String> {
    match n {
        0 => return Ok(0),
        1 => Err("one".to_owned())?,
        2 => pending().await,
        3 => panic!("three"),
        _ => ready(()).await,
    }
    Ok(n)
}

#[test]
fn an_async_function_is_entered_at_its_first_poll_and_returns_when_it_is_done() {
    let log = Log::of(&["wait"]);
    let future = wait(5);
    assert_eq!(log.take(), [""; 0]);
    run(future).unwrap();
    run(wait(0)).unwrap();
    run(wait(1)).unwrap_err();
    assert_eq!(
        log.take(),
        [
            "wait n=5",
            "wait__return ret=5 err=None",
            "wait n=0",
            "wait__return ret=0 err=None",
            "wait n=1",
            "wait__return ret=None err=one",
        ]
    );
}

#[test]
fn a_future_that_is_dropped_or_unwinds_says_so_once() {
    let log = Log::of(&["wait"]);
    {
        let mut future = pin!(wait(2));
        assert!(poll(future.as_mut()).is_pending());
        assert!(poll(future.as_mut()).is_pending());
        assert_eq!(log.take(), ["wait n=2"]);
    }
    assert_eq!(log.take(), ["wait__return end=dropped ret=None err=None"]);
    catch_unwind(|| run(wait(3))).unwrap_err();
    assert_eq!(
        log.take(),
        ["wait n=3", "wait__return end=unwind ret=None err=None"]
    );
    drop(wait(2));
    assert_eq!(
        log.take(),
        [""; 0],
        "a future that was never polled was never entered"
    );
}

#[test]
fn futures_are_as_send_as_they_were() {
    fn send<T: Send>(value: T) -> T {
        value
    }
    drop(send(wait(1)));
}

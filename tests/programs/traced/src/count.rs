//! Hits as fast as it can, counted.

use std::cell::Cell;

/// Each thread hits one tracepoint of words and, every eighth time, one with text.
pub fn run(threads: u64, hits: u64) {
    crate::wait_until_on("count");
    let workers: Vec<_> = (0..threads)
        .map(|thread| std::thread::spawn(move || work(thread, hits)))
        .collect();
    let mut total = (0, 0);
    for worker in workers {
        let (words, texts) = worker.join().expect("no panic");
        total = (total.0 + words, total.1 + texts);
    }
    println!("{} {}", total.0, total.1);
    // Whoever asked may look at the program while it still runs.
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
}

/// How often each tracepoint was on when it was hit.
fn work(thread: u64, hits: u64) -> (u64, u64) {
    let (words, texts) = (Cell::new(0), Cell::new(0));
    for n in 0..hits {
        tracebraid::event!(
            count::word,
            thread,
            n,
            seen = words.replace(words.get() + 1)
        );
        if n % 8 == 0 {
            tracebraid::event!(
                count::text,
                thread,
                text = "some text of the program's",
                seen = texts.replace(texts.get() + 1)
            );
        }
    }
    (words.get(), texts.get())
}

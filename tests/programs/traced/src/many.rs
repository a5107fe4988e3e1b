//! A thousand tracepoints: ten providers of a hundred each.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! providers {
    ($next:ident: $($provider:ident)*) => {$(
        hundred! { $next $provider:
            e00 e01 e02 e03 e04 e05 e06 e07 e08 e09
            e10 e11 e12 e13 e14 e15 e16 e17 e18 e19
            e20 e21 e22 e23 e24 e25 e26 e27 e28 e29
            e30 e31 e32 e33 e34 e35 e36 e37 e38 e39
            e40 e41 e42 e43 e44 e45 e46 e47 e48 e49
            e50 e51 e52 e53 e54 e55 e56 e57 e58 e59
            e60 e61 e62 e63 e64 e65 e66 e67 e68 e69
            e70 e71 e72 e73 e74 e75 e76 e77 e78 e79
            e80 e81 e82 e83 e84 e85 e86 e87 e88 e89
            e90 e91 e92 e93 e94 e95 e96 e97 e98 e99
        }
    )*};
}

macro_rules! hundred {
    ($next:ident $provider:ident: $($name:ident)*) => {
        $(tracebraid::event!($provider::$name, n = $next());)*
    };
}

pub fn run() {
    crate::wait_until_on("many");
    providers!(next: many0 many1 many2 many3 many4 many5 many6 many7 many8 many9);
    println!("{}", HITS.load(Ordering::Relaxed));
}

static HITS: AtomicU64 = AtomicU64::new(0);

/// Evaluated once by each tracepoint that is on.
fn next() -> u64 {
    HITS.fetch_add(1, Ordering::Relaxed)
}

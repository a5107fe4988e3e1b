//! What a site costs that is switched off, as criterion measures it: each peer by itself, with nobody
//! listening. The bench `off` has the same functions interleaved, with every state of `tracing`, and
//! holds the ratios to their bars; this one keeps a history on one's own machine.

#[path = "off/sites.rs"]
mod sites;

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use tracebraid_benches::part::Thoroughness;

use crate::sites::{PEERS, Shape};

fn disabled(criterion: &mut Criterion) {
    // The bench `off` has measured it, where there is little time.
    if Thoroughness::wanted() == Thoroughness::Quick {
        return;
    }
    tracebraid::init();
    static_keys::global_init();
    usdt::register_probes().expect("the crate usdt finds its probes");
    let items = [1_u64, 2, 3];
    for shape in Shape::ALL {
        let mut group = criterion.benchmark_group(format!("disabled/{}", shape.name()));
        group.throughput(Throughput::Elements(shape.sites()));
        for peer in PEERS {
            let run = peer.run(shape);
            group.bench_function(peer.name, |bencher| {
                bencher.iter_custom(|rounds| {
                    let start = std::time::Instant::now();
                    run(black_box(rounds), black_box(&items), black_box(-7));
                    start.elapsed()
                });
            });
        }
        group.finish();
    }
}

fn settings() -> Criterion {
    let criterion = Criterion::default();
    match Thoroughness::wanted() {
        Thoroughness::Full => criterion,
        _ => criterion
            .sample_size(10)
            .warm_up_time(Duration::from_millis(20))
            .measurement_time(Duration::from_millis(100)),
    }
}

criterion_group! {
    name = benches;
    config = settings();
    targets = disabled
}
criterion_main!(benches);

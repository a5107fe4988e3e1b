//! What an event costs that is on and goes to somebody in the same process, who does nothing with it.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use tracebraid_benches::part::Thoroughness;

/// Events of one chunk: some tens of microseconds, short beside a time slice.
const CHUNK: u64 = 2000;

/// Time of so many events, as criterion wants it, on a machine where others run too: each chunk is
/// run three times and the best counts, since whoever interrupts only adds.
fn undisturbed(events: u64, mut event: impl FnMut()) -> Duration {
    let mut sum = Duration::ZERO;
    for first in (0..events).step_by(CHUNK as usize) {
        let count = CHUNK.min(events - first);
        let best = (0..3).map(|_| {
            let start = Instant::now();
            (0..count).for_each(|_| event());
            start.elapsed()
        });
        sum += best.min().unwrap_or_default();
    }
    sum
}

/// A subscriber that wants everything and does nothing.
struct Nobody;

impl tracing::Subscriber for Nobody {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        black_box(event);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

impl log::Log for Nobody {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        black_box(record);
    }

    fn flush(&self) {}
}

fn in_process(criterion: &mut Criterion) {
    tracebraid::init();
    let tracepoints = tracebraid::tracepoints();
    let tracepoint = tracepoints
        .iter()
        .find(|tracepoint| tracepoint.name() == "in_process");
    let attachment = tracepoint.map(|tracepoint| {
        tracepoint.attach(|event| {
            black_box(event);
        })
    });
    let attachment = attachment.expect("the event below is in this program");
    tracing::subscriber::set_global_default(Nobody).expect("nobody else sets one");
    log::set_logger(&Nobody).expect("nobody else sets one");
    log::set_max_level(log::LevelFilter::Trace);

    let mut group = criterion.benchmark_group("on/in-process");
    group.bench_function("tracebraid", |bencher| {
        bencher.iter_custom(|events| {
            undisturbed(events, || {
                let (id, length, code) = black_box((1_u64, 2_u64, -7_i32));
                tracebraid::event!(in_process, id = id, length = length, code = code);
            })
        });
    });
    group.bench_function("tracing", |bencher| {
        bencher.iter_custom(|events| {
            undisturbed(events, || {
                let (id, length, code) = black_box((1_u64, 2_u64, -7_i32));
                tracing::debug!(id, length, code);
            })
        });
    });
    group.bench_function("log", |bencher| {
        bencher.iter_custom(|events| {
            undisturbed(events, || {
                let (id, length, code) = black_box((1_u64, 2_u64, -7_i32));
                log::debug!("{id} {length} {code}");
            })
        });
    });
    group.finish();
    drop(attachment);
}

fn settings() -> Criterion {
    let criterion = Criterion::default();
    match Thoroughness::wanted() {
        Thoroughness::Full => criterion,
        _ => criterion
            .sample_size(20)
            .warm_up_time(Duration::from_millis(50))
            .measurement_time(Duration::from_millis(300)),
    }
}

criterion_group! {
    name = benches;
    config = settings();
    targets = in_process
}
criterion_main!(benches);

//! What an event costs that is on and goes to somebody in the same process, who does nothing with it.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};

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
        bencher.iter(|| {
            let (id, length, code) = black_box((1_u64, 2_u64, -7_i32));
            tracebraid::event!(in_process, id = id, length = length, code = code);
        });
    });
    group.bench_function("tracing", |bencher| {
        bencher.iter(|| {
            let (id, length, code) = black_box((1_u64, 2_u64, -7_i32));
            tracing::debug!(id, length, code);
        });
    });
    group.bench_function("log", |bencher| {
        bencher.iter(|| {
            let (id, length, code) = black_box((1_u64, 2_u64, -7_i32));
            log::debug!("{id} {length} {code}");
        });
    });
    group.finish();
    drop(attachment);
}

fn quick() -> Criterion {
    let criterion = Criterion::default();
    match tracebraid_benches::part::Thoroughness::wanted() {
        tracebraid_benches::part::Thoroughness::Full => criterion,
        _ => criterion
            .warm_up_time(std::time::Duration::from_millis(500))
            .measurement_time(std::time::Duration::from_secs(2)),
    }
}

criterion_group! {
    name = benches;
    config = quick();
    targets = in_process
}
criterion_main!(benches);

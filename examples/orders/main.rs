//! `orders`: a small HTTP service over SQLite, with a tracepoint wherever its time may go.
//!
//! ```text
//! POST /orders ─▶ checkout ─▶ Stock::reserve ─▶ Ledger::charge ─▶ Shipping::enqueue ─▶ 201
//!                  (async)     (a mutex)         (a mutex, SQLite,    (a bounded queue)
//!                                                 one fsync)              │
//! GET /orders/{id} ─▶ look_up ─▶ cache, else Ledger::find                 ▼
//!                                                               shipping thread: pack
//! ```
//! A request is slow for one of four reasons: it waits for a CPU, for another thread that holds the
//! ledger or the stock, for the disk, or it computes. The service alone cannot tell which; its
//! tracepoints beside the scheduler's events can. Each request is also a span of tower-http's, which it
//! says through `tracing`, as axum and others say what they do.
//!
//! Prints `READY http://127.0.0.1:PORT pid PID` once it listens, and ends on SIGINT or SIGTERM.

mod error;
mod http;
mod ledger;
mod options;
mod shipping;
mod stock;

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use crate::error::Error;
use crate::http::Service;
use crate::ledger::Ledger;
use crate::options::Options;
use crate::shipping::Shipping;
use crate::stock::Stock;

fn main() -> ExitCode {
    // What axum, tower-http and hyper say through `tracing` is traced too.
    tracebraid::tracing::init();
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{}", options::HELP);
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprintln!("orders: {message}\n\n{}", options::HELP);
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("orders: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Error> {
    let ledger = Ledger::open(options.data.as_deref(), options.fsync)?;
    let stock = Arc::new(Stock::new());
    let shipping = Shipping::start(Arc::clone(&stock), options.queue)?;
    let service = Arc::new(Service::new(ledger, stock, shipping)?);

    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(options.workers)
        .thread_name("orders-worker")
        .enable_io()
        .build()?;
    runtime.block_on(serve(options, service))
}

/// Listens, says so, and serves until a signal asks for the end.
async fn serve(options: &Options, service: Arc<Service>) -> Result<(), Error> {
    let listener = tokio::net::TcpListener::bind(options.address).await?;
    let mut stdout = std::io::stdout();
    writeln!(
        stdout,
        "READY http://{} pid {}",
        listener.local_addr()?,
        std::process::id()
    )?;
    stdout.flush()?;
    axum::serve(listener, http::routes(service))
        .with_graceful_shutdown(asked_to_end())
        .await?;
    Ok(())
}

/// Resolves at SIGINT or SIGTERM; never, where neither can be listened to.
async fn asked_to_end() {
    use tokio::signal::unix::{SignalKind, signal};

    let (Ok(mut interrupt), Ok(mut terminate)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

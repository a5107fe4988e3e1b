//! The orders on disk: one SQLite connection behind a mutex.
//!
//! A commit in WAL mode with `synchronous=FULL` is one fsync of the log (and two more at a
//! checkpoint, each thousand pages). The mutex is held across it, so writers wait for each other
//! *and* for the disk: the situation that a profile of the CPU does not show.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension as _};
use serde::Serialize;
use tracebraid::tracepoint;

use crate::error::Error;

/// The largest amount that is charged without a question, cents.
const LIMIT: i64 = 1_000_000;

/// The orders that were charged.
pub(crate) struct Ledger {
    connection: Mutex<Connection>,
    /// Dropped after the connection, which has its files there.
    _scratch: Option<Scratch>,
}

/// What a customer gets for the money.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Receipt {
    pub(crate) order: u64,
    pub(crate) cents: i64,
}

impl Ledger {
    /// Opens the database in `directory`, or in a temporary one that goes with the ledger.
    pub(crate) fn open(directory: Option<&Path>, fsync: bool) -> Result<Ledger, Error> {
        let scratch = match directory {
            Some(_) => None,
            None => Some(Scratch::create()?),
        };
        let directory = match (directory, &scratch) {
            (Some(directory), _) => directory,
            (None, Some(scratch)) => &scratch.0,
            (None, None) => Path::new("."),
        };
        std::fs::create_dir_all(directory)?;
        let connection = Connection::open(directory.join("orders.sqlite"))?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", if fsync { "full" } else { "off" })?;
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS orders
                (id INTEGER PRIMARY KEY, user TEXT NOT NULL, cents INTEGER NOT NULL)",
        )?;
        Ok(Ledger {
            connection: Mutex::new(connection),
            _scratch: scratch,
        })
    }

    /// The first order id that is free.
    pub(crate) fn next_id(&self) -> Result<u64, Error> {
        let last: i64 =
            self.lock()
                .query_row("SELECT coalesce(max(id), 0) FROM orders", (), |row| {
                    row.get(0)
                })?;
        Ok(last.unsigned_abs() + 1)
    }

    /// Writes the order down; on return it is on the disk.
    #[tracepoint(err)]
    pub(crate) fn charge(&self, order_id: u64, user: &str, cents: i64) -> Result<Receipt, Error> {
        if !(1..=LIMIT).contains(&cents) {
            return Err(Error::Declined { cents });
        }
        self.lock()
            .prepare_cached("INSERT INTO orders (id, user, cents) VALUES (?1, ?2, ?3)")?
            .execute((order_id.cast_signed(), user, cents))?;
        Ok(Receipt {
            order: order_id,
            cents,
        })
    }

    /// Looks an order up.
    #[tracepoint]
    pub(crate) fn find(&self, order_id: u64) -> Result<Option<Receipt>, Error> {
        let cents = self
            .lock()
            .prepare_cached("SELECT cents FROM orders WHERE id = ?1")?
            .query_row((order_id.cast_signed(),), |row| row.get(0))
            .optional()?;
        Ok(cents.map(|cents| Receipt {
            order: order_id,
            cents,
        }))
    }

    /// SQLite rolls back what a panic left open. The time between entry and return is the time this
    /// thread waited.
    #[tracepoint(name = "ledger_lock")]
    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A directory that goes when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn create() -> std::io::Result<Scratch> {
        let path = std::env::temp_dir().join(format!("orders-{}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("orders: {}: {error}", self.0.display());
        }
    }
}

//! Why the service could not do what was asked, and what it answers then.

use std::fmt;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

/// Why an order was not taken or found.
#[derive(Debug)]
pub(crate) enum Error {
    /// The amount is not one that can be charged.
    Declined {
        /// The amount asked for.
        cents: i64,
    },
    /// An item is not in stock.
    OutOfStock(String),
    /// No such order.
    NotFound(u64),
    /// The shipping queue is full.
    Busy,
    /// The request's work was given up.
    Interrupted,
    /// The database failed.
    Database(rusqlite::Error),
    /// The network or the file system failed.
    Io(std::io::Error),
}

impl Error {
    fn status(&self) -> StatusCode {
        match self {
            Error::Declined { .. } => StatusCode::PAYMENT_REQUIRED,
            Error::OutOfStock(_) => StatusCode::CONFLICT,
            Error::NotFound(_) => StatusCode::NOT_FOUND,
            Error::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Error::Interrupted | Error::Database(_) | Error::Io(_) => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Declined { cents } => write!(f, "a charge of {cents} cents was declined"),
            Error::OutOfStock(item) => write!(f, "{item:?} is out of stock"),
            Error::NotFound(id) => write!(f, "there is no order {id}"),
            Error::Busy => write!(f, "too many orders wait to be shipped"),
            Error::Interrupted => write!(f, "the work was interrupted"),
            Error::Database(error) => write!(f, "database: {error}"),
            Error::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Error {
        Error::Database(error)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        Error::Io(error)
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        (self.status(), format!("{self}\n")).into_response()
    }
}

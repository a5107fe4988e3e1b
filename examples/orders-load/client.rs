//! A connection of either version of HTTP.

use std::io;
use std::net::SocketAddr;

use crate::connection::{Answer, Connection};
use crate::http2;

/// Asks, and waits for the answer.
pub(crate) enum Client {
    /// HTTP/1.1.
    One(Connection),
    /// HTTP/2.
    Two(http2::Connection),
}

impl Client {
    /// Connects.
    pub(crate) fn open(address: SocketAddr, http2: bool) -> io::Result<Client> {
        Ok(match http2 {
            false => Client::One(Connection::open(address)?),
            true => Client::Two(http2::Connection::open(address)?),
        })
    }

    /// Sends a GET and reads the answer.
    pub(crate) fn get(&mut self, path: &str) -> io::Result<Answer> {
        match self {
            Client::One(connection) => connection.get(path),
            Client::Two(connection) => connection.get(path),
        }
    }

    /// Sends a POST of JSON and reads the answer.
    pub(crate) fn post(&mut self, path: &str, json: &str) -> io::Result<Answer> {
        match self {
            Client::One(connection) => connection.post(path, json),
            Client::Two(connection) => connection.post(path, json),
        }
    }
}

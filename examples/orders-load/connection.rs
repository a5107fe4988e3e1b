//! As much of HTTP/1.1 as the driver needs: one request at a time on a kept connection.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long an answer may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// The longest body that is read.
pub(crate) const BODY_LIMIT: usize = 64 * 1024;
/// The longest header line that is read.
const LINE_LIMIT: u64 = 8 * 1024;

/// A connection to the service.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
}

/// What the service answered.
pub(crate) struct Answer {
    /// The status code.
    pub(crate) status: u16,
    body: Vec<u8>,
}

impl Answer {
    /// An answer, if its body is as short as those of the service are.
    pub(crate) fn new(status: u16, body: Vec<u8>) -> io::Result<Answer> {
        match body.len() <= BODY_LIMIT {
            true => Ok(Answer { status, body }),
            false => Err(damaged("a body that is too long")),
        }
    }

    /// The order number in a receipt.
    pub(crate) fn order(&self) -> Option<u64> {
        let text = std::str::from_utf8(&self.body).ok()?;
        let (_, rest) = text.split_once(r#""order":"#)?;
        rest.split(|c: char| !c.is_ascii_digit())
            .next()?
            .parse()
            .ok()
    }
}

impl Connection {
    /// Connects.
    pub(crate) fn open(address: SocketAddr) -> io::Result<Connection> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Connection {
            stream: BufReader::new(stream),
        })
    }

    /// Sends a GET and reads the answer.
    pub(crate) fn get(&mut self, path: &str) -> io::Result<Answer> {
        self.exchange(&format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n"))
    }

    /// Sends a POST of JSON and reads the answer.
    pub(crate) fn post(&mut self, path: &str, json: &str) -> io::Result<Answer> {
        self.exchange(&format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{json}",
            json.len()
        ))
    }

    fn exchange(&mut self, request: &str) -> io::Result<Answer> {
        self.stream.get_mut().write_all(request.as_bytes())?;
        let status = self.line()?;
        let status = status
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .ok_or_else(|| damaged("no status code"))?;
        let mut length = None;
        loop {
            let line = self.line()?;
            match line.split_once(':') {
                None if line.is_empty() => break,
                None => return Err(damaged("a header without a colon")),
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse().ok();
                }
                Some(_) => {}
            }
        }
        let length = length
            .filter(|&length| length <= BODY_LIMIT)
            .ok_or_else(|| damaged("no content-length, or one too large"))?;
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        Ok(Answer { status, body })
    }

    /// A header line without its end.
    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        self.stream.by_ref().take(LINE_LIMIT).read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(text) => Ok(text.to_owned()),
            None => Err(damaged("the answer ends in the middle of a line")),
        }
    }
}

/// The service answers what it should not.
pub(crate) fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

//! The command line of `orders-load`, and the limits it keeps.

use std::net::SocketAddr;
use std::time::Duration;

/// What `--help` prints.
pub(crate) const HELP: &str = "\
usage: orders-load [http://]ADDRESS:PORT [--rate N|max] [--seconds N] [--connections N] [--http2]

  ADDRESS        where `orders` listens; a loopback address
  --rate         requests per second, all connections together, 1 to 10000, or `max`: each
                 connection asks as soon as it was answered                 (200)
  --seconds      how long, 1 to 600                                         (5)
  --connections  1 to 64                                                    (4)
  --http2        speaks HTTP/2 from the first byte on, without TLS
";

/// What is to be driven, and how hard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// The service.
    pub(crate) address: SocketAddr,
    /// Requests per second; `None` asks as soon as there was an answer.
    pub(crate) rate: Option<f64>,
    /// How long.
    pub(crate) duration: Duration,
    /// Connections, each with a thread.
    pub(crate) connections: u32,
    /// Whether they speak HTTP/2.
    pub(crate) http2: bool,
}

impl Options {
    /// Reads the arguments; `None` asks for help.
    pub(crate) fn parse(
        mut arguments: impl Iterator<Item = String>,
    ) -> Result<Option<Options>, String> {
        let (mut address, mut http2) = (None, false);
        let (mut rate, mut seconds, mut connections) = (Some(200), 5, 4);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next();
            match argument.as_str() {
                "-h" | "--help" => return Ok(None),
                "--rate" => {
                    rate = match value() {
                        Some(text) if text == "max" => None,
                        text => Some(bounded("--rate", text, 10_000)?),
                    }
                }
                "--seconds" => seconds = bounded("--seconds", value(), 600)?,
                "--connections" => connections = bounded("--connections", value(), 64)?,
                "--http2" => http2 = true,
                text => address = Some(loopback(text)?),
            }
        }
        Ok(Some(Options {
            address: address.ok_or("where does the service listen?")?,
            rate: rate.map(f64::from),
            duration: Duration::from_secs(u64::from(seconds)),
            connections,
            http2,
        }))
    }
}

fn bounded(name: &str, value: Option<String>, limit: u32) -> Result<u32, String> {
    match value.as_deref().map(str::parse) {
        Some(Ok(number)) if (1..=limit).contains(&number) => Ok(number),
        _ => Err(format!("{name} takes a number from 1 to {limit}")),
    }
}

/// Load is for machines that asked for it: this one.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address = text.strip_prefix("http://").unwrap_or(text);
    match address.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_loopback() => Ok(address),
        Ok(address) => Err(format!("{address} is no loopback address")),
        Err(_) => Err(format!("{text:?} is no ADDRESS:PORT")),
    }
}

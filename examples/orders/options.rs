//! The command line of `orders`.

use std::net::SocketAddr;
use std::path::PathBuf;

/// What `--help` prints.
pub(crate) const HELP: &str = "\
usage: orders [--listen ADDRESS:PORT] [--data DIRECTORY] [--no-fsync] [--workers N] [--queue N]

  --listen   where to listen                     (127.0.0.1:0, a free port)
  --data     where the database is kept          (a temporary directory, removed at the end)
  --no-fsync do not wait for the disk at commit
  --workers  threads of the async runtime        (2)
  --queue    orders that may wait to be shipped  (1024)
";

/// What the service is asked to be.
#[derive(Debug)]
pub(crate) struct Options {
    /// Where to listen; port 0 takes a free one.
    pub(crate) address: SocketAddr,
    /// Where the database is kept; a temporary directory without it.
    pub(crate) data: Option<PathBuf>,
    /// Whether a commit waits for the disk.
    pub(crate) fsync: bool,
    /// Threads of the async runtime.
    pub(crate) workers: usize,
    /// Orders that may wait to be shipped.
    pub(crate) queue: usize,
}

impl Options {
    /// Reads the arguments; `None` asks for help.
    pub(crate) fn parse(
        mut arguments: impl Iterator<Item = String>,
    ) -> Result<Option<Options>, String> {
        let mut options = Options {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            data: None,
            fsync: true,
            workers: 2,
            queue: 1024,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
            match argument.as_str() {
                "-h" | "--help" => return Ok(None),
                "--no-fsync" => options.fsync = false,
                "--data" => options.data = Some(PathBuf::from(value()?)),
                "--workers" => options.workers = count(&value()?)?,
                "--queue" => options.queue = count(&value()?)?,
                "--listen" => {
                    let text = value()?;
                    options.address = text
                        .parse()
                        .map_err(|_| format!("{text:?} is no ADDRESS:PORT"))?;
                }
                _ => return Err(format!("unknown argument {argument:?}")),
            }
        }
        Ok(Some(options))
    }
}

fn count(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..=65_536) => Ok(number),
        _ => Err(format!("{text:?} is no number from 1 to 65536")),
    }
}

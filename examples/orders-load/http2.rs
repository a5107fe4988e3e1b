//! HTTP/2 as the driver needs it: one request at a time on a kept connection. The connection itself is
//! attended to while an answer is waited for.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{Method, Request};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::connection::{Answer, BODY_LIMIT, PATIENCE, damaged};

/// A connection to the service.
pub(crate) struct Connection {
    runtime: Runtime,
    requests: SendRequest<Bytes>,
    address: SocketAddr,
}

impl Connection {
    /// Connects.
    pub(crate) fn open(address: SocketAddr) -> io::Result<Connection> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let requests = runtime.block_on(in_time(async {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let (requests, connection) = h2::client::handshake(stream).await.map_err(other)?;
            // Where it ends, so does each request.
            tokio::spawn(connection);
            Ok(requests)
        }))?;
        Ok(Connection {
            runtime,
            requests,
            address,
        })
    }

    /// Sends a GET and reads the answer.
    pub(crate) fn get(&mut self, path: &str) -> io::Result<Answer> {
        self.exchange(Method::GET, path, None)
    }

    /// Sends a POST of JSON and reads the answer.
    pub(crate) fn post(&mut self, path: &str, json: &str) -> io::Result<Answer> {
        self.exchange(Method::POST, path, Some(json))
    }

    fn exchange(&mut self, method: Method, path: &str, json: Option<&str>) -> io::Result<Answer> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("http://{}{path}", self.address));
        if json.is_some() {
            request = request.header("content-type", "application/json");
        }
        let request = request.body(()).map_err(io::Error::other)?;
        let requests = self.requests.clone();
        self.runtime.block_on(in_time(async {
            let mut requests = requests.ready().await.map_err(other)?;
            let (answer, mut body) = requests
                .send_request(request, json.is_none())
                .map_err(other)?;
            if let Some(json) = json {
                body.send_data(Bytes::copy_from_slice(json.as_bytes()), true)
                    .map_err(other)?;
            }
            let (head, mut body) = answer.await.map_err(other)?.into_parts();
            let mut bytes = Vec::new();
            while let Some(part) = body.data().await {
                let part = part.map_err(other)?;
                body.flow_control()
                    .release_capacity(part.len())
                    .map_err(other)?;
                bytes.extend_from_slice(&part);
                if bytes.len() > BODY_LIMIT {
                    break;
                }
            }
            Answer::new(head.status.as_u16(), bytes)
        }))
    }
}

/// No answer takes longer than the driver has patience.
async fn in_time<T>(work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    timeout(PATIENCE, work).await.map_err(late)?
}

fn other(error: h2::Error) -> io::Error {
    if error.is_io() {
        return error.into_io().unwrap_or_else(|| damaged("it is gone"));
    }
    io::Error::other(error)
}

//! A small HTTP server that can also close a connection without an answer, which no framework
//! offers.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::task::JoinHandle;

use crate::ports;

/// Response to a request; `None` closes the connection without a response.
pub type Answer = Option<Response<Bytes>>;

const CLOSED: &str = "closed on purpose";

/// HTTP server on a free port of 127.0.0.1. It stops listening when it is dropped.
#[derive(Debug)]
pub struct Server {
    pub port: u16,
    task: JoinHandle<()>,
}

impl Server {
    /// Starts a server that answers every request with the result of `answer`.
    pub async fn start<F, A>(answer: F) -> Self
    where
        F: Fn(Request<Bytes>) -> A + Clone + Send + 'static,
        A: Future<Output = Answer> + Send + 'static,
    {
        let (listener, port) = ports::listen().await;
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                let answer = answer.clone();
                let service = service_fn(move |request: Request<Incoming>| {
                    let answer = answer.clone();
                    async move {
                        let (parts, body) = request.into_parts();
                        let body = body.collect().await.map_err(|_| CLOSED)?.to_bytes();
                        let answered = answer(Request::from_parts(parts, body)).await;
                        answered.map(|it| it.map(Full::new)).ok_or(CLOSED)
                    }
                });
                tokio::spawn(async move {
                    let _: Result<(), hyper::Error> =
                        http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { port, task }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Stops listening, so that new connections are refused.
    pub fn stop(&self) {
        self.task.abort();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

pub fn response(status: u16, body: impl Into<Bytes>) -> Response<Bytes> {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}

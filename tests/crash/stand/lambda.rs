//! Stand-in for Lambda's Invoke API, through which the HTTP functions invoke `mq-access`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use test_support::http_server::{Server, response};

use super::faults::{Faults, Op};
use super::function::{Function, Invoked};

/// HTTP server with the path `POST /2015-03-31/functions/{name}/invocations` for one function.
#[derive(Debug)]
pub(crate) struct Lambda {
    server: Server,
    kill_on_arrival: Arc<AtomicBool>,
}

impl Lambda {
    pub(crate) async fn start(function: Function, faults: Faults) -> Self {
        let kill_on_arrival = Arc::new(AtomicBool::new(false));
        let kill = Arc::clone(&kill_on_arrival);
        let server = Server::start(move |request| {
            let (function, faults, kill) = (function.clone(), faults.clone(), Arc::clone(&kill));
            async move { faults.pass(Op::Invoke, invoke(function, request, kill)).await }
        })
        .await;
        Self { server, kill_on_arrival }
    }

    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// Makes the next invocation fail as if its process had been killed before it read the event.
    pub(crate) fn kill_on_arrival(&self) {
        self.kill_on_arrival.store(true, Ordering::SeqCst);
    }

    pub(crate) fn heal(&self) {
        self.kill_on_arrival.store(false, Ordering::SeqCst);
    }
}

async fn invoke(function: Function, request: Request<Bytes>, kill: Arc<AtomicBool>) -> Response<Bytes> {
    let invoked = if kill.swap(false, Ordering::SeqCst) {
        Invoked::Failed(Bytes::from_static(br#"{"errorType":"Runtime.ExitError","errorMessage":"Error: Runtime exited with error: signal: killed"}"#))
    } else {
        function.invoke(request.into_body()).await
    };
    match invoked {
        Invoked::Answered(payload) => response(200, payload),
        Invoked::Failed(error) | Invoked::TimedOut(error) => {
            let mut failed = response(200, error);
            failed.headers_mut().insert("x-amz-function-error", HeaderValue::from_static("Unhandled"));
            failed
        }
    }
}

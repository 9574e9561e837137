//! HTTP client of the command line. It is the client of the AWS SDK, so that all requests follow
//! the same rules for certificates and proxies (`HTTPS_PROXY`, `NO_PROXY`).

use std::time::Duration;

use aws_smithy_http_client::Connector;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_runtime_api::client::http::{HttpConnector as _, HttpConnectorSettings};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Limited};

/// Time limit for connecting to a server.
const CONNECT: Duration = Duration::from_secs(10);
/// Time limit for reading a whole response body into memory.
const READ: Duration = Duration::from_secs(120);
/// Maximum time without new data while a response body is read as a stream.
const STALL: Duration = Duration::from_secs(60);

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// HTTP client that keeps its connections open.
#[derive(Debug)]
pub(crate) struct Http(Connector);

/// Reason why no complete response arrived.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    /// The request contains characters that HTTP does not allow, such as a line feed in a header.
    #[error("the request cannot be sent")]
    Request(#[source] Cause),
    /// The connection failed or timed out before the response headers arrived. The server may have
    /// acted on the request.
    #[error("there was no response")]
    Connection(#[source] Cause),
    /// The response broke off while its body was read, timed out, or was larger than the limit.
    #[error("the response broke off")]
    Broken(#[source] Cause),
}

impl Http {
    /// Creates a client that waits `patience` for the headers of a response.
    pub(crate) fn new(patience: Duration) -> Self {
        let settings =
            HttpConnectorSettings::builder().connect_timeout(CONNECT).read_timeout(patience).build();
        Self(connector(Some(settings)))
    }

    /// Sends a request once. Redirects are not followed.
    ///
    /// # Errors
    /// If there is no response. A response with any status is a success here.
    pub(crate) async fn send(&self, request: Request<SdkBody>) -> Result<Response<SdkBody>, HttpError> {
        let request = HttpRequest::try_from(request).map_err(|error| HttpError::Request(Box::new(error)))?;
        let response = self.0.call(request).await.map_err(|error| HttpError::Connection(Box::new(error)))?;
        response.try_into_http1x().map_err(|error| HttpError::Connection(Box::new(error)))
    }
}

/// Creates an HTTP connector, which uses the proxy in the environment variables (`HTTPS_PROXY`,
/// `NO_PROXY`).
pub(crate) fn connector(settings: Option<HttpConnectorSettings>) -> Connector {
    let mut builder = Connector::builder().proxy_config(ProxyConfig::from_env());
    builder.set_connector_settings(settings);
    builder.tls_provider(Provider::Rustls(CryptoMode::Ring)).build()
}

/// Reads a whole response body of at most `limit` bytes into memory.
///
/// # Errors
/// If the body broke off, took longer than two minutes, or is larger than the limit.
pub(crate) async fn collect(body: SdkBody, limit: usize) -> Result<Bytes, HttpError> {
    let read = tokio::time::timeout(READ, Limited::new(body, limit).collect()).await;
    let read = read.map_err(|slow| HttpError::Broken(Box::new(slow)))?;
    Ok(read.map_err(HttpError::Broken)?.to_bytes())
}

/// Returns the next bytes of a response body, as many as arrived together; `None` at its end.
///
/// # Errors
/// If the body broke off, or no data came for a minute.
pub(crate) async fn next(body: &mut SdkBody) -> Result<Option<Bytes>, HttpError> {
    loop {
        let frame = tokio::time::timeout(STALL, body.frame()).await;
        let Some(frame) = frame.map_err(|slow| HttpError::Broken(Box::new(slow)))? else { return Ok(None) };
        // What is no data is a trailer.
        if let Ok(data) = frame.map_err(HttpError::Broken)?.into_data() {
            return Ok(Some(data));
        }
    }
}

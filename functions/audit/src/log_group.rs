//! The log group of audit events, by two actions of CloudWatch Logs, for which no SDK is compiled.

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials as _, SharedCredentialsProvider};
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningParams, SigningSettings, sign};
use aws_sigv4::sign::v4;
use aws_smithy_http_client::Connector;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_runtime_api::client::http::HttpConnector as _;
use aws_smithy_runtime_api::client::identity::Identity;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use backon::{ExponentialBuilder, Retryable as _};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use runtime::Sdk;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::calls::Line;

/// Time of one attempt, which carries up to a megabyte.
const ATTEMPT: Duration = Duration::from_secs(10);
/// Further attempts of a call. Lambda repeats the invocation after them.
const RETRIES: usize = 2;
const PAUSE: Duration = Duration::from_millis(300);
/// Largest answer, in bytes. All that are known have less than a kilobyte.
const LARGEST: usize = 64 * 1024;
/// Code of the error for a stream that exists already.
const EXISTS: &str = "ResourceAlreadyExistsException";
/// Code of the error for a stream or a group that does not exist.
const MISSING: &str = "ResourceNotFoundException";

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Reason why the log group did not take events.
#[derive(Debug, thiserror::Error)]
pub enum LogGroupError {
    #[error("neither a region nor credentials are known")]
    Unknown,
    #[error("there are no credentials")]
    Credentials(#[source] CredentialsError),
    #[error("the request cannot be made")]
    Request(#[source] Cause),
    #[error("CloudWatch Logs did not answer")]
    Unanswered(#[source] Cause),
    #[error("CloudWatch Logs did not answer in time")]
    TimedOut,
    #[error("CloudWatch Logs refused with status {status}: {code}")]
    Refused { status: u16, code: String },
}

/// A stream in the log group of audit events.
#[derive(Debug)]
pub struct LogGroup {
    http: Connector,
    credentials: SharedCredentialsProvider,
    region: String,
    address: String,
    /// Header `x-amz-user-agent`, with the name of the application as AWS's SDKs write it.
    agent: String,
    group: String,
    stream: String,
    /// Filled once the stream exists.
    is_made: OnceCell<()>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Put<'a> {
    log_group_name: &'a str,
    log_stream_name: &'a str,
    log_events: &'a [Line],
}

impl LogGroup {
    /// Makes a client, which creates the stream before it first writes to it.
    ///
    /// # Errors
    /// If the configuration has no region or no credentials.
    pub fn new(sdk: &Sdk, group: String, stream: String) -> Result<Self, LogGroupError> {
        let config = sdk.standard();
        let (Some(region), Some(credentials)) = (config.region(), config.credentials_provider()) else {
            return Err(LogGroupError::Unknown);
        };
        let region = region.to_string();
        let suffix = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        let address = match config.endpoint_url() {
            Some(endpoint) => format!("{}/", endpoint.trim_end_matches('/')),
            None => format!("https://logs.{region}.{suffix}/"),
        };
        let app = config.app_name().map_or("audit", AsRef::as_ref);
        let agent = format!("integrahub app/{app}");
        let http = Connector::builder().tls_provider(Provider::Rustls(CryptoMode::Ring)).build();
        Ok(Self { http, credentials, region, address, agent, group, stream, is_made: OnceCell::new() })
    }

    /// Writes lines, which are sorted by time and within the limits of one call. Lines that are too
    /// old or too new for the group are logged and left out: no retry would help.
    pub(crate) async fn put(&self, lines: &[Line]) -> Result<(), LogGroupError> {
        self.is_made.get_or_try_init(|| self.make_stream()).await?;
        let put = Put { log_group_name: &self.group, log_stream_name: &self.stream, log_events: lines };
        let body = serde_json::to_vec(&put).map_err(|error| LogGroupError::Request(error.into()))?;
        let body = Bytes::from(body);
        let answer = match self.call("PutLogEvents", body.clone()).await {
            // Somebody removed the stream. Without a new one the environment could write no more.
            Err(LogGroupError::Refused { code, .. }) if code == MISSING => {
                self.make_stream().await?;
                self.call("PutLogEvents", body).await?
            }
            answer => answer?,
        };
        let answer: Value = serde_json::from_slice(&answer).unwrap_or_default();
        if let Some(rejected) = answer.get("rejectedLogEventsInfo").filter(|rejected| !rejected.is_null()) {
            let lines = lines.len();
            tracing::error!(
                event_type = "audit.rejected",
                %rejected,
                lines,
                "the log group left out some of {lines} audit events, which are too old or too new"
            );
        }
        Ok(())
    }

    async fn make_stream(&self) -> Result<(), LogGroupError> {
        let body = json!({"logGroupName": self.group, "logStreamName": self.stream}).to_string();
        match self.call("CreateLogStream", body.into()).await {
            Err(LogGroupError::Refused { code, .. }) if code == EXISTS => Ok(()),
            made => made.map(drop),
        }
    }

    /// Calls an action, up to three times if a retry may help.
    async fn call(&self, action: &str, body: Bytes) -> Result<Bytes, LogGroupError> {
        let attempt = || async {
            let sent = timeout(ATTEMPT, self.send(action, body.clone())).await;
            sent.unwrap_or(Err(LogGroupError::TimedOut))
        };
        let pauses = ExponentialBuilder::new().with_min_delay(PAUSE).with_max_times(RETRIES).with_jitter();
        attempt.retry(pauses).when(LogGroupError::may_pass).await
    }

    async fn send(&self, action: &str, body: Bytes) -> Result<Bytes, LogGroupError> {
        let credentials = self.credentials.provide_credentials().await;
        let request = self.signed(action, body, credentials.map_err(LogGroupError::Credentials)?)?;
        let request = HttpRequest::try_from(request).map_err(|error| LogGroupError::Request(error.into()))?;
        let answer =
            self.http.call(request).await.map_err(|error| LogGroupError::Unanswered(error.into()))?;
        let status = answer.status();
        let read = Limited::new(answer.into_body(), LARGEST).collect().await;
        let body = read.map_err(LogGroupError::Unanswered)?.to_bytes();
        if status.is_success() {
            return Ok(body);
        }
        Err(LogGroupError::Refused { status: status.as_u16(), code: code(&body) })
    }

    fn signed(
        &self,
        action: &str,
        body: Bytes,
        credentials: Credentials,
    ) -> Result<Request<SdkBody>, LogGroupError> {
        let target = format!("Logs_20140328.{action}");
        let headers = [
            ("content-type", "application/x-amz-json-1.1"),
            ("x-amz-target", target.as_str()),
            ("x-amz-user-agent", self.agent.as_str()),
        ];
        let signable = SignableRequest::new(
            "POST",
            self.address.as_str(),
            headers.into_iter(),
            SignableBody::Bytes(&body),
        )
        .map_err(|error| LogGroupError::Request(error.into()))?;
        let identity = Identity::from(credentials);
        let params = v4::SigningParams::builder()
            .identity(&identity)
            .region(&self.region)
            .name("logs")
            .time(SystemTime::now())
            .settings(SigningSettings::default())
            .build()
            .map_err(|error| LogGroupError::Request(error.into()))?;
        let params = SigningParams::from(params);
        let signed = sign(signable, &params).map_err(|error| LogGroupError::Request(error.into()))?;
        let request = Request::post(self.address.as_str());
        let request = headers
            .into_iter()
            .chain(signed.output().headers())
            .fold(request, |request, (name, value)| request.header(name, value));
        request.body(SdkBody::from(body)).map_err(|error| LogGroupError::Request(error.into()))
    }
}

impl LogGroupError {
    /// True if another attempt may help at once.
    fn may_pass(&self) -> bool {
        match self {
            Self::Unknown | Self::Credentials(_) | Self::Request(_) => false,
            Self::Unanswered(_) | Self::TimedOut => true,
            Self::Refused { status, code } => {
                *status == StatusCode::TOO_MANY_REQUESTS.as_u16()
                    || *status >= 500
                    || code.contains("Throttling")
            }
        }
    }
}

/// Returns the code in the answer to a call that was refused. The message may quote an event.
fn code(body: &[u8]) -> String {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    let code = answer.get("__type").and_then(Value::as_str).unwrap_or("no code");
    code.rsplit('#').next().unwrap_or_default().chars().take(100).collect()
}

//! Request of CloudFormation for its custom resource, and the response to it.

use std::time::Duration;

use aws_smithy_http_client::Connector;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_runtime_api::client::http::HttpConnector as _;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use backon::{ExponentialBuilder, Retryable as _};
use catalog::Migrated;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::MigrateError;

/// Id of the custom resource in CloudFormation. It must never change: CloudFormation would delete
/// the resource of the old id.
const PHYSICAL_ID: &str = "database-schema";
/// Maximum length, in characters, of a response's reason. CloudFormation reads only 4096 bytes of a
/// whole response.
const REASON_CHARS: usize = 1_000;
const RETRIES: usize = 2;
const ATTEMPT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(300);

/// Reason why the response to CloudFormation was not delivered. It omits the URL, with which
/// anybody could respond, and therefore also the client's errors, which contain the URL.
#[derive(Debug, thiserror::Error)]
pub enum ResponseError {
    #[error("invalid response URL")]
    Url,
    #[error("the response was rejected with status {0}")]
    Rejected(u16),
    #[error("cannot send the response")]
    Unsent,
    #[error("sending the response timed out")]
    TimedOut,
}

/// Request of CloudFormation to create, update or delete the custom resource. CloudFormation waits
/// until a response arrives at `response_url`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Request {
    pub(crate) request_type: RequestType,
    #[serde(rename = "ResponseURL")]
    pub(crate) response_url: String,
    stack_id: String,
    request_id: String,
    logical_resource_id: String,
    /// Id of the custom resource in CloudFormation; `None` if the resource is being created.
    physical_resource_id: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
pub(crate) enum RequestType {
    Create,
    Update,
    /// Deletion of the stack, for which nothing is done: the data stay, and so does their schema.
    Delete,
}

impl Request {
    pub(crate) fn migrated(&self, migrated: &Migrated) -> Value {
        let reason = format!("the schema is at version {}", migrated.version);
        self.response("SUCCESS", &reason, &json!({"Version": migrated.version.to_string()}))
    }

    pub(crate) fn unchanged(&self) -> Value {
        self.response("SUCCESS", "the schema stays as it is", &json!({}))
    }

    pub(crate) fn failed(&self, error: &MigrateError) -> Value {
        self.response("FAILED", &format!("{error} (the function's log says more)"), &json!({}))
    }

    fn response(&self, status: &str, reason: &str, data: &Value) -> Value {
        json!({
            "Status": status,
            "Reason": reason.chars().take(REASON_CHARS).collect::<String>(),
            "PhysicalResourceId": self.physical_resource_id.as_deref().unwrap_or(PHYSICAL_ID),
            "StackId": self.stack_id,
            "RequestId": self.request_id,
            "LogicalResourceId": self.logical_resource_id,
            "NoEcho": false,
            "Data": data,
        })
    }
}

/// HTTP client that sends responses to CloudFormation's URLs.
#[derive(Debug)]
pub(crate) struct ResponseClient(Connector);

impl ResponseClient {
    pub(crate) fn new() -> Self {
        Self(Connector::builder().tls_provider(Provider::Rustls(CryptoMode::Ring)).build())
    }

    /// Sends a response, in up to three attempts. Idempotent: the URL stores one object, which is
    /// the same each time.
    pub(crate) async fn send(&self, url: &str, response: &Value) -> Result<(), ResponseError> {
        let body = response.to_string();
        let attempt = || async {
            let put = timeout(ATTEMPT, self.put(url, &body));
            put.await.unwrap_or(Err(ResponseError::TimedOut))
        };
        let pauses = ExponentialBuilder::new().with_min_delay(PAUSE).with_max_times(RETRIES);
        let warn = |error: &ResponseError, _| {
            tracing::warn!(
                event_type = "migration.unanswered",
                %error,
                "cannot send the response to CloudFormation: {error}"
            );
        };
        attempt.retry(pauses).notify(warn).await
    }

    /// Sends a response to its URL by one PUT, without a content type, because the URL is signed
    /// without one.
    async fn put(&self, url: &str, body: &str) -> Result<(), ResponseError> {
        let mut request = HttpRequest::new(SdkBody::from(body));
        request.set_method("PUT").map_err(|_| ResponseError::Url)?;
        request.set_uri(url).map_err(|_| ResponseError::Url)?;
        let response = self.0.call(request).await.map_err(|_| ResponseError::Unsent)?;
        if response.status().is_success() {
            Ok(())
        } else {
            Err(ResponseError::Rejected(response.status().as_u16()))
        }
    }
}

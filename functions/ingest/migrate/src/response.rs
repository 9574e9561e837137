//! The response to CloudFormation's request, and its delivery.

use std::collections::HashMap;
use std::time::Duration;

use aws_lambda_events::cloudformation::{
    CloudFormationCustomResourceRequest as Request, CloudFormationCustomResourceResponse as Response,
    CloudFormationCustomResourceResponseStatus as Status,
};
use aws_smithy_http_client::Connector;
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_runtime_api::client::http::HttpConnector as _;
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_types::body::SdkBody;
use backon::{ExponentialBuilder, Retryable as _};
use catalog::Migrated;
use tokio::time::timeout;

use crate::MigrateError;

/// Id of the custom resource. It never changes: at another id, CloudFormation would delete the
/// resource with the old one.
const PHYSICAL_ID: &str = "database-schema";
/// Most characters of a failure's reason. CloudFormation reads 4096 bytes of a response.
const REASON_CHARS: usize = 1_000;
const RETRIES: usize = 2;
const ATTEMPT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(300);

/// Reason why the response was not delivered. It leaves out the URL, since it is a credential:
/// everybody who has it can respond. The client's errors contain the URL, so they are left out too.
#[derive(Debug, thiserror::Error)]
pub enum ResponseError {
    #[error("cannot serialize the response")]
    Json(#[source] serde_json::Error),
    #[error("invalid response URL")]
    Url,
    #[error("the response was rejected with status {0}")]
    Rejected(u16),
    #[error("cannot send the response")]
    Unsent,
    #[error("sending the response timed out")]
    TimedOut,
}

/// A request of CloudFormation that waits for its response.
#[derive(Debug)]
pub(crate) struct Pending {
    url: String,
    stack_id: String,
    request_id: String,
    logical_resource_id: String,
    physical_resource_id: String,
    pub(crate) action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Migrate,
    /// The stack is deleted: nothing is done. Its data outlive it, and so does their schema.
    Keep,
}

impl Pending {
    /// Reads a request; `None` for an unknown type of request.
    pub(crate) fn of(request: Request) -> Option<Self> {
        Some(match request {
            Request::Create(create) => Self {
                url: create.response_url,
                stack_id: create.stack_id,
                request_id: create.request_id,
                logical_resource_id: create.logical_resource_id,
                physical_resource_id: PHYSICAL_ID.to_owned(),
                action: Action::Migrate,
            },
            Request::Update(update) => Self {
                url: update.response_url,
                stack_id: update.stack_id,
                request_id: update.request_id,
                logical_resource_id: update.logical_resource_id,
                physical_resource_id: update.physical_resource_id,
                action: Action::Migrate,
            },
            Request::Delete(delete) => Self {
                url: delete.response_url,
                stack_id: delete.stack_id,
                request_id: delete.request_id,
                logical_resource_id: delete.logical_resource_id,
                physical_resource_id: delete.physical_resource_id,
                action: Action::Keep,
            },
            _ => return None,
        })
    }

    pub(crate) fn migrated(self, migrated: &Migrated) -> PendingResponse {
        let reason = format!("the schema is at version {}", migrated.version);
        let mut pending = self.response(Status::Success, &reason);
        pending.response.data = HashMap::from([("Version".to_owned(), migrated.version.to_string())]);
        pending
    }

    pub(crate) fn unchanged(self) -> PendingResponse {
        self.response(Status::Success, "the schema stays as it is")
    }

    pub(crate) fn failed(self, error: &MigrateError) -> PendingResponse {
        self.response(Status::Failed, &format!("{error} (the function's log says more)"))
    }

    fn response(self, status: Status, reason: &str) -> PendingResponse {
        let mut response = Response::default();
        response.status = status;
        response.reason = Some(reason.chars().take(REASON_CHARS).collect());
        response.physical_resource_id = self.physical_resource_id;
        response.stack_id = self.stack_id;
        response.request_id = self.request_id;
        response.logical_resource_id = self.logical_resource_id;
        PendingResponse { url: self.url, response }
    }
}

/// Response to CloudFormation, and the URL that it goes to.
#[derive(Debug)]
pub(crate) struct PendingResponse {
    url: String,
    response: Response,
}

/// Sends responses to their URLs.
#[derive(Debug)]
pub(crate) struct ResponseClient(Connector);

impl ResponseClient {
    pub(crate) fn new() -> Self {
        Self(Connector::builder().tls_provider(Provider::Rustls(CryptoMode::Ring)).build())
    }

    /// Sends a response, up to three times. Idempotent: the URL takes one object, the same each
    /// time.
    pub(crate) async fn send(&self, pending: &PendingResponse) -> Result<(), ResponseError> {
        let body = serde_json::to_string(&pending.response).map_err(ResponseError::Json)?;
        let attempt = || async {
            let put = timeout(ATTEMPT, self.put(&pending.url, &body));
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

    /// Puts a response at its URL, without a media type, as the URL's signature demands.
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

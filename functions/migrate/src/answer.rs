//! What CloudFormation is told, and how.

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
use catalog::Migrated;
use tokio::time::{sleep, timeout};

use crate::MigrateError;

/// The same for ever: another id would tell CloudFormation to delete the resource with the old one.
const PHYSICAL_ID: &str = "database-schema";
/// CloudFormation reads 4096 bytes of an answer.
const REASON_CHARS: usize = 1_000;
const ATTEMPTS: u32 = 3;
const ATTEMPT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(300);

/// The answer did not get through. The URL is left out, since whoever has it can answer.
#[derive(Debug, thiserror::Error)]
pub enum Unanswered {
    #[error("the answer cannot be written")]
    Unwritable(#[from] serde_json::Error),
    #[error("the address for the answer is none")]
    Address,
    #[error("the answer was refused with {0}")]
    Refused(u16),
    #[error("the answer could not be sent")]
    Unsent,
    #[error("sending the answer took too long")]
    TimedOut,
}

/// Who waits for an answer, and for what.
#[derive(Debug)]
pub(crate) struct Asker {
    url: String,
    stack_id: String,
    request_id: String,
    logical_resource_id: String,
    physical_resource_id: String,
    pub(crate) wants: Wants,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wants {
    Schema,
    /// The data outlives the stack, and so does its schema.
    Farewell,
}

impl Asker {
    /// None for a kind of request that CloudFormation did not know when this was written.
    pub(crate) fn of(request: Request) -> Option<Self> {
        Some(match request {
            Request::Create(create) => Self {
                url: create.response_url,
                stack_id: create.stack_id,
                request_id: create.request_id,
                logical_resource_id: create.logical_resource_id,
                physical_resource_id: PHYSICAL_ID.to_owned(),
                wants: Wants::Schema,
            },
            Request::Update(update) => Self {
                url: update.response_url,
                stack_id: update.stack_id,
                request_id: update.request_id,
                logical_resource_id: update.logical_resource_id,
                physical_resource_id: update.physical_resource_id,
                wants: Wants::Schema,
            },
            Request::Delete(delete) => Self {
                url: delete.response_url,
                stack_id: delete.stack_id,
                request_id: delete.request_id,
                logical_resource_id: delete.logical_resource_id,
                physical_resource_id: delete.physical_resource_id,
                wants: Wants::Farewell,
            },
            _ => return None,
        })
    }

    pub(crate) fn migrated(self, migrated: &Migrated) -> Answer {
        let reason = format!("the schema is at version {}", migrated.version);
        let mut answer = self.answered(Status::Success, &reason);
        answer.response.data = HashMap::from([("Version".to_owned(), migrated.version.to_string())]);
        answer
    }

    pub(crate) fn unchanged(self) -> Answer {
        self.answered(Status::Success, "the schema stays as it is")
    }

    pub(crate) fn failed(self, error: &MigrateError) -> Answer {
        self.answered(Status::Failed, &format!("{error} (the function's log says more)"))
    }

    fn answered(self, status: Status, reason: &str) -> Answer {
        let mut response = Response::default();
        response.status = status;
        response.reason = Some(reason.chars().take(REASON_CHARS).collect());
        response.physical_resource_id = self.physical_resource_id;
        response.stack_id = self.stack_id;
        response.request_id = self.request_id;
        response.logical_resource_id = self.logical_resource_id;
        Answer { url: self.url, response }
    }
}

/// An answer, and where to.
#[derive(Debug)]
pub(crate) struct Answer {
    url: String,
    response: Response,
}

/// Brings answers to their URLs.
#[derive(Debug)]
pub(crate) struct Courier(Connector);

impl Courier {
    pub(crate) fn new() -> Self {
        Self(Connector::builder().tls_provider(Provider::Rustls(CryptoMode::Ring)).build())
    }

    /// Repeats harmlessly: the URL takes one object, the same each time.
    pub(crate) async fn deliver(&self, answer: &Answer) -> Result<(), Unanswered> {
        let body = serde_json::to_string(&answer.response)?;
        let mut attempt = 1;
        loop {
            let outcome = timeout(ATTEMPT, self.put(&answer.url, &body)).await;
            let error = match outcome.unwrap_or(Err(Unanswered::TimedOut)) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if attempt >= ATTEMPTS {
                return Err(error);
            }
            tracing::warn!(event_type = "migration.unanswered", error = %error, attempt, "CloudFormation was not reached");
            sleep(PAUSE * attempt).await;
            attempt += 1;
        }
    }

    /// Without a media type: the URL's signature covers that there is none.
    async fn put(&self, url: &str, body: &str) -> Result<(), Unanswered> {
        let mut request = HttpRequest::new(SdkBody::from(body));
        request.set_method("PUT").map_err(|_| Unanswered::Address)?;
        request.set_uri(url).map_err(|_| Unanswered::Address)?;
        let response = self.0.call(request).await.map_err(|_| Unanswered::Unsent)?;
        if response.status().is_success() {
            Ok(())
        } else {
            Err(Unanswered::Refused(response.status().as_u16()))
        }
    }
}

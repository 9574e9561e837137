//! Function `batches`: shows the state and the results of loads (`GET /v1/inovafarma/batches`,
//! `…/{batch_id}`, `…/{batch_id}/errors` and `…/{batch_id}/errors.ndjson`), and processes a batch
//! again (`POST …/{batch_id}/replay`).
//!
//! A batch is read from PostgreSQL, or from its DynamoDB item if PostgreSQL does not have it yet.
//! Both are shown in the same form. A batch is visible once its payload is stored or its upload is
//! awaited, which is before its sender gets the response 202 or 201.

#![allow(missing_docs, reason = "only main.rs and tests use what is public here")]

mod errors;
mod errors_file;
mod format;
mod internal_request;
mod list;
mod metrics;
mod only_in_dynamo;
mod readiness;
mod replay;
mod route;
mod secrets;
mod settings;
mod usage;
mod view;

pub use route::Endpoint;

use access::{AccessStore, PRODUCTS_API_KEYS, Principal};
use api::{Problem, Query, Reason, Reply, TraceId, invalid_parameter, respond};
use batch_items::{BatchItemError, BatchItems};
use catalog::{BatchView, Database, DatabaseError};
use endpoint::limits::Limiter;
use endpoint::{Admission, Keyed};
use events::kafka::TopicWatch;
use idempotency::{ExpiryBounds, KeyForm, Store};
use ingestion::Viewer;
use lambda_http::{Body, Request, Response};
use objects::{ObjectError, Objects};
use transport::NotificationQueue;
use uuid::Uuid;

use crate::internal_request::InternalRequest;
use crate::readiness::Queues;
use crate::route::MatchedRoute;
use crate::secrets::Secrets;

/// State of the function `batches`: its clients and settings, all injected.
#[derive(Debug)]
pub struct Batches {
    service: &'static str,
    access: AccessStore,
    limiter: Limiter,
    accepted: BatchItems,
    database: Database,
    records: Store,
    expiry: ExpiryBounds,
    objects: Objects,
    payloads: NotificationQueue,
    queues: Queues,
    secrets: Secrets,
    /// Kafka topic of chunks, watched for readiness and lag; `None` if chunks only go through SQS.
    kafka: Option<TopicWatch>,
    /// True if the deployment publishes events of batches to at least one destination.
    publishes_events: bool,
}

impl Batches {
    /// Handles a client's request for any of the routes, or an internal request of another
    /// function, such as for metrics.
    pub async fn handle(&self, request: Request) -> Response<Body> {
        if let Some(internal) = InternalRequest::of(&request) {
            let reply = match internal {
                InternalRequest::Readiness => Ok(self.readiness().await),
                InternalRequest::Metrics => Ok(self.metrics().await),
                InternalRequest::Usage => self.usage(request.uri().query().unwrap_or_default()).await,
            };
            let trace_id = TraceId::of(request.headers());
            let reply = reply.unwrap_or_else(|problem| problem.to_reply(&trace_id));
            return respond(reply, &trace_id).map(Body::Text);
        }
        let matched = route::matched(request.method().as_str(), request.uri().path());
        let endpoint = matched.as_ref().map_or(Endpoint::List, |matched| matched.endpoint);
        let keyed = if endpoint == Endpoint::Replay { Keyed::Yes(KeyForm::Text) } else { Keyed::No };
        let route = endpoint.route();
        endpoint::serve(self.service, route, keyed, request.headers(), async |trace_id| {
            self.answer(matched?, &request, trace_id).await
        })
        .await
    }

    async fn answer(
        &self,
        matched: MatchedRoute<'_>,
        request: &Request,
        trace_id: &TraceId,
    ) -> Result<Reply, Problem> {
        let principal = access::authenticate_by(&self.access, request.headers(), PRODUCTS_API_KEYS).await?;
        principal.require_any(&[matched.endpoint.scope()])?;
        let viewer = viewer(&principal)?;
        let query = Query::parse(request.uri().query().unwrap_or_default(), matched.endpoint.parameters())?;
        let admission = Admission::of_tenant(&self.limiter, &self.access, &principal.tenant).await?;
        if matched.endpoint == Endpoint::List {
            return admission.unrecorded(self.list(&viewer, &query)).await;
        }
        let batch_id = batch(matched.batch_id)?;
        match matched.endpoint {
            Endpoint::List | Endpoint::One => admission.unrecorded(self.one(&viewer, batch_id)).await,
            Endpoint::Errors => {
                admission.unrecorded(self.errors(&viewer, batch_id, &query, request.headers())).await
            }
            Endpoint::ErrorsFile => admission.unrecorded(self.errors_file(&viewer, batch_id)).await,
            Endpoint::Replay => {
                let caller = (principal.key_name(), trace_id);
                self.replay(viewer, batch_id, request, &admission, caller).await
            }
        }
    }

    async fn one(&self, viewer: &Viewer, batch_id: Uuid) -> Result<Reply, Problem> {
        format::json(&self.find(viewer, batch_id).await?)
    }

    /// Reads a batch from the database, or from its DynamoDB item if the database does not know it.
    /// Fails with 404 if neither has it.
    async fn find(&self, viewer: &Viewer, batch_id: Uuid) -> Result<BatchView, Problem> {
        let known = self.database.batch(viewer, batch_id).await.map_err(|error| from_database(&error))?;
        if let Some(batch) = known {
            return Ok(batch);
        }
        self.one_in_dynamo(viewer, batch_id).await
    }
}

/// Returns the tenant of the caller and the establishments that the caller may see, by which each
/// query is limited.
fn viewer(principal: &Principal) -> Result<Viewer, Problem> {
    Viewer::limited(principal.tenant_id()?, principal.cnpjs())
        .map_err(|error| principal.refused("cnpjs", &error))
}

fn batch(text: &str) -> Result<Uuid, Problem> {
    let uuid = if text.len() == 36 { Uuid::try_parse(text).ok() } else { None };
    let batch_id =
        uuid.ok_or_else(|| invalid_parameter("batch_id", "must be a UUID of the 36-character form"))?;
    tracing::Span::current().record("batch_id", tracing::field::display(batch_id));
    Ok(batch_id)
}

/// Builds the 404 for a batch that does not exist, and for one that the caller may not see, so that
/// a client cannot distinguish the two cases.
fn not_found() -> Problem {
    Problem::new(Reason::BatchNotFound, "there is no batch of this id")
}

fn from_database(error: &DatabaseError) -> Problem {
    unavailable("the database", error)
}

fn from_accepted(error: &BatchItemError) -> Problem {
    unavailable("the table of batch items", error)
}

fn from_storage(error: &ObjectError) -> Problem {
    unavailable("the bucket of payloads", error)
}

fn unavailable(store: &str, error: &(dyn std::error::Error + 'static)) -> Problem {
    tracing::error!(event_type = "batches.store_unavailable", error, "cannot read {store}: {error}");
    Problem::new(Reason::StoreUnavailable, "what is known of batches cannot be read now")
}

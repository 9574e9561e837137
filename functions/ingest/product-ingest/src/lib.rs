//! `POST /v1/inovafarma/products` and `…/uploads`: accept a catalogue durably and without reading
//! it.
//!
//! A batch's id, its DynamoDB item and its S3 object are all derived from the claim on the client's
//! idempotency key. So an execution may die at any point: the one that takes over writes the same
//! item, finds or puts the same object, and responds with the same id.

#![allow(missing_docs, reason = "only main.rs and tests use what is public here")]

mod batch;
mod content;
mod headers;
mod payloads;
mod products;
mod settings;
mod uploads;

pub use products::PRODUCTS;
pub use uploads::UPLOADS;

use std::time::Duration;

use access::{AccessStore, PRODUCTS_API_KEYS, Principal, Scope};
use api::{Problem, Reason, Reply, TraceId};
use batch_items::BatchItems;
use endpoint::limits::Limiter;
use endpoint::{Admission, Keyed, check_route};
use http::HeaderMap;
use idempotency::{KeyForm, Store};
use ingestion::product::PartialPolicy;
use lambda_http::{Body, Request, Response};
use payloads::Payloads;

/// State of the function `product-ingest`: its clients and settings, all injected.
#[derive(Debug)]
pub struct ProductIngest {
    service: &'static str,
    access: AccessStore,
    limiter: Limiter,
    records: Store,
    accepted: BatchItems,
    payloads: Payloads,
    /// Maximum size of a payload's decoded content in bytes.
    max_payload: u64,
    /// Policy for items that lack members, unless the request names one.
    partial: PartialPolicy,
    /// Time for which an upload's signed URL is valid.
    upload_expiry: Duration,
}

/// Retention of clients' idempotency keys: a hundred years, as long as their batches, so that a
/// payload is never loaded again as another batch.
const RETENTION: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Path of the batch list, with which the `Location` of an accepted batch begins.
const BATCHES: &str = "/v1/inovafarma/batches";

impl ProductIngest {
    /// Handles a request for either route: a payload sent in the request, or the announcement of an
    /// upload.
    pub async fn handle(&self, request: Request) -> Response<Body> {
        let path = request.uri().path();
        let route = if path == UPLOADS.path { UPLOADS } else { PRODUCTS };
        endpoint::serve(self.service, route, Keyed::Yes(KeyForm::Text), request.headers(), async |trace_id| {
            check_route(route, &request)?;
            self.answer(&request, trace_id).await
        })
        .await
    }

    async fn answer(&self, request: &Request, trace_id: &TraceId) -> Result<Reply, Problem> {
        let principal = self.authenticate(request.headers()).await?;
        if request.uri().path() == UPLOADS.path {
            self.upload(&principal, request, trace_id).await
        } else {
            self.products(&principal, request, trace_id).await
        }
    }

    async fn authenticate(&self, headers: &HeaderMap) -> Result<Principal, Problem> {
        let principal = access::authenticate_by(&self.access, headers, PRODUCTS_API_KEYS).await?;
        principal.require_any(&[Scope::ProductsWrite])?;
        Ok(principal)
    }

    /// Builds the rate limit check of a request, with the limits of its tenant.
    async fn admission(&self, principal: &Principal) -> Result<Admission<'_>, Problem> {
        Admission::of_tenant(&self.limiter, &self.access, &principal.tenant).await
    }
}

/// Logs that a table or bucket could not store the batch, and builds the problem response. A retry
/// with the same idempotency key executes the request again.
fn unavailable(error: &(dyn std::error::Error + 'static)) -> Problem {
    tracing::error!(event_type = "ingest.store_unavailable", error, "cannot store the batch: {error}");
    Problem::new(Reason::StoreUnavailable, "the batch could not be stored; send it again with the same key")
}

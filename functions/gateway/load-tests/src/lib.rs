//! Lambda function for the load tests of a tenant: `POST /tests`, `GET /tests`,
//! `GET /tests/{test_id}`, `POST /tests/{test_id}/stop` and `DELETE /tests/{test_id}`.
//!
//! The id of a test follows from the claim of the client's idempotency key. So an invocation that
//! starts a test may die at any point: a retry finds or creates the same test, and starts the same
//! execution of the state machine. A request that sees an overdue test, such as one whose execution
//! is gone, has it closed.

#![allow(missing_docs, reason = "only main.rs and tests use what is public here")]

mod id;
mod list;
mod overdue;
mod problems;
mod request;
mod route;
#[cfg(test)]
mod samples;
mod settings;
mod show;
mod start;
mod stop;
mod view;

pub use request::{NewTest, StartRequest};
pub use route::Endpoint;
pub use view::{ListedTest, ShownRun, ShownTest};

use api::{Problem, Query, Reply, TraceId};
use endpoint::Keyed;
use front::Front;
use idempotency::KeyForm;
use jiff::Timestamp;
use lambda_http::{Body, Request, Response};
use load_test::Limits;
use load_test::store::{Engine, TestStore};

use crate::route::{Asked, SCOPES};

/// State of the function that manages load tests: its clients and settings, all injected.
#[derive(Debug)]
pub struct LoadTests {
    front: Front,
    store: TestStore,
    engine: Engine,
    /// Limits of the deployment on each load test. `workers` also limits all unfinished tests of a
    /// tenant together.
    limits: Limits,
    /// Memory of the function `load-step` in MB, from which the cost of a load test is estimated.
    /// That function does the work of the tests.
    memory_mb: u32,
}

impl LoadTests {
    /// Answers a request to any of this function's routes.
    pub async fn handle(&self, request: Request) -> Response<Body> {
        let asked = route::asked(request.method().as_str(), request.uri().path());
        let route = asked.as_ref().map_or(Endpoint::List, |asked| asked.endpoint);
        let keyed = if route.is_keyed() { Keyed::Yes(KeyForm::Uuid) } else { Keyed::No };
        endpoint::serve(self.front.service, route.route(), keyed, request.headers(), async |trace_id| {
            self.answer(asked?, &request, trace_id).await
        })
        .await
    }

    async fn answer(
        &self,
        asked: Asked<'_>,
        request: &Request,
        trace_id: &TraceId,
    ) -> Result<Reply, Problem> {
        match asked.endpoint {
            Endpoint::Start => return Box::pin(self.start(request, trace_id)).await,
            Endpoint::Stop => return Box::pin(self.stop(asked.test_id, request, trace_id)).await,
            Endpoint::List | Endpoint::One | Endpoint::Delete => {}
        }
        let principal = self.front.authenticate(request.headers(), SCOPES).await?;
        let tenant = principal.tenant.as_str();
        let query = Query::parse(request.uri().query().unwrap_or_default(), asked.endpoint.parameters())?;
        let admission = self.front.admission(&principal).await?;
        if asked.endpoint == Endpoint::List {
            return admission.unrecorded(self.list(tenant, &query, Timestamp::now())).await;
        }
        let test_id = id::parse("test_id", asked.test_id)?;
        if asked.endpoint == Endpoint::Delete {
            return admission.unrecorded(self.delete(tenant, test_id)).await;
        }
        admission.unrecorded(self.one(tenant, test_id, &query, Timestamp::now())).await
    }
}

//! Requests beside the catalogues: messages, queries, and those that are refused.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::try_join3;
use product_ingest::PRODUCTS;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use super::Stack;
use super::tenant::Tenant;
use crate::batch::BATCHES;
use crate::error::Error;
use crate::http_client::{Answer, Call};

const PRODUCE: &str = "/messages/produce";
const CONSUME: &str = "/messages/consume";
const QUEUE: &str = "bench.peak";
const PAUSE: Duration = Duration::from_millis(500);
const MEANWHILE: &str = "meanwhile";

/// A kind of request that is refused, with its status and reason. The request gets a known API key.
type Refused = (&'static str, u16, &'static str, fn(&str) -> Call);

const REFUSED: [Refused; 5] = [
    ("unknown API key", 401, "API_KEY_INVALID", |_| catalogue("nobody's", PRODUCTS.path)),
    ("unknown path", 404, "ROUTE_NOT_FOUND", |key| catalogue(key, "/v1/inovafarma/product")),
    ("unknown batch", 404, "BATCH_NOT_FOUND", |key| Call::get(format!("{BATCHES}/{}", Uuid::nil()), key)),
    ("unknown load type", 400, "LOAD_TYPE_INVALID", |key| {
        catalogue(key, PRODUCTS.path).with("x-inova-load-type", "all")
    }),
    ("no gzip", 400, "CONTENT_CORRUPT", |key| catalogue(key, PRODUCTS.path).with("content-encoding", "gzip")),
];

fn catalogue(key: &str, path: &str) -> Call {
    Call::post(path, key, "[]")
        .with("x-inova-load-type", "full")
        .with("idempotency-key", &Uuid::new_v4().to_string())
}

fn goes_on(over: &AtomicBool) -> bool {
    !over.load(Ordering::Relaxed)
}

impl Stack<'_> {
    /// Sends requests at a modest rate until the catalogues are over.
    pub(super) async fn meanwhile(&self, over: &AtomicBool, tenants: &[Tenant]) -> Result<(), Error> {
        try_join3(self.messages(over), self.queries(over, tenants), self.refusals(over, tenants)).await?;
        Ok(())
    }

    /// Puts a message and gets it again.
    async fn messages(&self, over: &AtomicBool) -> Result<(), Error> {
        self.queues.create(QUEUE).await?;
        while goes_on(over) {
            let body = Uuid::new_v4().to_string();
            self.change(PRODUCE, 201, json!({"messages": [{"bodyText": body}]})).await?;
            let consume = json!({"maxMessages": 10, "waitSeconds": 1, "ack": "commit"});
            let consumed = self.change(CONSUME, 200, consume).await?.json();
            let messages = consumed.pointer("/messages").and_then(Value::as_array).into_iter().flatten();
            let bodies: Vec<_> = messages.filter_map(|message| message.get("bodyText")?.as_str()).collect();
            if bodies != [body.as_str()] {
                return Err(format!("{body} was put on {QUEUE}, and this was got: {consumed}").into());
            }
            sleep(PAUSE).await;
        }
        self.queues.expect(QUEUE, 0).await?;
        self.queues.delete(QUEUE).await
    }

    async fn change(&self, path: &'static str, status: u16, mut body: Value) -> Result<Answer, Error> {
        if let Some(members) = body.as_object_mut() {
            members.insert("targetRef".to_owned(), json!("local-rabbit"));
            members.insert("target".to_owned(), json!({"queue": QUEUE}));
        }
        let call = Call::post(path, &self.options.api_key, body.to_string());
        self.timed(path, &call.with("idempotency-key", &Uuid::new_v4().to_string()), status).await
    }

    /// Lists each tenant's newest batches, and looks at the newest one.
    async fn queries(&self, over: &AtomicBool, tenants: &[Tenant]) -> Result<(), Error> {
        for Tenant { api_key, .. } in tenants.iter().cycle().take_while(|_| goes_on(over)) {
            let list = Call::get(format!("{BATCHES}?limit=20"), api_key);
            let list = self.timed("list of batches", &list, 200).await?.json();
            if let Some(batch_id) = list.pointer("/batches/0/batch_id").and_then(Value::as_str) {
                self.timed("batch", &Call::get(format!("{BATCHES}/{batch_id}"), api_key), 200).await?;
            }
            sleep(PAUSE).await;
        }
        Ok(())
    }

    async fn refusals(&self, over: &AtomicBool, tenants: &[Tenant]) -> Result<(), Error> {
        let turns = REFUSED.into_iter().cycle().zip(tenants.iter().cycle());
        for ((kind, status, reason, call), Tenant { api_key, .. }) in turns.take_while(|_| goes_on(over)) {
            let answer = self.timed(kind, &call(api_key), status).await?;
            if answer.outcome() != format!("{status} {reason}") {
                return Err(format!("{kind}: {} instead of {reason}", answer.describe()).into());
            }
            sleep(PAUSE).await;
        }
        Ok(())
    }

    async fn timed(&self, kind: &'static str, call: &Call, status: u16) -> Result<Answer, Error> {
        let begin = Instant::now();
        let answer = self.tell(&self.http, kind, call, status).await?;
        self.tally.took(MEANWHILE, kind, begin.elapsed().as_secs_f64())?;
        Ok(answer)
    }
}

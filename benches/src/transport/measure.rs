//! Sends catalogues at once and follows each to its end.

use std::time::Duration;

use futures_util::future::try_join_all;
use ingestion::generate::Catalogue;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use crate::batch::{BATCHES, Times};
use crate::contender::serve;
use crate::error::Error;
use crate::http_client::{Call, Http};
use crate::ingest::catalogue::compressed;

const PRODUCTS: &str = "/v1/inovafarma/products";
/// The key of the local stack's first tenant.
const API_KEY: &str = "local-dev-key-a";
/// Chunks of different establishments are written at the same time.
const ESTABLISHMENTS: u32 = 4;
/// Items of the load that only starts the functions.
const WARM_UP: u32 = 2_000;
const PAUSE: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(600);

/// Times of one load, in seconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Load {
    /// Time from the first 202 to the last catalogue's end.
    pub(super) whole: f64,
    /// Times from each catalogue's 202 to its end.
    pub(super) each: Vec<f64>,
    /// Time from a small catalogue's 202 to its end, with nothing else on its way.
    pub(super) alone: f64,
}

/// The contender's process, which gets the number of catalogues and of items in each.
pub(crate) async fn contend(base_url: &str) -> Result<(), Error> {
    serve(async |line: &str| {
        let (catalogues, items) = line.split_once(' ').unwrap_or_default();
        let catalogues = catalogues.parse()?;
        load(base_url, catalogues, items.parse()?).await
    })
    .await
}

pub(super) async fn load(base_url: &str, catalogues: u32, items: u32) -> Result<Load, Error> {
    let sender = Sender(Http::new(base_url)?);
    // The second one finds the functions running.
    for _ in 0..2 {
        sender.send(WARM_UP).await?;
    }
    let alone = sender.send(WARM_UP).await?.seconds();
    let all = try_join_all((0..catalogues).map(|_| sender.send(items))).await?;
    let first = all.iter().map(|times| times.received_at).min();
    let last = all.iter().map(|times| times.finished_at).max();
    let (Some(received_at), Some(finished_at)) = (first, last) else {
        return Err("no catalogue was sent".into());
    };
    let whole = Times { received_at, finished_at }.seconds();
    Ok(Load { whole, each: all.into_iter().map(Times::seconds).collect(), alone })
}

struct Sender(Http);

impl Sender {
    /// Sends a catalogue of products that no other one has, and waits for its end.
    async fn send(&self, items: u32) -> Result<Times, Error> {
        let key = Uuid::new_v4();
        let (seed, _) = key.as_u64_pair();
        let catalogue = Catalogue { seed, items, establishments: ESTABLISHMENTS, ..Catalogue::default() };
        let load = Call::post(PRODUCTS, API_KEY, compressed(&catalogue)?)
            .with("content-encoding", "gzip")
            .with("x-inova-load-type", "delta")
            .with("idempotency-key", &key.to_string());
        let accepted = self.json(&load, 202).await?;
        let batch_id = accepted.get("batch_id").and_then(Value::as_str).unwrap_or_default();
        let get = Call::get(format!("{BATCHES}/{batch_id}"), API_KEY);
        let began = Instant::now();
        loop {
            let batch = self.json(&get, 200).await?;
            let status = batch.get("status").and_then(Value::as_str).unwrap_or_default();
            let done = batch.get("items_processed").and_then(Value::as_u64);
            match status {
                "COMPLETED" if done == Some(items.into()) => return Times::of(&batch),
                "COMPLETED" | "PARTIAL_FAIL" | "FAILED" => {
                    return Err(format!("a catalogue ended as {batch}").into());
                }
                _ if began.elapsed() > PATIENCE => {
                    return Err(format!("a catalogue does not end: {batch}").into());
                }
                _ => sleep(PAUSE).await,
            }
        }
    }

    async fn json(&self, call: &Call, expected: u16) -> Result<Value, Error> {
        match self.0.send(call).await {
            Some(answer) if answer.status == expected => Ok(answer.json()),
            Some(answer) => Err(answer.describe().into()),
            None => Err("the stack does not answer".into()),
        }
    }
}

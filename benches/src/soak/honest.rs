//! Well-behaved callers of a soak, which check every response.

use std::time::Duration;

use ingestion::generate::{Catalogue, Layout};
use product_ingest::PRODUCTS;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::Soaker;
use crate::callers::messages::{empty, number, put_and_get, same};
use crate::callers::{BATCHES, KEY, expect};
use crate::error::Error;
use crate::http_client::Call;

const PAUSE: Duration = Duration::from_millis(300);
/// Number of items in a catalogue.
const ITEMS: u32 = 50;
/// Maximum time for a batch to become final.
const PATIENCE: Duration = Duration::from_secs(120);

/// Kind of a request, its path, and the JSON pointer of a member that every response has.
type Look = (&'static str, &'static str, &'static str);

const LOOKS: [Look; 4] = [
    ("live", "/health/live", "/status"),
    ("ready", "/health/ready", "/dependencies"),
    ("contract", "/openapi.json", "/paths"),
    ("status", "/status", "/version"),
];
const OFTEN: Look = ("batches", "/v1/inovafarma/batches?limit=5", "/batches");

impl Soaker {
    /// Puts messages and gets them again, until the soak is over.
    pub(super) async fn put_and_get(self, queue: String) {
        let mut cycle = 0;
        while self.caller.goes_on() {
            cycle += 1;
            let done = put_and_get(&self.caller, &queue, cycle).await;
            if self.shared.check(done).is_none() {
                empty(&self.caller, &queue).await;
            }
            sleep(PAUSE).await;
        }
    }

    /// Reads the health, status and contract endpoints and the list of batches, until the soak is
    /// over.
    pub(super) async fn look(self) {
        while self.caller.goes_on() {
            for (kind, path, member) in LOOKS.into_iter().flat_map(|look| [look, OFTEN]) {
                let looked = self.look_at(kind, path, member).await;
                self.shared.check(looked);
                sleep(PAUSE).await;
            }
        }
    }

    async fn look_at(&self, kind: &'static str, path: &str, member: &str) -> Result<(), Error> {
        let answer = self.caller.call(kind, &Call::get(path, KEY), 200).await?;
        match answer.json().pointer(member) {
            Some(value) if *value != Value::Null => Ok(()),
            _ => Err(format!("{path} answers without {member}: {}", answer.describe()).into()),
        }
    }

    /// Loads small catalogues and waits for each batch to become final, until the soak is over.
    pub(super) async fn load(self) {
        let mut seed = u64::from(std::process::id()) << 32;
        while self.caller.goes_on() {
            seed += 1;
            let catalogue = Catalogue { seed, items: ITEMS, ..Catalogue::default() };
            for (load_type, change) in [("delta", "inserted"), ("full", "unchanged")] {
                let done = self.load_once(&catalogue, load_type, change).await;
                self.shared.check(done);
                sleep(PAUSE).await;
            }
        }
    }

    async fn load_once(&self, catalogue: &Catalogue, load_type: &str, change: &str) -> Result<(), Error> {
        let caller = &self.caller;
        let load = Call::post(PRODUCTS.path, KEY, catalogue.payload(Layout::Array))
            .with("x-inova-load-type", load_type)
            .with_new_key();
        let (phase, begin) = (caller.now(), Instant::now());
        let accepted = caller.call("catalogue", &load, 202).await?;
        same(&caller.call("catalogue, replayed", &load, 202).await?, &accepted)?;
        let accepted = accepted.json();
        let batch_id = accepted.pointer("/batch_id").and_then(Value::as_str).unwrap_or_default();
        self.shared.batch.get_or_init(|| batch_id.to_owned());
        let get = Call::get(format!("{BATCHES}/{batch_id}"), KEY);
        let batch = loop {
            let batch = caller.call("batch", &get, 200).await?.json();
            let status = batch.pointer("/status").and_then(Value::as_str).unwrap_or_default();
            match status {
                "COMPLETED" => break batch,
                "PARTIAL_FAIL" | "FAILED" => {
                    return Err(format!("a {load_type} load ended as {batch}").into());
                }
                _ if begin.elapsed() > PATIENCE => {
                    return Err(format!("a batch does not end: {batch}").into());
                }
                _ => sleep(PAUSE).await,
            }
        };
        caller.took("catalogue, to its end", phase, begin)?;
        let items = usize::try_from(ITEMS)?;
        for (pointer, expected) in [
            ("/items_parsed", items),
            ("/items_processed", items),
            ("/items_failed", 0),
            ("/changes/deactivated", 0),
            (&format!("/changes/{change}"), items),
        ] {
            expect(&format!("{pointer} of a {load_type} load"), &number(&batch, pointer), &expected)?;
        }
        Ok(())
    }
}

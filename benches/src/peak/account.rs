//! Outcome of a batch according to the API and the database, compared with the expected one.

use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::Client;
use uuid::Uuid;

use super::Stack;
use super::send::Sent;
use crate::error::Error;
use crate::http_client::Call;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    status: String,
    error: Option<String>,
    /// Numbers of items that were parsed, that were processed, and that failed.
    items: [i64; 3],
    /// Number of items in the batch's error report.
    reported: i64,
    /// Number of products of the load's establishments in the database, and the sum of their
    /// `INDICE`.
    products: [i64; 2],
}

const TABLES: &str = "SELECT (SELECT count(*) FROM batch_item_errors WHERE batch_id = $2), count(*), \
     coalesce(sum(indice), 0) FROM products WHERE cnpj = ANY($1::bpchar[])";

impl Outcome {
    /// Returns the expected outcome of a batch of `items` items, of which those with the indices
    /// `loaded` are valid. The `INDICE` of an item is its index.
    pub(super) fn loaded(items: u32, loaded: &[u32]) -> Self {
        let products = loaded.iter().fold([0, 0], |[count, sum], index| [count + 1, sum + i64::from(*index)]);
        let ([processed, _], items) = (products, i64::from(items));
        let failed = items - processed;
        let items = [items, processed, failed];
        Self { status: "COMPLETED".to_owned(), error: None, items, reported: failed, products }
    }

    /// Returns the expected outcome of a batch whose payload failed as a whole, with this error
    /// code.
    pub(super) fn failed(code: &str) -> Self {
        let (status, error) = ("FAILED".to_owned(), Some(code.to_owned()));
        Self { status, error, items: [0; 3], reported: 0, products: [0; 2] }
    }

    async fn of(batch: &Value, cnpjs: &[String], observer: &Client) -> Result<Self, Error> {
        let text = |pointer: &str| batch.pointer(pointer).and_then(Value::as_str);
        let number = |pointer: &str| batch.pointer(pointer).and_then(Value::as_i64).unwrap_or(-1);
        let batch_id: Uuid = text("/batch_id").unwrap_or_default().parse()?;
        let tables = observer.query_one(TABLES, &[&cnpjs, &batch_id]).await?;
        Ok(Self {
            status: text("/status").unwrap_or_default().to_owned(),
            error: text("/error/code").map(str::to_owned),
            items: ["/items_parsed", "/items_processed", "/items_failed"].map(number),
            reported: tables.try_get(0)?,
            products: [tables.try_get(1)?, tables.try_get(2)?],
        })
    }
}

/// Times at which a batch was received and at which it became final.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) received_at: Timestamp,
    pub(super) finished_at: Timestamp,
}

impl Times {
    fn of(batch: &Value) -> Result<Self, Error> {
        let time =
            |member: &str| batch.get(member).and_then(Value::as_str).unwrap_or_default().parse::<Timestamp>();
        Ok(Self { received_at: time("received_at")?, finished_at: time("finished_at")? })
    }

    pub(super) fn seconds(self) -> f64 {
        self.finished_at.duration_since(self.received_at).as_secs_f64()
    }
}

impl Stack<'_> {
    /// Compares the outcome of a final batch with the expected one, and returns the batch's times.
    ///
    /// # Errors
    /// If the outcomes differ. The message names the batch.
    pub(super) async fn account(&self, sent: &Sent) -> Result<Times, Error> {
        let Sent { load, path, accepted_at } = sent;
        let get = Call::get(path.as_str(), &load.tenant.api_key);
        let found = self.caller.call("batch at its end", &get, 200).await?.json();
        // The batch of a file is alone in the list of that file's batches.
        let batch = found.pointer("/batches/0").unwrap_or(&found);
        let outcome = Outcome::of(batch, &load.cnpjs, &self.observer).await;
        let outcome = outcome.map_err(|error| format!("{path}: {error}; {found}"))?;
        if outcome != load.outcome {
            return Err(format!("{path}: {outcome:?} instead of {:?}; {batch}", load.outcome).into());
        }
        let Times { received_at, finished_at } = Times::of(batch)?;
        // A file waits before it is received, too.
        Ok(Times { received_at: received_at.min(*accepted_at), finished_at })
    }
}

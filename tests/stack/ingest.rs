//! Client of the ingest, and a client of PostgreSQL that reads the table `products`.

use std::time::{Duration, Instant};

use serde_json::Value;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row};
use uuid::Uuid;

use crate::gateway::{Answer, Gateway, KEY_A};
use crate::pauses::Pauses;

const PRODUCTS: &str = "/v1/inovafarma/products";
const BATCHES: &str = "/v1/inovafarma/batches";

/// Maximum time until a batch is final, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Client that sends catalogues to the ingest with one API key.
#[derive(Clone, Debug)]
pub struct Ingest {
    gateway: Gateway,
    api_key: String,
}

/// Payload of a catalogue to send, with its load type, its media type and whether it is compressed.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    pub load_type: &'a str,
    pub content_type: &'a str,
    pub is_gzip: bool,
    pub body: &'a [u8],
}

impl<'a> Load<'a> {
    /// Makes a full load of a JSON array.
    pub const fn full(body: &'a [u8]) -> Self {
        Self { load_type: "full", content_type: "application/json", is_gzip: false, body }
    }

    /// Makes a delta of a JSON array.
    pub const fn delta(body: &'a [u8]) -> Self {
        Self { load_type: "delta", ..Self::full(body) }
    }

    /// Declares the body to have a JSON product on each line.
    #[must_use]
    pub const fn lines(self) -> Self {
        Self { content_type: "application/x-ndjson", ..self }
    }

    /// Declares the body to be compressed with gzip.
    #[must_use]
    pub const fn gzip(self) -> Self {
        Self { is_gzip: true, ..self }
    }
}

impl Ingest {
    /// Returns a client with tenant A's API key.
    pub fn new() -> Self {
        Self { gateway: Gateway::new(), api_key: KEY_A.to_owned() }
    }

    /// Returns a client with another API key.
    #[must_use]
    pub fn with_key(&self, api_key: &str) -> Self {
        Self { gateway: self.gateway.with_key(api_key), api_key: api_key.to_owned() }
    }

    pub async fn send(&self, key: Uuid, load: Load<'_>) -> Answer {
        let key = key.to_string();
        let mut headers = vec![
            ("x-inova-api-key", self.api_key.as_str()),
            ("idempotency-key", key.as_str()),
            ("x-inova-load-type", load.load_type),
            ("content-type", load.content_type),
        ];
        if load.is_gzip {
            headers.push(("content-encoding", "gzip"));
        }
        self.gateway.send("POST", PRODUCTS, &headers, load.body).await
    }

    /// Sends a catalogue under a new idempotency key, and returns the batch's id.
    pub async fn accepted(&self, load: Load<'_>) -> String {
        let answer = self.send(Uuid::new_v4(), load).await.expect(202).json();
        answer["batch_id"].as_str().unwrap().to_owned()
    }

    /// Sends a catalogue under a new idempotency key, and returns the batch when it is final.
    pub async fn load(&self, load: Load<'_>) -> Value {
        let batch_id = self.accepted(load).await;
        self.finished(&batch_id).await
    }

    /// Requests a replay of a batch, under this idempotency key.
    pub async fn replay(&self, batch_id: &str, key: Uuid, body: &Value) -> Answer {
        self.gateway.post_once(&format!("{BATCHES}/{batch_id}/replay"), key, body).await
    }

    /// Sends a GET request for a batch. `more` is appended to the batch's path, for example
    /// `/errors`.
    pub async fn get(&self, batch_id: &str, more: &str) -> Answer {
        self.gateway.get(&format!("{BATCHES}/{batch_id}{more}")).await
    }

    /// Waits until a batch is final, and returns it. Checks that its counters add up.
    pub async fn finished(&self, batch_id: &str) -> Value {
        let (begin, mut pauses) = (Instant::now(), Pauses::new());
        loop {
            let batch = self.get(batch_id, "").await.expect(200).json();
            if ["COMPLETED", "PARTIAL_FAIL", "FAILED"].contains(&batch["status"].as_str().unwrap()) {
                adds_up(&batch);
                return batch;
            }
            assert!(begin.elapsed() < PATIENCE, "still {batch}");
            pauses.wait().await;
        }
    }

    /// Returns a batch's items in error, in the order of the payload. Panics if there are more than
    /// 1,000.
    pub async fn errors(&self, batch_id: &str) -> Vec<Value> {
        let page = self.get(batch_id, "/errors?limit=1000").await.expect(200).json();
        assert_eq!(page["next_cursor"], Value::Null);
        page["errors"].as_array().unwrap().clone()
    }
}

impl Default for Ingest {
    fn default() -> Self {
        Self::new()
    }
}

fn adds_up(batch: &Value) {
    let number = |pointer: &str| batch.pointer(pointer).unwrap().as_u64().unwrap();
    let changes =
        ["inserted", "updated", "unchanged", "stale"].map(|name| number(&format!("/changes/{name}")));
    assert_eq!(number("/items_processed"), changes.iter().sum::<u64>(), "{batch}");
    if batch["error"].is_null() {
        assert_eq!(number("/items_parsed"), number("/items_processed") + number("/items_failed"), "{batch}");
    }
    assert_eq!(number("/chunks/total"), number("/chunks/done") + number("/chunks/failed"), "{batch}");
}

/// PostgreSQL client with which tests read the table `products`, without the ingest's code.
#[derive(Debug)]
pub struct Products(Client);

impl Products {
    pub async fn open() -> Self {
        let (client, connection) =
            tokio_postgres::connect(&crate::variable("DATABASE_URL"), NoTls).await.unwrap();
        tokio::spawn(connection);
        Self(client)
    }

    /// Returns the rows of one establishment in the order of their keys. Prices, quantities and
    /// further members are in PostgreSQL's text form.
    pub async fn of(&self, cnpj: &str) -> Vec<Product> {
        let rows = self
            .rows(
                "SELECT shopid, productid, title, price::text, quantity::text, active, extra::text, xmin::text, \
                 last_batch_id FROM products WHERE cnpj = $1 ORDER BY shopid, productid",
                &[&cnpj],
            )
            .await;
        rows.iter().map(Product::of).collect()
    }

    pub async fn rows(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Vec<Row> {
        self.0.query(sql, parameters).await.unwrap()
    }
}

/// Row of the table `products`, as a test reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Product {
    pub shop_id: i32,
    pub product_id: String,
    pub title: Option<String>,
    pub price: Option<String>,
    pub quantity: Option<String>,
    pub active: bool,
    pub extra: Option<String>,
    /// Id of the PostgreSQL transaction that wrote the row.
    pub written_by: String,
    pub batch_id: Uuid,
}

impl Product {
    fn of(row: &Row) -> Self {
        Self {
            shop_id: row.get(0),
            product_id: row.get(1),
            title: row.get(2),
            price: row.get(3),
            quantity: row.get(4),
            active: row.get(5),
            extra: row.get(6),
            written_by: row.get(7),
            batch_id: row.get(8),
        }
    }
}

//! Sends a catalogue to the ingest: by request, upload or file.

use aws_sdk_s3::primitives::ByteStream;
use bytes::Bytes;
use ingestion::generate::Layout;
use jiff::Timestamp;
use product_ingest::{PRODUCTS, UPLOADS};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use uuid::Uuid;

use super::Stack;
use super::load::{Door, Load};
use crate::callers::BATCHES;
use crate::error::Error;
use crate::http_client::{Answer, Call};

const LOAD_TYPE: &str = "full";
const ACCEPTED: &str = "accepted";

/// Catalogue that the ingest accepted.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) load: Load,
    /// Path of the API that shows the catalogue's batch, or for a file the list of the file's
    /// batches.
    pub(super) path: String,
    pub(super) accepted_at: Timestamp,
}

impl Stack<'_> {
    pub(super) async fn send(&self, load: Load) -> Result<Sent, Error> {
        let begin = Instant::now();
        let path = match load.way.door {
            Door::Request => self.post(&load).await?,
            Door::Upload => self.upload(&load).await?,
            Door::File => self.drop_file(&load).await?,
        };
        self.caller.tally.took(ACCEPTED, load.way.name, begin.elapsed().as_secs_f64())?;
        Ok(Sent { load, path, accepted_at: Timestamp::now() })
    }

    async fn post(&self, load: &Load) -> Result<String, Error> {
        let post = keyed(PRODUCTS.path, load, load.body.clone()).with("content-type", content_type(load));
        let post = if load.way.is_gzip { post.with("content-encoding", "gzip") } else { post };
        location(&self.caller.call("catalogue", &post, 202).await?)
    }

    async fn upload(&self, load: &Load) -> Result<String, Error> {
        let announced = json!({
            "content_type": content_type(load),
            "content_encoding": if load.way.is_gzip { "gzip" } else { "identity" },
            "content_length": load.body.len(),
            "sha256": hex::encode(Sha256::digest(&load.body)),
        });
        let announce = keyed(UPLOADS.path, load, announced.to_string());
        let answer = self.caller.call("upload", &announce, 201).await?;
        let offered = answer.json();
        let url = offered.pointer("/upload/url").and_then(Value::as_str).unwrap_or_default();
        let mut put = Call::put(url, load.body.clone());
        let headers = offered.pointer("/upload/headers").and_then(Value::as_object);
        for (name, value) in headers.into_iter().flatten() {
            put = put.with(name, value.as_str().unwrap_or_default());
        }
        self.caller.call("PUT of an upload", &put, 200).await?;
        location(&answer)
    }

    async fn drop_file(&self, load: &Load) -> Result<String, Error> {
        let format = if load.way.layout == Layout::Lines { "ndjson" } else { "json" };
        let ending = if load.way.is_gzip { ".gz" } else { "" };
        let key = format!("drop/{}/{LOAD_TYPE}/{}.{format}{ending}", load.tenant.id, Uuid::new_v4());
        let put = self.s3.put_object().bucket(&self.options.bucket).key(&key);
        put.body(ByteStream::from(load.body.clone())).send().await?;
        Ok(format!("{BATCHES}?source_key={key}"))
    }
}

fn keyed(path: &str, load: &Load, body: impl Into<Bytes>) -> Call {
    Call::post(path, &load.tenant.api_key, body).with("x-inova-load-type", LOAD_TYPE).with_new_key()
}

fn content_type(load: &Load) -> &'static str {
    if load.way.layout == Layout::Lines { "application/x-ndjson" } else { "application/json" }
}

fn location(answer: &Answer) -> Result<String, Error> {
    let path = answer.header("location").ok_or("an accepted catalogue has no Location")?;
    Ok(path.to_owned())
}

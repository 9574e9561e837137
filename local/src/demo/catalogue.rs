//! The product ingest: a catalogue is loaded, loaded again, replaced by a shorter one, and
//! replayed.

use std::io::Write as _;
use std::time::Instant;

use flate2::Compression;
use flate2::write::GzEncoder;
use ingestion::generate::{Catalogue, Layout};
use serde_json::json;
use uuid::Uuid;

use super::client::{Client, Reply};
use crate::console::say;
use crate::failure::{Explain as _, Failure};

const PRODUCTS: &str = "/v1/inovafarma/products";
const BATCHES: &str = "/v1/inovafarma/batches";
const ITEMS: u32 = 5_000;
const SHORTER: u32 = 4_800;

/// Returns the id of the first batch.
pub(super) async fn show(client: &Client) -> Result<String, Failure> {
    let catalogue = Catalogue { items: ITEMS, ..Catalogue::default() };
    let key = Uuid::new_v4();
    let first = load(client, &key, &catalogue).await?;
    again(client, &key, &catalogue, &first).await?;
    shorter(client, catalogue).await?;
    replay(client, &first).await?;
    Ok(first)
}

async fn load(client: &Client, key: &Uuid, catalogue: &Catalogue) -> Result<String, Failure> {
    say("\n8. Load a catalogue of 5,000 products");
    let accepted = send(client, key, catalogue).await?;
    let batch = finished(client, &accepted).await?;
    let all = Some(u64::from(ITEMS));
    let loaded = batch.number("items_processed") == all && batch.number("items_failed") == Some(0);
    batch.expect("a COMPLETED batch of 5,000 items", completed(&batch) && loaded)?;
    let look = batch.show("batch_id");
    say(format_args!("   What is known of it: {}{BATCHES}/{look}", client.base_url()));
    Ok(look)
}

async fn again(client: &Client, key: &Uuid, catalogue: &Catalogue, first: &str) -> Result<(), Failure> {
    say("\n9. Send it again with the same key, and load it again with another");
    let retry = send(client, key, catalogue).await?;
    retry.expect("the first batch's id", retry.show("batch_id") == first)?;
    say("   The retry is the same batch");
    let accepted = send(client, &Uuid::new_v4(), catalogue).await?;
    let batch = finished(client, &accepted).await?;
    let unchanged = batch.number_at("/changes/unchanged") == Some(u64::from(ITEMS));
    batch.expect("a COMPLETED batch of 5,000 unchanged items", completed(&batch) && unchanged)
}

async fn shorter(client: &Client, catalogue: Catalogue) -> Result<(), Failure> {
    say("\n10. Load a full catalogue that lacks the last 200 products");
    let accepted = send(client, &Uuid::new_v4(), &Catalogue { items: SHORTER, ..catalogue }).await?;
    let batch = finished(client, &accepted).await?;
    let deactivated = batch.number_at("/changes/deactivated") == Some(u64::from(ITEMS - SHORTER));
    batch.expect("a COMPLETED batch that deactivated 200 products", completed(&batch) && deactivated)
}

async fn replay(client: &Client, first: &str) -> Result<(), Failure> {
    say("\n11. Replay the first batch, which is older than the shorter catalogue");
    let path = format!("{BATCHES}/{first}/replay");
    let accepted = client.post(&path, Some(&Uuid::new_v4()), &json!({"scope": "all"})).await?;
    accepted.expect("202", accepted.status == 202)?;
    say(format_args!("   {} in {} ms: {}", accepted.status, accepted.milliseconds, accepted.text));
    let batch = finished(client, &accepted).await?;
    let changed = ["inserted", "updated", "deactivated"]
        .map(|change| batch.number_at(&format!("/changes/{change}")))
        .iter()
        .any(|number| *number != Some(0));
    let nothing_changed = !changed && batch.number("items_processed") == Some(u64::from(ITEMS));
    batch
        .expect("a COMPLETED batch of 5,000 items that changed nothing", completed(&batch) && nothing_changed)
}

async fn send(client: &Client, key: &Uuid, catalogue: &Catalogue) -> Result<Reply, Failure> {
    let payload = catalogue.payload(Layout::Array);
    let gzip = compress(&payload).or_explain(|| "compress a catalogue".to_owned())?;
    let size = gzip.len();
    let reply = client.load(PRODUCTS, key, gzip).await?;
    reply.expect("202 with a batch_id", reply.status == 202 && reply.body.get("batch_id").is_some())?;
    say(format_args!(
        "   {} in {} ms: {} bytes of JSON, {size} as gzip, batch {}",
        reply.status,
        reply.milliseconds,
        payload.len(),
        reply.show("batch_id"),
    ));
    Ok(reply)
}

fn compress(payload: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(payload)?;
    gzip.finish()
}

/// Follows a batch until it is final, and prints its states.
async fn finished(client: &Client, accepted: &Reply) -> Result<Reply, Failure> {
    let path = format!("{BATCHES}/{}", accepted.show("batch_id"));
    let (batch, states) = client.finished(&path, accepted.show("status"), Instant::now()).await?;
    say(format_args!("   {states}: {}", account(&batch)));
    Ok(batch)
}

fn completed(batch: &Reply) -> bool {
    batch.show("status") == "COMPLETED"
}

fn account(batch: &Reply) -> String {
    ["inserted", "updated", "unchanged", "stale", "deactivated"]
        .map(|change| {
            let number = batch.number_at(&format!("/changes/{change}")).unwrap_or_default();
            format!("{number} {change}")
        })
        .join(", ")
}

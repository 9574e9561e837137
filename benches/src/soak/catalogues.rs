//! Loads small catalogues and follows each batch to its end.

use std::time::Duration;

use ingestion::generate::{Catalogue, Layout};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::caller::Caller;
use super::honest::{KEY, Wrong, expect};
use super::messages::{number, same};
use crate::http_client::Call;

const PRODUCTS: &str = "/v1/inovafarma/products";
const ITEMS: u32 = 50;
const PAUSE: Duration = Duration::from_millis(300);
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) async fn load(mut caller: Caller) {
    let mut seed = u64::from(std::process::id()) << 32;
    while caller.goes_on() {
        seed += 1;
        let catalogue = Catalogue { seed, items: ITEMS, ..Catalogue::default() };
        for (load_type, change) in [("delta", "inserted"), ("full", "unchanged")] {
            let done = load_once(&mut caller, &catalogue, load_type, change).await;
            caller.check(done);
            sleep(PAUSE).await;
        }
    }
}

async fn load_once(
    caller: &mut Caller,
    catalogue: &Catalogue,
    load_type: &str,
    change: &str,
) -> Result<(), Wrong> {
    let key = caller.key();
    let load = Call::post(PRODUCTS, KEY, catalogue.payload(Layout::Array))
        .with("x-inova-load-type", load_type)
        .with("idempotency-key", &key);
    let (phase, begin) = (caller.now(), Instant::now());
    let accepted = caller.call("catalogue", &load, 202).await?;
    same(&caller.call("catalogue, replayed", &load, 202).await?, &accepted)?;
    let accepted = accepted.json();
    let batch_id = accepted.pointer("/batch_id").and_then(Value::as_str).unwrap_or_default();
    caller.has_batch(batch_id);
    let get = Call::get(format!("/v1/inovafarma/batches/{batch_id}"), KEY);
    let batch = loop {
        let batch = caller.call("batch", &get, 200).await?.json();
        let status = batch.pointer("/status").and_then(Value::as_str).unwrap_or_default();
        match status {
            "COMPLETED" => break batch,
            "PARTIAL_FAIL" | "FAILED" => return Err(format!("a {load_type} load ended as {batch}")),
            _ if begin.elapsed() > PATIENCE => return Err(format!("a batch does not end: {batch}")),
            _ => sleep(PAUSE).await,
        }
    };
    caller.took("catalogue, to its end", phase, begin);
    let items = usize::try_from(ITEMS).unwrap_or_default();
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

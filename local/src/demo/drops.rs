//! A pipeline that knows S3 only: it drops a file, and waits for the result beside it.

use std::time::{Duration, Instant};

use ingestion::generate::{Catalogue, Layout};
use runtime::Sdk;
use serde_json::Value;
use uuid::Uuid;

use super::client::Client;
use super::variable;
use crate::components::ministack::{ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY};
use crate::console::say;
use crate::env_file::Variables;
use crate::failure::{Explain as _, Failure};
use crate::seed::TENANT_A;

const ITEMS: u32 = 3_000;

/// Time that the file may take, and the interval at which its result is asked for.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);

/// Drops a file, and prints its result and how it came about. Returns the batch's id.
pub(super) async fn show(client: &Client, variables: &Variables) -> Result<String, Failure> {
    say("\n12. Drop a file of 3,000 products into S3, in place of a request");
    let (endpoint, bucket) =
        (variable(variables, "AWS_ENDPOINT_URL")?, variable(variables, "PAYLOAD_BUCKET")?);
    let sdk = Sdk::at(endpoint, REGION, ACCESS_KEY_ID, SECRET_ACCESS_KEY).await;
    let s3 = aws_sdk_s3::Client::new(&sdk.objects());
    let path = format!("{TENANT_A}/delta/{}/loja-12.ndjson", Uuid::new_v4());
    let (key, result_key) = (format!("drop/{path}"), format!("drop-results/{path}.json"));
    let lines = Catalogue { seed: 12, items: ITEMS, ..Catalogue::default() }.payload(Layout::Lines);
    let begin = Instant::now();
    let put = s3.put_object().bucket(bucket).key(&key).body(lines.into()).send().await;
    put.or_explain(|| format!("put {key}"))?;
    say(format_args!("   s3://{bucket}/{key}"));
    let mut seen = String::new();
    let result = loop {
        let result = read_result(&s3, bucket, &result_key).await?;
        let status = result.get("status").and_then(Value::as_str).unwrap_or("no result yet").to_owned();
        if ["COMPLETED", "PARTIAL_FAIL", "FAILED", "EXPIRED", "REFUSED"].contains(&status.as_str()) {
            say(format_args!("   {seen}{status} after {:.1} s", begin.elapsed().as_secs_f64()));
            break result;
        }
        if !seen.contains(&status) {
            seen = format!("{seen}{status} -> ");
        }
        if begin.elapsed() > PATIENCE {
            return Err(Failure::new(format!("The demonstration failed: {result_key} still says {result}")));
        }
        tokio::time::sleep(POLL).await;
    };
    say(format_args!("   s3://{bucket}/{result_key}: {result}"));
    let batch_id = result.get("batch_id").and_then(Value::as_str).unwrap_or_default();
    let batch = client.get(&format!("/v1/inovafarma/batches/{batch_id}")).await?;
    let is_loaded = batch.number("items_processed") == Some(u64::from(ITEMS));
    batch.expect("a COMPLETED batch of 3,000 items", batch.show("status") == "COMPLETED" && is_loaded)?;
    Ok(batch_id.to_owned())
}

/// Reads what lies beside the file; null if there is nothing yet.
async fn read_result(s3: &aws_sdk_s3::Client, bucket: &str, key: &str) -> Result<Value, Failure> {
    let found = match s3.get_object().bucket(bucket).key(key).send().await {
        Err(error) if error.raw_response().is_some_and(|response| response.status().as_u16() == 404) => {
            return Ok(Value::Null);
        }
        found => found.or_explain(|| format!("read {key}"))?,
    };
    let bytes = found.body.collect().await.or_explain(|| format!("read {key}"))?.into_bytes();
    serde_json::from_slice(&bytes).or_explain(|| format!("understand {key}"))
}

//! What taking a catalogue in costs: a request to `product-ingest` from its event to its 202,
//! beside the put of its object alone.

pub(crate) mod measure;
mod report;

use std::path::Path;
use std::process::Stdio;

use aws_sdk_s3::Client;
use aws_sdk_s3::error::DisplayErrorContext;
use clap::Args;
use runtime::Sdk;
use tokio::process::Command;
use uuid::Uuid;

use crate::error::Error;
use crate::function::Function;
use measure::Measured;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Requests of each kind and size
    #[arg(long, env = "REQUESTS", default_value_t = 300)]
    requests: u32,
    #[arg(long, env = "ACCESS_TABLE")]
    access_table: String,
    #[arg(long, env = "IDEMPOTENCY_TABLE")]
    idempotency_table: String,
    #[arg(long, env = "BATCHES_TABLE")]
    batches_table: String,
}

const FUNCTION: &str = "product-ingest";

pub(crate) async fn run(options: &Options) -> Result<(), Error> {
    // Not the stack's: it would tell the chunker of every payload, and that would work beside what
    // is measured.
    let bucket = format!("bench-{}", Uuid::new_v4().simple());
    let s3 = Client::new(&Sdk::from_environment().await.objects());
    s3.create_bucket().bucket(&bucket).send().await.map_err(failed)?;
    let measured = child(options, &bucket).await;
    empty(&s3, &bucket).await?;
    let measured = measured?;
    #[expect(clippy::print_stdout, reason = "the report")]
    {
        println!("\n{}", report::table(&measured, options.requests));
    }
    Ok(())
}

/// The function's code in a process with the environment that the template gives it.
async fn child(options: &Options, bucket: &str) -> Result<Vec<Measured>, Error> {
    let results = tempfile::NamedTempFile::new()?;
    let status = Command::new(std::env::current_exe()?)
        .arg("accepts")
        .arg(options.requests.to_string())
        .arg(results.path())
        .envs(Function::named(FUNCTION)?.variables)
        .env("ACCESS_TABLE", &options.access_table)
        .env("IDEMPOTENCY_TABLE", &options.idempotency_table)
        .env("BATCHES_TABLE", &options.batches_table)
        .env("PAYLOAD_BUCKET", bucket)
        // It logs as the function does.
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .status()
        .await?;
    if !status.success() {
        return Err(Error::Unexpected(format!("{FUNCTION}'s code failed ({status})")));
    }
    read(results.path())
}

fn read(path: &Path) -> Result<Vec<Measured>, Error> {
    Ok(serde_json::from_slice(&std::fs::read(path)?)?)
}

async fn empty(s3: &Client, bucket: &str) -> Result<(), Error> {
    loop {
        let listed = s3.list_objects_v2().bucket(bucket).send().await.map_err(failed)?;
        let keys: Vec<_> = listed.contents().iter().filter_map(|object| object.key()).collect();
        if keys.is_empty() {
            break;
        }
        for key in keys {
            s3.delete_object().bucket(bucket).key(key).send().await.map_err(failed)?;
        }
    }
    s3.delete_bucket().bucket(bucket).send().await.map_err(failed)?;
    Ok(())
}

fn failed(error: impl std::error::Error) -> Error {
    Error::Unexpected(format!("S3: {}", DisplayErrorContext(error)))
}

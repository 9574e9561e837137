//! Cost of taking a catalogue in: a request to `product-ingest` from its event to its 202, by the
//! function's code as its `main` wires it, beside the put of its object alone.

use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::ByteStream;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use clap::Args;
use lambda_http::http::Method;
use lambda_http::{Body, Request};
use product_ingest::{PRODUCTS, ProductIngest};
use runtime::Sdk;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::child::Program;
use crate::contender::{Answering, Contender as _, serve};
use crate::cpu::{Stopwatch, Took};
use crate::error::Error;
use crate::function;
use crate::ingest::catalogue::gzip;
use crate::report::{Column, Report, count};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Requests of each kind and size
    #[arg(long, env = "REQUESTS", default_value_t = 300)]
    requests: u32,
}

const FUNCTION: &str = "product-ingest";
/// The key of the local stack's first tenant.
const API_KEY: &str = "local-dev-key-a";
/// Items of the catalogues: some products, and as many as most requests bring.
const SIZES: [u32; 2] = [100, 5000];
/// Requests that only warm up.
const WARM_UP: u32 = 20;

const ACCEPTS: &str = "202s a second";
const ACCEPT: &str = "ms to a 202";
const PUT: &str = "ms of a put alone";
const ADDED: &str = "added, ms";
const CPU: &str = "CPU ms of a 202";
const BEYOND: &str = "of that beyond the put";
const COLUMNS: [Column; 8] = [
    Column::median(ACCEPTS, 0),
    Column::median(ACCEPT, 1),
    Column::late("p95", ACCEPT, 1),
    Column::median(PUT, 1),
    Column::late("p95", PUT, 1),
    Column::median(ADDED, 1),
    Column::median(CPU, 2),
    Column::median(BEYOND, 2),
];

/// All requests of a size.
#[derive(Debug, Serialize, Deserialize)]
struct Measured {
    bytes: u32,
    /// Costs of requests one after the other, an accept and a put in turn.
    pairs: Vec<Pair>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Pair {
    accept: Took,
    put: Took,
}

pub(crate) async fn run(options: &Options) -> Result<(), Error> {
    // Not the stack's: it would tell the chunker of every payload, and that would work beside what
    // is measured.
    let bucket = format!("bench-{}", Uuid::new_v4().simple());
    let s3 = Client::new(&Sdk::from_environment().await.objects());
    s3.create_bucket().bucket(&bucket).send().await?;
    let measured = measure(options, &bucket).await;
    empty(&s3, &bucket).await?;
    measured?.print();
    Ok(())
}

/// Measures the function's code in a process with the environment that the template gives it.
async fn measure(options: &Options, bucket: &str) -> Result<Report, Error> {
    let requests = options.requests;
    let variables = function::named(FUNCTION)?.variables;
    let program = Program { variables, ..Program::own(FUNCTION, "accepts")? }
        .inheriting(&["ACCESS_TABLE", "IDEMPOTENCY_TABLE", "BATCHES_TABLE"])?
        .env("PAYLOAD_BUCKET", bucket);
    let mut report = Report::new(format!("{requests} requests of each kind and size; medians."), &COLUMNS);
    let mut contender = Answering::<Measured>::start(&program).await?;
    for items in SIZES {
        let Measured { bytes, pairs } = contender.send(&format!("{items} {requests}")).await?;
        let size = format!("{items} items, {:.0} KB of gzip", f64::from(bytes) / 1e3);
        let seconds: f64 = pairs.iter().map(|pair| pair.accept.seconds).sum();
        report.add("", &size, &[(ACCEPTS, count(pairs.len()) / seconds)]);
        for Pair { accept, put } in pairs {
            let costs = [
                (ACCEPT, accept.seconds * 1e3),
                (PUT, put.seconds * 1e3),
                (ADDED, (accept.seconds - put.seconds) * 1e3),
                (CPU, accept.cpu_seconds * 1e3),
                (BEYOND, (accept.cpu_seconds - put.cpu_seconds) * 1e3),
            ];
            report.add("", &size, &costs);
        }
    }
    contender.stop().await?;
    Ok(report)
}

async fn empty(s3: &Client, bucket: &str) -> Result<(), Error> {
    loop {
        let listed = s3.list_objects_v2().bucket(bucket).send().await?;
        let keys: Vec<_> = listed.contents().iter().filter_map(|object| object.key()).collect();
        if keys.is_empty() {
            break;
        }
        for key in keys {
            s3.delete_object().bucket(bucket).key(key).send().await?;
        }
    }
    s3.delete_bucket().bucket(bucket).send().await?;
    Ok(())
}

/// The contender's process, which gets the items of catalogues and the number of requests.
pub(crate) async fn contend() -> Result<(), Error> {
    runtime::init_log("info");
    let ingest = ProductIngest::from_environment(FUNCTION).await?;
    let bucket = std::env::var("PAYLOAD_BUCKET")?;
    let s3 = Client::new(&Sdk::from_environment().await.objects());
    serve(async |line: &str| {
        let (items, requests) = line.split_once(' ').unwrap_or_default();
        let (payload, requests) = (gzip(items.parse()?, 0)?, requests.parse::<u32>()?);
        let accepted = || timed(Box::pin(accept(&ingest, payload.clone())));
        let stored = || timed(Box::pin(put(&s3, &bucket, payload.clone())));
        let mut pairs = Vec::new();
        for number in 0..WARM_UP.saturating_add(requests) {
            // Whoever comes first finds the caches colder.
            let pair = if number % 2 == 0 {
                let accept = accepted().await?;
                Pair { accept, put: stored().await? }
            } else {
                let put = stored().await?;
                Pair { accept: accepted().await?, put }
            };
            if number >= WARM_UP {
                pairs.push(pair);
            }
        }
        Ok(Measured { bytes: u32::try_from(payload.len())?, pairs })
    })
    .await
}

async fn timed(work: impl Future<Output = Result<(), Error>>) -> Result<Took, Error> {
    let stopwatch = Stopwatch::start()?;
    work.await?;
    stopwatch.stop()
}

/// A new catalogue's request.
async fn accept(ingest: &ProductIngest, body: Vec<u8>) -> Result<(), Error> {
    let request: Request = lambda_http::http::Request::builder()
        .method(Method::POST)
        .uri(PRODUCTS.path)
        .header("content-type", "application/json")
        .header("content-encoding", "gzip")
        .header("idempotency-key", Uuid::new_v4().to_string())
        .header("x-inova-api-key", API_KEY)
        .header("x-inova-load-type", "delta")
        .body(Body::Binary(body))?;
    let answer = ingest.handle(request).await;
    if answer.status().as_u16() == 202 { Ok(()) } else { Err(format!("not accepted: {answer:?}").into()) }
}

/// Puts a body with everything that S3 is asked to do for a payload.
async fn put(s3: &Client, bucket: &str, body: Vec<u8>) -> Result<(), Error> {
    let checksum = BASE64.encode(Sha256::digest(&body));
    s3.put_object()
        .bucket(bucket)
        .key(format!("alone/{}.json.gz", Uuid::now_v7()))
        .content_type("application/json")
        .content_encoding("gzip")
        .checksum_sha256(checksum)
        .metadata("batch-id", Uuid::nil().to_string())
        .if_none_match("*")
        .body(ByteStream::from(body))
        .send()
        .await?;
    Ok(())
}

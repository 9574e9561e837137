//! The measured process: the function's code as its `main` wires it, and a client of S3 that puts
//! the same bytes.

use std::time::Instant;

use aws_sdk_s3::Client;
use aws_sdk_s3::primitives::ByteStream;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures_util::{StreamExt as _, stream};
use lambda_http::http::Method;
use lambda_http::{Body, Request};
use product_ingest::{PRODUCTS, ProductIngest};
use runtime::Sdk;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::contender::serve;
use crate::cpu::{Stopwatch, Took};
use crate::error::Error;
use crate::ingest::catalogue::gzip;

/// Requests that only warm up.
const WARM_UP: u32 = 20;
/// Requests at once where as many are to be answered as possible.
const AT_ONCE: usize = 8;

/// The key of the local stack's first tenant.
const API_KEY: &str = "local-dev-key-a";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// An accept, from the event to its 202.
    Accept,
    /// The put that an accept makes, and nothing else.
    Put,
}

/// All requests of a kind and size.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(super) bytes: u32,
    /// Costs of requests one after the other, an accept and a put in turn, in seconds.
    pub(super) pairs: Vec<Pair>,
    /// Seconds that as many requests took eight at a time.
    pub(super) accepts_at_once: f64,
    pub(super) puts_at_once: f64,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Pair {
    pub(super) accept: Took,
    pub(super) put: Took,
}

/// The contender's process, which gets the items of catalogues and the number of requests.
pub(crate) async fn contend() -> Result<(), Error> {
    runtime::init_log("info");
    let ingest = ProductIngest::from_environment(super::FUNCTION).await?;
    let bucket = std::env::var("PAYLOAD_BUCKET")?;
    let s3 = Client::new(&Sdk::from_environment().await.objects());
    serve(async |line: &str| {
        let (items, requests) = line.split_once(' ').unwrap_or_default();
        let payload = gzip(items.parse()?, 0)?;
        let acceptance = Acceptance { ingest: &ingest, s3: &s3, bucket: &bucket, payload };
        acceptance.measure(requests.parse()?).await
    })
    .await
}

struct Acceptance<'a> {
    ingest: &'a ProductIngest,
    s3: &'a Client,
    bucket: &'a str,
    payload: Vec<u8>,
}

impl Acceptance<'_> {
    async fn measure(&self, requests: u32) -> Result<Measured, Error> {
        for _ in 0..WARM_UP {
            self.one(Kind::Accept).await?;
            self.one(Kind::Put).await?;
        }
        let mut pairs = Vec::new();
        for number in 0..requests {
            // Whoever comes first finds the caches colder.
            let pair = if number % 2 == 0 {
                let accept = self.one(Kind::Accept).await?;
                Pair { accept, put: self.one(Kind::Put).await? }
            } else {
                let put = self.one(Kind::Put).await?;
                Pair { accept: self.one(Kind::Accept).await?, put }
            };
            pairs.push(pair);
        }
        let accepts_at_once = self.at_once(Kind::Accept, requests).await?;
        let puts_at_once = self.at_once(Kind::Put, requests).await?;
        let bytes = u32::try_from(self.payload.len())?;
        Ok(Measured { bytes, pairs, accepts_at_once, puts_at_once })
    }

    async fn one(&self, kind: Kind) -> Result<Took, Error> {
        let body = self.payload.clone();
        let stopwatch = Stopwatch::start()?;
        match kind {
            Kind::Accept => Box::pin(self.accept(body)).await?,
            Kind::Put => Box::pin(self.put(body)).await?,
        }
        stopwatch.stop()
    }

    /// Seconds that all requests take, eight at a time.
    async fn at_once(&self, kind: Kind, requests: u32) -> Result<f64, Error> {
        let started = Instant::now();
        let mut all = stream::iter(0..requests).map(|_| self.one(kind)).buffer_unordered(AT_ONCE);
        while let Some(one) = all.next().await {
            one?;
        }
        Ok(started.elapsed().as_secs_f64())
    }

    /// A new catalogue's request.
    async fn accept(&self, body: Vec<u8>) -> Result<(), Error> {
        let request: Request = lambda_http::http::Request::builder()
            .method(Method::POST)
            .uri(PRODUCTS.path)
            .header("content-type", "application/json")
            .header("content-encoding", "gzip")
            .header("idempotency-key", Uuid::new_v4().to_string())
            .header("x-inova-api-key", API_KEY)
            .header("x-inova-load-type", "delta")
            .body(Body::Binary(body))?;
        let answer = self.ingest.handle(request).await;
        if answer.status().as_u16() == 202 { Ok(()) } else { Err(format!("not accepted: {answer:?}").into()) }
    }

    /// Puts a body with everything that S3 is asked to do for a payload.
    async fn put(&self, body: Vec<u8>) -> Result<(), Error> {
        let checksum = BASE64.encode(Sha256::digest(&body));
        self.s3
            .put_object()
            .bucket(self.bucket)
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
}

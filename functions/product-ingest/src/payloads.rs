//! The bucket of payloads.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use aws_sdk_s3::Client;
use aws_sdk_s3::error::SdkError;
use aws_sdk_s3::presigning::PresigningConfig;
use aws_sdk_s3::primitives::ByteStream;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ingestion::payload::PayloadMetadata;
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

/// Only where there is no object yet: what was put once is never replaced.
const ABSENT: &str = "*";
const GZIP: &str = "gzip";
/// What the SDK adds to every request that a function makes.
const TRACE: &str = "x-amzn-trace-id";

/// Payloads in S3, one object each.
#[derive(Clone, Debug)]
pub(crate) struct Payloads {
    s3: Client,
    bucket: String,
}

/// S3 did not do what was asked; whether an object was put is not known.
#[derive(Debug, thiserror::Error)]
#[error("the bucket of payloads is unavailable")]
pub(crate) struct Unavailable(#[source] Box<dyn Error + Send + Sync>);

impl Unavailable {
    fn of(cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }
}

/// The bytes that a client says it will put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    pub(crate) length: i64,
    pub(crate) sha256: [u8; 32],
    pub(crate) is_gzip: Gzip,
}

/// Whether a payload is put as gzip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gzip {
    Yes,
    No,
}

/// Where and how a client puts its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SignedPut {
    pub(crate) url: String,
    /// Every one of them is signed, so that nothing else can be put.
    pub(crate) headers: BTreeMap<String, String>,
}

impl Payloads {
    pub(crate) const fn new(s3: Client, bucket: String) -> Self {
        Self { s3, bucket }
    }

    /// Puts a payload's object, by its batch's id. One that is there already is the same payload, put by an earlier attempt.
    pub(crate) async fn put(&self, metadata: &PayloadMetadata, gzip: Vec<u8>) -> Result<(), Unavailable> {
        let put = self
            .s3
            .put_object()
            .bucket(&self.bucket)
            .key(metadata.key())
            .content_type(metadata.media_type.as_str())
            .content_encoding(GZIP)
            .checksum_sha256(STANDARD.encode(Sha256::digest(&gzip)))
            .set_metadata(Some(metadata.to_map().into_iter().collect()))
            .if_none_match(ABSENT)
            .body(ByteStream::from(gzip));
        match put.send().await {
            Ok(_) => Ok(()),
            Err(error) if status(&error) == Some(412) => Ok(()),
            Err(error) => Err(Unavailable::of(error)),
        }
    }

    /// Whether a payload's object is there.
    pub(crate) async fn has(&self, metadata: &PayloadMetadata) -> Result<bool, Unavailable> {
        let head = self.s3.head_object().bucket(&self.bucket).key(metadata.key());
        match head.send().await {
            Ok(_) => Ok(true),
            Err(error) if status(&error) == Some(404) => Ok(false),
            Err(error) => Err(Unavailable::of(error)),
        }
    }

    /// Signs a put of exactly the announced bytes, with this metadata and only where nothing is yet.
    pub(crate) async fn sign(
        &self,
        metadata: &PayloadMetadata,
        announced: Announced,
        now: Timestamp,
        expires_in: Duration,
    ) -> Result<SignedPut, Unavailable> {
        let presigning = PresigningConfig::builder().start_time(now.into()).expires_in(expires_in).build();
        let signed = self
            .s3
            .put_object()
            .bucket(&self.bucket)
            .key(metadata.key())
            .content_type(metadata.media_type.as_str())
            .set_content_encoding((announced.is_gzip == Gzip::Yes).then(|| GZIP.to_owned()))
            .content_length(announced.length)
            .checksum_sha256(STANDARD.encode(announced.sha256))
            .set_metadata(Some(metadata.to_map().into_iter().collect()))
            .if_none_match(ABSENT)
            .customize()
            // The trace is this function's, and none of the client's business.
            .mutate_request(|request| drop(request.headers_mut().remove(TRACE)))
            .presigned(presigning.map_err(Unavailable::of)?)
            .await
            .map_err(Unavailable::of)?;
        let headers = signed.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Ok(SignedPut { url: signed.uri().to_owned(), headers })
    }
}

fn status<E>(error: &SdkError<E>) -> Option<u16> {
    error.raw_response().map(|response| response.status().as_u16())
}

#[cfg(test)]
mod tests {
    use ingestion::payload::{LoadType, MediaType};
    use uuid::Uuid;

    use super::*;

    fn metadata() -> PayloadMetadata {
        PayloadMetadata {
            batch_id: Uuid::from_u128(7),
            tenant_id: Uuid::from_u128(1),
            load_type: LoadType::Full,
            media_type: MediaType::NdJson,
            idempotency_key: "5c1e0a56-4a58-4aaf-9359-83ec8f663f10".to_owned(),
            received_at: "2026-11-21T10:00:00.123Z".parse().unwrap(),
            checksum: None,
            trace_id: "trace-1".to_owned(),
        }
    }

    #[tokio::test]
    async fn everything_that_is_put_is_signed() {
        let sdk = aws::Sdk::at("http://127.0.0.1:1", "us-east-1", "id", "secret").await;
        let payloads = Payloads::new(Client::new(&sdk.objects()), "payloads".to_owned());
        let announced = Announced { length: 17, sha256: [0xab; 32], is_gzip: Gzip::Yes };
        let now = "2026-11-21T10:00:00Z".parse().unwrap();
        let put = payloads.sign(&metadata(), announced, now, Duration::from_secs(900)).await.unwrap();
        let expected = [
            ("content-encoding", "gzip"),
            ("content-length", "17"),
            ("content-type", "application/x-ndjson"),
            ("if-none-match", "*"),
            ("x-amz-checksum-sha256", "q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6s="),
            ("x-amz-meta-batch-id", "00000000-0000-0000-0000-000000000007"),
            ("x-amz-meta-idempotency-key", "5c1e0a56-4a58-4aaf-9359-83ec8f663f10"),
            ("x-amz-meta-load-type", "full"),
            ("x-amz-meta-media-type", "application/x-ndjson"),
            ("x-amz-meta-received-at", "2026-11-21T10:00:00.123000Z"),
            ("x-amz-meta-tenant-id", "00000000-0000-0000-0000-000000000001"),
            ("x-amz-meta-trace-id", "trace-1"),
        ];
        let headers: Vec<_> =
            put.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(headers, expected);
        let (address, query) = put.url.split_once('?').unwrap();
        assert!(address.starts_with("http://127.0.0.1:1/payloads/incoming/2026/11/21/10/"), "{address}");
        let names: Vec<_> = expected.iter().map(|(name, _)| *name).collect();
        let signed = names.join("%3B").replace("content-type%3B", "content-type%3Bhost%3B");
        assert!(query.contains(&format!("X-Amz-SignedHeaders={signed}")), "{query}");
        assert!(query.contains("X-Amz-Expires=900"), "{query}");
    }
}

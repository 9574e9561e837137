//! S3 bucket in which payloads are stored, by this function or by signed uploads.

use std::time::Duration;

use ingestion::payload::PayloadMetadata;
use jiff::Timestamp;
use objects::{NewObject, ObjectError, Objects, SignedPut};
use sha2::{Digest as _, Sha256};

const GZIP: &str = "gzip";

/// Store of payloads in S3, one object each. A stored payload is never replaced.
#[derive(Clone, Debug)]
pub(crate) struct Payloads(Objects);

/// Length in bytes, SHA-256 and compression of the payload that a client announces to upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    pub(crate) length: i64,
    pub(crate) sha256: [u8; 32],
    pub(crate) is_gzip: Gzip,
}

/// Compression of an uploaded payload: gzip, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gzip {
    Yes,
    No,
}

impl Payloads {
    pub(crate) const fn new(objects: Objects) -> Self {
        Self(objects)
    }

    /// Stores a payload under the key of its batch. If the object already exists, an earlier
    /// attempt stored the same payload, and nothing is done.
    pub(crate) async fn put(&self, metadata: &PayloadMetadata, gzip: Vec<u8>) -> Result<(), ObjectError> {
        let sha256 = Sha256::digest(&gzip).into();
        self.0.create(&object(metadata, Gzip::Yes, sha256), gzip).await
    }

    /// True if the payload of a batch is stored.
    pub(crate) async fn has(&self, metadata: &PayloadMetadata) -> Result<bool, ObjectError> {
        match self.0.head(&metadata.key()).await {
            Ok(_) => Ok(true),
            Err(ObjectError::Missing { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Signs a URL for uploading exactly the announced bytes with this metadata. The URL works only
    /// as long as no object exists under the batch's key.
    pub(crate) async fn sign(
        &self,
        metadata: &PayloadMetadata,
        announced: Announced,
        now: Timestamp,
        expires_in: Duration,
    ) -> Result<SignedPut, ObjectError> {
        let object = object(metadata, announced.is_gzip, announced.sha256);
        self.0.sign_create(&object, announced.length, now, expires_in).await
    }
}

fn object(metadata: &PayloadMetadata, is_gzip: Gzip, sha256: [u8; 32]) -> NewObject {
    NewObject {
        key: metadata.key(),
        content_type: metadata.media_type.as_str(),
        content_encoding: (is_gzip == Gzip::Yes).then_some(GZIP),
        metadata: metadata.to_map(),
        sha256,
    }
}

#[cfg(test)]
mod tests {
    use aws_sdk_s3::Client;
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
            partial: ingestion::product::PartialPolicy::Warn,
            source: None,
        }
    }

    #[tokio::test]
    async fn everything_that_is_put_is_signed() {
        let sdk = runtime::Sdk::at("http://127.0.0.1:1", "us-east-1", "id", "secret").await;
        let payloads = Payloads::new(Objects::new(Client::new(&sdk.objects()), "payloads".to_owned()));
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

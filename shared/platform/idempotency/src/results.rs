//! Storage of response bodies: short ones as text in the idempotency record, longer ones compressed
//! in the record, and large ones compressed in an S3 bucket.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use api::{Reply, content_digest};
use aws_sdk_s3::Client;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::error::SdkError;
use aws_sdk_s3::operation::get_object::GetObjectError;
use aws_sdk_s3::presigning::PresigningConfig;
use aws_sdk_s3::primitives::ByteStream;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::error::StoreError;
use crate::execution::Execution;
use crate::protocol::{Body, StoredResponse};

/// Maximum length in bytes of a body that is stored uncompressed, so that people can read it in the
/// table.
const PLAIN: usize = 4 * 1024;
/// Maximum length in bytes of a compressed body in a record, if the store has a bucket. DynamoDB
/// charges each update by the size of the whole item; above about 5 KB an S3 object is cheaper.
const IN_RECORD: usize = 8 * 1024;
/// Maximum length in bytes of a compressed body in a record, if the store has no bucket. A DynamoDB
/// item has at most 400 KB, of which some are needed for other attributes.
const IN_ITEM: usize = 350_000;
/// Maximum length in bytes of an uncompressed body, above what any function can send. A stored body
/// that inflates to more must have been altered.
const MAX_BODY: u64 = 8 * 1024 * 1024;

/// Media type of all attachments.
const BYTES: &str = "application/octet-stream";
/// Header that the SDK adds to the requests of a function. It is removed before signing, because
/// the client that sends the signed request does not add it.
const TRACE: &str = "x-amzn-trace-id";

const DAY: Duration = Duration::from_secs(86_400);
/// Retention classes in days: the bucket's lifecycle rules delete objects under `results/<days>d/`
/// after this number of days.
const LIVES: [u64; 4] = [1, 2, 8, 32];

/// S3 bucket for response bodies that are too large for a record, and for attachments.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    s3: Client,
    name: String,
}

impl Bucket {
    pub(crate) fn new(s3: Client, name: String) -> Self {
        Self { s3, name }
    }

    /// Writes a compressed body to an S3 object that no other execution writes, and returns its
    /// key.
    async fn put(&self, execution: &Execution, gzip: Vec<u8>) -> Result<String, StoreError> {
        let key = object_key(execution);
        let put = self.s3.put_object().bucket(&self.name).key(&key).content_type("application/gzip");
        put.body(ByteStream::from(gzip)).send().await.map_err(StoreError::unavailable)?;
        Ok(key)
    }

    /// Writes an attachment to S3 within `time`. S3 refuses bytes whose SHA-256 is not `sha256`.
    pub(crate) async fn put_attachment(
        &self,
        key: &str,
        bytes: Vec<u8>,
        sha256: [u8; 32],
        time: Duration,
    ) -> Result<(), StoreError> {
        let timeouts = TimeoutConfig::builder().operation_timeout(time).build();
        let put = self.s3.put_object().bucket(&self.name).key(key);
        let put = put.content_type(BYTES).checksum_sha256(STANDARD.encode(sha256));
        let put = put.body(ByteStream::from(bytes)).customize();
        let put = put.config_override(aws_sdk_s3::config::Builder::new().timeout_config(timeouts));
        put.send().await.map(drop).map_err(StoreError::unavailable)
    }

    /// Returns a signed URL for reading an attachment, valid for `valid`; `None` if the object does
    /// not exist.
    pub(crate) async fn sign_attachment(
        &self,
        key: &str,
        valid: Duration,
    ) -> Result<Option<String>, StoreError> {
        match self.s3.head_object().bucket(&self.name).key(key).send().await {
            Ok(_) => {}
            Err(SdkError::ServiceError(service)) if service.err().is_not_found() => return Ok(None),
            Err(error) => return Err(StoreError::unavailable(error)),
        }
        let signing = PresigningConfig::expires_in(valid).map_err(StoreError::unavailable)?;
        let get = self.s3.get_object().bucket(&self.name).key(key);
        let get = get.response_content_type(BYTES).response_content_disposition("attachment").customize();
        let signed = get.mutate_request(|request| drop(request.headers_mut().remove(TRACE)));
        let signed = signed.presigned(signing).await.map_err(StoreError::unavailable)?;
        Ok(Some(signed.uri().to_owned()))
    }

    async fn get(&self, key: &str) -> Result<Vec<u8>, StoreError> {
        let object = self.s3.get_object().bucket(&self.name).key(key).send().await;
        let object = object.map_err(|error| match error {
            SdkError::ServiceError(service) if matches!(service.err(), GetObjectError::NoSuchKey(_)) => {
                StoreError::unreadable("the stored response is missing")
            }
            error => StoreError::unavailable(error),
        })?;
        if object.content_length().is_some_and(|length| u64::try_from(length).is_ok_and(|n| n > MAX_BODY)) {
            return Err(altered());
        }
        let body = object.body.collect().await.map_err(StoreError::unavailable)?;
        Ok(body.to_vec())
    }
}

/// Converts a response to the form in which a record stores it, and writes a large body to the
/// bucket. Fails if the body has more than 8 MiB, or does not fit into the record and cannot be
/// written to the bucket.
pub(crate) async fn store(
    bucket: Option<&Bucket>,
    execution: &Execution,
    response: &Reply,
) -> Result<StoredResponse, StoreError> {
    if u64::try_from(response.body.len()).is_ok_and(|bytes| bytes > MAX_BODY) {
        return Err(StoreError::TooLarge { bytes: response.body.len() });
    }
    let stored = |body| StoredResponse {
        status: response.status,
        headers: response.headers.clone(),
        digest: response.content_digest(),
        body,
    };
    if response.body.len() <= PLAIN {
        return Ok(stored(Body::Text(response.body.clone())));
    }
    let gzip = compress(response.body.as_bytes()).map_err(StoreError::unavailable)?;
    match bucket {
        // Boxed, as below: few responses are objects, and each request's future would have room.
        Some(bucket) if gzip.len() > IN_RECORD => match Box::pin(bucket.put(execution, gzip.clone())).await {
            Ok(key) => Ok(stored(Body::Object(key))),
            // It costs more, but is better than an effect without a response.
            Err(_) if gzip.len() <= IN_ITEM => Ok(stored(Body::Gzip(gzip))),
            Err(error) => Err(error),
        },
        None if gzip.len() > IN_ITEM => Err(StoreError::TooLarge { bytes: response.body.len() }),
        _ => Ok(stored(Body::Gzip(gzip))),
    }
}

/// Reads a stored response, its body from `bucket` if it is an S3 object, and checks the body
/// against the digest.
pub(crate) async fn load(bucket: Option<&Bucket>, stored: &StoredResponse) -> Result<Reply, StoreError> {
    let body = match &stored.body {
        Body::Text(text) => text.clone().into_bytes(),
        Body::Gzip(gzip) => inflate(gzip)?,
        Body::Object(key) => {
            let bucket =
                bucket.ok_or_else(|| StoreError::unreadable("there is no bucket to read it from"))?;
            inflate(&Box::pin(bucket.get(key)).await?)?
        }
    };
    if content_digest(&body) != stored.digest {
        return Err(altered());
    }
    let body = String::from_utf8(body).map_err(|_| altered())?;
    Ok(Reply { status: stored.status, headers: stored.headers.clone(), body })
}

fn altered() -> StoreError {
    StoreError::unreadable("the stored response was altered")
}

fn compress(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(body)?;
    encoder.finish()
}

fn inflate(gzip: &[u8]) -> Result<Vec<u8>, StoreError> {
    let mut body = Vec::new();
    let mut capped = GzDecoder::new(gzip).take(MAX_BODY + 1);
    #[expect(clippy::disallowed_methods, reason = "capped by the line above")]
    let read = capped.read_to_end(&mut body);
    match read {
        Ok(bytes) if u64::try_from(bytes).is_ok_and(|bytes| bytes <= MAX_BODY) => Ok(body),
        Ok(_) | Err(_) => Err(altered()),
    }
}

/// Returns the S3 key of a response body: retention class, operation, tenant, idempotency key and
/// execution.
fn object_key(execution: &Execution) -> String {
    let Execution { operation, tenant, idempotency_key, owner, .. } = execution;
    let days = life(execution.retention());
    format!("results/{days}d/{operation}/{tenant}/{idempotency_key}/{owner}.gz")
}

/// Returns the shortest retention class, in days, that covers `retention` and the lease. The lease
/// counts because the object is stored during the execution, and the retention starts at its end.
pub(crate) fn life(retention: Duration) -> u64 {
    let needed = (retention + Execution::lease()).as_secs().div_ceil(DAY.as_secs());
    LIVES.into_iter().find(|days| *days >= needed).unwrap_or(needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(body: Body) -> StoredResponse {
        let digest = content_digest("words ".repeat(2000).as_bytes());
        StoredResponse { status: 200, headers: Default::default(), digest, body }
    }

    #[tokio::test]
    async fn a_body_is_read_as_it_was_stored_and_only_as_that() {
        let body = "words ".repeat(2000);
        let gzip = compress(body.as_bytes()).unwrap();
        assert!(gzip.len() < 200);
        assert_eq!(load(None, &stored(Body::Gzip(gzip.clone()))).await.unwrap().body, body);
        let mut cut = gzip.clone();
        cut.truncate(gzip.len() / 2);
        for altered in [Body::Text("other words".to_owned()), Body::Gzip(cut), Body::Gzip(Vec::new())] {
            let error = load(None, &stored(altered)).await.unwrap_err();
            assert!(matches!(error, StoreError::Unreadable(_)), "{error}");
        }
    }

    #[test]
    fn what_inflates_without_end_is_refused() {
        let bomb = compress(&vec![0; usize::try_from(MAX_BODY).unwrap() + 1]).unwrap();
        assert!(bomb.len() < 100_000);
        assert!(matches!(inflate(&bomb), Err(StoreError::Unreadable(_))));
    }

    #[test]
    fn objects_live_at_least_as_long_as_their_record() {
        let days = |seconds| life(Duration::from_secs(seconds));
        assert_eq!([days(1), days(7200), days(86_400), days(86_400 * 30)], [1, 1, 2, 32]);
        assert_eq!(life(DAY - Execution::lease()), 1);
    }
}

//! Objects that get exactly the bytes that they are named for, from this system or from a client
//! with a signed request.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_s3::config::http::HttpRequest;
use aws_sdk_s3::operation::put_object::builders::PutObjectFluentBuilder;
use aws_sdk_s3::presigning::PresigningConfig;
use aws_sdk_s3::primitives::ByteStream;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use crate::{ObjectError, Objects};

/// Header that the SDK adds to every request that a function makes. It is removed from a signed
/// request, which is the client's.
const TRACE: &str = "x-amzn-trace-id";

/// Properties of an object to create, besides its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewObject {
    /// Key of the object in the bucket.
    pub key: String,
    /// Media type of the content.
    pub content_type: &'static str,
    /// Content encoding of the bytes: `gzip`, if they are compressed.
    pub content_encoding: Option<&'static str>,
    /// Metadata by names without the prefix `x-amz-meta-`.
    pub metadata: BTreeMap<String, String>,
    /// SHA-256 of the bytes as they are put.
    pub sha256: [u8; 32],
}

/// Signed request with which a client uploads an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedPut {
    /// Signed URL of the `PUT`.
    pub url: String,
    /// Headers to send; all of them are signed, so that no other object can be put.
    pub headers: BTreeMap<String, String>,
}

impl Objects {
    /// Creates an object. If one is there already under its key, that one stays.
    ///
    /// # Errors
    /// If S3 rejects it or does not respond; then it may have been created.
    pub async fn create(&self, object: &NewObject, bytes: Vec<u8>) -> Result<(), ObjectError> {
        let put = self.put_new(object).body(ByteStream::from(bytes));
        match put.send().await.map_err(|error| ObjectError::of(&object.key, error)) {
            // The condition failed.
            Ok(_) | Err(ObjectError::Replaced { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Writes an object in place of the one with that ETag, or as a new one if there is none yet.
    ///
    /// # Errors
    /// [`ObjectError::Replaced`] if there is another one by now, and otherwise if S3 does not take
    /// it.
    pub async fn put_over(
        &self,
        key: &str,
        etag: Option<String>,
        content_type: &str,
        bytes: Vec<u8>,
    ) -> Result<(), ObjectError> {
        let only_new = etag.is_none().then(|| "*".to_owned());
        let put = self.client.put_object().bucket(&self.bucket).key(key).content_type(content_type);
        let put = put.set_if_match(etag).set_if_none_match(only_new).body(ByteStream::from(bytes));
        put.send().await.map(drop).map_err(|error| ObjectError::of(key, error))
    }

    /// Signs the creation of an object of `length` bytes, from `now` (in whole seconds) on.
    ///
    /// # Errors
    /// If `expires_in` is more than S3 allows (a week), or there are no credentials.
    pub async fn sign_create(
        &self,
        object: &NewObject,
        length: i64,
        now: Timestamp,
        expires_in: Duration,
    ) -> Result<SignedPut, ObjectError> {
        let put = self.put_new(object).content_length(length);
        sign(put, &object.key, now, expires_in).await
    }

    /// Signs the writing of an object that may be there already: it is written again, and its life
    /// begins anew. Its key has to follow from its bytes.
    ///
    /// # Errors
    /// As for [`sign_create`](Self::sign_create).
    pub async fn sign_rewrite(
        &self,
        object: &NewObject,
        length: i64,
        now: Timestamp,
        expires_in: Duration,
    ) -> Result<SignedPut, ObjectError> {
        let put = self.put_object(object).content_length(length);
        sign(put, &object.key, now, expires_in).await
    }

    fn put_new(&self, object: &NewObject) -> PutObjectFluentBuilder {
        self.put_object(object).if_none_match("*")
    }

    fn put_object(&self, object: &NewObject) -> PutObjectFluentBuilder {
        self.client
            .put_object()
            .bucket(&self.bucket)
            .key(&object.key)
            .content_type(object.content_type)
            .set_content_encoding(object.content_encoding.map(str::to_owned))
            .checksum_sha256(STANDARD.encode(object.sha256))
            .set_metadata(Some(object.metadata.clone().into_iter().collect()))
    }
}

/// Removes the SDK's header for the function from a request that a client makes.
pub(crate) fn without_trace(request: &mut HttpRequest) {
    drop(request.headers_mut().remove(TRACE));
}

async fn sign(
    put: PutObjectFluentBuilder,
    key: &str,
    now: Timestamp,
    expires_in: Duration,
) -> Result<SignedPut, ObjectError> {
    let presigning = PresigningConfig::builder().start_time(now.into()).expires_in(expires_in).build();
    let presigning = presigning.map_err(|error| ObjectError::broken(key, error))?;
    let signed = put
        .customize()
        .mutate_request(without_trace)
        .presigned(presigning)
        .await
        .map_err(|error| ObjectError::broken(key, error))?;
    let headers = signed.headers().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    Ok(SignedPut { url: signed.uri().to_owned(), headers })
}

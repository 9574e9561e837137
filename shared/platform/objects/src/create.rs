//! Creation of S3 objects, by this system or by a client with a signed request. S3 accepts only the
//! bytes that have the SHA-256 of the [`NewObject`].

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

/// Header that the SDK adds to the requests of a function. It is removed before signing, because
/// the client that sends the signed request does not add it.
const TRACE: &str = "x-amzn-trace-id";

/// Properties of a new object, except its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewObject {
    /// Key of the object in the bucket.
    pub key: String,
    /// Media type of the content.
    pub content_type: &'static str,
    /// Content encoding of the object, such as `gzip`; `None` if it is not compressed.
    pub content_encoding: Option<&'static str>,
    /// User metadata of the object, by name without the prefix `x-amz-meta-`.
    pub metadata: BTreeMap<String, String>,
    /// SHA-256 of the object's bytes as they are stored.
    pub sha256: [u8; 32],
}

/// Signed request with which a client uploads an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedPut {
    /// Signed URL to which the client sends the object by `PUT`.
    pub url: String,
    /// Headers that the client must send. They are signed, so the URL accepts only the object with
    /// this digest.
    pub headers: BTreeMap<String, String>,
}

impl Objects {
    /// Creates an object. An existing object with this key stays unchanged, and the call succeeds.
    ///
    /// # Errors
    /// If S3 refuses the object or does not respond; the object may then exist.
    pub async fn create(&self, object: &NewObject, bytes: Vec<u8>) -> Result<(), ObjectError> {
        let put = self.put_new(object).body(ByteStream::from(bytes));
        match put.send().await.map_err(|error| ObjectError::of(&object.key, error)) {
            // The condition failed.
            Ok(_) | Err(ObjectError::Replaced { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Replaces the object that has this ETag, or creates a new object if `etag` is `None`.
    ///
    /// # Errors
    /// [`ObjectError::Replaced`] if the object has another ETag, or exists although `etag` is
    /// `None`. Other errors if S3 does not accept the object.
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

    /// Signs a `PUT` request that creates an object of `length` bytes. It is valid from `now` (in
    /// whole seconds) for `expires_in`, and fails if the object exists.
    ///
    /// # Errors
    /// If `expires_in` is above the limit of S3 (7 days), or if there are no credentials.
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

    /// Signs a `PUT` request like [`sign_create`](Self::sign_create), which also replaces an
    /// existing object: its age for the bucket's lifecycle rules then starts again. The key must be
    /// derived from the bytes, so that the content cannot change.
    ///
    /// # Errors
    /// If `expires_in` is above the limit of S3 (7 days), or if there are no credentials.
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

/// Removes the header [`TRACE`] from a request before it is signed for a client.
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

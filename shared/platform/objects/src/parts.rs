//! S3 objects that are written part by part.

use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{ChecksumAlgorithm, CompletedMultipartUpload, CompletedPart};

use crate::{ObjectError, Objects};

/// Minimum length of each part but the last: 5 MiB (Amazon S3 User Guide, "Amazon S3 multipart
/// upload limits").
pub const PART: usize = 5 * 1024 * 1024;

/// Object that is written by a multipart upload. [`finish`](Self::finish) creates it, or replaces
/// an existing object, atomically. If the writer dies before, the existing object stays unchanged,
/// and the bucket's lifecycle removes the parts.
#[derive(Debug)]
pub struct ObjectInParts {
    objects: Objects,
    key: String,
    content_type: &'static str,
    content_encoding: Option<&'static str>,
    upload: Option<Upload>,
}

/// Multipart upload that was begun, with the parts that S3 has accepted.
#[derive(Debug)]
struct Upload {
    id: String,
    parts: Vec<CompletedPart>,
}

impl Objects {
    /// Creates a writer of an object in parts. No request is made before the first part is added.
    #[must_use]
    pub fn in_parts(
        &self,
        key: String,
        content_type: &'static str,
        content_encoding: Option<&'static str>,
    ) -> ObjectInParts {
        ObjectInParts { objects: self.clone(), key, content_type, content_encoding, upload: None }
    }
}

impl ObjectInParts {
    /// Uploads the next part, of at least [`PART`] bytes.
    ///
    /// # Errors
    /// If S3 does not accept the part.
    pub async fn add(&mut self, part: Vec<u8>) -> Result<(), ObjectError> {
        let mut upload = match self.upload.take() {
            Some(upload) => upload,
            None => self.begin().await?,
        };
        let Objects { client, bucket } = &self.objects;
        let number = i32::try_from(upload.parts.len()).unwrap_or(i32::MAX).saturating_add(1);
        let request = client.upload_part().bucket(bucket).key(&self.key).upload_id(&upload.id);
        let request = request.part_number(number).body(ByteStream::from(part));
        let sent = request.send().await.map(|taken| {
            let part = CompletedPart::builder().part_number(number).set_e_tag(taken.e_tag);
            upload.parts.push(part.set_checksum_crc32(taken.checksum_crc32).build());
        });
        // Also after a failure, or the upload could not be abandoned.
        self.upload = Some(upload);
        sent.map_err(|error| ObjectError::of(&self.key, error))
    }

    /// Uploads the last part, of any length, and creates the object or replaces the existing one.
    /// Concurrent writers of the same bytes create the same object.
    ///
    /// # Errors
    /// If S3 does not accept the part or the object; the object may then exist.
    pub async fn finish(mut self, last: Vec<u8>) -> Result<(), ObjectError> {
        if self.upload.is_none() {
            let Objects { client, bucket } = &self.objects;
            let put = client.put_object().bucket(bucket).key(&self.key).content_type(self.content_type);
            let put = put.set_content_encoding(self.content_encoding.map(str::to_owned));
            let put = put.body(ByteStream::from(last)).send().await;
            return put.map(drop).map_err(|error| ObjectError::of(&self.key, error));
        }
        self.add(last).await?;
        let Some(Upload { id, parts }) = self.upload else { return Ok(()) };
        let Objects { client, bucket } = &self.objects;
        let parts = CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
        let request = client.complete_multipart_upload().bucket(bucket).key(&self.key).upload_id(id);
        let completed = request.multipart_upload(parts).send().await;
        completed.map(drop).map_err(|error| ObjectError::of(&self.key, error))
    }

    /// Aborts the multipart upload, which removes its parts.
    ///
    /// # Errors
    /// If S3 does not respond. The bucket's lifecycle then removes the parts.
    pub async fn abandon(self) -> Result<(), ObjectError> {
        let Some(Upload { id, .. }) = self.upload else { return Ok(()) };
        let Objects { client, bucket } = &self.objects;
        let aborted = client.abort_multipart_upload().bucket(bucket).key(&self.key).upload_id(id);
        aborted.send().await.map(drop).map_err(|error| ObjectError::of(&self.key, error))
    }

    async fn begin(&self) -> Result<Upload, ObjectError> {
        let Objects { client, bucket } = &self.objects;
        let request = client.create_multipart_upload().bucket(bucket).key(&self.key);
        // The SDK sends a checksum with each part, and S3 refuses it there unless the upload names
        // it.
        let request = request.checksum_algorithm(ChecksumAlgorithm::Crc32);
        let request = request.content_type(self.content_type);
        let request = request.set_content_encoding(self.content_encoding.map(str::to_owned));
        let begun = request.send().await.map_err(|error| ObjectError::of(&self.key, error))?;
        let id = begun.upload_id.ok_or_else(|| ObjectError::broken(&self.key, "the upload has no id"))?;
        Ok(Upload { id, parts: Vec::new() })
    }
}

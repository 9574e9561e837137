use aws_sdk_s3::primitives::ByteStream;
use bytes::Bytes;

use crate::{Head, ObjectError, Objects};

/// Number of consecutive resumptions of a broken response, without any byte received, after which
/// reading fails.
const MAX_RESUMES: u32 = 4;

/// Body of an S3 object as a stream. If the response breaks off, the missing bytes are requested,
/// with the condition that the object's ETag is the same.
#[derive(Debug)]
pub struct ObjectBody {
    objects: Objects,
    key: String,
    etag: String,
    length: u64,
    read: u64,
    stream: Option<ByteStream>,
    resumes: u32,
}

impl ObjectBody {
    pub(crate) fn new(objects: Objects, key: &str, head: &Head) -> Self {
        let Head { etag, length, .. } = head.clone();
        Self { objects, key: key.to_owned(), etag, length, read: 0, stream: None, resumes: 0 }
    }

    /// Returns the next bytes of the object; `None` at its end.
    ///
    /// # Errors
    /// If the object was replaced or deleted, or if the response breaks off too often.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ObjectError> {
        while self.read < self.length {
            let mut stream = match self.stream.take() {
                Some(stream) => stream,
                None => self.open().await?,
            };
            match stream.next().await {
                Some(Ok(bytes)) => {
                    self.stream = Some(stream);
                    self.read = self.read.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
                    self.resumes = 0;
                    return Ok(Some(bytes));
                }
                Some(Err(error)) => self.broke_off(error)?,
                None => self.broke_off("the answer ended before the object did")?,
            }
        }
        // If S3 sent a checksum, the stream compares it after the last byte.
        match self.stream.take() {
            Some(mut stream) => match stream.next().await {
                Some(Err(error)) => Err(ObjectError::broken(&self.key, error)),
                Some(Ok(_)) | None => Ok(None),
            },
            None => Ok(None),
        }
    }

    fn broke_off(
        &mut self,
        error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Result<(), ObjectError> {
        self.resumes = self.resumes.saturating_add(1);
        if self.resumes > MAX_RESUMES { Err(ObjectError::broken(&self.key, error)) } else { Ok(()) }
    }

    async fn open(&self) -> Result<ByteStream, ObjectError> {
        let Objects { client, bucket } = &self.objects;
        let from = (self.read > 0).then(|| format!("bytes={}-", self.read));
        let request = client.get_object().bucket(bucket).key(&self.key).if_match(&self.etag).set_range(from);
        let object = request.send().await.map_err(|error| ObjectError::of(&self.key, error))?;
        Ok(object.body)
    }
}

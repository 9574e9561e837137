//! S3 client with which tests look at the bucket of payloads.

use std::collections::HashMap;
use std::io::Write as _;
use std::time::{Duration, Instant};

use aws_sdk_s3::Client;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::pauses::Pauses;

/// Maximum time until an object gets its tags, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// S3 client for the stack's bucket of payloads.
#[derive(Debug)]
pub struct Payloads {
    s3: Client,
    bucket: String,
}

/// Content and metadata of a payload's object in S3.
#[derive(Clone, Debug)]
pub struct Payload {
    pub bytes: Vec<u8>,
    pub metadata: HashMap<String, String>,
}

impl Payloads {
    pub async fn open() -> Self {
        let sdk = runtime::Sdk::from_environment().await;
        let sdk = sdk.single_attempt(Duration::from_secs(20));
        Self { s3: Client::new(&sdk), bucket: crate::variable("PAYLOAD_BUCKET") }
    }

    /// Returns the S3 keys of a batch's payloads: those below `incoming/` that end with the batch's
    /// id.
    pub async fn keys(&self, batch_id: &str) -> Vec<String> {
        let mut keys = Vec::new();
        let mut next = None;
        loop {
            let list = self.s3.list_objects_v2().bucket(&self.bucket).prefix("incoming/");
            let page = list.set_continuation_token(next).send().await.unwrap();
            let names = page.contents().iter().filter_map(|object| object.key());
            keys.extend(names.filter(|key| key.ends_with(batch_id)).map(str::to_owned));
            next = page.next_continuation_token().map(str::to_owned);
            if next.is_none() {
                return keys;
            }
        }
    }

    /// Waits until the payloads and chunks of a batch have the tag by which they may expire.
    pub async fn released(&self, batch_id: &str) {
        let mut keys = self.keys(batch_id).await;
        let chunks = self.s3.list_objects_v2().bucket(&self.bucket).prefix(format!("chunks/{batch_id}/"));
        let chunks = chunks.send().await.unwrap().contents.unwrap_or_default();
        keys.extend(chunks.into_iter().filter_map(|object| object.key));
        for key in keys {
            self.let_go(&key).await;
        }
    }

    /// Waits until an object has the tag by which it may expire, and panics if that takes too long.
    pub async fn let_go(&self, key: &str) {
        let (begin, mut pauses) = (Instant::now(), Pauses::new());
        while !self.is_final(key).await {
            assert!(begin.elapsed() < PATIENCE, "{key} is kept");
            pauses.wait().await;
        }
    }

    async fn is_final(&self, key: &str) -> bool {
        let tags = self.s3.get_object_tagging().bucket(&self.bucket).key(key).send().await.unwrap();
        tags.tag_set.iter().any(|tag| tag.key == "state" && tag.value == "final")
    }

    /// Deletes an object, as the bucket's lifecycle rules do once it has expired.
    pub async fn remove(&self, key: &str) {
        self.s3.delete_object().bucket(&self.bucket).key(key).send().await.unwrap();
    }

    /// Returns the payload of a batch. Panics unless the batch has exactly one.
    pub async fn only(&self, batch_id: &str) -> Payload {
        let keys = self.keys(batch_id).await;
        let [key] = keys.as_slice() else { panic!("{batch_id} has the objects {keys:?}") };
        let object = self.s3.get_object().bucket(&self.bucket).key(key).send().await.unwrap();
        let metadata = object.metadata().cloned().unwrap_or_default();
        Payload { bytes: object.body.collect().await.unwrap().to_vec(), metadata }
    }
}

/// Compresses content with gzip at this level, from 0 to 9.
pub fn gzip(content: &[u8], level: u32) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(level));
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

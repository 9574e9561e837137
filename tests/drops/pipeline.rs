//! Pipeline that drops catalogues into S3, and knows nothing else of the ingest.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use aws_sdk_s3::Client;
use aws_sdk_s3::types::{CompletedMultipartUpload, CompletedPart};
use end_to_end::{Pauses, variable};
use ingestion::generate::Catalogue;
use serde_json::Value;
use uuid::Uuid;

/// Maximum time until a batch is final, even on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// Client of a pipeline that drops files into one bucket. It uses no API but S3.
pub(super) struct Pipeline {
    pub(super) s3: Client,
    pub(super) bucket: String,
}

impl Pipeline {
    pub(super) async fn open() -> Self {
        let sdk = runtime::Sdk::from_environment().await.single_attempt(Duration::from_secs(60));
        Self { s3: Client::new(&sdk), bucket: variable("PAYLOAD_BUCKET") }
    }

    /// Opens the pipeline in a bucket that the deployment does not own.
    pub(super) async fn of_a_partner() -> Self {
        Self { bucket: variable("DROP_BUCKET"), ..Self::open().await }
    }

    /// Puts an object in one request, and returns its ETag.
    pub(super) async fn put(&self, key: &str, bytes: Vec<u8>) -> String {
        let put = self.s3.put_object().bucket(&self.bucket).key(key).body(bytes.into());
        put.send().await.unwrap().e_tag.unwrap()
    }

    /// Puts an object by a multipart upload with parts of 5 MiB, and returns its ETag.
    pub(super) async fn put_in_parts(&self, key: &str, bytes: &[u8]) -> String {
        let upload = self.s3.create_multipart_upload().bucket(&self.bucket).key(key).send().await.unwrap();
        let upload = upload.upload_id.unwrap();
        let mut parts = CompletedMultipartUpload::builder();
        for (part, number) in bytes.chunks(5 * 1024 * 1024).zip(1..) {
            let put = self.s3.upload_part().bucket(&self.bucket).key(key).upload_id(&upload);
            let put = put.part_number(number).body(part.to_vec().into()).send().await.unwrap();
            parts = parts.parts(CompletedPart::builder().part_number(number).set_e_tag(put.e_tag).build());
        }
        let complete = self.s3.complete_multipart_upload().bucket(&self.bucket).key(key).upload_id(upload);
        complete.multipart_upload(parts.build()).send().await.unwrap().e_tag.unwrap()
    }

    pub(super) async fn get(&self, key: &str) -> Option<Vec<u8>> {
        let object = self.s3.get_object().bucket(&self.bucket).key(key).send().await;
        Some(object.ok()?.body.collect().await.unwrap().to_vec())
    }

    pub(super) async fn result(&self, key: &str) -> Option<Value> {
        Some(serde_json::from_slice(&self.get(&result_key(key)).await?).unwrap())
    }

    /// Waits until the result of the object's version with this ETag is not `RECEIVED` any more,
    /// and returns the result.
    pub(super) async fn finished(&self, key: &str, etag: &str) -> Value {
        let (begin, mut pauses) = (Instant::now(), Pauses::new());
        loop {
            let result = self.result(key).await;
            if let Some(result) = &result
                && result["object"]["etag"] == etag
                && result["status"] != "RECEIVED"
            {
                assert_eq!(result["object"]["key"], key);
                return result.clone();
            }
            assert!(begin.elapsed() < PATIENCE, "{key}: still {result:?}");
            pauses.wait().await;
        }
    }

    pub(super) async fn tags(&self, key: &str) -> BTreeMap<String, String> {
        let tags = self.s3.get_object_tagging().bucket(&self.bucket).key(key).send().await.unwrap();
        tags.tag_set.into_iter().map(|tag| (tag.key, tag.value)).collect()
    }

    /// Waits until an object has a tag with this value, which is set after the result. Returns all
    /// tags.
    pub(super) async fn tagged(&self, key: &str, name: &str, value: &str) -> BTreeMap<String, String> {
        let (begin, mut pauses) = (Instant::now(), Pauses::new());
        loop {
            let tags = self.tags(key).await;
            if tags.get(name).is_some_and(|found| found == value) {
                return tags;
            }
            assert!(begin.elapsed() < PATIENCE, "{key}: {tags:?}");
            pauses.wait().await;
        }
    }
}

pub(super) fn result_key(key: &str) -> String {
    format!("drop-results/{}.json", key.strip_prefix("drop/").unwrap())
}

/// Returns an object key of a tenant in the given folder that no other test has.
pub(super) fn key(tenant: &str, folder: &str, ending: &str) -> String {
    format!("drop/{tenant}/{folder}/{}/loja 12{ending}", Uuid::new_v4())
}

/// Returns a random catalogue whose products no other test has.
pub(super) fn catalogue(items: u32) -> Catalogue {
    Catalogue { seed: Uuid::new_v4().as_u64_pair().0, items, ..Catalogue::default() }
}

use bytes::Bytes;
use catalog::Database;
use futures_util::future::BoxFuture;
use ingestion::chunk::Generation;
use ingestion::payload::{chunk_key, errors_key};
use ingestion::product::ItemError;
use objects::{ObjectBody, ObjectInParts, Objects};
use uuid::Uuid;

use crate::pipeline::{Output, ReportFile, RunError, Source};

impl Source for ObjectBody {
    async fn next(&mut self) -> Result<Option<Bytes>, RunError> {
        Ok(Self::next(self).await?)
    }
}

impl ReportFile for ObjectInParts {
    async fn add(&mut self, part: Vec<u8>) -> Result<(), RunError> {
        Ok(Self::add(self, part).await?)
    }

    async fn finish(self, last: Vec<u8>) -> Result<(), RunError> {
        Ok(Self::finish(self, last).await?)
    }

    async fn abandon(self) {
        if let Err(error) = Self::abandon(self).await {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(
                event_type = "batch.report_left",
                error,
                "cannot discard the parts of a report; the bucket's lifecycle removes them: {error}"
            );
        }
    }
}

/// Production output of a chunker run: stores its chunks and its error report in S3, and the listed
/// errors in the database.
#[derive(Debug)]
pub(crate) struct Stored<'a> {
    pub(crate) objects: &'a Objects,
    pub(crate) database: &'a Database,
    pub(crate) batch_id: Uuid,
    pub(crate) generation: Generation,
}

impl Output for Stored<'_> {
    type Report = ObjectInParts;

    fn report(&self) -> ObjectInParts {
        let key = errors_key(self.batch_id, self.generation);
        self.objects.in_parts(key, "application/x-ndjson", Some("gzip"))
    }

    fn uri(&self, index: u32) -> String {
        self.objects.uri(&chunk_key(self.batch_id, self.generation, index))
    }

    fn store(&self, index: u32, file: Vec<u8>) -> BoxFuture<'static, Result<(), RunError>> {
        let objects = self.objects.clone();
        let key = chunk_key(self.batch_id, self.generation, index);
        Box::pin(async move { Ok(objects.put(&key, file).await?) })
    }

    async fn record(&self, errors: &[ItemError]) -> Result<(), RunError> {
        Ok(self.database.record_item_errors(self.batch_id, self.generation, errors).await?)
    }
}

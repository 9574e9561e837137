use bytes::Bytes;
use catalog::Database;
use futures_util::future::BoxFuture;
use ingestion::chunk::Generation;
use ingestion::payload::chunk_key;
use ingestion::product::ItemError;
use objects::{ObjectBody, Objects};
use uuid::Uuid;

use crate::pipeline::{Output, RunError, Source};

impl Source for ObjectBody {
    async fn next(&mut self) -> Result<Option<Bytes>, RunError> {
        Ok(Self::next(self).await?)
    }
}

/// Stores a run's chunks in the bucket, and its errors in the database.
#[derive(Debug)]
pub(crate) struct Stored<'a> {
    pub(crate) objects: &'a Objects,
    pub(crate) database: &'a Database,
    pub(crate) batch_id: Uuid,
    pub(crate) generation: Generation,
}

impl Output for Stored<'_> {
    fn store(&self, index: u32, file: Vec<u8>) -> BoxFuture<'static, Result<(), RunError>> {
        let objects = self.objects.clone();
        let key = chunk_key(self.batch_id, self.generation, index);
        Box::pin(async move { Ok(objects.put(&key, file).await?) })
    }

    async fn record(&self, errors: &[ItemError]) -> Result<(), RunError> {
        Ok(self.database.record_item_errors(self.batch_id, self.generation, errors).await?)
    }
}

//! Route `GET …/{batch_id}/errors.ndjson`: redirects to the file of a batch's items in error, each
//! with its original text.

use api::{Problem, Reason, Reply};
use endpoint::{SIGNED_FOR, see_signed};
use ingestion::Viewer;
use uuid::Uuid;

use crate::{Batches, from_database, from_storage};

impl Batches {
    /// Redirects the client to a signed URL of the file with all items in error of a batch. Fails
    /// with 404 if the batch has no such file. The caller needs access to every establishment that
    /// the batch may load.
    pub(crate) async fn errors_file(&self, viewer: &Viewer, batch_id: Uuid) -> Result<Reply, Problem> {
        let uri = self.database.errors_uri(viewer, batch_id).await.map_err(|error| from_database(&error))?;
        let Some(key) = uri.as_deref().and_then(|uri| self.objects.key(uri)) else {
            self.find(viewer, batch_id).await?;
            return Err(no_file());
        };
        let name = format!("{batch_id}.errors.ndjson");
        let url = self.objects.sign_get(key, &name, SIGNED_FOR).await;
        let url = url.map_err(|error| from_storage(&error))?.ok_or_else(no_file)?;
        Ok(see_signed(url, "expires_at"))
    }
}

fn no_file() -> Problem {
    Problem::new(Reason::ErrorsFileNotFound, "the batch has no file of its items in error, or not any more")
}

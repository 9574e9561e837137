//! Objects that clients read by a signed request.

use std::time::Duration;

use aws_sdk_s3::presigning::PresigningConfig;

use crate::create::without_trace;
use crate::{ObjectError, Objects};

impl Objects {
    /// Signs a `GET` request for an object, valid for `valid`. Browsers save the object as `name`.
    /// Returns `None` if the object does not exist.
    ///
    /// # Errors
    /// If S3 does not respond, if there are no credentials, or if `valid` is above the limit of S3
    /// (7 days).
    pub async fn sign_get(
        &self,
        key: &str,
        name: &str,
        valid: Duration,
    ) -> Result<Option<String>, ObjectError> {
        match self.head(key).await {
            Ok(_) => {}
            Err(ObjectError::Missing { .. }) => return Ok(None),
            Err(error) => return Err(error),
        }
        let presigning =
            PresigningConfig::expires_in(valid).map_err(|error| ObjectError::broken(key, error))?;
        let get = self.client.get_object().bucket(&self.bucket).key(key);
        let get = get.response_content_disposition(format!("attachment; filename=\"{name}\"")).customize();
        let signed = get.mutate_request(without_trace).presigned(presigning).await;
        Ok(Some(signed.map_err(|error| ObjectError::broken(key, error))?.uri().to_owned()))
    }
}

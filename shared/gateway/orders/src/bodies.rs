//! Paths and S3 keys of message bodies that are stored in S3, outside of requests and responses.

use api::Route;
use idempotency::AttachmentId;
use mq::BodyRef;

/// Route that returns a message body that was too large for a response.
pub const STORED_BODY: Route = Route::get("/messages/bodies/{body_id}");

/// Returns the URL path of a stored message body.
#[must_use]
pub fn stored_body_url(id: &AttachmentId) -> String {
    STORED_BODY.path.replace("{body_id}", &id.to_string())
}

/// Returns the S3 object key of an uploaded message body. `tenant` must be the caller's tenant.
#[must_use]
pub fn uploaded_body_key(tenant: &str, body: &BodyRef) -> String {
    format!("uploads/{tenant}/{body}")
}

//! Bodies of messages that lie in a bucket.

use api::Route;
use idempotency::AttachmentId;
use mq::BodyRef;

/// Route of the bodies that no response could carry.
pub const STORED_BODY: Route = Route::get("/messages/bodies/{body_id}");

/// Returns the path of a stored body.
#[must_use]
pub fn stored_body_url(id: &AttachmentId) -> String {
    STORED_BODY.path.replace("{body_id}", &id.to_string())
}

/// Returns the key of an uploaded body's object. The tenant is always the caller's own.
#[must_use]
pub fn uploaded_body_key(tenant: &str, body: &BodyRef) -> String {
    format!("uploads/{tenant}/{body}")
}

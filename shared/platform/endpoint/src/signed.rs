//! Responses that redirect the client to a signed URL.
//!
//! Each request gets a new signature, after all checks. A signature becomes invalid with the
//! temporary credentials of the function that made it.

use std::time::Duration;

use api::Reply;
use jiff::Timestamp;
use serde_json::{Map, Value};

/// Time for which a signed URL is valid. A download must begin within it.
pub const SIGNED_FOR: Duration = Duration::from_secs(300);

/// Builds a response 303 to a URL that was signed just now for [`SIGNED_FOR`]. The JSON body has
/// the URL, and the time at which it expires in the member that `expires_at` names.
#[must_use]
pub fn see_signed(url: String, expires_at: &str) -> Reply {
    // Signatures have whole seconds only.
    let signed_by = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default();
    let ends = (signed_by + SIGNED_FOR).to_string();
    let body = Map::from_iter([
        ("url".to_owned(), Value::String(url.clone())),
        (expires_at.to_owned(), Value::String(ends)),
    ]);
    let mut reply = Reply::json(303, &Value::Object(body));
    reply.set_header("location", url);
    // The signature is for this caller and for a short time only.
    reply.set_header("cache-control", "no-store");
    reply
}

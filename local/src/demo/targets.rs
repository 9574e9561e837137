//! The user's own target profiles: whether each can be reached.

use serde_json::json;

use super::client::Client;
use super::messages::steps;
use crate::console::say;
use crate::failure::Failure;

pub(super) async fn show(client: &Client, profiles: impl Iterator<Item = &String>) -> Result<(), Failure> {
    for name in profiles {
        let reply = client.post("/connections/test", None, &json!({"targetRef": name})).await?;
        match reply.status {
            200 => say(format_args!("  \"targetRef\": \"{name}\": {}", steps(&reply))),
            _ => say(format_args!("  \"targetRef\": \"{name}\": {} {}", reply.status, reply.text)),
        }
    }
    Ok(())
}

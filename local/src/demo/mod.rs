//! Shows the main jobs on real input, through HTTP as a client would.

mod catalogue;
mod client;
mod messages;

use crate::failure::Failure;
use crate::seed::KEYS;
use client::Client;

/// Runs the demonstration against a stack.
///
/// # Errors
/// The first answer that is not what it should be.
pub(crate) async fn show(base_url: &str) -> Result<(), Failure> {
    let [key, ..] = &KEYS;
    let client = Client::new(base_url, key.value);
    messages::show(&client).await?;
    catalogue::show(&client).await
}

//! Shows the main jobs on real input, through HTTP and S3 as a client would.

mod catalogue;
mod client;
mod drops;
mod messages;

use crate::failure::Failure;
use crate::seed::KEYS;
use crate::stack::Stack;
use client::Client;

/// Runs the demonstration against a stack.
///
/// # Errors
/// The first answer that is not what it should be.
pub(crate) async fn show(stack: &Stack) -> Result<(), Failure> {
    let [key, ..] = &KEYS;
    let client = Client::new(stack.base_url(), key.value);
    messages::show(&client).await?;
    catalogue::show(&client).await?;
    drops::show(&client, stack.variables()).await
}

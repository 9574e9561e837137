//! Shows the main jobs on real input, through HTTP and S3 as a client would.

mod catalogue;
mod client;
mod drops;
mod events;
mod kafka;
mod load_test;
mod messages;
mod targets;

use crate::env_file::Variables;
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
    let client = Client::new(stack.base_url(), &stack.given().api_key(key.name));
    messages::show(&client, stack.given()).await?;
    let load_test = load_test::start(&client).await?;
    let sent = catalogue::show(&client).await?;
    let dropped = drops::show(&client, stack.variables()).await?;
    load_test::show(&client, load_test).await?;
    let published = events::show(stack.variables(), &sent, &dropped).await?;
    if stack.variables().iter().any(|(name, _)| *name == kafka::SERVERS) {
        kafka::show(stack.variables(), &published).await?;
    }
    Ok(())
}

/// Tests the connections to the user's own targets. One that fails is no failure of the stack.
///
/// # Errors
/// The gateway does not answer.
pub(crate) async fn show_targets(stack: &Stack) -> Result<(), Failure> {
    let [key, ..] = &KEYS;
    let client = Client::new(stack.base_url(), &stack.given().api_key(key.name));
    targets::show(&client, stack.given().targets.profiles.keys()).await
}

/// A variable of the stack.
fn variable<'a>(variables: &'a Variables, name: &str) -> Result<&'a str, Failure> {
    let found = variables.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| value.as_str()).ok_or_else(|| Failure::new(format!("{name} is not known")))
}

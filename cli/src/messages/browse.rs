//! `integrahub browse`: prints messages without removing them from the queue.

use serde_json::json;

use super::received::Shown;
use super::{selector, target, warn};
use crate::api::{Api, Call};
use crate::args::Browse;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Runs `integrahub browse`: prints messages, and leaves them on the queue.
pub(crate) async fn run(args: &Browse, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    let mut shown = Shown::begin(&args.show, args.max, out)?;
    let mut body = target(&args.queue.target, args.queue.queue.as_deref()).await?;
    body.insert("browseOnly".to_owned(), json!(true));
    body.insert("maxMessages".to_owned(), json!(args.max));
    body.insert("waitSeconds".to_owned(), json!(0));
    if let Some(selector) = selector(&args.select) {
        body.insert("selector".to_owned(), selector);
    }
    let api = Api::of(context)?;
    let mut answer = api.send(&Call::read("/messages/consume", &body.into())).await?.json()?;
    shown.add(&api, &mut answer, out).await?;
    warn(&answer, out);
    if answer.get("truncated").and_then(serde_json::Value::as_bool) == Some(true) {
        out.note("there are more messages than one response can carry");
    }
    let nothing = shown.count() == 0;
    shown.end(None, out);
    Ok(if nothing && args.error_on_nothing { Exit::Nothing } else { Exit::Done })
}

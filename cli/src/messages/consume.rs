//! `integrahub consume`.

use serde_json::{Value, json};
use uuid::Uuid;

use super::received::Shown;
use super::{Members, part_key, selector, target, warn};
use crate::api::{Api, Call, Refusal};
use crate::args::{Ack, Consume};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::member::number;
use crate::output::{Format, Output};

/// Messages of one request. A response has room for fewer if they are large.
const AT_ONCE: u64 = 500;
/// Most messages that the API takes in one request.
const MOST_AT_ONCE: u64 = 10_000;

/// Takes messages, request by request, and shows those of each before it takes more.
pub(crate) async fn run(args: &Consume, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    let goes_back = args.ack == Ack::Rollback;
    if goes_back && (args.all || args.max > MOST_AT_ONCE) {
        return Err(Failure::usage("with --ack rollback the same messages would come for ever")
            .next(format!("use browse, or a --max of up to {MOST_AT_ONCE}")));
    }
    let most = if args.all { u64::MAX } else { args.max };
    // Of all messages nobody knows how many there are.
    let shown_at_most = if args.all && out.format() == Format::Json { MOST_AT_ONCE } else { most };
    let mut shown = Shown::begin(&args.show, shown_at_most, out)?;
    let fixed = fixed(args).await?;
    let api = Api::of(context)?;
    let run = args.key.unwrap_or_else(Uuid::new_v4);
    if args.key.is_none() && !out.is_quiet() {
        out.note(&format!("idempotency key {run}"));
    }
    for request in 0.. {
        let left = most.saturating_sub(shown.count());
        let count = if goes_back { left } else { left.min(AT_ONCE) };
        let mut body = fixed.clone();
        body.insert("maxMessages".to_owned(), json!(count));
        body.insert("waitSeconds".to_owned(), json!(if request == 0 { args.wait } else { 0 }));
        let key = part_key(run, request).to_string();
        let call = Call::change("/messages/consume", &key, &body.into());
        let mut answer = api.send(&call).await.map_err(|refusal| with_key(refusal, run))?.json()?;
        shown.add(&api, &mut answer, out).await.map_err(|failure| again(failure, run))?;
        warn(&answer, out);
        if answer.get("deliveryInDoubt").and_then(Value::as_bool) == Some(true) {
            out.note("warning: the broker did not confirm: these messages may also be back on the queue");
        }
        let is_full = out.format() == Format::Json && shown.count() >= MOST_AT_ONCE;
        if number(&answer, "count") == 0 || shown.count() >= most || goes_back || is_full || out.is_closed() {
            break;
        }
    }
    let nothing = shown.count() == 0;
    shown.end(Some(&run.to_string()), out);
    Ok(if nothing && args.error_on_nothing { Exit::Nothing } else { Exit::Done })
}

/// Returns the members that every request of the run has.
async fn fixed(args: &Consume) -> Result<Members, Failure> {
    let mut body = target(&args.queue.target, args.queue.queue.as_deref()).await?;
    body.insert("ack".to_owned(), args.ack.as_str().into());
    if args.large {
        body.insert("large".to_owned(), "store".into());
    }
    if let Some(selector) = selector(&args.select) {
        body.insert("selector".to_owned(), selector);
    }
    Ok(body)
}

/// Adds to a refusal how to go on.
fn with_key(refusal: Refusal, run: Uuid) -> Failure {
    if refusal.is("MESSAGE_TOO_LARGE") {
        return Failure::from(refusal).next("take it with --large");
    }
    let failure = Failure::from(refusal);
    if failure.exit == Exit::Temporary { again(failure, run) } else { failure }
}

fn again(failure: Failure, run: Uuid) -> Failure {
    failure.next(format!("run the same command again with --key {run}: no message is lost by that"))
}

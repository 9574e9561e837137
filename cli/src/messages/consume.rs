//! `integrahub consume`: takes messages from a queue and prints them.

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

/// Maximum number of messages that one consume request of this program asks for. The response has
/// fewer if they are large.
const AT_ONCE: u64 = 500;
/// Maximum number of messages that the API allows in one consume request.
const MOST_AT_ONCE: u64 = 10_000;

/// Runs `integrahub consume`: takes messages, and prints those of each request before the next one.
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
    let command_key = args.key.unwrap_or_else(Uuid::new_v4);
    if args.key.is_none() {
        out.note(&format!("idempotency key {command_key}"));
    }
    let taken = take(args, &api, (command_key, most), &fixed, &mut shown, out).await;
    let nothing = shown.count() == 0;
    // What is taken is not on the queue any more.
    if taken.is_ok() || !nothing {
        shown.end(Some(&command_key.to_string()), out);
    }
    taken?;
    Ok(if nothing && args.error_on_nothing { Exit::Nothing } else { Exit::Done })
}

/// Takes up to `most` messages by one or more requests. The idempotency key of each request is
/// derived from `command_key`, the idempotency key of the whole command.
async fn take(
    args: &Consume,
    api: &Api,
    (command_key, most): (Uuid, u64),
    fixed: &Members,
    shown: &mut Shown,
    out: &mut Output,
) -> Result<(), Failure> {
    let goes_back = args.ack == Ack::Rollback;
    for request in 0.. {
        let left = most.saturating_sub(shown.count());
        let count = if goes_back { left } else { left.min(AT_ONCE) };
        let mut body = fixed.clone();
        body.insert("maxMessages".to_owned(), json!(count));
        body.insert("waitSeconds".to_owned(), json!(if request == 0 { args.wait } else { 0 }));
        let key = part_key(command_key, request).to_string();
        let call = Call::change("/messages/consume", &key, &body.into());
        let answer = api.send(&call).await.map_err(|refusal| with_key(refusal, command_key))?;
        let mut answer = answer.json().map_err(|failure| again(failure, command_key))?;
        shown.add(api, &mut answer, out).await.map_err(|failure| again(failure, command_key))?;
        warn(&answer, out);
        if answer.get("deliveryInDoubt").and_then(Value::as_bool) == Some(true) {
            out.note("warning: the broker did not confirm: these messages may also be back on the queue");
        }
        let is_full = out.format() == Format::Json && shown.count() >= MOST_AT_ONCE;
        if number(&answer, "count") == 0 || shown.count() >= most || goes_back || is_full || out.is_closed() {
            break;
        }
    }
    Ok(())
}

/// Returns the JSON members that all consume requests of the command have.
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

/// Converts a refused consume request to a failure that names the command to continue with: the
/// same one with the idempotency key `command_key`, or with `--large` if a message is too large.
fn with_key(refusal: Refusal, command_key: Uuid) -> Failure {
    if refusal.is("MESSAGE_TOO_LARGE") {
        // That is another request, which needs a key of its own.
        return Failure::from(refusal).next("take it with --large");
    }
    again(Failure::from(refusal), command_key)
}

fn again(failure: Failure, command_key: Uuid) -> Failure {
    let again = format!("run the same command again with --key {command_key}: no message is lost by that");
    match &failure.next {
        _ if failure.exit == Exit::Usage => failure,
        Some(next) if failure.exit != Exit::Temporary => {
            let next = format!("{next}; then {again}");
            failure.next(next)
        }
        _ => failure.next(again),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use test_support::http_server::{self, Server};

    use super::*;
    use crate::args::{QueueArgs, SelectArgs, ShowArgs, TargetArgs};
    use crate::output::memory::output;

    #[tokio::test]
    async fn messages_that_are_taken_are_shown_although_a_later_request_is_refused() {
        let requests = Arc::new(Mutex::new(0));
        let server = Server::start(move |_| {
            let mut requests = requests.lock().unwrap();
            *requests += 1;
            let answer = if *requests == 1 {
                let answer = json!({"target": "/:Q", "count": 1, "messages": [{"bodyBase64": "YQ=="}]});
                http_server::response(200, answer.to_string())
            } else {
                http_server::response(422, json!({"title": "No", "reason": "SCHEMA_VIOLATION"}).to_string())
            };
            async move { Some(answer) }
        })
        .await;
        let context = Context {
            url: Some(server.url().parse().unwrap()),
            api_key: Some("k".to_owned().into()),
            ..Context::default()
        };
        let target = TargetArgs { target: Some("t".to_owned()), target_file: None };
        let args = Consume {
            queue: QueueArgs { target, queue: None },
            max: 5,
            all: false,
            wait: 0,
            ack: Ack::Commit,
            large: false,
            select: SelectArgs::default(),
            show: ShowArgs::default(),
            error_on_nothing: false,
            key: None,
        };
        let (mut out, data, words) = output(Format::Json, None);
        let failure = run(&args, &context, &mut out).await.unwrap_err();
        let document: Value = serde_json::from_str(&data.text()).unwrap();
        assert_eq!((&document["count"], &document["messages"][0]["bodyBase64"]), (&json!(1), &json!("YQ==")));
        let key = document["key"].as_str().unwrap();
        assert!(words.text().contains(key) && failure.next.unwrap().contains(&format!("--key {key}")));
    }
}

//! `integrahub move`: moves messages from one queue to others.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use uuid::Uuid;

use super::{Members, part_key, target, warn};
use crate::api::{Api, Call};
use crate::args::Move;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::member::{number, text};
use crate::output::{Format, Output};

/// Maximum number of messages that one request moves.
const AT_ONCE: u64 = 1000;
/// Maximum number of messages listed for people among those that could not be moved.
const NAMED: usize = 10;

const MOVED: &str = "integrahub.moved.v1";
const PATH: &str = "/messages/move";

/// Runs `integrahub move`: previews the move, asks for confirmation, and moves the messages.
pub(crate) async fn run(args: &Move, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    let api = Api::of(context)?;
    let body = body(args).await?;
    if args.dry.dry_run || !context.yes {
        let plan = dry_run(&api, &body, args.max).await?;
        if args.dry.dry_run {
            return Ok(show(&Total::of(&plan), out));
        }
        let count = number(&plan, "moved");
        if count == 0 {
            return Ok(show(&Total::of(&plan), out));
        }
        let from = text(&plan, "target").rsplit_once(':').map_or("", |(_, queue)| queue).to_owned();
        for (queue, count) in destinations(&plan) {
            out.note(&format!("{count} messages would move to {queue}"));
        }
        explain_stayed(&plan, out);
        out.confirm(&format!("this moves at least {count} messages from {from}"), &from)?;
    }
    let command_key = args.key.unwrap_or_else(Uuid::new_v4);
    let mut total = Total::default();
    for request in 0.. {
        let mut body = body.clone();
        body.insert("max".to_owned(), json!(args.max.saturating_sub(total.moved).min(AT_ONCE)));
        let call = Call::change(PATH, &part_key(command_key, request).to_string(), &body.into());
        let answer = api.send(&call).await.map_err(|refusal| {
            let moved = total.moved.saturating_add(refusal.done.unwrap_or_default());
            let failure = Failure::from(refusal);
            let why = failure.why.clone().unwrap_or_default();
            let failure = failure.why(format!("{why}; {moved} messages are moved"));
            if failure.exit == Exit::Temporary {
                return failure.next(format!("run the same command again with --key {command_key}"));
            }
            failure
        })?;
        let answer = answer.json()?;
        warn(&answer, out);
        total.add(&answer);
        let is_done = total.moved >= args.max || number(&answer, "moved") == 0;
        // Ids are of this request's messages, and what stayed would only stay again.
        if is_done || !args.ids.is_empty() || number(&answer, "remaining") <= number(&answer, "stayed") {
            break;
        }
    }
    Ok(show(&total, out))
}

async fn body(args: &Move) -> Result<Members, Failure> {
    let mut body = Members::new();
    body.insert("from".to_owned(), target(&args.target, args.from.as_deref()).await?.into());
    let to = match &args.to {
        Some(queue) => json!({"queue": queue}),
        None => json!("origin"),
    };
    body.insert("to".to_owned(), to);
    if !args.ids.is_empty() {
        body.insert("selector".to_owned(), json!({"msgIdsBase64": args.ids}));
    }
    Ok(body)
}

async fn dry_run(api: &Api, body: &Members, max: u64) -> Result<Value, Failure> {
    let mut body = body.clone();
    body.insert("max".to_owned(), json!(max.min(AT_ONCE)));
    body.insert("dryRun".to_owned(), json!(true));
    match api.send(&Call::read(PATH, &body.into())).await {
        Ok(answer) => answer.json(),
        Err(refusal) if refusal.is("UNSUPPORTED_BY_BROKER") => Err(Failure::from(refusal)
            .next("this queue cannot be looked at without changing it; --yes moves without a look")),
        Err(refusal) => Err(refusal.into()),
    }
}

fn destinations(answer: &Value) -> impl Iterator<Item = (String, u64)> {
    let destinations = answer.get("destinations").and_then(Value::as_array).into_iter().flatten();
    destinations.map(|destination| (text(destination, "queue").to_owned(), number(destination, "moved")))
}

/// Result of all requests of a move. Counts are sums, but `stayed`, `remaining` and `messages` are
/// those of the last response.
#[derive(Clone, Debug, Default)]
struct Total {
    is_dry: bool,
    moved: u64,
    stayed: u64,
    possible_duplicates: u64,
    possibly_moved: u64,
    remaining: Option<u64>,
    destinations: BTreeMap<String, u64>,
    /// Messages in the last response, as JSON.
    messages: Value,
}

impl Total {
    fn of(answer: &Value) -> Self {
        let mut total = Self::default();
        total.add(answer);
        total
    }

    fn add(&mut self, answer: &Value) {
        self.is_dry = answer.get("dryRun").and_then(Value::as_bool).unwrap_or_default();
        self.moved = self.moved.saturating_add(number(answer, "moved"));
        self.possible_duplicates =
            self.possible_duplicates.saturating_add(number(answer, "possibleDuplicates"));
        self.possibly_moved = self.possibly_moved.saturating_add(number(answer, "possiblyMoved"));
        // A message that stays is looked at by each request.
        self.stayed = number(answer, "stayed");
        self.remaining = answer.get("remaining").and_then(Value::as_u64);
        for (queue, count) in destinations(answer) {
            let sum = self.destinations.entry(queue).or_default();
            *sum = sum.saturating_add(count);
        }
        self.messages = answer.get("messages").cloned().unwrap_or_default();
    }
}

/// Prints the result of the move or of its preview, and returns the exit code.
fn show(total: &Total, out: &mut Output) -> Exit {
    let destinations: Vec<Value> =
        total.destinations.iter().map(|(queue, moved)| json!({"queue": queue, "moved": moved})).collect();
    let document = json!({
        "dryRun": total.is_dry,
        "moved": total.moved,
        "stayed": total.stayed,
        "remaining": total.remaining,
        "possibleDuplicates": total.possible_duplicates,
        "possiblyMoved": total.possibly_moved,
        "destinations": destinations,
        "messages": total.messages,
    });
    if out.format() == Format::Text {
        let rows =
            total.destinations.iter().map(|(queue, moved)| vec![queue.clone(), moved.to_string()]).collect();
        out.table(&["queue", if total.is_dry { "would move" } else { "moved" }], rows);
        out.flush();
        let verb = if total.is_dry { "would be moved" } else { "moved" };
        let remaining = total.remaining.map(|left| format!(", {left} on the old queue")).unwrap_or_default();
        out.note(&format!("{} {verb}, {} stay{remaining}", total.moved, total.stayed));
        explain_stayed(&json!({"messages": total.messages}), out);
        if total.possible_duplicates > 0 {
            out.note(&format!(
                "warning: {} messages may be there twice, with the same ids",
                total.possible_duplicates
            ));
        }
        if total.possibly_moved > 0 {
            out.note(&format!("warning: {} more messages may be moved", total.possibly_moved));
        }
    } else {
        out.json(MOVED, &document);
    }
    if total.stayed > 0 { Exit::Partial } else { Exit::Done }
}

/// Prints which messages could not be moved, and why. Up to [`NAMED`] are listed.
fn explain_stayed(answer: &Value, out: &mut Output) {
    let messages = answer.get("messages").and_then(Value::as_array).into_iter().flatten();
    let stayed: Vec<&Value> = messages.filter(|message| text(message, "outcome") == "stayed").collect();
    for message in stayed.iter().take(NAMED) {
        out.note(&format!("  {} stays: {}", text(message, "msgIdBase64"), text(message, "reason")));
    }
    if let more @ 1.. = stayed.len().saturating_sub(NAMED) {
        out.note(&format!("  and {more} more; --output json shows all"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use test_support::http_server::{self, Server};

    use super::*;
    use crate::args::{DryRun, TargetArgs};
    use crate::output::memory::output;

    /// Runs a move of up to `max` messages against a server whose queue has `depth` messages.
    /// `answer` is typed at the question for confirmation. Returns the bodies of the requests, the
    /// output, and the result.
    async fn moved(
        depth: u64,
        max: u64,
        yes: bool,
        answer: Option<&str>,
    ) -> (Vec<Value>, String, Result<Exit, Failure>) {
        let state = Arc::new(Mutex::new((depth, Vec::new())));
        let shared = Arc::clone(&state);
        let server = Server::start(move |request| {
            let (depth, bodies) = &mut *shared.lock().unwrap();
            let body: Value = serde_json::from_slice(request.body()).unwrap();
            assert_eq!(request.headers().contains_key("idempotency-key"), body.get("dryRun").is_none());
            let count = body["max"].as_u64().unwrap().min(*depth);
            if body.get("dryRun").is_none() {
                *depth -= count;
            }
            let answer = json!({"target": "/:FROM", "dryRun": body.get("dryRun").is_some(), "moved": count,
                "stayed": 0, "remaining": *depth, "possibleDuplicates": 0, "possiblyMoved": 0,
                "destinations": [{"queue": "TO", "moved": count}], "warnings": [], "messages": []});
            bodies.push(body);
            async move { Some(http_server::response(200, answer.to_string())) }
        })
        .await;
        let context = Context {
            url: Some(server.url().parse().unwrap()),
            api_key: Some("k".to_owned().into()),
            yes,
            ..Context::default()
        };
        let args = Move {
            target: TargetArgs { target: Some("t".to_owned()), target_file: None },
            from: Some("FROM".to_owned()),
            to: Some("TO".to_owned()),
            to_origin: false,
            max,
            ids: Vec::new(),
            key: None,
            dry: DryRun::default(),
        };
        let (mut out, data, words) = output(Format::Text, answer);
        let exit = run(&args, &context, &mut out).await;
        let bodies = state.lock().unwrap().1.clone();
        (bodies, format!("{}{}", data.text(), words.text()), exit)
    }

    #[tokio::test]
    async fn nothing_moves_before_somebody_has_seen_what_would() {
        let (bodies, written, exit) = moved(3, 100, false, Some("no\n")).await;
        assert!(exit.is_err());
        assert_eq!(bodies.len(), 1);
        assert!(written.contains("3 messages would move to TO"), "{written}");
        let (bodies, written, exit) = moved(3, 100, false, Some("FROM\n")).await;
        assert_eq!((exit, bodies.len()), (Ok(Exit::Done), 2));
        assert!(written.contains("3 moved, 0 stay, 0 on the old queue"), "{written}");
    }

    #[tokio::test]
    async fn more_than_one_request_can_move_is_moved_by_several() {
        let (bodies, written, exit) = moved(2_500, 2_200, true, None).await;
        assert_eq!(exit, Ok(Exit::Done));
        let most: Vec<u64> = bodies.iter().map(|body| body["max"].as_u64().unwrap()).collect();
        assert_eq!(most, [1000, 1000, 200]);
        assert!(written.contains("TO  2200") && written.contains("300 on the old queue"), "{written}");
    }

    #[tokio::test]
    async fn an_empty_queue_ends_it() {
        let (bodies, _, exit) = moved(0, 100, false, None).await;
        assert_eq!((exit, bodies.len()), (Ok(Exit::Done), 1));
        assert_eq!(moved(5, 100, true, None).await.0.len(), 1);
    }
}

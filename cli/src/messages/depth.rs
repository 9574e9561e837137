//! `integrahub depth`: prints how many messages are on queues.

use serde_json::{Value, json};

use super::target;
use crate::api::{Api, Call};
use crate::args::Depth;
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::member::text;
use crate::output::Output;

/// Maximum number of queues in one depth request.
const AT_ONCE: usize = 100;

const DEPTHS: &str = "integrahub.depths.v1";
const PATH: &str = "/queue/depth";

/// Runs `integrahub depth`: prints the number of messages on the queues.
pub(crate) async fn run(args: &Depth, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    let api = Api::of(context)?;
    let mut measured = Vec::new();
    if let [] | [_] = args.queues.as_slice() {
        let queue = args.queues.first().map(String::as_str);
        let body = target(&args.target, queue).await?;
        let mut answer = api.send(&Call::read(PATH, &body.into())).await?.json()?;
        if let Some(members) = answer.as_object_mut() {
            members.remove("target");
        }
        measured.push(answer);
    }
    for queues in args.queues.chunks(AT_ONCE).filter(|_| args.queues.len() > 1) {
        let mut body = target(&args.target, None).await?;
        body.insert("queues".to_owned(), json!(queues));
        let mut answer = api.send(&Call::read(PATH, &body.into())).await?.json()?;
        let found = answer.get_mut("queues").and_then(Value::as_array_mut).map(std::mem::take);
        measured.extend(found.unwrap_or_default());
    }
    let rows = measured.iter().map(row).collect();
    let failed: Vec<Failure> = measured.iter().filter_map(failure).collect();
    out.list(DEPTHS, "queues", measured, &["queue", "messages", "limit", "readers", "writers"], rows);
    out.flush();
    failed.iter().for_each(|failure| out.fail(failure));
    Ok(if failed.is_empty() { Exit::Done } else { Exit::Partial })
}

/// Returns the table row of a queue in a depth response, with a hyphen for unknown values.
fn row(queue: &Value) -> Vec<String> {
    let count = |name: &str| match queue.get(name) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(count) => count.to_string(),
    };
    let counts = ["currentDepth", "maxDepth", "openInputCount", "openOutputCount"].map(count);
    std::iter::once(text(queue, "queue").to_owned()).chain(counts).collect()
}

/// Returns the failure of a queue whose messages could not be counted; `None` if they were.
fn failure(queue: &Value) -> Option<Failure> {
    let error = queue.get("error")?;
    let what = format!("{} could not be measured", text(queue, "queue"));
    Some(Failure::new(Exit::Partial, what).why(format!(
        "{} ({})",
        text(error, "detail"),
        text(error, "reason")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_that_cannot_be_measured_is_a_failure_beside_the_others() {
        let good = json!({"queue": "A", "currentDepth": 3, "maxDepth": null, "openInputCount": 0,
            "openOutputCount": 1});
        assert_eq!((row(&good), failure(&good)), (["A", "3", "-", "0", "1"].map(str::to_owned).into(), None));
        let bad = json!({"queue": "B", "error": {"reason": "QUEUE_NOT_FOUND", "detail": "there is none"}});
        assert_eq!(row(&bad)[1], "-");
        assert_eq!(failure(&bad).unwrap().why.as_deref(), Some("there is none (QUEUE_NOT_FOUND)"));
    }
}

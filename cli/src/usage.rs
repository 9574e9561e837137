//! `integrahub usage`: shows the usage of tenants, as the API has counted it.

use serde_json::Value;

use crate::api::{Api, Call, with_query};
use crate::args::{Period, Usage};
use crate::context::Context;
use crate::exit::{Exit, Failure};
use crate::member::{number, shown, text};
use crate::output::{Format, Output};

const SCHEMA: &str = "integrahub.usage.v1";
/// Path of the API's route that returns the usage report.
const ROUTE: &str = "/v1/usage";
const HEADER: [&str; 11] = [
    "period",
    "tenant",
    "key",
    "operation",
    "requests",
    "failed",
    "messages",
    "bytes",
    "replays",
    "refused",
    "amount",
];
/// Text in the column of operations for the row with the ingest's usage.
const CATALOGUES: &str = "catalogues";
/// Final states of load tests as the API names them, each with its row's text in the column of
/// operations.
const TESTS: [(&str, &str); 3] =
    [("completed", "tests completed"), ("stopped", "tests stopped"), ("failed", "tests failed")];

/// Runs `integrahub usage`.
///
/// # Errors
/// If the API does not answer, or refuses the key, the days or the tenant.
pub(crate) async fn run(args: &Usage, context: &Context, out: &mut Output) -> Result<Exit, Failure> {
    if args.csv && out.format() != Format::Text {
        return Err(Failure::usage("--csv and --output are two forms of the output").next("name one of them"));
    }
    let api = Api::of(context)?.with_key()?;
    let path = path(args);
    if args.csv {
        let answer = api.send(&Call::get(path).header("accept", "text/csv")).await?;
        // `finish` reports what could not be written.
        let _remembered = out.raw(&answer.body);
        return Ok(Exit::Done);
    }
    let answer = api.get(&path).await?;
    if out.format() != Format::Text {
        out.json(SCHEMA, &answer);
        return Ok(Exit::Done);
    }
    let currency = text(&answer, "currency");
    let entries = answer.get("usage").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if entries.is_empty() {
        out.note("nothing was used in this time");
    }
    out.table(&HEADER, entries.iter().flat_map(|entry| rows(entry, currency)).collect());
    if answer.get("complete") == Some(&Value::Bool(false)) {
        let until = shown(&answer, "countedUntil");
        let until = if until.is_empty() {
            "nothing is counted yet".to_owned()
        } else {
            format!("counted until {until}")
        };
        out.note(&format!("the figures are not complete: {until}"));
    }
    Ok(Exit::Done)
}

fn path(args: &Usage) -> String {
    let days =
        [("from", args.from), ("to", args.to)].map(|(name, day)| (name, day.map(|day| day.to_string())));
    let group = args.group.map(|group: Period| group.as_str().to_owned());
    let parameters = days.into_iter().chain([("group", group), ("tenant", args.tenant.clone())]);
    let given: Vec<_> = parameters.filter_map(|(name, value)| Some((name, value?))).collect();
    let given: Vec<_> = given.iter().map(|(name, value)| (*name, value.as_str())).collect();
    with_query(ROUTE, &given)
}

/// Returns the table rows for one entry of the usage report: one for each operation, each state of
/// ended load tests, and the ingest's catalogues. The first row has the amount of the whole entry.
fn rows(entry: &Value, currency: &str) -> Vec<Vec<String>> {
    let operations = entry.get("operations").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut rows: Vec<[String; 7]> = operations.iter().map(of_operation).collect();
    rows.extend(entry.get("loadTests").into_iter().flat_map(of_tests));
    rows.extend(entry.get("ingest").filter(|ingest| ingest.is_object()).map(of_ingest));
    let amount = Some(shown(entry, "amount")).filter(|amount| !amount.is_empty());
    let mut amount = amount.map(|amount| format!("{amount} {currency}").trim_end().to_owned());
    let of_entry = ["period", "tenant", "key"].map(|name| shown(entry, name));
    let row = |cells: [String; 7]| -> Vec<String> {
        let amount = amount.take().unwrap_or_default();
        of_entry.iter().cloned().chain(cells).chain([amount]).collect()
    };
    rows.into_iter().map(row).collect()
}

fn of_operation(operation: &Value) -> [String; 7] {
    ["operation", "requests", "failed", "messages", "bytes", "replays", "refused"]
        .map(|name| shown(operation, name))
}

/// Returns a table row for each final state of load tests, with the number of tests that ended in
/// it. States without tests have no row. Starts of tests are counted elsewhere, as requests of an
/// operation.
fn of_tests(tests: &Value) -> impl Iterator<Item = [String; 7]> {
    let counted = TESTS.into_iter().map(move |(state, word)| (word, number(tests, state)));
    counted.filter(|(_, count)| *count > 0).map(|(word, count)| {
        let none = String::new;
        [word.to_owned(), count.to_string(), none(), none(), none(), none(), none()]
    })
}

/// Returns the row for the ingest: catalogues in the column of requests, items in that of messages.
fn of_ingest(ingest: &Value) -> [String; 7] {
    let items = ingest.get("items").unwrap_or(&Value::Null);
    let of_items = |names: &[&str]| names.iter().map(|name| number(items, name)).sum::<u64>().to_string();
    let all = of_items(&["inserted", "updated", "unchanged", "stale", "failed"]);
    let none = String::new;
    let [batches, bytes] = ["batches", "bytes"].map(|name| shown(ingest, name));
    [CATALOGUES.to_owned(), batches, of_items(&["failed"]), all, bytes, none(), none()]
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use clap::Parser as _;
    use serde_json::json;
    use test_support::http_server::{self, Server};

    use super::*;
    use crate::args::{Cli, Command};
    use crate::output::memory::output;

    fn args(options: &str) -> Usage {
        let start = ["integrahub", "usage"];
        match Cli::try_parse_from(start.into_iter().chain(options.split_whitespace())).unwrap().command {
            Command::Usage(args) => args,
            other => panic!("{other:?}"),
        }
    }

    fn answer() -> Value {
        let operation = |name: &str, requests: u64| {
            json!({"operation": name, "requests": requests, "failed": 1, "messages": 300, "bytes": 12_345,
                "replays": 2, "refused": 0})
        };
        json!({
            "from": "2026-11-01", "to": "2026-11-27", "group": "day", "complete": false,
            "countedUntil": "2026-11-27T02:31:00Z", "approximate": ["replays"], "currency": "USD",
            "usage": [{
                "tenant": "acme", "key": "till 1", "period": "2026-11-26", "amount": "1.234500",
                "operations": [operation("produce", 12), operation("consume", 7)],
                "loadTests": {"started": 5, "completed": 3, "stopped": 0, "failed": 1},
                "ingest": {"batches": 3, "bytes": 999, "items":
                    {"inserted": 1, "updated": 2, "unchanged": 3, "stale": 4, "failed": 5}},
            }],
        })
    }

    /// Runs the command with these options. Returns the path and the header `accept` of its
    /// request, and what was written to standard output and standard error.
    async fn ran(options: &str, format: Format) -> (String, String, String, String) {
        let seen = Arc::new(Mutex::new((String::new(), String::new())));
        let note = Arc::clone(&seen);
        let server = Server::start(move |request| {
            let accept = request.headers().get("accept").and_then(|value| value.to_str().ok()).unwrap_or("");
            *note.lock().unwrap() = (request.uri().to_string(), accept.to_owned());
            let body = if accept == "text/csv" { "tenant,key\r\n".to_owned() } else { answer().to_string() };
            async move { Some(http_server::response(200, body)) }
        })
        .await;
        let url = Some(server.url().parse().unwrap());
        let context = Context { url, api_key: Some("k".to_owned().into()), ..Context::default() };
        let (mut out, data, notes) = output(format, None);
        run(&args(options), &context, &mut out).await.unwrap();
        let (path, accept) = seen.lock().unwrap().clone();
        (path, accept, data.text(), notes.text())
    }

    #[tokio::test]
    async fn the_days_the_group_and_the_tenant_are_asked_for() {
        let (path, ..) = ran("", Format::Json).await;
        assert!(path.ends_with("/v1/usage"), "{path}");
        let options = "--from 2026-10-01 --to 2026-10-31 --group month --tenant a&b";
        let (path, ..) = ran(options, Format::Json).await;
        let query = "?from=2026-10-01&to=2026-10-31&group=month&tenant=a%26b";
        assert!(path.ends_with(&format!("/v1/usage{query}")), "{path}");
        assert!(Cli::try_parse_from(["integrahub", "usage", "--from", "yesterday"]).is_err());
    }

    #[tokio::test]
    async fn each_operation_is_a_line_and_an_amount_is_there_once() {
        let (.., text, notes) = ran("", Format::Text).await;
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        let lines = lines.iter().map(|line| line.join(" ")).collect::<Vec<_>>();
        assert_eq!(
            lines,
            [
                "2026-11-26 acme till 1 produce 12 1 300 12345 2 0 1.234500 USD",
                "2026-11-26 acme till 1 consume 7 1 300 12345 2 0",
                "2026-11-26 acme till 1 tests completed 3",
                "2026-11-26 acme till 1 tests failed 1",
                "2026-11-26 acme till 1 catalogues 3 5 15 999",
            ]
        );
        assert!(notes.contains("counted until 2026-11-27T02:31:00Z"), "{notes}");
    }

    #[tokio::test]
    async fn the_document_and_the_csv_are_those_of_the_api() {
        let (_, _, text, _) = ran("", Format::Json).await;
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&document["schema"], &document["usage"]), (&json!(SCHEMA), &answer()["usage"]));
        let (_, accept, text, _) = ran("--csv", Format::Text).await;
        assert_eq!((accept.as_str(), text.as_str()), ("text/csv", "tenant,key\r\n"));
    }
}

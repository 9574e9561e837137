//! Start of Lambda functions: the time from a process's start to its first poll and its first
//! response. `produce` is compared with versions in Node.js.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use flate2::Compression;
use flate2::read::DeflateEncoder;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request};
use serde::Deserialize;
use serde_json::Value;
use test_support::environment::repository;
use test_support::http_server::{Server, response};

use crate::child::Program;
use crate::contender::{Contender as _, once, turns};
use crate::error::Error;
use crate::function::{self, Environment};
use crate::report::Goal::AtMost;
use crate::report::{Column, Report};

/// Names of sample events that every contender must refuse in the same way before the comparison.
/// The first one is measured.
const REFUSED: [&str; 12] = [
    "count-out-of-range",
    "unknown-member",
    "duplicate-member",
    "integer-beyond-2-53",
    "malformed-json",
    "mangled-gzip-body",
    "malformed-key",
    "duplicate-key-header",
    "no-key",
    "no-api-key",
    "text-content-type",
    "expiry-out-of-range",
];

/// Response of DynamoDB for the API key: the key is known and may write. Every other item is
/// missing.
const KNOWN_KEY: &str = r#"{"Item":{"pk":{"S":"KEY#"},"tenantId":{"S":"11111111-1111-4111-8111-111111111111"},"scopes":{"SS":["mq:read","mq:write"]}}}"#;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Number of starts of each contender
    #[arg(long, env = "STARTS", default_value_t = 40)]
    starts: u32,
}

/// Function that also exists in Node.js.
const PRODUCE: &str = "produce";
const NODE: &str = "produce in Node.js";
const NODE_BUNDLED: &str = "produce in Node.js, bundled";

const TO_POLL: &str = "first poll ms";
const CPU: &str = "CPU ms";
const ANSWERED: &str = "answer ms";
const ANSWERED_CPU: &str = "its CPU ms";
const SIZE: &str = "MB";
const ZIPPED: &str = "zipped MB";
const COLUMNS: [Column; 11] = [
    Column::median(TO_POLL, 1),
    Column::late("p95", TO_POLL, 1),
    Column::median(CPU, 1),
    Column::of("/ Node.js", TO_POLL, NODE).decimals(3),
    Column::of("CPU / Node.js", CPU, NODE).decimals(3),
    Column::of("/ bundled", TO_POLL, NODE_BUNDLED).decimals(3).goals(&[("", AtMost(0.1))]),
    Column::of("CPU / bundled", CPU, NODE_BUNDLED).decimals(3).goals(&[("", AtMost(0.1))]),
    Column::median(ANSWERED, 1),
    Column::median(ANSWERED_CPU, 1),
    Column::median(SIZE, 1),
    Column::median(ZIPPED, 1),
];

pub(crate) async fn run(options: &Options) -> Result<(), Error> {
    let dynamodb = Server::start(|request: Request<Bytes>| async move {
        let is_about_a_key = request.body().windows(4).any(|part| part == b"KEY#");
        let mut known = response(200, if is_about_a_key { KNOWN_KEY } else { "{}" });
        known.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-amz-json-1.0"));
        Some(known)
    })
    .await;
    let contenders = contenders(&dynamodb.url())?;
    check_alike(&contenders).await?;
    let mut report = Report::new(
        format!(
            "From spawn to the first poll, and where a request is refused by parsing, to its answer; medians of {} \
             starts.",
            options.starts
        ),
        &COLUMNS,
    );
    for (contender, deployed) in &contenders {
        let (unpacked, zipped) = size(deployed, deployed)?;
        let sizes = [(SIZE, megabytes(unpacked)), (ZIPPED, megabytes(zipped + END))];
        report.add("", &contender.name, &sizes);
    }
    let [measured_event, ..] = REFUSED;
    let event = event(measured_event)?;
    for round in 0..options.starts {
        for (contender, _) in turns(&contenders, round) {
            let mut environment = Environment::start(contender).await?;
            let (to_poll, cpu) = (millis(environment.to_poll), millis(environment.cpu_to_poll));
            report.add("", &contender.name, &[(TO_POLL, to_poll), (CPU, cpu)]);
            if parses(contender) {
                let answered = environment.send(&event).await?;
                let (after, cpu) = (millis(answered.after), millis(answered.whole_cpu));
                report.add("", &contender.name, &[(ANSWERED, after), (ANSWERED_CPU, cpu)]);
            }
            environment.stop().await?;
        }
    }
    report.print();
    Ok(())
}

/// Returns every function of the template, and if Node.js is installed also the versions of
/// `produce` in Node.js. Each comes with the path of its deployed files.
fn contenders(endpoint: &str) -> Result<Vec<(Program, PathBuf)>, Error> {
    let functions = function::all()?.into_iter();
    let mut contenders: Vec<_> = functions
        .map(|function| (function.clone().env("AWS_ENDPOINT_URL", endpoint), function.path))
        .collect();
    contenders.sort_by_key(|(contender, _)| contender.name != PRODUCE);
    let variables = contenders.first().map(|(produce, _)| produce.variables.clone()).unwrap_or_default();
    for (name, directory) in [(NODE, "plain"), (NODE_BUNDLED, "bundled")] {
        let deployed = repository().join(".local/bench/node").join(directory);
        let handler = deployed.join("handler.mjs");
        if let Some(program) = Program::node(name, "benches/node/runtime.mjs").filter(|_| handler.exists()) {
            let module = handler.canonicalize()?.display().to_string();
            let mut program = program.env("HANDLER_MODULE", module);
            program.variables.extend(variables.clone());
            contenders.push((program, deployed));
        }
    }
    Ok(contenders)
}

/// Returns true if the contender is `produce`, in either language. Only these parse the measured
/// request.
fn parses(contender: &Program) -> bool {
    contender.name.starts_with(PRODUCE)
}

/// Number of bytes that a zip file has for each entry, besides its data and twice its name.
const ENTRY: u64 = 30 + 46;
/// Number of bytes at the end of a zip file.
const END: u64 = 22;

/// Returns the size in bytes of a file, or of all files in a directory: unpacked, and as entries of
/// a zip file.
fn size(root: &Path, path: &Path) -> Result<(u64, u64), Error> {
    if path.is_dir() {
        return std::fs::read_dir(path)?.try_fold((0, 0), |sum, entry| {
            let (unpacked, zipped) = size(root, &entry?.path())?;
            Ok((sum.0 + unpacked, sum.1 + zipped))
        });
    }
    let mut deflated = DeflateEncoder::new(std::fs::File::open(path)?, Compression::best());
    let zipped = io::copy(&mut deflated, &mut io::sink())?;
    let name = path.strip_prefix(root).unwrap_or(path).as_os_str().len();
    Ok((deflated.total_in(), zipped + ENTRY + 2 * u64::try_from(name)?))
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

fn megabytes(bytes: u64) -> f64 {
    u32::try_from(bytes).map_or(f64::INFINITY, f64::from) / 1e6
}

/// Checks that all contenders that parse requests refuse the sample events in the same way.
///
/// # Errors
/// If contenders that parse requests answer differently, or one of them does not refuse.
async fn check_alike(contenders: &[(Program, PathBuf)]) -> Result<(), Error> {
    for name in REFUSED {
        let mut refusals = Vec::new();
        for (contender, _) in contenders.iter().filter(|(contender, _)| parses(contender)) {
            let answered = once::<Environment>(contender, &event(name)?).await?;
            refusals.push((&contender.name, refusal(&answered.body)?));
        }
        let first = refusals.first().map(|(_, refusal)| refusal);
        if refusals.iter().any(|(_, refusal)| Some(refusal) != first) {
            return Err(format!("{name}: {refusals:?}").into());
        }
    }
    Ok(())
}

/// Reads the HTTP status and the reason of a problem response.
fn refusal(answer: &[u8]) -> Result<(u64, String), Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Response {
        status_code: u64,
        body: String,
    }
    let response: Response = serde_json::from_slice(answer)?;
    let problem: Value = serde_json::from_str(&response.body)?;
    match problem.get("reason").and_then(Value::as_str) {
        Some(reason) if response.status_code >= 400 => Ok((response.status_code, reason.to_owned())),
        _ => Err(format!("not a refusal: {}", response.body).into()),
    }
}

fn event(name: &str) -> Result<Vec<u8>, Error> {
    Ok(std::fs::read(repository().join(format!("events/gateway/produce/{name}.json")))?)
}

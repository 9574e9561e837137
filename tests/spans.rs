//! Test of the ids in log lines. Every function that works for a request must do so in a tracing
//! span that has the ids, inside the one that Lambda's runtime makes for an invocation.

use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// Fields that each span of work for a request must have.
const IDS: [&str; 3] = ["correlation_id", "tenant", "idempotency_key"];
/// Fields that the spans of the sources below a path may lack, by path.
const LACKING: [(&str, &[&str]); 3] = [
    // A test is known by its id; the key of the request that started it is in that one's lines.
    ("functions/gateway/load-step/", &["idempotency_key"]),
    // Looks for the work of all requests; what it finds has a span of its own.
    ("functions/ingest/reconcile/src/lib.rs", &IDS),
    // None of its routes takes a key.
    ("functions/status/", &["idempotency_key"]),
];
/// Functions that work for no request, or for many at once, whose log lines each name their
/// request.
const OF_NO_REQUEST: [&str; 5] = ["audit", "doubts", "establishments", "metering", "migrate"];
/// Texts in a function's source by which it enters a span that has the ids.
const WAYS: [&str; 4] = ["endpoint::serve(", "front::run", "worker::serve(", "error_span!("];

/// Adds the Rust sources below a folder to `found`, each with its path from the repository's root.
/// Leaves out tests.
fn add_sources(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            add_sources(&path, found);
        } else if name.ends_with(".rs") && name != "tests.rs" {
            let text = std::fs::read_to_string(&path).unwrap();
            let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned();
            found.push((path.strip_prefix(ROOT).unwrap().to_string_lossy().into_owned(), text));
        }
    }
}

fn sources(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    add_sources(folder, &mut found);
    found
}

/// Returns the folders of all functions.
fn functions() -> Vec<PathBuf> {
    let folders =
        ["functions", "functions/gateway", "functions/ingest"].map(|folder| Path::new(ROOT).join(folder));
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.join("Cargo.toml").is_file()).collect()
}

/// Returns the arguments of each `error_span!` in a source text.
fn spans(text: &str) -> Vec<&str> {
    let after = text.split("error_span!(").skip(1);
    let end_of = |text: &str| {
        let mut open = 1;
        text.find(|character: char| {
            open += match character {
                '(' => 1,
                ')' => -1,
                _ => 0,
            };
            open == 0
        })
    };
    after.map(|text| &text[..end_of(text).unwrap()]).collect()
}

#[test]
fn every_span_of_work_for_a_request_has_its_ids() {
    let mut seen = 0;
    for folder in ["functions", "shared"] {
        for (path, text) in sources(&Path::new(ROOT).join(folder)) {
            let lacking =
                LACKING.iter().find(|(of, _)| path.starts_with(of)).map_or(&[][..], |(_, ids)| *ids);
            for span in spans(&text) {
                seen += 1;
                for id in IDS.iter().filter(|id| !lacking.contains(id)) {
                    assert!(span.contains(id), "{path}: the span has no `{id}`: {span}");
                }
            }
        }
    }
    assert!(seen >= 6, "{seen} spans");
}

#[test]
fn every_function_that_works_for_a_request_has_a_span() {
    for folder in functions() {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let sources = sources(&folder.join("src"));
        let has_one =
            |words: &[&str]| sources.iter().any(|(_, text)| words.iter().any(|word| text.contains(word)));
        assert!(has_one(&WAYS) || OF_NO_REQUEST.contains(&&*name), "{name} has no span with ids");
        // `lambda_runtime::run` has it; a runtime that a function builds for itself need not.
        assert!(!has_one(&["Runtime::new("]) || has_one(&["TracingLayer::new()"]), "{name}");
    }
}

//! Tests of `integrahub send`: files become rows of the table `products`, and exit codes say what
//! happened.

mod batches;
mod continued;
mod watching;

use std::path::PathBuf;
use std::time::Duration;

use end_to_end::{CommandLine, PHARMACY_KEY, Products, READONLY_KEY, Ran, gzip};
use ingestion::Cnpj;
use ingestion::generate::{Catalogue, Layout};
use serde_json::{Value, json};
use uuid::Uuid;

/// Maximum time for the program `integrahub` to finish, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the random CNPJ of an establishment that no other test has.
fn cnpj() -> String {
    let base: String = Uuid::new_v4().simple().to_string().to_uppercase().chars().take(12).collect();
    Cnpj::from_base(&base).unwrap().as_str().to_owned()
}

fn item(cnpj: &str, product: u32) -> String {
    json!({"CNPJ": cnpj, "SHOPID": 1, "PRODUCTID": product, "TITLE": "Dipirona", "PRICE": "12.90"})
        .to_string()
}

/// Returns `good` valid items of an establishment, followed by `bad` items whose price is no
/// number.
fn items(cnpj: &str, good: u32, bad: u32) -> Vec<String> {
    let good = (0..good).map(|product| item(cnpj, product));
    good.chain((0..bad).map(|product| item(cnpj, 1000 + product).replace("12.90", "12,90"))).collect()
}

fn array(items: &[String]) -> Vec<u8> {
    format!("[{}]", items.join(",")).into_bytes()
}

fn lines(items: &[String]) -> Vec<u8> {
    (items.join("\n") + "\n").into_bytes()
}

fn write(program: &CommandLine, name: &str, content: &[u8]) -> PathBuf {
    let path = program.directory().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

/// Returns the list `files` of the JSON document that the program printed.
#[track_caller]
fn files(ran: &Ran) -> Vec<Value> {
    let document: Value =
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert_eq!(document["schema"], "integrahub.send.v1");
    document["files"].as_array().unwrap().clone()
}

async fn count(cnpj: &str) -> usize {
    Products::open().await.of(cnpj).await.len()
}

#[tokio::test]
async fn arrays_lines_and_gzip_arrive_side_by_side() {
    let program = CommandLine::new();
    let cnpjs: Vec<String> = (0..4).map(|_| cnpj()).collect();
    write(&program, "a.json", &array(&items(&cnpjs[0], 3, 0)));
    write(&program, "b.ndjson", &lines(&items(&cnpjs[1], 3, 0)));
    write(&program, "c.json.gz", &gzip(&array(&items(&cnpjs[2], 3, 0)), 6));
    write(&program, "d.ndjson.gz", &gzip(&lines(&items(&cnpjs[3], 3, 0)), 6));
    let ran = program.run(&[
        "send",
        "--type",
        "full",
        "a.json",
        "b.ndjson",
        "c.json.gz",
        "d.ndjson.gz",
        "-o",
        "json",
    ]);
    let sent = files(&ran.expect(0));
    let named: Vec<_> = sent.iter().map(|file| file["file"].as_str().unwrap()).collect();
    assert_eq!(named, ["a.json", "b.ndjson", "c.json.gz", "d.ndjson.gz"]);
    for (file, cnpj) in sent.iter().zip(&cnpjs) {
        assert_eq!(
            (&file["way"], &file["exit"], &file["trouble"]),
            (&json!("request"), &json!(0), &Value::Null)
        );
        assert_eq!(
            (&file["batch"]["status"], &file["batch"]["items_parsed"]),
            (&json!("COMPLETED"), &json!(3))
        );
        assert_eq!(file["batch"]["load_type"], "full");
        assert_eq!(count(cnpj).await, 3);
    }
}

#[tokio::test]
async fn standard_input_is_a_file_too() {
    let cnpj = cnpj();
    let program = CommandLine::new().input(&String::from_utf8(lines(&items(&cnpj, 2, 0))).unwrap());
    let table = program.run(&["send", "--type", "delta", "-"]).done();
    assert!(table.starts_with("standard input  ") && table.contains("COMPLETED"), "{table}");
    assert_eq!(count(&cnpj).await, 2);
}

#[tokio::test]
async fn what_one_request_cannot_carry_is_uploaded() {
    let program = CommandLine::new();
    let catalogue = Catalogue { seed: Uuid::new_v4().as_u64_pair().0, items: 8_000, ..Catalogue::default() };
    let payload = catalogue.payload(Layout::Lines);
    assert!(payload.len() > 4_500_000, "{}", payload.len());
    write(&program, "large.ndjson", &payload);
    let ran = program.run(&["send", "--type", "full", "large.ndjson", "-o", "ndjson"]).expect(0);
    let documents: Vec<Value> = ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let events: Vec<_> = documents.iter().filter_map(|document| document["event"].as_str()).collect();
    for event in ["found", "ready", "sending", "accepted", "processing"] {
        assert!(events.contains(&event), "{event} of {events:?}");
    }
    let file = documents.last().unwrap();
    assert_eq!((&file["schema"], &file["way"]), (&json!("integrahub.send.v1"), &json!("upload")));
    assert_eq!(file["batch"]["items_processed"], 8_000);
}

#[tokio::test]
async fn items_in_error_are_exit_code_3_and_a_file() {
    let (program, cnpj) = (CommandLine::new(), cnpj());
    write(&program, "a.ndjson", &lines(&items(&cnpj, 2, 2)));
    let ran = program.run(&["send", "--type", "delta", "a.ndjson"]).expect(3);
    assert!(ran.stderr.contains("a.ndjson: 2 of 4 items are in error"), "{}", ran.stderr);
    assert!(ran.stderr.contains("item 2: FIELD_INVALID PRICE"), "{}", ran.stderr);
    assert!(ran.stderr.contains(" batches errors "), "{}", ran.stderr);

    write(&program, "b.ndjson", &lines(&items(&cnpj, 1, 3)));
    program.run(&["send", "--type", "delta", "b.ndjson", "--errors", "errors.ndjson"]).expect(3);
    let written = std::fs::read_to_string(program.directory().join("errors.ndjson")).unwrap();
    let written: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(written.len(), 3);
    for line in &written {
        assert_eq!((&line["file"], &line["code"]), (&json!("b.ndjson"), &json!("FIELD_INVALID")));
        assert!(line["item"].as_str().unwrap().contains("12,90"), "{line}");
    }

    write(&program, "c.ndjson", &lines(&items(&cnpj, 0, 2)));
    let ran = program.run(&["send", "--type", "delta", "c.ndjson"]).expect(6);
    assert!(ran.stderr.contains("none of 2 items could be loaded"), "{}", ran.stderr);
}

#[tokio::test]
async fn a_file_that_is_no_catalogue_is_refused() {
    let program = CommandLine::new();
    write(&program, "broken.json", b"[{\"CNPJ\": ");
    let ran = program.run(&["send", "--type", "full", "broken.json"]).expect(6);
    assert!(
        ran.stderr.contains("nothing is loaded") && ran.stderr.contains("MALFORMED_JSON"),
        "{}",
        ran.stderr
    );
    write(&program, "a.csv", b"CNPJ;SHOPID\n1;2\n");
    let ran = program.run(&["send", "--type", "full", "a.csv"]).expect(6);
    assert!(ran.stderr.contains("a.csv is no catalogue"), "{}", ran.stderr);
    program.run(&["send", "--type", "full", "missing.json"]).expect(1);
    program.run(&["send", "missing.json"]).expect(2);
}

#[tokio::test]
async fn who_may_not_send_is_told_so() {
    let program = CommandLine::new();
    write(&program, "a.ndjson", &lines(&items(&cnpj(), 1, 0)));
    let send = ["send", "--type", "delta", "a.ndjson"];
    for (key, reason) in [("nobody", "API_KEY_INVALID"), (READONLY_KEY, "SCOPE_REQUIRED")] {
        let mut command = program.command(&send);
        let ran = Ran::of(&command.env("INTEGRAHUB_API_KEY", key).output().unwrap()).expect(4);
        assert!(ran.stderr.contains(reason) && ran.stderr.contains("trace id"), "{}", ran.stderr);
    }
    let mut command = program.command(&send);
    let foreign = Ran::of(&command.env("INTEGRAHUB_API_KEY", PHARMACY_KEY).output().unwrap());
    assert!(foreign.expect(6).stderr.contains("CNPJ_NOT_ALLOWED"), "the key may not load this CNPJ");
}

#[tokio::test]
async fn a_dry_run_asks_nobody() {
    let program = CommandLine::new();
    write(&program, "a.json", &array(&items(&cnpj(), 1, 0)));
    let mut command = program.command(&["send", "--type", "full", "a.json", "--dry-run", "-o", "json"]);
    command.env("INTEGRAHUB_URL", "http://127.0.0.1:1").env("INTEGRAHUB_API_KEY", "k");
    let ran = Ran::of(&command.output().unwrap());
    let plan: Value = serde_json::from_str(&ran.done()).unwrap();
    assert_eq!(plan["schema"], "integrahub.send-plan.v1");
    let file = &plan["files"][0];
    assert_eq!(
        (&file["way"], &file["form"], &file["continues"]),
        (&json!("request"), &json!("array"), &json!(false))
    );
    let sha256 = file["sha256"].as_str().unwrap();
    assert_eq!(file["key"], format!("send:full:array:{sha256}"));
}

#[tokio::test]
async fn the_program_does_not_have_to_wait() {
    let (program, cnpj) = (CommandLine::new(), cnpj());
    write(&program, "a.ndjson", &lines(&items(&cnpj, 2, 0)));
    let ran = program.run(&["send", "--type", "delta", "a.ndjson", "--no-wait", "-o", "json"]).expect(0);
    let id = files(&ran)[0]["batchId"].as_str().unwrap().to_owned();
    assert!(ran.stderr.contains(&format!("integrahub batches watch {id}")), "{}", ran.stderr);
    let shown = program.run(&["batches", "watch", &id, "-o", "json"]).json();
    assert_eq!((&shown["schema"], &shown["status"]), (&json!("integrahub.batch.v1"), &json!("COMPLETED")));
    assert_eq!(count(&cnpj).await, 2);
}

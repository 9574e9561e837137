//! Tests of the command line's commands about batches that were sent, and about the status of the
//! API.

use end_to_end::{CommandLine, Ingest, READONLY_KEY};
use ingestion::generate::{Catalogue, Layout};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{cnpj, files, items, lines, write};

#[tokio::test]
async fn a_batch_is_shown_listed_and_replayed() {
    let (program, cnpj) = (CommandLine::new(), cnpj());
    write(&program, "a.ndjson", &lines(&items(&cnpj, 2, 1)));
    let sent = program.run(&["send", "--type", "delta", "a.ndjson", "-o", "json"]).expect(3);
    let id = files(&sent)[0]["batchId"].as_str().unwrap().to_owned();

    let shown = program.run(&["batches", "show", &id]).done();
    let has = |words: &[&str]| shown.lines().any(|line| line.split_whitespace().eq(words.iter().copied()));
    assert!(has(&["status", "COMPLETED"]) && has(&["in", "error", "1"]), "{shown}");
    let listed = program.run(&["batches", "list", "--max", "1000", "-o", "ndjson"]).done();
    assert!(listed.lines().any(|line| line.contains(&id)), "{id}");
    let errors = program.run(&["batches", "errors", &id, "-o", "json"]).json();
    assert_eq!(
        (&errors["items"][0]["code"], &errors["items"][0]["field"]),
        (&json!("FIELD_INVALID"), &json!("PRICE"))
    );
    program.run(&["batches", "errors", &id, "--file", "again.ndjson"]).done();
    let line = std::fs::read_to_string(program.directory().join("again.ndjson")).unwrap();
    assert!(line.contains("12,90") && line.lines().count() == 1, "{line}");

    let replayed = program.run(&["batches", "replay", &id, "--scope", "all", "-o", "json"]).expect(3);
    let replayed: Value = serde_json::from_str(&replayed.stdout).unwrap();
    assert_eq!((&replayed["generation"], &replayed["changes"]["unchanged"]), (&json!(2), &json!(2)));
    let refused = program.run(&["batches", "replay", &id]).expect(6);
    assert!(refused.stderr.contains("BATCH_NOT_REPLAYABLE"), "{}", refused.stderr);
    let refused = program.run(&["batches", "confirm", &id, "--yes"]).expect(6);
    assert!(refused.stderr.contains("nothing of the batch"), "{}", refused.stderr);
    program.run(&["batches", "show", &Uuid::new_v4().to_string()]).expect(6);
}

#[tokio::test]
async fn a_deactivation_that_is_held_waits_for_a_person() {
    let (program, catalogue) = (
        CommandLine::new(),
        Catalogue { items: 150, seed: Uuid::new_v4().as_u64_pair().0, ..Catalogue::default() },
    );
    write(&program, "full.ndjson", &catalogue.payload(Layout::Lines));
    program.run(&["send", "--type", "full", "full.ndjson"]).done();
    let cnpj = catalogue.cnpjs()[0].as_str().to_owned();
    write(&program, "short.ndjson", &lines(&items(&cnpj, 1, 0)));
    let sent = program.run(&["send", "--type", "full", "short.ndjson", "-o", "json"]).expect(7);
    assert!(sent.stderr.contains("deactivations are held"), "{}", sent.stderr);
    let id = files(&sent)[0]["batchId"].as_str().unwrap().to_owned();
    program.run(&["batches", "confirm", &id]).expect(2);
    let confirmed = program.run(&["batches", "confirm", &id, "--yes", "-o", "json"]).json();
    assert_eq!(confirmed["deactivation"]["state"], "done");
    assert!(
        Ingest::new().get(&id, "").await.expect(200).json()["changes"]["deactivated"].as_u64().unwrap() > 100
    );
}

#[tokio::test]
async fn the_status_and_any_path_can_be_asked_for() {
    let program = CommandLine::new();
    let status = program.run(&["status", "-o", "json"]).json();
    assert_eq!(
        (&status["schema"], &status["health"]["status"]),
        (&json!("integrahub.status.v1"), &json!("ok"))
    );
    assert!(status["status"]["version"].is_string(), "{status}");
    let limited = CommandLine::new().key(READONLY_KEY).run(&["status"]).expect(0);
    assert!(limited.stderr.contains("ops:read"), "{}", limited.stderr);
    let page = program.run(&["api", "GET", "/v1/inovafarma/batches?limit=1"]).json();
    assert!(page["batches"].is_array(), "{page}");
    let refused = program.run(&["api", "GET", "/nowhere"]).expect(6);
    assert!(refused.stderr.contains("ROUTE_NOT_FOUND") && refused.stdout.contains("traceId"), "{refused:?}");
}

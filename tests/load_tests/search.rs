//! The search for the highest rate. It runs several probes, of which each is a test of its own.

use end_to_end::On;
use serde_json::json;

use super::{Stand, ended};

/// A criterion that no rate meets, so that the search ends soon: at one message a second.
#[tokio::test]
async fn a_search_runs_probes_until_its_end_is_found() {
    let stand = Stand::start(On::RabbitMq).await;
    let body = stand.body(json!({
        "mode": "search", "producers": {"ratePerSec": 2}, "durationSeconds": 2,
        "expect": {"throughputPerSec": 1_000_000},
    }));
    let test = stand.tests.run(&body).await;
    let fates = ended(&test, "COMPLETED");
    let search = &test["report"]["search"];
    let probes = [2, 1].map(|rate| json!({"ratePerSec": rate, "passed": false}));
    assert_eq!(search["probes"], json!(probes), "{test}");
    assert_eq!(search["finding"], json!({"ratePerSec": null, "end": "lowestRate"}), "{test}");
    assert_eq!((&test["passed"], fates.count("received")), (&json!(false), 0), "{test}");
    assert!(test["report"]["summary"].as_str().unwrap().starts_with("No rate passed"), "{test}");
    // Both probes' messages stay: there is no consumer.
    let left = u64::try_from(stand.site.ready(&stand.queue).await).unwrap();
    assert!((1..=6).contains(&left), "{left}");
    stand.end().await;
}

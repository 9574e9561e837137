//! Test of the search for the highest rate, which consists of several probes. Each probe is a load
//! test.

use end_to_end::On;
use serde_json::json;

use super::{Stand, ended};

/// Checks that a search runs its probes until it ends. No rate meets the criterion here, so it ends
/// soon, at the lowest rate of one message per second.
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

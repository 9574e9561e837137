//! Test of functions whose clocks differ by almost as much as is allowed.

use serde_json::json;

use crate::crash::journey::told;
use crate::crash::stand::{Operation, Stand};

/// Difference of two clocks in seconds. It is less than the allowed 5 s by the time that starting a
/// request may take.
const NEARLY_ALL: f64 = 4.5;

#[tokio::test]
async fn a_clock_that_differs_within_its_bounds_refuses_nothing() {
    for ahead in [NEARLY_ALL, -NEARLY_ALL] {
        let stand = Stand::start_with_clock(ahead).await;
        let queue = stand.broker.queue().await;
        let produce = stand.request(Operation::Produce, &queue, json!({"batch": {"count": 3}}));
        let consume = stand.request(Operation::Consume, &queue, json!({"maxMessages": 3}));
        for (asked, done) in [(produce, "201"), (consume, "200")] {
            assert_eq!(told(&stand.ask(&asked).await.answer), done, "{ahead} s ahead");
            let replay = stand.ask(&asked).await.answer;
            assert_eq!(replay.header("idempotent-replay"), Some("true"), "{ahead} s ahead");
        }
        stand.broker.delete(&queue).await;
    }
}

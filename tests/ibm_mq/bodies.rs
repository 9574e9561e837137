//! Test of message bodies that exceed a queue manager's limit.

use end_to_end::{Gateway, QueueManager};
use serde_json::json;
use uuid::Uuid;

use super::refused;
use crate::body_refs::{bytes, uploaded};

#[tokio::test]
async fn a_queue_manager_that_takes_4_mib_says_so_and_has_nothing() {
    let (gateway, manager) = (Gateway::new(), QueueManager::start());
    let reference = uploaded(&gateway, &bytes(5_000_000)).await;
    let messages = json!({"messages": [{"bodyText": "first"}, {"bodyRef": reference}]});
    let (key, body) = (Uuid::new_v4(), manager.request("DEV.QUEUE.1", messages));
    for _ in 0..2 {
        refused(gateway.produce(key, &body).await, 422, "MESSAGE_TOO_LARGE", 2031);
        assert_eq!(manager.depth("DEV.QUEUE.1"), 0, "a unit of work is all or nothing");
    }
}

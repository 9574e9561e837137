//! Bodies that no request and no response can carry.

use end_to_end::{Gateway, QueueManager};
use serde_json::json;
use uuid::Uuid;

use super::{put, refused, taking};
use crate::body_refs::{bytes, stored, uploaded};

#[tokio::test]
async fn a_body_goes_in_by_reference_and_comes_out_stored() {
    let (gateway, manager) = (Gateway::new(), QueueManager::start_for_long_messages());
    let body = bytes(24 * 1024 * 1024);
    let mut reference = uploaded(&gateway, &body).await;
    for _ in 0..2 {
        let messages = json!({"messages": [{"bodyRef": reference, "type": "film"}]});
        let answer = put(&gateway, &manager, "DEV.QUEUE.3", messages).await;
        assert_eq!((&answer["bytes"], &answer["atomic"]), (&json!(body.len()), &json!(true)));
        let consume = manager.request("DEV.QUEUE.3", taking(json!({"large": "store"})));
        let (message, got) = stored(&gateway, &consume).await;
        assert!(got == body, "{} bytes came", got.len());
        assert_eq!((&message["bodySize"], &message["type"]), (&json!(body.len()), &json!("film")));
        assert_eq!(manager.depth("DEV.QUEUE.3"), 0);
        reference = message["bodySha256"].clone();
    }
}

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

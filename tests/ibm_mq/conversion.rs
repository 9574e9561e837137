//! Tests of text that other applications put in character sets other than UTF-8.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use end_to_end::{Gateway, QueueManager};
use serde_json::{Value, json};

use super::{bodies, take};

fn ccsids(answer: &Value) -> Vec<i64> {
    let messages = answer["messages"].as_array().unwrap().iter();
    messages.map(|message| message["ccsid"].as_i64().unwrap()).collect()
}

/// Returns the members of each kind of consume with `convert`, and how many of `messages` messages
/// it leaves on the queue.
fn ways(messages: u64) -> [(Value, u64); 3] {
    let way = |more: Value| {
        let mut members = json!({"convert": true});
        members.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        members
    };
    [
        (way(json!({"browseOnly": true})), messages),
        (way(json!({"ack": "rollback"})), messages),
        (way(json!({"ack": "commit"})), 0),
    ]
}

#[tokio::test]
async fn text_is_converted_to_utf_8_on_request() {
    let (gateway, manager) = (Gateway::new(), QueueManager::start());
    // ISO 8859-1, EBCDIC, and text that is longer than the buffer once it is converted.
    manager.put_encoded("DEV.QUEUE.1", "MQSTR", 819, b"caf\xe9");
    manager.put_encoded("DEV.QUEUE.1", "MQSTR", 37, b"\x81\x48\x46\x96");
    manager.put_encoded("DEV.QUEUE.1", "MQSTR", 37, &[0x46; 50_000]);
    let long = "ã".repeat(50_000);
    for (way, left) in ways(3) {
        let got = take(&gateway, &manager, "DEV.QUEUE.1", way.clone()).await;
        assert!(bodies(&got) == ["café", "ação", &long], "{way}");
        assert_eq!((ccsids(&got), &got["warnings"]), (vec![1208; 3], &json!([])), "{way}");
        assert_eq!((manager.depth("DEV.QUEUE.1"), manager.ready("DEV.QUEUE.1")), (left, left), "{way}");
    }
}

#[tokio::test]
async fn text_that_cannot_be_converted_comes_as_it_is_with_a_warning_and_is_not_lost() {
    let (gateway, manager) = (Gateway::new(), QueueManager::start());
    manager.put_encoded("DEV.QUEUE.1", "MQSTR", 850, b"caf\x82");
    for (way, left) in ways(1) {
        let got = take(&gateway, &manager, "DEV.QUEUE.1", way.clone()).await;
        let message = &got["messages"][0];
        assert_eq!(message["bodyBase64"], STANDARD.encode(b"caf\x82"), "{way}");
        assert_eq!((&message["bodyText"], &message["ccsid"]), (&Value::Null, &json!(850)), "{way}");
        assert!(got["warnings"].to_string().contains("2111"), "{way}: {got}");
        assert_eq!((manager.depth("DEV.QUEUE.1"), manager.ready("DEV.QUEUE.1")), (left, left), "{way}");
    }
}

#[tokio::test]
async fn text_that_is_not_converted_is_shown_if_its_characters_are_certain() {
    let (gateway, manager) = (Gateway::new(), QueueManager::start());
    manager.put_encoded("DEV.QUEUE.1", "MQSTR", 819, b"caf\xe9");
    manager.put_encoded("DEV.QUEUE.1", "MQSTR", 1252, b"5 \x80");
    manager.put_encoded("DEV.QUEUE.1", "MQSTR", 37, b"\x81\x48\x46\x96");
    let got = take(&gateway, &manager, "DEV.QUEUE.1", json!({})).await;
    let texts = [0, 1, 2].map(|number: usize| got["messages"][number]["bodyText"].clone());
    assert_eq!(texts, [json!("café"), json!("5 €"), Value::Null]);
    assert_eq!((ccsids(&got), &got["warnings"]), (vec![819, 1252, 37], &json!([])));
}

//! Test of the member `deliveryInDoubt` of a response, against messages whose publisher imitates
//! it.

use amqprs::{BasicProperties, FieldTable, FieldValue};
use end_to_end::Queue;
use serde_json::json;

use crate::crash::fault::{Fault, Struck};
use crate::crash::stand::{Operation, Stand};

/// Names and values of message headers that imitate the member `deliveryInDoubt`, or to which JSON
/// libraries give a meaning of their own.
const HOSTILE: [(&str, &str); 5] = [
    ("$serde_json::private::RawValue", "not json"),
    ("$serde_json::private::RawValue", r#"{"forged":true}"#),
    ("$serde_json::private::Number", "not a number"),
    ("deliveryInDoubt", "false"),
    (r#"{"deliveryInDoubt":false,"#, r#"{"deliveryInDoubt":false,"#),
];

#[tokio::test]
async fn no_message_can_take_the_label_away_or_change_with_it() {
    let mut stand = Stand::start().await;
    for (name, value) in HOSTILE {
        let queue = stand.broker.queue().await;
        publish(&stand, &queue, name, value).await;
        let asked = stand.request(Operation::Consume, &queue, json!({"waitSeconds": 5}));
        let struck = Struck { asked: &asked, queue: &queue, at: 0, moment: std::time::Duration::ZERO };
        Fault::KilledBeforeCompletion.strike(&mut stand, struck).await;
        stand.heal().await;
        let prepared = stand.record(&asked).await.unwrap();
        let stored = prepared["responsePayload"].as_s().unwrap().clone();
        stand.age(&asked).await;
        let answer = stand.ask(&asked).await.answer;
        let rest = stored.strip_prefix(r#"{"deliveryInDoubt":false,"#).unwrap();
        let expected = format!(r#"{{"deliveryInDoubt":true,{rest}"#);
        assert_eq!((answer.status, String::from_utf8(answer.bytes).unwrap()), (200, expected), "{name}");
        let completed = stand.record(&asked).await.unwrap();
        assert_eq!(completed["status"].as_s().unwrap(), "COMPLETED");
        assert!(completed["responsePayload"].as_s().unwrap().starts_with(r#"{"deliveryInDoubt":true,"#));
        stand.broker.delete(&queue).await;
    }
}

async fn publish(stand: &Stand, queue: &Queue, name: &str, value: &str) {
    let mut headers = FieldTable::new();
    headers.insert(name.try_into().unwrap(), FieldValue::S(value.to_owned().try_into().unwrap()));
    let mut properties = BasicProperties::default();
    properties.with_headers(headers);
    stand.broker.rabbitmq().publish(queue, properties, "a message").await;
}

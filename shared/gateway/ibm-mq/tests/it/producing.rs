use std::time::{Duration, Instant};

use mq::{
    Base64Bytes, CorrelIdMode, Group, GroupId, Headers, MessageType, MqProps, Persistence, ProduceCommand,
    ProduceSource, Properties, PropertyText,
};

use broker::Deadline;
use serde_json::json;
use tokio::sync::watch;

use broker::Broker as _;

use crate::support::{
    QueueManager, bodies, code, deadline, generated, in_transactions_of, outgoing, queue, texts,
};

#[tokio::test]
async fn a_thousand_messages_go_in_ten_transactions_that_are_all_or_nothing() {
    let manager = QueueManager::start();
    let client = manager.client();
    let report = client.put("DEV.QUEUE.1", &in_transactions_of(100, generated(1_000)), "a").await.unwrap();
    assert_eq!((report.enqueued, report.transactions, report.atomic), (1_000, 10, true));
    assert_eq!((report.bytes, manager.depth("DEV.QUEUE.1")), (100_000, 1_000));
    let outgoing = outgoing(&generated(1_000), "a");
    assert_eq!(report.first_id, Some(outgoing.message_id(0).0.to_vec()));
    assert_eq!(report.last_id, Some(outgoing.message_id(999).0.to_vec()));
    let taken = client.take("DEV.QUEUE.1", 2_000).await;
    let ids: Vec<_> = taken.messages.iter().map(|message| message.msg_id.clone().unwrap()).collect();
    let expected: Vec<_> = (0..1_000).map(|index| outgoing.message_id(index).0.to_vec()).collect();
    assert_eq!(ids, expected);
}

#[tokio::test]
async fn without_transactions_all_messages_are_one_unit_of_work_if_they_fit() {
    let manager = QueueManager::start();
    let client = manager.client();
    let report = client.put("DEV.QUEUE.1", &generated(300), "a").await.unwrap();
    assert_eq!((report.transactions, report.atomic, report.warnings.len()), (0, true, 0));
    let outgoing = outgoing(&generated(10_001), "b");
    let (confirmed, mut seen) = watch::channel(0);
    let report = client
        .broker
        .produce(&client.access, &queue("DEV.QUEUE.2"), &outgoing, 0, &confirmed, deadline())
        .await;
    // The queue holds 5,000 messages, so none of the first unit of work remains.
    let failure = report.unwrap_err();
    assert_eq!((failure.committed, code(&failure.error)), (0, Some(2053)), "{failure}");
    assert_eq!((*seen.borrow_and_update(), manager.depth("DEV.QUEUE.2")), (0, 0));
}

#[tokio::test]
async fn large_messages_are_reported_piece_by_piece_and_committed_together() {
    let manager = QueueManager::start();
    let client = manager.client();
    let large: Vec<_> = ["a", "b", "c", "d", "e"].map(|letter| letter.repeat(400_000)).into();
    let large: Vec<&str> = large.iter().map(String::as_str).collect();
    let report = client.put("DEV.QUEUE.1", &in_transactions_of(4, texts(&large)), "a").await.unwrap();
    assert_eq!((report.enqueued, report.transactions, report.bytes), (5, 2, 2_000_000));
    assert_eq!(bodies(&client.take("DEV.QUEUE.1", 10).await), large);
}

#[tokio::test]
async fn a_message_carries_its_properties_and_its_headers_under_their_names() {
    let manager = QueueManager::start();
    let client = manager.client();
    let props = MqProps {
        persistence: Persistence::Nonpersistent,
        priority: 7_i64.try_into().unwrap(),
        expiry_ms: Some(60_000_i64.try_into().unwrap()),
        correl_id_mode: CorrelIdMode::Fixed,
        fixed_correl_id_base64: Some(Base64Bytes(b"order-17".to_vec())),
        ..MqProps::default()
    };
    let headers: Headers =
        serde_json::from_str(r#"{"k1":"v1","x-trace":"a b","JMSType":"é","empty":""}"#).unwrap();
    let command = ProduceCommand { props, headers, ..texts(&["olá"]) };
    client.put("DEV.QUEUE.1", &command, "key").await.unwrap();
    let taken = client.take("DEV.QUEUE.1", 5).await;
    let [message] = &taken.messages[..] else { panic!("{taken:?}") };
    assert_eq!(message.body.0, "olá".as_bytes());
    assert_eq!((message.persistence, message.priority), (Persistence::Nonpersistent, 7));
    assert!(message.expiry_ms.is_some_and(|left| left <= 60_000 && left > 50_000), "{message:?}");
    let correl_id = message.correl_id.as_ref().unwrap();
    assert_eq!((&correl_id[..8], &correl_id[8..]), (&b"order-17"[..], &[0; 16][..]));
    assert_eq!((message.format.as_deref(), message.backout_count), (Some("MQSTR"), 0));
    assert!(message.put_at.is_some_and(|at| at.duration_until(jiff::Timestamp::now()).as_secs() < 60));
    let text = serde_json::to_value(&message.headers).unwrap();
    let expected = json!({
        "k1": "v1", "x-trace": "a b", "JMSType": "é", "empty": "", "idempotencyKey": "key", "sequence": 0
    });
    assert_eq!(text, expected);
}

fn text(text: &str) -> Option<PropertyText> {
    Some(text.to_owned().try_into().unwrap())
}

#[tokio::test]
async fn every_property_and_every_type_of_header_comes_back() {
    let manager = QueueManager::start();
    let client = manager.client();
    let properties = Properties {
        reply_to: text("REPLIES"),
        reply_to_queue_manager: Some("QM2".to_owned().try_into().unwrap()),
        message_type: Some(MessageType::Request),
        content_type: text("application/json"),
        content_encoding: text("gzip"),
        kind: text("order.created"),
        app_id: text("shop"),
        group: Some(Group {
            id: GroupId::Text("17".to_owned().try_into().unwrap()),
            sequence: Some(2_i64.try_into().unwrap()),
            last: true,
        }),
        timestamp: Some("2026-01-02T03:04:05.67Z".parse().unwrap()),
        report: Some(128_i64.try_into().unwrap()),
        feedback: Some(70_000_i64.try_into().unwrap()),
    };
    let typed = r#"{
        "nothing": null, "yes": true, "text": "é", "bytes": {"base64": "AP8="},
        "i8": {"int8": "-1"}, "i16": {"int16": "-2"}, "i32": {"int32": "-3"}, "i64": 4,
        "far": {"int64": "9223372036854775807"}, "f32": {"float32": "0.5"}, "f64": {"float64": "-0.25"},
        "type": "a header", "contentType": "another"
    }"#;
    let headers: Headers = serde_json::from_str(typed).unwrap();
    let props = MqProps { properties: Box::new(properties.clone()), ..MqProps::default() };
    let command = ProduceCommand { props, headers, ..texts(&["x"]) };
    client.put("DEV.QUEUE.1", &command, "key").await.unwrap();
    let taken = client.take("DEV.QUEUE.1", 5).await;
    let [message] = &taken.messages[..] else { panic!("{taken:?}") };
    assert_eq!(message.properties, properties);
    assert_eq!(message.put_at.unwrap().to_string(), "2026-01-02T03:04:05.67Z");
    assert_eq!(message.user_id.as_deref(), Some("app"));
    assert_eq!((message.ccsid, message.encoding), (Some(1208), Some(546)));
    let shown = serde_json::to_value(&message.headers).unwrap();
    let mut expected: serde_json::Value = serde_json::from_str(typed).unwrap();
    expected["idempotencyKey"] = "key".into();
    expected["sequence"] = 0.into();
    assert_eq!(shown, expected);
}

/// Checks that a produce which sets a message's application fails (2035) if the user lacks the
/// authority to set the context.
#[tokio::test]
async fn to_set_the_context_takes_an_authority() {
    let manager = QueueManager::start();
    let client = manager.client();
    let properties = Properties { app_id: text("shop"), ..Properties::default() };
    let props = MqProps { properties: Box::new(properties), ..MqProps::default() };
    let command = ProduceCommand { props, ..texts(&["x"]) };
    let failure = client.put("DEV.BACKOUT", &command, "a").await.unwrap_err();
    assert_eq!(code(&failure.error), Some(2035), "{failure}");
    client.put("DEV.BACKOUT", &texts(&["x"]), "b").await.unwrap();
    let taken = client.take("DEV.BACKOUT", 1).await;
    assert_eq!(taken.messages[0].properties.app_id.as_deref(), Some("integrahub"));
}

#[tokio::test]
async fn a_message_sent_again_is_the_same_message() {
    let manager = QueueManager::start();
    let client = manager.client();
    for _ in 0..2 {
        client.put("DEV.QUEUE.1", &generated(2), "same").await.unwrap();
    }
    let taken = client.take("DEV.QUEUE.1", 10).await;
    let [first, second, third, fourth] = &taken.messages[..] else { panic!("{taken:?}") };
    assert_eq!((&first.msg_id, &first.body), (&third.msg_id, &third.body));
    assert_eq!((&second.msg_id, &second.body), (&fourth.msg_id, &fourth.body));
}

#[tokio::test]
async fn a_full_queue_keeps_whole_transactions_only() {
    let manager = QueueManager::start();
    let client = manager.client();
    let failure = client.put("DEV.SMALL", &in_transactions_of(2, generated(5)), "a").await.unwrap_err();
    assert!(matches!(failure.error, mq::BrokerError::QueueFull { .. }), "{failure}");
    assert_eq!((failure.committed, failure.in_doubt.len(), code(&failure.error)), (2, 0, Some(2053)));
    assert_eq!(manager.depth("DEV.SMALL"), 2);
    // The connection is kept: nothing of the transaction remains on it.
    client.put("DEV.SMALL", &texts(&["third"]), "b").await.unwrap();
    assert_eq!((manager.depth("DEV.SMALL"), client.cap.open()), (3, 1));
}

#[tokio::test]
async fn refusals_of_a_queue_say_which_code_ibm_mq_has_for_them() {
    let manager = QueueManager::start();
    let client = manager.client();
    let refused = async |to: &str, command: &ProduceCommand| {
        client.put(to, command, "a").await.map(|report| report.enqueued).unwrap_err().error
    };
    let one = texts(&["x"]);
    assert!(matches!(refused("DEV.NOT.THERE", &one).await, mq::BrokerError::QueueNotFound { .. }));
    let large = texts(&[&"x".repeat(1_025)]);
    let error = refused("DEV.SMALL", &large).await;
    assert!(matches!(error, mq::BrokerError::MessageTooLarge { .. }), "{error}");
    assert!(error.to_string().contains("2030, MQRC_MSG_TOO_BIG_FOR_Q"), "{error}");
    assert_eq!(code(&refused("DEV.PUT.INHIBITED", &one).await), Some(2051));
    assert_eq!(code(&refused("DEV.DANGLING", &one).await), Some(2082));
    assert_eq!(code(&refused("SYSTEM.ADMIN.COMMAND.QUEUE", &one).await), Some(2035));
    let error = refused("SYSTEM.DEFAULT.MODEL.QUEUE", &one).await;
    assert!(matches!(error, mq::BrokerError::Unsupported { .. }), "{error}");
}

#[tokio::test]
async fn what_the_queue_manager_warns_of_is_in_the_report_and_the_messages_are_there() {
    let manager = QueueManager::start();
    let client = manager.client();
    manager.fault(&json!({"verb": "MQPUT", "nth": 2, "times": 3, "warning": 2049}));
    let report = client.put("DEV.QUEUE.1", &in_transactions_of(2, generated(5)), "a").await.unwrap();
    assert_eq!((report.enqueued, manager.depth("DEV.QUEUE.1")), (5, 5));
    let [warning] = &report.warnings[..] else { panic!("{:?}", report.warnings) };
    assert!(warning.contains("3 of the messages (2049, MQRC_PRIORITY_EXCEEDS_MAXIMUM)"), "{warning}");
    // A report option that no queue manager knows, and one that must not be unknown.
    let mut unknown = texts(&["a", "b"]);
    unknown.props.properties.report = Some(8_i64.try_into().unwrap());
    let report = client.put("DEV.QUEUE.2", &unknown, "b").await.unwrap();
    let [warning] = &report.warnings[..] else { panic!("{:?}", report.warnings) };
    assert!(warning.contains("2 of the messages (2104, MQRC_UNKNOWN_REPORT_OPTION)"), "{warning}");
    unknown.props.properties.report = Some(0x0004_0000_i64.try_into().unwrap());
    let failure = client.put("DEV.QUEUE.2", &unknown, "c").await.unwrap_err();
    assert_eq!((code(&failure.error), manager.depth("DEV.QUEUE.2")), (Some(2061), 2));
}

#[tokio::test]
async fn what_ibm_mq_cannot_carry_is_refused_before_anything_is_put() {
    let manager = QueueManager::start();
    let client = manager.client();
    let mut command = texts(&["first", "second"]);
    if let ProduceSource::Explicit { messages } = &mut command.source {
        messages[1].correl_id = Some(Base64Bytes(vec![1; 25]));
    }
    let failure = client.put("DEV.QUEUE.1", &command, "a").await.unwrap_err();
    assert!(matches!(failure.error, mq::BrokerError::Unsupported { .. }), "{failure}");
    let failure =
        client.put("DEV.QUEUE.1", &in_transactions_of(20_000, generated(20_000)), "b").await.unwrap_err();
    assert!(failure.error.to_string().contains("MAXUMSGS"), "{failure}");
    assert_eq!(manager.depth("DEV.QUEUE.1"), 0);
}

#[tokio::test]
async fn a_pace_is_kept_and_messages_are_seen_while_it_lasts() {
    let manager = QueueManager::start();
    let client = manager.client();
    let command = ProduceCommand { rate_limit_per_sec: Some(40_i64.try_into().unwrap()), ..generated(40) };
    let started = Instant::now();
    let outgoing = outgoing(&command, "a");
    let (confirmed, seen) = watch::channel(0);
    let to = queue("DEV.QUEUE.1");
    let put = client.broker.produce(&client.access, &to, &outgoing, 0, &confirmed, deadline());
    let half_way = async {
        tokio::time::sleep(Duration::from_millis(600)).await;
        (*seen.borrow(), manager.depth("DEV.QUEUE.1"))
    };
    let (report, (confirmed, depth)) = tokio::join!(put, half_way);
    assert_eq!(report.unwrap().enqueued, 40);
    let took = started.elapsed();
    assert!((Duration::from_millis(900)..Duration::from_secs(4)).contains(&took), "{took:?}");
    assert!((5..40).contains(&confirmed) && depth >= confirmed, "{confirmed} of {depth}");
}

#[tokio::test]
async fn time_that_runs_out_leaves_what_was_committed_and_whole_transactions() {
    let manager = QueueManager::start();
    let client = manager.client();
    let rate = Some(20_i64.try_into().unwrap());
    let soon = || Deadline::after(Duration::from_millis(1_500));
    let paced = ProduceCommand { rate_limit_per_sec: rate, ..generated(1_000) };
    let failure = client.put_until("DEV.QUEUE.1", &paced, "a", soon()).await.unwrap_err();
    assert!(matches!(failure.error, mq::BrokerError::Timeout { .. }), "{failure}");
    assert!((5..40).contains(&failure.committed), "{failure:?}");
    assert_eq!(manager.depth("DEV.QUEUE.1"), failure.committed);
    let transactions = in_transactions_of(8, paced);
    let failure = client.put_until("DEV.QUEUE.2", &transactions, "b", soon()).await.unwrap_err();
    assert_eq!((failure.committed % 8, failure.in_doubt.len()), (0, 0), "{failure:?}");
    assert_eq!(manager.depth("DEV.QUEUE.2"), failure.committed);
    assert!(bodies(&client.take("DEV.QUEUE.1", 1).await).len() == 1);
}

//! Tests of message properties: a message's own take precedence, and orders to `mq-access` carry
//! them unchanged.

use jiff::Timestamp;
use mq::{
    ContentSeed, ExpiryMs, ExplicitMessage, Group, GroupId, Headers, IdBytes, MessageType, MqLong, MqProps,
    Outgoing, OwnProps, Persistence, Priority, ProduceCommand, ProduceSource, Properties, PropertyText, Time,
    Transaction,
};

fn text(text: &str) -> Option<PropertyText> {
    Some(PropertyText::try_from(text.to_owned()).unwrap())
}

/// Returns properties of each type of value. Their texts end in `suffix`.
fn some(suffix: &str) -> Properties {
    let text = |name: &str| text(&format!("{name}{suffix}"));
    let group = Group { id: GroupId::Text(text("group").unwrap()), sequence: None, last: true };
    Properties {
        reply_to: text("reply"),
        message_type: Some(MessageType::Request),
        group: Some(group),
        timestamp: Some(Time::from_seconds(1_790_000_000)),
        report: Some(MqLong::try_from(-1).unwrap()),
        ..Properties::default()
    }
}

fn outgoing(props: MqProps, own: OwnProps) -> Outgoing {
    let messages = vec![
        ExplicitMessage::of_text("plain"),
        ExplicitMessage { own: own.boxed(), ..ExplicitMessage::of_text("own") },
    ];
    let command = ProduceCommand {
        source: ProduceSource::Explicit { messages },
        rate_limit_per_sec: None,
        transaction: Transaction::default(),
        props,
        headers: Headers::default(),
        warnings: Vec::new(),
    };
    Outgoing::new(&command, ContentSeed::new("tenant", "key", "fingerprint", Timestamp::UNIX_EPOCH))
}

#[test]
fn what_a_message_says_of_itself_wins_and_the_rest_holds_for_it() {
    let priority = |value: i64| Priority::try_from(value).unwrap();
    let props = MqProps {
        priority: priority(4),
        expiry_ms: Some(ExpiryMs::try_from(60_000).unwrap()),
        properties: Box::new(some(" of all")),
        ..MqProps::default()
    };
    let own = OwnProps {
        persistence: Some(Persistence::Nonpersistent),
        priority: Some(priority(0)),
        expiry_ms: None,
        properties: Properties { reply_to: text("own"), ..Properties::default() },
        routing_key: None,
    };
    let outgoing = outgoing(props.clone(), own);
    assert_eq!(*outgoing.props_of(0), props);
    let merged = outgoing.props_of(1);
    assert_eq!((merged.persistence, merged.priority), (Persistence::Nonpersistent, priority(0)));
    assert_eq!(merged.expiry_ms, props.expiry_ms);
    assert_eq!(*merged.properties, Properties { reply_to: text("own"), ..some(" of all") });
}

#[test]
fn a_priority_of_any_message_is_noticed() {
    let own =
        |value: i64| OwnProps { priority: Some(Priority::try_from(value).unwrap()), ..OwnProps::default() };
    assert!(outgoing(MqProps::default(), own(1)).has_priorities());
    assert!(!outgoing(MqProps::default(), own(0)).has_priorities());
}

#[test]
fn an_order_carries_properties_and_nothing_that_is_not_set() {
    let bytes = GroupId::Bytes(IdBytes::default());
    let group = Group { id: bytes, sequence: None, last: false };
    for properties in [some(""), Properties { group: Some(group), ..Properties::default() }] {
        let own = OwnProps { expiry_ms: Some(ExpiryMs::default()), properties, ..OwnProps::default() };
        let message = ExplicitMessage { own: own.boxed(), ..ExplicitMessage::of_text("a") };
        let sent = serde_json::to_string(&message).unwrap();
        assert_eq!(serde_json::from_str::<ExplicitMessage>(&sent).unwrap(), message, "{sent}");
    }
    let plain = ExplicitMessage { own: OwnProps::default().boxed(), ..ExplicitMessage::of_text("a") };
    assert_eq!(serde_json::to_string(&plain).unwrap(), r#"{"t":"a"}"#);
    // Orders that a version without properties sends have none.
    let earlier = r#"{"persistence":"persistent","priority":0,"expiryMs":null,"correlIdMode":"none","fixedCorrelIdBase64":null}"#;
    assert_eq!(serde_json::from_str::<MqProps>(earlier).unwrap(), MqProps::default());
}

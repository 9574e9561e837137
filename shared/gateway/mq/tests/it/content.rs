//! Tests of outgoing messages: a message built again is the same, and two messages differ.

use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;
use mq::{
    Base64Bytes, BatchCount, ContentSeed, CorrelId, CorrelIdMode, ExplicitMessage, HeaderName, HeaderValue,
    Headers, MessageSize, MqProps, Outgoing, OutgoingMessage, Payload, ProduceCommand, ProduceSource,
    Template, TemplateError, Transaction, TxSize,
};
use proptest::prelude::*;
use serde_json::json;

const KEY: &str = "0190b5a8-0000-7000-8000-000000000001";

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn seed() -> ContentSeed {
    ContentSeed::new("tenant", KEY, "fingerprint", at(1_790_000_000))
}

fn command(source: ProduceSource) -> ProduceCommand {
    ProduceCommand {
        source,
        rate_limit_per_sec: None,
        transaction: Transaction::default(),
        props: MqProps::default(),
        headers: Headers::default(),
        warnings: Vec::new(),
    }
}

fn generated(count: i64, payload: Payload) -> ProduceSource {
    ProduceSource::Generated { count: BatchCount::try_from(count).unwrap(), payload }
}

fn random(count: i64, size: i64) -> ProduceSource {
    generated(count, Payload::Random { size: MessageSize::try_from(size).unwrap() })
}

fn template(count: i64, text: &str) -> ProduceSource {
    generated(count, Payload::Template { template: Template::parse(text).unwrap() })
}

fn body(source: ProduceSource, index: u64) -> String {
    String::from_utf8(Outgoing::new(&command(source), seed()).message(index).unwrap().body).unwrap()
}

fn headers(entries: &[(&str, &str)]) -> Headers {
    let entry = |(name, value): &(&str, &str)| {
        (HeaderName::try_from((*name).to_owned()).unwrap(), HeaderValue::from(*value))
    };
    Headers::try_from(entries.iter().map(entry).collect::<BTreeMap<_, _>>()).unwrap()
}

#[test]
fn the_bytes_of_the_first_messages_are_those_of_their_bodies() {
    let messages = ["a", "bcd", "ef"].map(ExplicitMessage::of_text).to_vec();
    let written_out = ProduceSource::Explicit { messages };
    assert_eq!([0, 1, 2, 3, 9].map(|count| written_out.bytes_of_first(count)), [0, 1, 4, 6, 6]);
    assert_eq!(random(5, 100).bytes_of_first(3), 300);
    let outgoing = Outgoing::new(&command(random(5, 100)), seed());
    assert_eq!((outgoing.bytes_of_first(0), outgoing.bytes_of_first(5)), (0, 500));
}

#[test]
fn every_part_of_the_seed_matters() {
    let others = [
        ContentSeed::new("other", KEY, "fingerprint", at(1_790_000_000)),
        ContentSeed::new("tenant", "0190b5a8-0000-7000-8000-000000000002", "fingerprint", at(1_790_000_000)),
        ContentSeed::new("tenant", KEY, "other", at(1_790_000_000)),
        ContentSeed::new("tenant", KEY, "fingerprint", at(1_790_000_001)),
    ];
    assert_eq!(seed().message_id(3), seed().message_id(3));
    for other in others {
        assert_ne!(seed().message_id(3), other.message_id(3));
    }
}

#[test]
fn a_body_of_the_caller_s_goes_out_under_any_index() {
    let outgoing = Outgoing::new(&command(random(3, 10)), seed());
    let made = outgoing.message(2).unwrap();
    assert_eq!(outgoing.with_body(2, made.body.clone()), made);
    let beyond = outgoing.with_body(1_000_000, b"x".to_vec());
    assert_eq!((beyond.id, beyond.sequence), (outgoing.message_id(1_000_000), 1_000_000));
}

#[test]
fn without_its_body_a_message_is_the_same() {
    let explicit = ProduceSource::Explicit {
        messages: vec![
            ExplicitMessage::of_text("x"),
            ExplicitMessage { is_text: false, ..ExplicitMessage::of_text("x") },
        ],
    };
    for source in [random(2, 10), template(2, "{{seq}}"), explicit] {
        let outgoing = Outgoing::new(&command(source), seed());
        for index in [0, 1] {
            let message = outgoing.message(index).unwrap();
            assert!(!message.body.is_empty());
            assert_eq!(outgoing.without_body(index), OutgoingMessage { body: Vec::new(), ..message });
        }
    }
}

#[test]
fn a_template_renders_its_placeholders() {
    let text = body(template(3, "{{seq}} {{ key }} {{now}} {{uuid}} {{uuid}} {{random(5)}}}}"), 2);
    let parts: Vec<_> = text.split(' ').collect();
    assert_eq!(parts[..3], ["2", KEY, "2026-09-21T14:13:20.000Z"]);
    assert_ne!(parts[3], parts[4]);
    let uuid = uuid::Uuid::parse_str(parts[3]).unwrap();
    assert_eq!((uuid.get_version_num(), uuid.get_variant()), (8, uuid::Variant::RFC4122));
    let random = parts[5].strip_suffix("}}").unwrap();
    assert!(random.len() == 5 && random.chars().all(|c| c.is_ascii_alphanumeric()));
}

#[test]
fn a_template_that_cannot_be_used_says_why() {
    assert_eq!(Template::parse("ab{{seq"), Err(TemplateError::Unclosed(2)));
    assert_eq!(Template::parse("{{ nope }}"), Err(TemplateError::Unknown(0)));
    for length in ["0", "-1", "x", "", "4194305", "99999999999999999999"] {
        let error = Template::parse(&format!("{{{{random({length})}}}}"));
        assert_eq!(error, Err(TemplateError::RandomLength(0)));
    }
    assert!(Template::parse("{{random(4194304)}}").is_ok());
    assert_eq!(Template::parse("{{random(4194304)}}x"), Err(TemplateError::TooLong(4_194_305)));
    assert_eq!(Template::parse("").map(String::from), Ok(String::new()));
}

#[test]
fn correlation_ids_follow_the_mode_and_a_messages_own_wins() {
    let message = |correl_id: Option<&[u8]>| ExplicitMessage {
        correl_id: correl_id.map(|id| Base64Bytes(id.to_vec())),
        ..ExplicitMessage::of_text("x")
    };
    let mut command =
        command(ProduceSource::Explicit { messages: vec![message(None), message(Some(b"own"))] });
    let ids = |command: &ProduceCommand| {
        let outgoing = Outgoing::new(command, seed());
        let ids = [outgoing.correl_id(0), outgoing.correl_id(1)];
        assert_eq!(ids, [0, 1].map(|index| outgoing.message(index).unwrap().correl_id));
        ids
    };
    let own = CorrelId::Bytes(b"own".to_vec());
    assert_eq!(ids(&command), [CorrelId::None, own.clone()]);
    command.props.correl_id_mode = CorrelIdMode::EchoMsgId;
    assert_eq!(ids(&command), [CorrelId::EchoMsgId, own.clone()]);
    command.props.correl_id_mode = CorrelIdMode::Fixed;
    command.props.fixed_correl_id_base64 = Some(Base64Bytes(b"fixed".to_vec()));
    assert_eq!(ids(&command), [CorrelId::Bytes(b"fixed".to_vec()), own]);
}

#[test]
fn a_messages_own_headers_lie_over_the_requests() {
    let message =
        ExplicitMessage { headers: headers(&[("a", "own"), ("c", "3")]), ..ExplicitMessage::of_text("") };
    let mut command = command(ProduceSource::Explicit { messages: vec![message] });
    command.headers = headers(&[("a", "1"), ("b", "2")]);
    let outgoing = Outgoing::new(&command, seed());
    assert_eq!(*outgoing.headers(0), headers(&[("a", "own"), ("b", "2"), ("c", "3")]));
    let has = ["a", "b", "c", "d"].map(|name| outgoing.has_header(0, name));
    assert_eq!(has, [true, true, true, false]);
}

#[test]
fn reserved_and_oversized_headers_are_refused() {
    for name in ["idempotencyKey", "sequence", ""] {
        assert!(HeaderName::try_from(name.to_owned()).is_err());
    }
    assert!(HeaderName::try_from("x".repeat(255)).is_ok() && HeaderName::try_from("x".repeat(256)).is_err());
    let large = |length: usize| {
        let name = HeaderName::try_from("n".to_owned()).unwrap();
        Headers::try_from(BTreeMap::from([(name, HeaderValue::from("v".repeat(length)))]))
    };
    assert!(large(Headers::MAX_BYTES - 1).is_ok() && large(Headers::MAX_BYTES).is_err());
}

#[test]
fn numbers_out_of_range_do_not_exist() {
    for (value, is_ok) in [
        (json!(0), false),
        (json!(1), true),
        (json!(100_000), true),
        (json!(100_001), false),
        (json!(-1), false),
    ] {
        assert_eq!(serde_json::from_value::<TxSize>(value.clone()).is_ok(), is_ok, "{value}");
    }
}

proptest! {
    #[test]
    fn a_message_is_the_same_whenever_it_is_made(count in 1_i64..50, size in 0_i64..300, index in 0_u64..60) {
        let make = || Outgoing::new(&command(random(count, size)), seed()).message(index);
        prop_assert_eq!(make(), make());
        prop_assert_eq!(make().is_some(), index < u64::try_from(count).unwrap());
        if let Some(message) = make() {
            prop_assert_eq!(message.body.len(), usize::try_from(size).unwrap());
            prop_assert_eq!((message.sequence, message.id), (index, seed().message_id(index)));
        }
    }

    #[test]
    fn ids_do_not_repeat(from in any::<u32>()) {
        let from = u64::from(from);
        let ids: HashSet<_> = (from..from + 500).map(|index| seed().message_id(index)).collect();
        prop_assert_eq!(ids.len(), 500);
    }

    #[test]
    fn a_template_is_never_longer_than_it_was_thought_to_be(pieces in prop::collection::vec(
        prop_oneof!["[^{}]{0,9}", Just("{{seq}}".to_owned()), Just("{{uuid}}".to_owned()), Just("{{now}}".to_owned()),
            Just("{{key}}".to_owned()), Just("{{random(7)}}".to_owned())], 0..12), index in 0_u64..100_000) {
        let source = pieces.concat();
        let longest: usize = pieces.iter().map(|piece| match piece.as_str() {
            "{{seq}}" => 5, "{{uuid}}" | "{{key}}" => 36, "{{now}}" => 24, "{{random(7)}}" => 7,
            literal => literal.len(),
        }).sum();
        prop_assert!(body(template(100_000, &source), index).len() <= longest);
    }

    #[test]
    fn no_template_makes_the_parsing_fail_badly(source in "(\\{\\{|\\}\\}|random\\(|\\)|seq|[ -~é]){0,20}") {
        if let Ok(template) = Template::parse(&source) {
            prop_assert_eq!(String::from(template), source);
        }
    }
}

//! Tests of messages in character sets other than UTF-8, with the option `convert` and without it.

use mq::{Ack, AckMode, BrokerError, ConsumeCommand, Consumed};
use serde_json::{Value, json};

use crate::support::{QueueManager, consume, deadline, texts};

const BROWSE: AckMode = AckMode::Browse;
const COMMIT: AckMode = AckMode::Take(Ack::Commit);
const ROLLBACK: AckMode = AckMode::Take(Ack::Rollback);

/// CCSID (coded character set id) of EBCDIC for the US and Canada.
const EBCDIC: i32 = 37;
const EBCDIC_INTERNATIONAL: i32 = 500;
const LATIN_1: i32 = 819;
const WINDOWS: i32 = 1252;
/// CCSID (coded character set id) from which the stand-in queue manager cannot convert.
const UNKNOWN: i32 = 850;

fn converted(most: i64, mode: AckMode) -> ConsumeCommand {
    ConsumeCommand { convert: true, ..consume(most, mode) }
}

/// Returns each message's text as a response shows it, with the CCSID in the response, or `None` if
/// the response has none.
fn shown(consumed: &Consumed) -> Vec<(Value, Option<i32>)> {
    let text = |message| serde_json::to_value(message).unwrap()["bodyText"].clone();
    consumed.messages.iter().map(|message| (text(message), message.ccsid)).collect()
}

fn raw(consumed: &Consumed) -> Vec<&[u8]> {
    consumed.messages.iter().map(|message| message.body.0.as_slice()).collect()
}

fn backouts(consumed: &Consumed) -> Vec<u64> {
    consumed.messages.iter().map(|message| message.backout_count).collect()
}

fn says(consumed: &Consumed, words: &str) -> bool {
    consumed.warnings.iter().any(|warning| warning.contains(words))
}

#[tokio::test]
async fn text_of_other_character_sets_comes_in_utf_8_in_every_mode() {
    let manager = QueueManager::start();
    let client = manager.client();
    manager.put_encoded("DEV.QUEUE.1", "MQSTR", LATIN_1, b"caf\xe9");
    manager.put_encoded("DEV.QUEUE.1", "MQSTR", EBCDIC, b"\x81\x48\x46\x96");
    manager.put_encoded("DEV.QUEUE.1", "MQSTR", EBCDIC_INTERNATIONAL, b"\x4a\xf1\x5a");
    manager.put_encoded("DEV.QUEUE.1", "MQSTR", WINDOWS, b"5 \x80");
    client.put("DEV.QUEUE.1", &texts(&["plain"]), "a").await.unwrap();
    let all = ["café", "ação", "[1]", "5 €", "plain"].map(|text| (json!(text), Some(1208)));
    for (mode, left) in [(BROWSE, 5), (ROLLBACK, 5), (COMMIT, 0)] {
        let unit = client.fetch("DEV.QUEUE.1", &converted(9, mode)).await.unwrap();
        let consumed = unit.consumed().clone();
        assert_eq!((shown(&consumed), consumed.warnings.len()), (all.to_vec(), 0), "{mode:?}");
        match mode {
            COMMIT => unit.commit(deadline()).await.unwrap(),
            _ => unit.rollback(deadline()).await.unwrap(),
        }
        assert_eq!((manager.depth("DEV.QUEUE.1"), manager.ready("DEV.QUEUE.1")), (left, left), "{mode:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_converted_comes_as_it_is_with_a_warning_and_is_not_lost() {
    let manager = QueueManager::start();
    let client = manager.client();
    manager.put_encoded("DEV.QUEUE.1", "MQSTR", UNKNOWN, b"caf\x82");
    manager.put_encoded("DEV.QUEUE.1", "MQSTR", 367, b"caf\xe9");
    manager.put_encoded("DEV.QUEUE.1", "", LATIN_1, b"\x00\xff");
    for (mode, backed_out, left) in [(BROWSE, 0, 3), (ROLLBACK, 0, 3), (COMMIT, 1, 0)] {
        let unit = client.fetch("DEV.QUEUE.1", &converted(9, mode)).await.unwrap();
        let consumed = unit.consumed().clone();
        assert_eq!(raw(&consumed), [b"caf\x82".as_slice(), b"caf\xe9", b"\x00\xff"], "{mode:?}");
        assert_eq!(shown(&consumed), [UNKNOWN, 367, LATIN_1].map(|ccsid| (Value::Null, Some(ccsid))));
        assert_eq!(backouts(&consumed), [backed_out; 3], "{mode:?}");
        // An unknown character set, a character that the set lacks, and bytes without a format.
        for code in ["2111", "2119", "2110"] {
            assert!(says(&consumed, code), "{mode:?}, {code}: {:?}", consumed.warnings);
        }
        match mode {
            COMMIT => unit.commit(deadline()).await.unwrap(),
            _ => unit.rollback(deadline()).await.unwrap(),
        }
        assert_eq!((manager.depth("DEV.QUEUE.1"), manager.ready("DEV.QUEUE.1")), (left, left), "{mode:?}");
    }
}

/// Checks that conversion does not truncate bodies which exceed the 64 KiB buffer. The first body
/// fits into the buffer before its conversion, the second does not even then.
#[tokio::test]
async fn a_body_that_outgrows_the_buffer_by_its_conversion_is_complete_in_every_mode() {
    let manager = QueueManager::start();
    let client = manager.client();
    manager.put_encoded("DEV.QUEUE.1", "MQSTR", WINDOWS, &[0x80; 60_000]);
    manager.put_encoded("DEV.QUEUE.1", "MQSTR", EBCDIC, &[0x46; 150_000]);
    manager.put_encoded("DEV.QUEUE.1", "MQSTR", LATIN_1, b"\xe9");
    let all = ["€".repeat(60_000), "ã".repeat(150_000), "é".to_owned()];
    for (mode, backed_out) in [(BROWSE, 0), (ROLLBACK, 0), (COMMIT, 1)] {
        let unit = client.fetch("DEV.QUEUE.1", &converted(9, mode)).await.unwrap();
        let consumed = unit.consumed().clone();
        assert!(raw(&consumed) == all.each_ref().map(String::as_bytes), "{mode:?}");
        assert_eq!((backouts(&consumed), consumed.warnings.len()), (vec![backed_out; 3], 0), "{mode:?}");
        match mode {
            COMMIT => unit.commit(deadline()).await.unwrap(),
            _ => unit.rollback(deadline()).await.unwrap(),
        }
    }
    assert_eq!(manager.depth("DEV.QUEUE.1"), 0);
}

/// Checks that a body which fits into the response only without conversion stays on the queue, with
/// backout count 0.
#[tokio::test]
async fn a_body_that_outgrows_the_response_by_its_conversion_was_never_taken() {
    let manager = QueueManager::start();
    let client = manager.client();
    client.put("DEV.QUEUE.1", &texts(&["a"]), "a").await.unwrap();
    manager.put_encoded("DEV.QUEUE.1", "MQSTR", EBCDIC, &[0x46; 60_000]);
    for mode in [BROWSE, COMMIT] {
        let unit = client.fetch_within("DEV.QUEUE.1", &converted(9, mode), 100_000).await.unwrap();
        assert_eq!(raw(unit.consumed()), [b"a"], "{mode:?}");
        assert!(unit.consumed().truncated, "{mode:?}");
        match mode {
            COMMIT => unit.commit(deadline()).await.unwrap(),
            _ => unit.rollback(deadline()).await.unwrap(),
        }
    }
    for mode in [BROWSE, COMMIT] {
        let fetched = client.fetch_within("DEV.QUEUE.1", &converted(9, mode), 100_000).await;
        let error = fetched.map(drop).unwrap_err();
        assert!(matches!(error, BrokerError::MessageTooLarge { .. }), "{mode:?}: {error}");
    }
    let taken = client.take("DEV.QUEUE.1", 9).await;
    assert_eq!((raw(&taken), backouts(&taken)), (vec![[0x46; 60_000].as_slice()], vec![0]));
}

#[tokio::test]
async fn a_message_that_somebody_takes_between_two_looks_is_passed_over() {
    let manager = QueueManager::start();
    let client = manager.client();
    manager.put_encoded("DEV.QUEUE.1", "MQSTR", LATIN_1, &[0xe9; 60_000]);
    // Fails the second browse, which has a larger buffer.
    manager.fault(&json!({"verb": "MQGET", "nth": 2, "reason": 2034}));
    let unit = client.fetch("DEV.QUEUE.1", &converted(9, BROWSE)).await.unwrap();
    assert!(raw(unit.consumed()) == ["é".repeat(60_000).as_bytes()]);
    assert_eq!(manager.faults(), 0);
}

#[tokio::test]
async fn a_user_who_may_not_browse_gets_text_that_outgrows_the_buffer_as_it_is() {
    const ONLY_GET: &str =
        "\n[[authorities]]\nusers = [\"other\"]\nqueues = [\"DEV.QUEUE.2\"]\nallow = [\"get\"]\n";
    let manager = QueueManager::start_with(|text| text + ONLY_GET);
    let mut reader = manager.client();
    reader.access.credentials.as_mut().unwrap().user = "other".to_owned();
    manager.put_encoded("DEV.QUEUE.2", "MQSTR", EBCDIC, b"\x81\x48\x46\x96");
    manager.put_encoded("DEV.QUEUE.2", "MQSTR", EBCDIC, &[0x46; 60_000]);
    let unit = reader.fetch("DEV.QUEUE.2", &converted(9, COMMIT)).await.unwrap();
    let consumed = unit.consumed().clone();
    unit.commit(deadline()).await.unwrap();
    assert!(raw(&consumed) == ["ação".as_bytes(), &[0x46; 60_000]]);
    assert_eq!((consumed.messages[0].ccsid, consumed.messages[1].ccsid), (Some(1208), Some(EBCDIC)));
    assert!(says(&consumed, "2120"), "{:?}", consumed.warnings);
    assert_eq!(manager.depth("DEV.QUEUE.2"), 0);
}

#[tokio::test]
async fn a_converted_message_past_the_threshold_is_in_the_response_and_is_not_moved() {
    let manager = QueueManager::start();
    let client = manager.client();
    manager.put_encoded("DEV.POISON", "MQSTR", EBCDIC, b"\x81\x48\x46\x96");
    for _ in 0..3 {
        let unit = client.fetch("DEV.POISON", &converted(1, ROLLBACK)).await.unwrap();
        unit.rollback(deadline()).await.unwrap();
    }
    let unit = client.fetch("DEV.POISON", &converted(1, COMMIT)).await.unwrap();
    let consumed = unit.consumed().clone();
    unit.commit(deadline()).await.unwrap();
    assert_eq!(shown(&consumed), [(json!("ação"), Some(1208))]);
    assert!(says(&consumed, "threshold is 3"), "{:?}", consumed.warnings);
    assert_eq!((manager.depth("DEV.POISON"), manager.depth("DEV.BACKOUT")), (0, 0));
}

#[tokio::test]
async fn text_that_is_not_converted_is_shown_if_its_characters_are_certain() {
    let manager = QueueManager::start();
    let client = manager.client();
    let bodies: [(i32, &[u8], Value); 6] = [
        (LATIN_1, b"caf\xe9", json!("café")),
        (923, b"5 \xa4", json!("5 €")),
        (WINDOWS, b"5 \x80", json!("5 €")),
        (UNKNOWN, b"plain", json!("plain")),
        (UNKNOWN, b"caf\x82", Value::Null),
        (EBCDIC, b"\x81\x48\x46\x96", Value::Null),
    ];
    for (ccsid, body, _) in &bodies {
        manager.put_encoded("DEV.QUEUE.1", "MQSTR", *ccsid, body);
    }
    let taken = client.take("DEV.QUEUE.1", 9).await;
    assert_eq!(raw(&taken), bodies.each_ref().map(|(_, body, _)| *body));
    assert_eq!(shown(&taken), bodies.map(|(ccsid, _, text)| (text, Some(ccsid))));
    assert_eq!(taken.warnings.len(), 0);
}

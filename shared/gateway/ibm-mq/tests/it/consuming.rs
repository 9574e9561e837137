use std::time::{Duration, Instant};

use mq::{
    Ack, AckMode, Base64Bytes, BrokerError, ConsumeCommand, CorrelIdMode, MqProps, ProduceCommand, Selector,
};

use crate::support::{QueueManager, bodies, code, consume, deadline, generated, texts};

const COMMIT: AckMode = AckMode::Take(Ack::Commit);
const ROLLBACK: AckMode = AckMode::Take(Ack::Rollback);

#[tokio::test]
async fn what_is_committed_is_gone_and_what_is_rolled_back_is_there_again() {
    let manager = QueueManager::start();
    let client = manager.client();
    client.put("DEV.QUEUE.1", &texts(&["one", "two", "three"]), "a").await.unwrap();
    let unit = client.fetch("DEV.QUEUE.1", &consume(2, ROLLBACK)).await.unwrap();
    assert_eq!(bodies(unit.consumed()), ["one", "two"]);
    unit.rollback(deadline()).await.unwrap();
    assert_eq!(manager.depth("DEV.QUEUE.1"), 3);
    let taken = client.take("DEV.QUEUE.1", 10).await;
    assert_eq!(bodies(&taken), ["one", "two", "three"]);
    let counts: Vec<_> = taken.messages.iter().map(|message| message.backout_count).collect();
    assert_eq!((counts, manager.depth("DEV.QUEUE.1")), (vec![1, 1, 0], 0));
    assert_eq!(client.cap.open(), 1, "one connection did it all");
}

#[tokio::test]
async fn a_unit_of_work_that_is_dropped_goes_back() {
    let manager = QueueManager::start();
    let client = manager.client();
    client.fill("DEV.QUEUE.1", 3).await;
    let unit = client.fetch("DEV.QUEUE.1", &consume(3, COMMIT)).await.unwrap();
    drop(unit);
    // Its connection ends, on its own thread.
    client.has_open(0).await;
    assert_eq!(bodies(&client.take("DEV.QUEUE.1", 10).await), ["0", "1", "2"]);
}

#[tokio::test]
async fn messages_are_selected_by_their_ids() {
    let manager = QueueManager::start();
    let client = manager.client();
    let put = async |body: &str, correl_id: &[u8]| {
        let props = MqProps {
            correl_id_mode: CorrelIdMode::Fixed,
            fixed_correl_id_base64: Some(Base64Bytes(correl_id.to_vec())),
            ..MqProps::default()
        };
        client.put("DEV.QUEUE.1", &ProduceCommand { props, ..texts(&[body]) }, body).await.unwrap()
    };
    put("a", b"first").await;
    put("b", b"second").await;
    let third = put("c", b"first").await;
    let select = |selector| ConsumeCommand { selector, ..consume(10, COMMIT) };
    let by_msg_id = Selector { msg_id_base64: third.first_id.map(Base64Bytes), ..Selector::default() };
    let unit = client.fetch("DEV.QUEUE.1", &select(by_msg_id)).await.unwrap();
    assert_eq!(bodies(unit.consumed()), ["c"]);
    unit.rollback(deadline()).await.unwrap();
    let by_correl_id =
        Selector { correl_id_base64: Some(Base64Bytes(b"first".to_vec())), ..Selector::default() };
    let unit = client.fetch("DEV.QUEUE.1", &select(by_correl_id)).await.unwrap();
    assert_eq!(bodies(unit.consumed()), ["a", "c"]);
    unit.commit(deadline()).await.unwrap();
    assert_eq!(bodies(&client.take("DEV.QUEUE.1", 10).await), ["b"]);
    let long = Selector { msg_id_base64: Some(Base64Bytes(vec![1; 25])), ..Selector::default() };
    let error = client.fetch("DEV.QUEUE.1", &select(long)).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, BrokerError::Unsupported { .. }), "{error}");
}

#[tokio::test]
async fn a_first_message_is_waited_for_and_no_longer_than_that() {
    let manager = QueueManager::start();
    let client = manager.client();
    let other = manager.client();
    // The second time, the connection was idle, and the message is late for it.
    for most in [10, 1] {
        let command = ConsumeCommand { wait_seconds: 10_i64.try_into().unwrap(), ..consume(most, COMMIT) };
        let started = Instant::now();
        let late = async {
            tokio::time::sleep(Duration::from_millis(1_300)).await;
            other.put("DEV.QUEUE.1", &texts(&["late"]), "a").await.unwrap();
        };
        let (unit, ()) = tokio::join!(client.fetch("DEV.QUEUE.1", &command), late);
        let unit = unit.unwrap();
        let took = started.elapsed();
        assert_eq!(
            (bodies(unit.consumed()), unit.consumed().wait_seconds_applied),
            (vec!["late".to_owned()], 10)
        );
        assert_eq!(unit.consumed().messages[0].backout_count, 0);
        assert!((Duration::from_millis(1_300)..Duration::from_secs(4)).contains(&took), "{took:?}");
        unit.commit(deadline()).await.unwrap();
    }

    let command = ConsumeCommand { wait_seconds: 1_i64.try_into().unwrap(), ..consume(1, COMMIT) };
    let started = Instant::now();
    let unit = client.fetch("DEV.QUEUE.1", &command).await.unwrap();
    assert!(unit.consumed().messages.is_empty());
    assert!((Duration::from_millis(950)..Duration::from_secs(4)).contains(&started.elapsed()));
}

#[tokio::test]
async fn what_does_not_fit_into_an_answer_was_never_taken() {
    let manager = QueueManager::start();
    let client = manager.client();
    let large = "x".repeat(40_000);
    client.put("DEV.QUEUE.1", &texts(&["a", "b", &large, "c"]), "a").await.unwrap();
    let unit = client.fetch_within("DEV.QUEUE.1", &consume(10, COMMIT), 50_000).await.unwrap();
    assert_eq!((bodies(unit.consumed()), unit.consumed().truncated), (vec!["a".into(), "b".into()], true));
    unit.commit(deadline()).await.unwrap();
    let error =
        client.fetch_within("DEV.QUEUE.1", &consume(10, COMMIT), 50_000).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, BrokerError::MessageTooLarge { .. }), "{error}");
    let taken = client.take("DEV.QUEUE.1", 10).await;
    assert_eq!(bodies(&taken), [large.as_str(), "c"]);
    // No message was backed out meanwhile.
    assert!(taken.messages.iter().all(|message| message.backout_count == 0), "{:?}", taken.warnings);
}

#[tokio::test]
async fn properties_that_do_not_fit_leave_their_message_where_it_is() {
    let manager = QueueManager::start();
    let client = manager.client();
    let header = format!(r#"{{"large":"{}"}}"#, "\\\"".repeat(9_000));
    let headers: mq::Headers = serde_json::from_str(&header).unwrap();
    client.put("DEV.QUEUE.1", &texts(&["a"]), "a").await.unwrap();
    client.put("DEV.QUEUE.1", &ProduceCommand { headers, ..texts(&["b"]) }, "b").await.unwrap();
    // Room for bodies without browsing, but not for those properties, which take four bytes each.
    let unit = client.fetch_within("DEV.QUEUE.1", &consume(10, COMMIT), 30_000).await.unwrap();
    assert_eq!((bodies(unit.consumed()), unit.consumed().truncated), (vec!["a".to_owned()], true));
    unit.commit(deadline()).await.unwrap();
    assert_eq!(bodies(&client.take("DEV.QUEUE.1", 10).await), ["b"]);
}

#[tokio::test]
async fn large_messages_grow_the_buffer() {
    let manager = QueueManager::start();
    let client = manager.client();
    let large = "y".repeat(1_500_000);
    client.put("DEV.QUEUE.1", &texts(&["a", &large, "b"]), "a").await.unwrap();
    let taken = client.take("DEV.QUEUE.1", 10).await;
    assert_eq!(bodies(&taken), ["a", large.as_str(), "b"]);
}

#[tokio::test]
async fn messages_that_are_removed_at_once_cannot_be_put_back() {
    let manager = QueueManager::start();
    let client = manager.client();
    client.fill("DEV.QUEUE.1", 2).await;
    let unit = client.fetch("DEV.QUEUE.1", &consume(5, AckMode::Take(Ack::None))).await.unwrap();
    assert_eq!((bodies(unit.consumed()).len(), manager.depth("DEV.QUEUE.1")), (2, 0));
    assert!(unit.consumed().warnings.iter().any(|warning| warning.contains("lost if this answer is")));
    assert!(matches!(unit.rollback(deadline()).await, Err(BrokerError::Unsupported { .. })));
}

#[tokio::test]
async fn a_message_past_the_threshold_goes_to_the_backout_queue_with_the_commit() {
    let manager = QueueManager::start();
    let client = manager.client();
    client.put("DEV.POISON", &texts(&["poison", "fine"]), "a").await.unwrap();
    for _ in 0..3 {
        let unit = client.fetch("DEV.POISON", &consume(1, ROLLBACK)).await.unwrap();
        assert_eq!(bodies(unit.consumed()), ["poison"]);
        unit.rollback(deadline()).await.unwrap();
    }
    // A rollback only warns.
    let unit = client.fetch("DEV.POISON", &consume(1, ROLLBACK)).await.unwrap();
    assert!(unit.consumed().warnings.iter().any(|warning| warning.contains("threshold is 3")));
    unit.rollback(deadline()).await.unwrap();
    assert_eq!(manager.depth("DEV.BACKOUT"), 0);

    let unit = client.fetch("DEV.POISON", &consume(5, COMMIT)).await.unwrap();
    assert_eq!(bodies(unit.consumed()), ["fine"]);
    assert!(unit.consumed().warnings.iter().any(|warning| warning.contains("moved to `DEV.BACKOUT`")));
    // Nothing is moved before the commit.
    unit.rollback(deadline()).await.unwrap();
    assert_eq!((manager.depth("DEV.POISON"), manager.depth("DEV.BACKOUT")), (2, 0));
    assert_eq!(bodies(&client.take("DEV.POISON", 5).await), ["fine"]);
    let moved = client.take("DEV.BACKOUT", 5).await;
    assert_eq!((bodies(&moved), manager.depth("DEV.POISON")), (vec!["poison".to_owned()], 0));
    assert_eq!(serde_json::to_value(&moved.messages[0].headers).unwrap()["idempotencyKey"], "a");
}

#[tokio::test]
async fn a_profile_may_want_such_messages_in_the_answer() {
    let manager = QueueManager::start();
    let client = manager.client();
    client.put("DEV.POISON", &texts(&["poison"]), "a").await.unwrap();
    for _ in 0..3 {
        let unit = client.fetch("DEV.POISON", &consume(1, ROLLBACK)).await.unwrap();
        unit.rollback(deadline()).await.unwrap();
    }
    let report = ConsumeCommand { backout: mq::BackoutRule::Report, ..consume(1, COMMIT) };
    let unit = client.fetch("DEV.POISON", &report).await.unwrap();
    assert_eq!(bodies(unit.consumed()), ["poison"]);
    assert!(unit.consumed().warnings.iter().any(|warning| warning.contains("threshold is 3")));
    unit.commit(deadline()).await.unwrap();
    assert_eq!((manager.depth("DEV.POISON"), manager.depth("DEV.BACKOUT")), (0, 0));
}

#[tokio::test]
async fn an_expression_selects_by_headers() {
    let manager = QueueManager::start();
    let client = manager.client();
    for (key, amount) in [("a", 5), ("b", 50), ("c", 500)] {
        let headers = serde_json::from_str(&format!(r#"{{"amount":{amount},"x-kind":"order"}}"#)).unwrap();
        client.put("DEV.QUEUE.1", &ProduceCommand { headers, ..texts(&[key]) }, key).await.unwrap();
    }
    let select = |text: &str| {
        let expression = Some(text.to_owned().try_into().unwrap());
        ConsumeCommand { selector: Selector { expression, ..Selector::default() }, ..consume(9, COMMIT) }
    };
    let unit = client.fetch("DEV.QUEUE.1", &select("amount > 10 AND x$2dkind = 'order'")).await.unwrap();
    assert_eq!(bodies(unit.consumed()), ["b", "c"]);
    unit.commit(deadline()).await.unwrap();
    assert_eq!(manager.depth("DEV.QUEUE.1"), 1);
    let error = client.fetch("DEV.QUEUE.1", &select("amount >")).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, BrokerError::Unsupported { .. }), "{error:?}");
    assert_eq!(code(&error), Some(2459));
}

#[tokio::test]
async fn refusals_of_a_queue_are_told_and_leave_the_connection_usable() {
    let manager = QueueManager::start();
    let client = manager.client();
    let refused = async |from: &str| client.fetch(from, &consume(1, COMMIT)).await.map(|_| ()).unwrap_err();
    assert_eq!(code(&refused("DEV.GET.INHIBITED").await), Some(2016));
    assert!(matches!(refused("DEV.NOT.THERE").await, BrokerError::QueueNotFound { .. }));
    assert_eq!(code(&refused("SYSTEM.ADMIN.COMMAND.QUEUE").await), Some(2035));
    client.put("DEV.QUEUE.1", &generated(1), "a").await.unwrap();
    assert_eq!((client.take("DEV.QUEUE.1", 1).await.messages.len(), client.cap.open()), (1, 1));
}

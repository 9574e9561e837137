//! Tests of a queue manager's limits on units of work and of the rights of its users, and of a
//! response's limit on messages.

use mq::{Ack, AckMode, BrokerError, Warnings};

use crate::support::{QueueManager, bodies, consume, deadline, texts};

const COMMIT: AckMode = AckMode::Take(Ack::Commit);
const ROLLBACK: AckMode = AckMode::Take(Ack::Rollback);

fn says(warnings: &Warnings, words: &str) -> bool {
    warnings.iter().any(|warning| warning.contains(words))
}

#[tokio::test]
async fn a_get_ends_where_the_queue_manager_s_unit_of_work_does() {
    let manager =
        QueueManager::start_with(|text| text.replace("max_uncommitted = 10000", "max_uncommitted = 5"));
    let client = manager.client();
    client.fill("DEV.QUEUE.1", 8).await;
    let taken = client.take("DEV.QUEUE.1", 100).await;
    assert_eq!(
        (bodies(&taken), taken.truncated),
        (["0", "1", "2", "3", "4"].map(str::to_owned).to_vec(), true)
    );
    assert!(says(&taken.warnings, "MAXUMSGS"), "{:?}", taken.warnings);
    let rest = client.take("DEV.QUEUE.1", 100).await;
    assert_eq!((bodies(&rest).len(), rest.truncated, rest.warnings.len()), (3, false, 0));
    assert!(rest.messages.iter().all(|message| message.backout_count == 0));
}

/// Checks that no message is lost if a consume moves poison messages to the backout queue until its
/// unit of work is full (MAXUMSGS). A moved message counts twice there: as a get and as a put.
#[tokio::test]
async fn a_full_unit_of_work_that_moves_messages_is_committed_as_well() {
    let manager =
        QueueManager::start_with(|text| text.replace("max_uncommitted = 10000", "max_uncommitted = 5"));
    let client = manager.client();
    client.fill("DEV.POISON", 4).await;
    for _ in 0..3 {
        let unit = client.fetch("DEV.POISON", &consume(4, ROLLBACK)).await.unwrap();
        unit.rollback(deadline()).await.unwrap();
    }
    let mut bodies_seen = Vec::new();
    for _ in 0..4 {
        bodies_seen.extend(bodies(&client.take("DEV.POISON", 100).await));
    }
    assert_eq!(manager.depth("DEV.POISON"), 0);
    bodies_seen.extend(manager.drain("DEV.BACKOUT"));
    bodies_seen.sort();
    assert_eq!(bodies_seen, ["0", "1", "2", "3"]);
}

const ONLY_GET: &str =
    "\n[[authorities]]\nusers = [\"other\"]\nqueues = [\"DEV.QUEUE.2\", \"DEV.POISON\"]\nallow = [\"get\"]\n";

#[tokio::test]
async fn a_user_who_may_only_get_empties_a_queue_of_messages_of_any_length() {
    let manager = QueueManager::start_with(|text| text + ONLY_GET);
    let client = manager.client();
    let mut reader = manager.client();
    reader.access.credentials.as_mut().unwrap().user = "other".to_owned();
    let large = "x".repeat(30_000);
    client.put("DEV.QUEUE.2", &texts(&["a", &large, &large, "b"]), "a").await.unwrap();
    let mut taken = Vec::new();
    while manager.depth("DEV.QUEUE.2") > 0 {
        let unit = reader.fetch_within("DEV.QUEUE.2", &consume(10, COMMIT), 100_000).await.unwrap();
        assert!(!unit.consumed().messages.is_empty());
        assert!(unit.consumed().messages.iter().all(|message| message.backout_count == 0));
        taken.extend(bodies(unit.consumed()));
        unit.commit(deadline()).await.unwrap();
    }
    assert_eq!(taken, ["a", &large, &large, "b"]);

    // A message that fits into no response stays, and so do those behind it.
    client.put("DEV.QUEUE.2", &texts(&[&"y".repeat(60_000), "c"]), "b").await.unwrap();
    let error = reader.fetch_within("DEV.QUEUE.2", &consume(10, COMMIT), 70_000).await.map(drop).unwrap_err();
    assert!(matches!(error, BrokerError::MessageTooLarge { .. }), "{error}");
    assert_eq!(manager.depth("DEV.QUEUE.2"), 2);
}

#[tokio::test]
async fn a_message_whose_properties_exceed_an_answer_goes_back_if_it_could_not_be_looked_at() {
    let manager = QueueManager::start_with(|text| text + ONLY_GET);
    let client = manager.client();
    let mut reader = manager.client();
    reader.access.credentials.as_mut().unwrap().user = "other".to_owned();
    let header = format!(r#"{{"large":"{}"}}"#, "\\\"".repeat(30_000));
    let headers: mq::Headers = serde_json::from_str(&header).unwrap();
    client.put("DEV.QUEUE.2", &texts(&["a", "b"]), "a").await.unwrap();
    client.put("DEV.QUEUE.2", &mq::ProduceCommand { headers, ..texts(&["c"]) }, "b").await.unwrap();
    let unit = reader.fetch_within("DEV.QUEUE.2", &consume(10, COMMIT), 90_000).await.unwrap();
    assert_eq!((bodies(unit.consumed()), unit.consumed().truncated), (vec!["a".into(), "b".into()], true));
    assert!(says(&unit.consumed().warnings, "+browse"), "{:?}", unit.consumed().warnings);
    unit.commit(deadline()).await.unwrap();
    let error = reader.fetch_within("DEV.QUEUE.2", &consume(10, COMMIT), 90_000).await.map(drop).unwrap_err();
    assert!(matches!(error, BrokerError::MessageTooLarge { .. }), "{error}");
    assert_eq!(bodies(&client.take("DEV.QUEUE.2", 10).await), ["c"]);
}

#[tokio::test]
async fn poison_that_cannot_be_judged_is_said() {
    let manager = QueueManager::start_with(|text| text + ONLY_GET);
    let client = manager.client();
    let mut reader = manager.client();
    reader.access.credentials.as_mut().unwrap().user = "other".to_owned();
    client.put("DEV.POISON", &texts(&["poison"]), "a").await.unwrap();
    let unit = client.fetch("DEV.POISON", &consume(1, ROLLBACK)).await.unwrap();
    unit.rollback(deadline()).await.unwrap();
    let taken = reader.take("DEV.POISON", 5).await;
    assert_eq!(bodies(&taken), ["poison"]);
    assert!(says(&taken.warnings, "+inq"), "{:?}", taken.warnings);
}

/// Checks that the number of warnings in a consume's result is bounded, and that the last warning
/// counts the omitted ones. Here each of 100 messages causes one.
#[tokio::test]
async fn warnings_do_not_grow_with_the_messages() {
    let manager = QueueManager::start_with(|text| text.replace("BOQNAME = \"DEV.BACKOUT\"", ""));
    let client = manager.client();
    client.fill("DEV.POISON", 100).await;
    for _ in 0..3 {
        let unit = client.fetch("DEV.POISON", &consume(100, ROLLBACK)).await.unwrap();
        unit.rollback(deadline()).await.unwrap();
    }
    let taken = client.take("DEV.POISON", 100).await;
    assert_eq!((taken.messages.len(), taken.warnings.len()), (100, Warnings::MOST + 1));
    assert!(says(&taken.warnings, "68 more"), "{:?}", taken.warnings);
}

use mq::{AckMode, BrokerError};

use crate::support::{QueueManager, bodies, consume, deadline, texts};

#[tokio::test]
async fn a_browse_shows_messages_and_changes_nothing() {
    let manager = QueueManager::start();
    let client = manager.client();
    client.put("DEV.QUEUE.1", &texts(&["one", "two", "three"]), "a").await.unwrap();
    for _ in 0..3 {
        let unit = client.fetch("DEV.QUEUE.1", &consume(2, AckMode::Browse)).await.unwrap();
        assert_eq!(bodies(unit.consumed()), ["one", "two"]);
        assert!(unit.consumed().warnings.is_empty(), "{:?}", unit.consumed().warnings);
        unit.rollback(deadline()).await.unwrap();
    }
    let taken = client.take("DEV.QUEUE.1", 10).await;
    assert_eq!(bodies(&taken), ["one", "two", "three"]);
    assert!(taken.messages.iter().all(|message| message.backout_count == 0));
}

#[tokio::test]
async fn a_browse_does_not_hide_messages_from_others() {
    let manager = QueueManager::start();
    let (client, other) = (manager.client(), manager.client());
    client.fill("DEV.QUEUE.1", 2).await;
    let unit = client.fetch("DEV.QUEUE.1", &consume(5, AckMode::Browse)).await.unwrap();
    assert_eq!(bodies(&other.take("DEV.QUEUE.1", 5).await), ["0", "1"]);
    assert_eq!(bodies(unit.consumed()), ["0", "1"]);
}

#[tokio::test]
async fn a_browse_stops_where_its_answer_is_full() {
    let manager = QueueManager::start();
    let client = manager.client();
    let large = "x".repeat(20_000);
    client.put("DEV.QUEUE.1", &texts(&["a", &large]), "a").await.unwrap();
    let browse = consume(5, AckMode::Browse);
    let unit = client.fetch_within("DEV.QUEUE.1", &browse, 10_000).await.unwrap();
    assert_eq!((bodies(unit.consumed()), unit.consumed().truncated), (vec!["a".to_owned()], true));
    client.take("DEV.QUEUE.1", 1).await;
    let error = client.fetch_within("DEV.QUEUE.1", &browse, 10_000).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, BrokerError::MessageTooLarge { .. }), "{error}");
    assert_eq!(manager.depth("DEV.QUEUE.1"), 1);
}

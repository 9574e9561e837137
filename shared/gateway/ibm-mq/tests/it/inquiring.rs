use broker::Broker as _;
use mq::{BrokerError, DepthReport};

use crate::support::{QueueManager, deadline, queue};

#[tokio::test]
async fn a_queue_s_depth_is_told_behind_an_alias_too() {
    let manager = QueueManager::start();
    let client = manager.client();
    client.fill("DEV.QUEUE.2", 3).await;
    for name in ["DEV.QUEUE.2", "DEV.ALIAS"] {
        let report = client.broker.depth(&client.access, &queue(name), deadline()).await.unwrap();
        let expected = DepthReport {
            current_depth: 3,
            max_depth: Some(5_000),
            open_input_count: Some(0),
            open_output_count: Some(0),
        };
        assert_eq!(report, expected, "{name}");
    }
}

#[tokio::test]
async fn queues_without_messages_of_their_own_have_no_depth() {
    let manager = QueueManager::start();
    let client = manager.client();
    let depth = async |name: &str| client.broker.depth(&client.access, &queue(name), deadline()).await;
    let error = depth("DEV.REMOTE").await.unwrap_err();
    assert!(matches!(error, BrokerError::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("remote queue"), "{error}");
    let error = depth("SYSTEM.DEFAULT.MODEL.QUEUE").await.unwrap_err();
    assert!(matches!(error, BrokerError::Unsupported { .. }), "{error}");
    assert!(matches!(depth("DEV.NOT.THERE").await, Err(BrokerError::QueueNotFound { .. })));
}

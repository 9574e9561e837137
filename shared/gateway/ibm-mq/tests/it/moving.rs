//! Tests of moves between queues: a moved message is on exactly one of the two queues at any time.

use mq::{
    Ack, AckMode, AllowedQueues, Base64Bytes, BrokerError, Destination, KeptReason, MaxMoves, MoveCommand,
    MoveFailure, MoveReport,
};

use broker::Broker as _;
use serde_json::json;

use crate::support::{Client, QueueManager, bodies, consume, deadline, queue, texts};

fn to(name: &str) -> MoveCommand {
    MoveCommand { to: Destination::Queue(queue(name)), max: MaxMoves::default(), msg_ids: None }
}

/// Moves messages from a queue until none is left or the command's maximum is reached. Returns the
/// number of moved messages, and the report with the outcome of each.
async fn moved(client: &Client, from: &str, command: &MoveCommand) -> Result<(u64, MoveReport), MoveFailure> {
    let failed = |error| MoveFailure { error, in_doubt: 0 };
    let (name, reach) = (queue(from), AllowedQueues::default());
    let connect = client.broker.connect_to_move(&client.access, &name, command, &reach, deadline());
    let mut moving = connect.await.map_err(failed)?;
    assert_eq!(moving.most_in_doubt(), 0);
    let mut count = 0;
    loop {
        let put = moving.put(u64::from(command.max.get()) - count, deadline()).await?;
        moving.settle(deadline()).await?;
        count += put.count;
        if put.is_last || put.count == 0 || count == u64::from(command.max.get()) {
            return Ok((count, moving.finish(deadline()).await));
        }
    }
}

fn stays(report: &MoveReport) -> Vec<Option<KeptReason>> {
    report.messages.iter().map(|message| message.stays).collect()
}

#[tokio::test]
async fn messages_go_as_they_are_and_the_first_ones_first() {
    let manager = QueueManager::start();
    let client = manager.client();
    let large = "x".repeat(200_000);
    client.put("DEV.QUEUE.1", &texts(&["a", &large, "c", "d"]), "a").await.unwrap();
    let unit = client.fetch("DEV.QUEUE.1", &consume(5, AckMode::Browse)).await.unwrap();
    let before = unit.consumed().messages.clone();
    let command = MoveCommand { max: 3_i64.try_into().unwrap(), ..to("DEV.QUEUE.2") };
    let (count, report) = moved(&client, "DEV.QUEUE.1", &command).await.unwrap();
    assert_eq!((count, report.examined, report.remaining), (3, 3, Some(1)), "{report:?}");
    assert_eq!((stays(&report), report.truncated), (vec![None; 3], false));
    let after = client.take("DEV.QUEUE.2", 5).await.messages;
    // Put time, user, ids and properties are the same, too.
    assert_eq!(after, before[..3]);
    assert_eq!(bodies(&client.take("DEV.QUEUE.1", 5).await), ["d"]);
    client.has_open(1).await;
}

#[tokio::test]
async fn chosen_messages_are_moved_wherever_they_are() {
    let manager = QueueManager::start();
    let client = manager.client();
    client.fill("DEV.QUEUE.1", 6).await;
    let unit = client.fetch("DEV.QUEUE.1", &consume(6, AckMode::Browse)).await.unwrap();
    let id = |index: usize| Base64Bytes(unit.consumed().messages[index].msg_id.clone().unwrap());
    let ids = vec![id(4), Base64Bytes(vec![9; 24]), id(1)];
    let command = MoveCommand { msg_ids: Some(ids), ..to("DEV.QUEUE.2") };
    let (count, report) = moved(&client, "DEV.QUEUE.1", &command).await.unwrap();
    assert_eq!((count, report.examined, report.stayed), (2, 2, 0));
    assert_eq!(report.not_found, [[9; 24]]);
    assert_eq!(bodies(&client.take("DEV.QUEUE.2", 5).await), ["4", "1"]);
    assert_eq!(bodies(&client.take("DEV.QUEUE.1", 9).await), ["0", "2", "3", "5"]);
}

#[tokio::test]
async fn what_its_new_queue_refuses_was_never_taken() {
    let manager = QueueManager::start();
    let client = manager.client();
    let large = "x".repeat(2_000);
    client.put("DEV.QUEUE.1", &texts(&["0", &large, "2", "3", "4", "5"]), "a").await.unwrap();
    // The queue holds three messages of 1 KiB.
    let (count, report) = moved(&client, "DEV.QUEUE.1", &to("DEV.SMALL")).await.unwrap();
    assert_eq!((count, report.stayed, report.truncated), (3, 2, true), "{report:?}");
    let refused = [None, Some(KeptReason::TooLarge), None, None, Some(KeptReason::Refused)];
    assert_eq!(stays(&report), refused);
    assert!(report.warnings.iter().any(|warning| warning.contains("MQRC_Q_FULL")), "{report:?}");
    assert_eq!(bodies(&client.take("DEV.SMALL", 9).await), ["0", "2", "3"]);
    let left = client.take("DEV.QUEUE.1", 9).await;
    assert_eq!(bodies(&left), [large.as_str(), "4", "5"]);
    assert!(left.messages.iter().all(|message| message.backout_count == 0));
}

#[tokio::test]
async fn what_a_queue_warns_of_is_in_the_report() {
    let manager = QueueManager::start();
    let client = manager.client();
    client.fill("DEV.QUEUE.1", 3).await;
    manager.fault(&json!({"verb": "MQPUT", "times": 3, "warning": 2104}));
    let (count, report) = moved(&client, "DEV.QUEUE.1", &to("DEV.QUEUE.2")).await.unwrap();
    assert_eq!((count, report.warnings.len(), manager.depth("DEV.QUEUE.2")), (3, 1, 3), "{report:?}");
    assert!(report.warnings[0].contains("2104, MQRC_UNKNOWN_REPORT_OPTION"), "{report:?}");
}

#[tokio::test]
async fn a_queue_that_is_missing_is_said_before_anything_is_moved() {
    let manager = QueueManager::start();
    let client = manager.client();
    client.fill("DEV.QUEUE.1", 1).await;
    for (from, to_queue, missing) in
        [("DEV.QUEUE.1", "DEV.NOT.THERE", "DEV.NOT.THERE"), ("DEV.NO.SOURCE", "DEV.QUEUE.1", "DEV.NO.SOURCE")]
    {
        let failure = moved(&client, from, &to(to_queue)).await.unwrap_err();
        let BrokerError::QueueNotFound { queue, .. } = failure.error else { panic!("{failure:?}") };
        assert_eq!(queue.as_str(), missing);
    }
    assert_eq!(manager.depth("DEV.QUEUE.1"), 1);
}

#[tokio::test]
async fn a_look_moves_nothing() {
    let manager = QueueManager::start();
    let client = manager.client();
    client.fill("DEV.QUEUE.1", 3).await;
    let (name, reach) = (queue("DEV.QUEUE.1"), AllowedQueues::default());
    let command = to("DEV.QUEUE.2");
    let shown = client.broker.preview_move(&client.access, &name, &command, &reach, deadline());
    let report = shown.await.unwrap();
    assert_eq!((stays(&report), report.remaining), (vec![None; 3], Some(3)));
    let origin = MoveCommand { to: Destination::Origin, ..to("DEV.QUEUE.2") };
    let report =
        client.broker.preview_move(&client.access, &name, &origin, &reach, deadline()).await.unwrap();
    assert_eq!(stays(&report), [Some(KeptReason::NoOrigin); 3]);
    // The same id twice, and an empty queue.
    let ids = Some(vec![Base64Bytes(vec![9; 24]); 2]);
    let command = MoveCommand { msg_ids: ids, ..to("DEV.QUEUE.2") };
    for name in [&name, &queue("DEV.QUEUE.3")] {
        let shown = client.broker.preview_move(&client.access, name, &command, &reach, deadline());
        assert_eq!(shown.await.unwrap().not_found, [[9; 24]]);
    }
    assert_eq!((manager.depth("DEV.QUEUE.1"), manager.depth("DEV.QUEUE.2")), (3, 0));
    assert!(client.take("DEV.QUEUE.1", 5).await.messages.iter().all(|message| message.backout_count == 0));
}

/// Checks what a move reports if its commit is not answered: a certain failure if the messages are
/// back on their queue, otherwise a doubt. The connection is cut, or MQCMIT reports a broken
/// connection (2009) or an interruption (2549), before or after the commit takes effect.
#[tokio::test]
async fn a_commit_in_doubt_is_resolved_if_the_messages_are_back() {
    let manager = QueueManager::start();
    // Only one connection is allowed: the search needs the permit of the one that broke.
    let client = manager.client_with(ibm_mq::Settings::default(), 1);
    for fault in [json!({"cut": true}), json!({"reason": 2009}), json!({"reason": 2549})] {
        let fault = |when: &str| {
            let mut fault = fault.clone();
            fault["verb"] = json!("MQCMIT");
            fault["when"] = json!(when);
            fault
        };
        client.fill("DEV.QUEUE.1", 4).await;
        manager.fault(&fault("before"));
        let failure = moved(&client, "DEV.QUEUE.1", &to("DEV.QUEUE.2")).await.unwrap_err();
        assert!(matches!(failure.error, BrokerError::Unreachable { .. }), "{failure:?}");
        assert_eq!((failure.in_doubt, manager.depth("DEV.QUEUE.1"), manager.depth("DEV.QUEUE.2")), (0, 4, 0));
        manager.fault(&fault("after"));
        let failure = moved(&client, "DEV.QUEUE.1", &to("DEV.QUEUE.2")).await.unwrap_err();
        assert!(matches!(failure.error, BrokerError::InDoubt { .. }), "{failure:?}");
        assert_eq!((failure.in_doubt, manager.depth("DEV.QUEUE.1"), manager.depth("DEV.QUEUE.2")), (4, 0, 4));
        assert_eq!(bodies(&client.take("DEV.QUEUE.2", 9).await), ["0", "1", "2", "3"]);
    }
}

#[tokio::test]
async fn a_commit_that_was_backed_out_moved_nothing() {
    let manager = QueueManager::start();
    let client = manager.client();
    client.fill("DEV.QUEUE.1", 4).await;
    manager.fault(&json!({"verb": "MQCMIT", "reason": 2003}));
    let failure = moved(&client, "DEV.QUEUE.1", &to("DEV.QUEUE.2")).await.unwrap_err();
    assert!(matches!(failure.error, BrokerError::Rejected { .. }), "{failure:?}");
    assert_eq!((failure.in_doubt, manager.depth("DEV.QUEUE.1"), manager.depth("DEV.QUEUE.2")), (0, 4, 0));
}

#[tokio::test]
async fn a_put_that_breaks_the_connection_takes_its_unit_of_work_back() {
    let manager = QueueManager::start();
    let client = manager.client();
    client.fill("DEV.QUEUE.1", 4).await;
    manager.fault(&json!({"verb": "MQPUT", "nth": 3, "cut": true}));
    let failure = moved(&client, "DEV.QUEUE.1", &to("DEV.QUEUE.2")).await.unwrap_err();
    assert!(matches!(failure.error, BrokerError::Unreachable { .. }), "{failure:?}");
    client.has_open(0).await;
    assert_eq!((failure.in_doubt, manager.depth("DEV.QUEUE.1"), manager.depth("DEV.QUEUE.2")), (0, 4, 0));
    let unit = client.fetch("DEV.QUEUE.1", &consume(5, AckMode::Take(Ack::Commit))).await.unwrap();
    assert_eq!(unit.consumed().messages.len(), 4);
}

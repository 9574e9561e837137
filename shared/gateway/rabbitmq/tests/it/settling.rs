//! Tests of commits whose queue is deleted while its messages are unacknowledged: the commit's
//! result, and the state of the connection afterwards.

use std::time::Duration;

use broker::{Broker as _, UnitOfWork};
use lapin::options::{QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::AMQPValue;
use mq::{BrokerError, Destination, MaxMoves, MoveCommand};
use rabbitmq::RabbitMq;

use crate::reach::everywhere;
use crate::support::{Bench, COMMIT, PLENTY, access, consume, rabbit, soon};

async fn queue(name: &str, kind: &str) -> Bench {
    let options = QueueDeclareOptions { durable: true, ..Default::default() };
    Bench::with(name, options, &[("x-queue-type", AMQPValue::LongString(kind.into()))]).await
}

async fn delete(bench: &Bench) {
    let name = bench.queue.as_str().into();
    bench.channel.queue_delete(name, QueueDeleteOptions::default()).await.unwrap();
}

async fn hold(rabbit: &RabbitMq, bench: &Bench) -> Box<dyn UnitOfWork> {
    bench.put_numbered(3).await;
    let unit = rabbit.fetch(&access(), &bench.queue, &consume(COMMIT, 2, 0), PLENTY, soon()).await.unwrap();
    assert_eq!(unit.consumed().messages.len(), 2);
    unit
}

fn connections(rabbit: &RabbitMq) -> Vec<(usize, usize)> {
    rabbit.pools().iter().map(|pool| (pool.open, pool.in_use)).collect()
}

#[tokio::test]
async fn a_commit_that_a_quorum_queue_cannot_prove_is_not_tried_and_keeps_its_connection() {
    let (rabbit, bench) = (rabbit(), queue("gone-before", "quorum").await);
    let unit = hold(&rabbit, &bench).await;
    delete(&bench).await;
    let error = unit.commit(soon()).await.unwrap_err();
    assert!(matches!(error, BrokerError::QueueNotFound { .. }), "{error:?}");
    assert_eq!(connections(&rabbit), [(1, 0)]);
}

#[tokio::test]
async fn a_commit_on_a_classic_queue_that_cannot_be_found_any_more_is_in_doubt() {
    let (rabbit, bench) = (rabbit(), queue("gone-classic", "classic").await);
    // The connection knows the queue's type from an earlier commit.
    hold(&rabbit, &bench).await.commit(soon()).await.unwrap();
    let unit = hold(&rabbit, &bench).await;
    delete(&bench).await;
    let error = unit.commit(soon()).await.unwrap_err();
    assert!(matches!(&error, BrokerError::InDoubt { .. }), "{error:?}");
    assert_eq!(error.reply().map(|reply| reply.code), Some(404));
}

#[tokio::test]
async fn a_deadline_while_a_queue_s_kind_is_asked_makes_no_quorum_queue_a_classic_one() {
    let (rabbit, bench) = (rabbit(), queue("asked-late", "quorum").await);
    let unit = hold(&rabbit, &bench).await;
    let late = broker::Deadline::after(Duration::ZERO);
    let error = unit.commit(late).await.unwrap_err();
    assert!(matches!(error, BrokerError::Timeout { .. }), "nothing was acknowledged: {error:?}");
    assert_eq!(bench.ready(3).await, 3);
    bench.clean().await;
}

#[tokio::test]
async fn a_move_whose_source_is_gone_before_the_acknowledgement_names_what_is_at_both_places() {
    let (rabbit, from, to) = (rabbit(), queue("moved-from", "quorum").await, Bench::new("moved-to").await);
    from.put_numbered(1).await;
    let command = MoveCommand {
        to: Destination::Queue(to.queue.clone()),
        max: MaxMoves::try_from(5).unwrap(),
        msg_ids: None,
    };
    let mut moving =
        rabbit.connect_to_move(&access(), &from.queue, &command, &everywhere(), soon()).await.unwrap();
    assert_eq!(moving.put(5, soon()).await.unwrap().count, 1);
    delete(&from).await;
    let failure = moving.settle(soon()).await.unwrap_err();
    assert!(matches!(failure.error, BrokerError::InDoubt { .. }), "{failure:?}");
    assert_eq!((failure.in_doubt, to.ready(1).await), (1, 1));
    to.clean().await;
}

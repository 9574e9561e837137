//! Faults in which the broker closes a connection or a channel: an administrator closes all
//! connections, or deliveries were not acknowledged in time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::Broker as _;
use rabbitmq::RabbitMq;
use tokio::sync::Mutex;

use crate::observer::{FieldValue, Observer};
use crate::report::{outcome, row, timed};
use crate::server::Broker;
use crate::support::{
    COMMIT, PLENTY, access, after, consume, is_at_least, messages, produce, queue, soon, works_again,
};
use crate::victims::Victims;

pub(crate) async fn by_the_server(broker: Arc<Mutex<Broker>>) {
    let victims =
        Victims::prepare("connection closed by the server", access(), rabbitmq::Settings::default()).await;
    let broker = broker.lock().await;
    let blow = async {
        broker.ctl(&["close_all_connections", "closed for a test"]).await;
        Instant::now()
    };
    victims.suffer(3_000, blow).await.settle().await;
}

/// Checks that a commit fails, and all messages stay, if deliveries were unacknowledged for longer
/// than the broker's `consumer_timeout`. The broker then closes the channel with the same reply
/// code as for an unknown delivery tag.
pub(crate) async fn for_want_of_settlement(broker: Arc<Mutex<Broker>>) {
    let broker = broker.lock().await;
    let limit = |timeout: u32, tick: u32| {
        format!(
            "application:set_env(rabbit, consumer_timeout, {timeout}), \
             application:set_env(rabbit, channel_tick_interval, {tick})."
        )
    };
    broker.ctl(&["eval", &limit(800, 100)]).await;
    let (rabbit, observer) = (RabbitMq::new(5), Observer::connect().await);
    // From 4.3 on, classic queues have no such limit.
    let kinds: &[&str] = if is_at_least(4, 3).await { &["quorum"] } else { &["classic", "quorum"] };
    for kind in kinds.iter().copied() {
        let queue = queue("unsettled");
        observer.declare(&queue, &[("x-queue-type", FieldValue::S(kind.try_into().unwrap()))]).await;
        produce(&rabbit, &access(), &queue, &messages(20, None), 0, soon()).await.unwrap();
        let unit = rabbit.fetch(&access(), &queue, &consume(COMMIT, 10), PLENTY, soon()).await.unwrap();
        assert_eq!(unit.consumed().messages.len(), 10);
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        let deadline = after(3_000);
        let (result, took) = timed(deadline, unit.commit(deadline)).await;
        assert_eq!(outcome(&result), "Unreachable", "the channel was gone before anything was acknowledged");
        assert_eq!(observer.settled(&queue, 20, Duration::from_secs(5)).await, 20, "{kind}");
        row(&format!("not settled in time ({kind})"), "in hand", outcome(&result), took, "all 20");
        works_again(&rabbit, &access(), &queue).await;
        observer.delete(&queue).await;
    }
    settles_while_the_time_ends(&rabbit, &observer).await;
    broker.ctl(&["eval", &limit(1_800_000, 60_000)]).await;
}

/// Acknowledges deliveries at about the moment when `consumer_timeout` ends, and checks that the
/// commit's result agrees with the number of messages left on the queue.
async fn settles_while_the_time_ends(rabbit: &RabbitMq, observer: &Observer) {
    let mut seen = std::collections::BTreeMap::<&str, u32>::new();
    for wait in (780..=980).step_by(20) {
        let queue = queue("settled-late");
        observer.declare(&queue, &[]).await;
        produce(rabbit, &access(), &queue, &messages(20, None), 0, soon()).await.unwrap();
        let unit = rabbit.fetch(&access(), &queue, &consume(COMMIT, 10), PLENTY, soon()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(wait)).await;
        let result = outcome(&unit.commit(after(3_000)).await);
        let left = match result {
            "ok" => 10,
            "Unreachable" | "Rejected" => 20,
            "InDoubt" => {
                // Deliveries on a channel are not counted as ready until the channel has ended.
                tokio::time::sleep(Duration::from_millis(500)).await;
                observer.count(&queue).await
            }
            other => panic!("{other}"),
        };
        assert_eq!(observer.settled(&queue, left, Duration::from_secs(3)).await, left, "{result}");
        assert!(left == 10 || left == 20, "all of them or none: {left}");
        *seen.entry(result).or_default() += 1;
        observer.delete(&queue).await;
    }
    let seen: Vec<_> = seen.iter().map(|(result, times)| format!("{times} {result}")).collect();
    row(
        "not settled in time, at 11 moments",
        "commit of 10",
        &seen.join(", "),
        Duration::ZERO,
        "as answered",
    );
}

//! Client under test with a connection in each state in which a fault can hit it: idle, publishing,
//! and with consumed messages that are not yet acknowledged.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use mq::{Access, BrokerError, Outgoing, ProduceFailure, QueueName};

use broker::{Broker as _, Deadline, UnitOfWork};
use rabbitmq::{RabbitMq, Settings};

use crate::observer::Observer;
use crate::report::{kind, outcome, row, timed};
use crate::support::{COMMIT, PLENTY, after, consume, ids, messages, produce, queue, soon, works_again};

/// Number of messages that the publishing connection sends. At [`PACE`] this takes 44 s, so the
/// fault hits it even if an administrator's command starts slowly.
const PUBLISHED: i64 = 8_800;
/// Rate of the publishing connection, in messages per second.
const PACE: i64 = 200;
const PUBLISHING: Duration = Duration::from_secs((PUBLISHED / PACE).unsigned_abs());
/// Number of messages on the queue from which the consuming connection takes [`IN_HAND`].
const STORED: i64 = 20;
/// Number of messages that the consuming connection has taken and not acknowledged when the fault
/// occurs.
const IN_HAND: i64 = 10;
/// Maximum time for the broker to requeue the unacknowledged messages of a lost connection.
const PUT_BACK: Duration = Duration::from_secs(60);

pub(crate) struct Victims {
    fault: &'static str,
    rabbit: RabbitMq,
    access: Access,
    publishing: QueueName,
    consuming: QueueName,
    outgoing: Outgoing,
    unit: Box<dyn UnitOfWork>,
}

/// Client after a fault, with the results of the operations that were in progress on its
/// connections.
pub(crate) struct Aftermath {
    fault: &'static str,
    rabbit: RabbitMq,
    access: Access,
    publishing: QueueName,
    consuming: QueueName,
    outgoing: Outgoing,
    produced: (ProduceFailure, Duration),
    committed: (Result<(), BrokerError>, Duration),
    idle: (Result<(), BrokerError>, Duration),
}

impl Victims {
    pub(crate) async fn prepare(fault: &'static str, access: Access, settings: Settings) -> Self {
        let observer = Observer::connect().await;
        let (publishing, consuming) = (queue("publish"), queue("consume"));
        for queue in [&publishing, &consuming] {
            observer.declare(queue, &[]).await;
        }
        let rabbit = RabbitMq::with_settings(settings);
        let stored = messages(STORED, None);
        produce(&rabbit, &access, &consuming, &stored, 0, soon()).await.expect("store");
        let command = consume(COMMIT, IN_HAND);
        let unit = rabbit.fetch(&access, &consuming, &command, PLENTY, soon()).await.expect("fetch");
        assert_eq!(unit.consumed().messages.len(), 10);
        let outgoing = messages(PUBLISHED, Some(PACE));
        Self { fault, rabbit, access, publishing, consuming, outgoing, unit }
    }

    /// Publishes until `blow` inflicts the fault. Then commits the consumed messages, and measures
    /// a depth on the idle connection. The commit and the measurement have a deadline of `patience`
    /// milliseconds each. `blow` returns the time of the fault.
    pub(crate) async fn suffer(self, patience: u64, blow: impl Future<Output = Instant>) -> Aftermath {
        let Self { fault, rabbit, access, publishing, consuming, outgoing, unit } = self;
        let (failure, took) = {
            // The time of the blow is unknown, so the deadline allows publishing all messages.
            let (strike, mut struck) = tokio::sync::watch::channel(None);
            let publish = async {
                let deadline = Deadline::after(PUBLISHING + Duration::from_millis(patience));
                let result = produce(&rabbit, &access, &publishing, &outgoing, 0, deadline).await;
                (result.expect_err("the fault met the publishing"), Instant::now())
            };
            let disturb = async {
                tokio::time::sleep(Duration::from_millis(300)).await;
                // The third connection, which is idle from now on.
                rabbit.depth(&access, &consuming, soon()).await.expect("depth");
                tokio::time::sleep(Duration::from_millis(500)).await;
                strike.send_replace(Some(blow.await));
            };
            let ((failure, ended), ()) = tokio::join!(publish, disturb);
            let at: Instant = struck.borrow_and_update().expect("it struck");
            (failure, ended.saturating_duration_since(at))
        };
        let deadline = after(patience);
        let committed = timed(deadline, unit.commit(deadline)).await;
        let deadline = after(patience);
        let (idle, idle_took) = timed(deadline, rabbit.depth(&access, &consuming, deadline)).await;
        Aftermath {
            fault,
            rabbit,
            access,
            publishing,
            consuming,
            outgoing,
            produced: (failure, took),
            committed,
            idle: (idle.map(drop), idle_took),
        }
    }
}

impl Aftermath {
    /// Counts the messages on the queues of the produce and of the consume, once the broker
    /// answers. Adds the report's rows, and checks that the client works again.
    pub(crate) async fn settle(self) {
        let observer = Observer::of(&[&self.publishing, &self.consuming]).await;
        let on_source = self.count_consumed(&observer).await;
        row(self.fault, "consume", outcome(&self.committed.0), self.committed.1, &on_source);
        let on_queue = self.count_produced(&observer).await;
        row(self.fault, "produce", kind(&self.produced.0.error), self.produced.1, &on_queue);
        row(self.fault, "idle, then depth", outcome(&self.idle.0), self.idle.1, "unchanged");
        works_again(&self.rabbit, &self.access, &self.consuming).await;
        for queue in [&self.publishing, &self.consuming] {
            observer.delete(queue).await;
        }
    }

    /// Checks the queue of the consume. A failed commit leaves all messages on it; a commit in
    /// doubt removes either none or all that were taken. Returns the text for the report.
    async fn count_consumed(&self, observer: &Observer) -> String {
        let stored = messages(STORED, None);
        let all = ids(&stored, 0..20);
        let rest = ids(&stored, 10..20);
        let expected = if self.committed.0.is_ok() { rest.len() } else { all.len() };
        observer.settled(&self.consuming, u64::try_from(expected).unwrap(), PUT_BACK).await;
        let there = observer.drain(&self.consuming).await;
        assert_eq!(there.duplicates(), BTreeSet::new());
        let there = there.ids();
        match &self.committed.0 {
            Ok(()) => assert_eq!(there, rest),
            Err(BrokerError::InDoubt { .. }) => assert!(there == all || there == rest, "{there:?}"),
            Err(_) => assert_eq!(there, all),
        }
        format!("{} of {} (10 were in hand)", there.len(), all.len())
    }

    /// Checks the queue of the produce: it has all messages reported as committed, and otherwise
    /// only messages in doubt. Then resumes after the last committed message, as a retry with the
    /// same key does; only messages in doubt may then be there twice. Returns the text for the
    /// report.
    async fn count_produced(&self, observer: &Observer) -> String {
        let failure = &self.produced.0;
        let count = self.outgoing.count();
        let in_doubt: BTreeSet<_> = failure.in_doubt.iter().map(|id| id.to_hex()).collect();
        let committed = ids(&self.outgoing, 0..failure.committed);
        let first = observer.drain(&self.publishing).await;
        check_produced(&first.ids(), &committed, &in_doubt);
        assert_eq!(first.duplicates(), BTreeSet::new());

        let again = messages(PUBLISHED, None);
        let report = produce(&self.rabbit, &self.access, &self.publishing, &again, failure.committed, soon())
            .await
            .expect("resume");
        assert_eq!(report.enqueued, count - failure.committed);
        let here = first.ids().len();
        let both = first.and(observer.drain(&self.publishing).await);
        assert_eq!(both.ids(), ids(&self.outgoing, 0..count), "nothing is lost");
        assert!(both.duplicates().is_subset(&in_doubt), "only what was in doubt comes twice");
        format!(
            "{here}: {} confirmed, {} of {} in doubt; {} twice after resuming",
            failure.committed,
            here - committed.len(),
            in_doubt.len(),
            both.duplicates().len()
        )
    }
}

pub(crate) fn check_produced(
    there: &BTreeSet<String>,
    committed: &BTreeSet<String>,
    in_doubt: &BTreeSet<String>,
) {
    assert!(committed.is_subset(there), "{} were lost", committed.difference(there).count());
    let unexplained = there.iter().filter(|id| !committed.contains(*id) && !in_doubt.contains(*id)).count();
    assert_eq!(unexplained, 0, "there are messages that were reported neither committed nor in doubt");
}

//! Putting messages.

use std::time::Duration;

use api::{Problem, Reply};
use gateway::{from_produce, recorded};
use idempotency::{Execution, Outcome, Written};
use mq::{ContentSeed, Deadline, MessageId, Outgoing, ProduceCommand, Target};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior};

use crate::{MqAccess, answer, taken_over};

/// At least once a second, with what a write takes.
const CHECKPOINT_EVERY: Duration = Duration::from_millis(800);

impl MqAccess {
    /// Puts the command's messages from the checkpoint of an earlier attempt on, with the same ids and contents.
    pub(crate) async fn produce(
        &self,
        target: Target,
        command: &ProduceCommand,
        execution: &Execution,
        deadline: Deadline,
    ) -> Result<Reply, Problem> {
        let started = Instant::now();
        let from = execution.progress.done;
        let ready = match self.ready(target, deadline).await {
            Ok(ready) => ready,
            Err(problem) => {
                self.fail(execution, &problem, execution.progress).await;
                return Err(problem);
            }
        };
        let seed = ContentSeed::new(
            &execution.tenant,
            &execution.idempotency_key,
            execution.fingerprint.as_str(),
            execution.created_at,
        );
        let outgoing = Outgoing::new(command, seed);
        let confirmed = watch::Sender::new(from);
        let produce =
            ready.broker.produce(&ready.access, &ready.queue, &outgoing, from, &confirmed, ready.deadline);
        let produced = tokio::select! {
            produced = produce => produced,
            () = self.keep_checkpoints(execution, confirmed.subscribe()) => {
                return Err(taken_over());
            }
        };
        match produced {
            Ok(report) => {
                let end = execution.progress.advanced(outgoing.count(), 0);
                let reply = answer::produced(
                    &ready.target,
                    command,
                    &report,
                    (from, end.repeated),
                    started.elapsed(),
                );
                self.end(execution, &Outcome::Completed(recorded(reply.clone())), reply).await
            }
            Err(failure) => {
                let wire_id = |id: &MessageId| ready.broker.wire_id(*id);
                let problem = from_produce(&failure, wire_id);
                let in_doubt = u64::try_from(failure.in_doubt.len()).unwrap_or(u64::MAX);
                self.fail(execution, &problem, execution.progress.advanced(failure.committed, in_doubt))
                    .await;
                Err(problem)
            }
        }
    }

    /// Notes how many messages are on the queue, as long as the work goes on. Ends only where another execution owns the record by now: then
    /// whatever this one still put would be a duplicate.
    async fn keep_checkpoints(&self, execution: &Execution, mut confirmed: watch::Receiver<u64>) {
        let mut ticks = tokio::time::interval_at(Instant::now() + CHECKPOINT_EVERY, CHECKPOINT_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if !confirmed.has_changed().unwrap_or_default() {
                continue;
            }
            let done = *confirmed.borrow_and_update();
            match self.store.checkpoint(execution, execution.progress.advanced(done, 0)).await {
                Ok(Written::Done) => {}
                Ok(Written::Fenced) => return,
                Err(error) => {
                    tracing::warn!(event_type = "idempotency.unavailable", error = %error, "a checkpoint could not be written");
                }
            }
        }
    }
}

//! Putting messages.

use api::{Problem, Reply};
use gateway::from_produce;
use idempotency::Execution;
use mq::{ContentSeed, Deadline, MessageId, Outgoing, ProduceCommand, Target};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::{MqAccess, answer};

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
        let from = execution.checkpoint;
        let ready = match self.ready(target, deadline).await {
            Ok(ready) => ready,
            Err(problem) => {
                self.fail(execution, &problem, from, execution.in_doubt).await;
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
        let earlier_doubt = execution.in_doubt.min(outgoing.count().saturating_sub(from));
        let produced = ready
            .broker
            .produce(&ready.access, &ready.queue, &outgoing, from, &watch::Sender::new(from), ready.deadline)
            .await;
        match produced {
            Ok(report) => {
                let reply = answer::produced(
                    &ready.target,
                    command,
                    &report,
                    (from, earlier_doubt),
                    started.elapsed(),
                );
                self.complete(execution, &reply).await;
                Ok(reply)
            }
            Err(failure) => {
                let wire_id = |id: &MessageId| ready.broker.wire_id(*id);
                let problem = from_produce(&failure, wire_id);
                let in_doubt = u64::try_from(failure.in_doubt.len()).unwrap_or(u64::MAX);
                self.fail(execution, &problem, failure.committed, earlier_doubt.saturating_add(in_doubt))
                    .await;
                Err(problem)
            }
        }
    }
}

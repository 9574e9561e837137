//! Removal of the messages that a probe (run of a search at one rate) has left on a queue. The next
//! probe begins without them, because their age would be measured as its latency.

use std::time::Duration;

use broker::Deadline;
use load_test::store::TestRecord;
use mq::QueueName;

use crate::LoadStep;
use crate::options::gets_of_leftovers;
use crate::test_target::TestTarget;

/// Time without a message after which the consumer of an earlier probe's messages ends, because the
/// queue seems to have no more of them. A probe is a run of a search.
const QUIET: Duration = Duration::from_secs(1);

/// Time limit for the consumer of an earlier probe's messages to acknowledge them and to
/// disconnect. A probe is a run of a search.
const TO_END: Duration = Duration::from_secs(5);

impl LoadStep {
    /// Takes messages that an earlier probe (run of the same search) left on a queue, as many as
    /// arrive before `deadline`. Also takes foreign messages (which the test did not put) if the
    /// test accepts them. The next probe's consumers take what is left on the queue, and recognize
    /// it by its age.
    ///
    /// # Errors
    /// If the run cannot begin: the queue cannot be used, or it holds a foreign message and the
    /// test accepts none. The error is the reason, for the caller of the API.
    pub(crate) async fn take_leftovers(
        &self,
        target: &TestTarget<'_>,
        queue: &QueueName,
        record: &TestRecord,
        deadline: Deadline,
    ) -> Result<(), String> {
        let options = gets_of_leftovers(record.test_id, &record.test)?;
        let until = deadline.earlier_by(TO_END);
        let connected = target.consumer(queue, &options, until).await;
        let mut consumer = connected.map_err(|error| error.to_string())?;
        let mut taken = 0_u64;
        // Those of others may come without an end.
        let ended = loop {
            match consumer.next(until.min(QUIET)).await {
                Ok(Some(_)) if !until.has_passed() => taken = taken.saturating_add(1),
                Ok(last) => {
                    taken = taken.saturating_add(u64::from(last.is_some()));
                    break Ok(());
                }
                Err(error) => break Err(error.to_string()),
            }
        };
        let end = consumer.finish(deadline.min(TO_END)).await;
        let rest = u64::try_from(end.rest.len()).unwrap_or(u64::MAX);
        tracing::info!(
            event_type = "load_test.leftovers_taken",
            queue = queue.as_str(),
            messages = taken.saturating_add(rest),
            "took {} messages of the probe before from the queue `{queue}`",
            taken.saturating_add(rest)
        );
        ended
    }
}

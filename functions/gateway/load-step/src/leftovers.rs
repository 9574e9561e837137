//! Messages that a probe of a search has left on a queue. The next probe begins without them: their
//! age would be measured as its latency.

use std::time::Duration;

use broker::Deadline;
use load_test::store::TestRecord;
use mq::QueueName;

use crate::LoadStep;
use crate::options::gets_of_leftovers;
use crate::place::Place;

/// Time without a message after which a queue counts as empty of messages of an earlier probe (run
/// of the same search).
const QUIET: Duration = Duration::from_secs(1);

/// Time limit for the consumer of an earlier probe's messages to acknowledge them and end.
const TO_END: Duration = Duration::from_secs(5);

impl LoadStep {
    /// Takes messages that an earlier probe (run of the same search) left on a queue, as many as
    /// arrive before `deadline`. Also takes foreign messages (which the test did not put) if the
    /// test accepts them. The next probe's consumers take any leftovers that remain, and recognize
    /// them by their age.
    ///
    /// # Errors
    /// If the run cannot begin: the queue cannot be used, or it holds a foreign message and the
    /// test accepts none. The error is the reason.
    pub(crate) async fn take_leftovers(
        &self,
        place: &Place<'_>,
        queue: &QueueName,
        record: &TestRecord,
        deadline: Deadline,
    ) -> Result<(), String> {
        let options = gets_of_leftovers(record.test_id, &record.test)?;
        let until = deadline.earlier_by(TO_END);
        let connected = place.consumer(queue, &options, until).await;
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

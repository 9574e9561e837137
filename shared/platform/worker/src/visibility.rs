//! Time of the next delivery of a failed message.
//!
//! A message that a function returns stays hidden until its visibility timeout has passed. The
//! queue's own timeout is always the same, and long enough for the slowest run. Here the message's
//! timeout is changed instead, so that it grows with each receive.

use std::time::Duration;

use aws_lambda_events::sqs::SqsMessage;
use aws_sdk_sqs::Client;
use tokio::time::timeout;

/// Factor by which the pause before a redelivery grows with each receive.
const FACTOR: u64 = 5;

/// Longest pause before a redelivery.
const LONGEST: Duration = Duration::from_secs(900);

/// Number of receives after which the pause is [`LONGEST`], if the base is 10 s. A shorter base, as
/// in tests, leads to a shorter pause.
const RECEIVES_TO_LONGEST: u32 = 4;

/// Time limit of a call that changes a visibility timeout.
const CALL: Duration = Duration::from_millis(500);

/// SQS queue whose failed messages are redelivered after pauses, which are set as visibility
/// timeouts.
#[derive(Clone, Debug)]
pub struct Visibility {
    client: Client,
    queue_url: String,
    base: Duration,
    earlier_receives: u32,
}

/// Receipt of a delivered SQS message: its receipt handle and receive count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    handle: String,
    /// Number of times that the message was received, including this delivery.
    receives: u32,
}

impl Receipt {
    /// Reads the receipt of an SQS message; `None` if the receipt handle or the receive count is
    /// missing.
    #[must_use]
    pub fn of(message: &SqsMessage) -> Option<Self> {
        let receives = message.attributes.get("ApproximateReceiveCount")?.parse().ok()?;
        Some(Self { handle: message.receipt_handle.clone()?, receives })
    }

    /// Returns the number of times that the message was received, including this delivery.
    #[must_use]
    pub const fn receives(&self) -> u32 {
        self.receives
    }
}

impl Visibility {
    /// Creates the client of a queue. `base` is the maximum pause after the first receive.
    #[must_use]
    pub const fn new(client: Client, queue_url: String, base: Duration) -> Self {
        Self { client, queue_url, base, earlier_receives: 0 }
    }

    /// Sets the number of receives that do not lengthen the pauses. In a dead-letter queue, a
    /// message's receive count includes its receives from the source queue.
    #[must_use]
    pub fn after_receives(self, earlier_receives: u32) -> Self {
        Self { earlier_receives, ..self }
    }

    /// True if the ARN names this queue.
    #[must_use]
    pub fn is_of(&self, arn: &str) -> bool {
        self.queue_url.rsplit('/').next() == arn.rsplit(':').next()
    }

    /// Returns the pause of a message after its first receive: at random between half of this
    /// queue's base pause and the base pause.
    #[must_use]
    pub fn first_pause(&self) -> Duration {
        shortened(pause(self.base, 1))
    }

    /// Hides a message for a pause that grows with each receive: the queue's base pause, then five
    /// times as long each time, up to 15 minutes. The pause is shortened at random by up to half,
    /// so that messages that failed together are redelivered at different times. If the call fails,
    /// the queue's own visibility timeout applies.
    pub async fn extend(&self, receipt: &Receipt) {
        let receives = receipt.receives.saturating_sub(self.earlier_receives);
        self.set(receipt, shortened(pause(self.base, receives))).await;
    }

    /// Hides a message for the longest pause (15 minutes, shortened at random by up to half), from
    /// the first receive on. So a person has enough time for a repair before the message has used
    /// up its receives.
    pub async fn hide(&self, receipt: &Receipt) {
        self.set(receipt, shortened(pause(self.base, RECEIVES_TO_LONGEST))).await;
    }

    /// Shortens the wait of a message that no retry can help, so that it soon reaches the
    /// dead-letter queue. After the first receive it is visible at once. After later receives it
    /// waits for about the queue's base pause, so that a queue with many receives does not keep a
    /// function busy.
    pub async fn expire(&self, receipt: &Receipt) {
        let pause = if receipt.receives > 1 { self.first_pause() } else { Duration::ZERO };
        self.set(receipt, pause).await;
    }

    async fn set(&self, receipt: &Receipt, pause: Duration) {
        // Rounded up, so that a pause is never zero.
        let seconds = i32::try_from(pause.as_millis().div_ceil(1000)).unwrap_or(i32::MAX);
        let request = self.client.change_message_visibility().queue_url(&self.queue_url);
        let changing = request.receipt_handle(&receipt.handle).visibility_timeout(seconds).send();
        let error: Box<dyn std::error::Error> = match timeout(CALL, changing).await {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => error.into(),
            Err(error) => error.into(),
        };
        let error: &dyn std::error::Error = error.as_ref();
        tracing::warn!(
            event_type = "message.visibility_unchanged",
            error,
            "cannot change the message's visibility timeout; its queue's timeout holds: {error}"
        );
    }
}

fn shortened(pause: Duration) -> Duration {
    pause.mul_f64(1.0 - fastrand::f64() / 2.0)
}

/// Returns the pause before the next delivery of a message, before random shortening. `receives` is
/// its receive count.
fn pause(base: Duration, receives: u32) -> Duration {
    let factor = FACTOR.saturating_pow(receives.saturating_sub(1));
    let millis = u64::try_from(base.as_millis()).unwrap_or(u64::MAX).saturating_mul(factor);
    Duration::from_millis(millis).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_quarter_of_an_hour() {
        let seconds = |base, receives| pause(Duration::from_secs(base), receives).as_secs();
        assert_eq!([1, 2, 3, 4, 5, 1000].map(|receives| seconds(10, receives)), [10, 50, 250, 900, 900, 900]);
        assert_eq!([0, 1, 2, 3, 4].map(|receives| seconds(1, receives)), [1, 1, 5, 25, 125]);
    }

    #[test]
    fn a_receipt_needs_its_handle_and_its_count() {
        let mut message = SqsMessage::default();
        assert_eq!(Receipt::of(&message), None);
        message.receipt_handle = Some("handle".to_owned());
        assert_eq!(Receipt::of(&message), None);
        message.attributes.insert("ApproximateReceiveCount".to_owned(), "3".to_owned());
        let receipt = Receipt { handle: "handle".to_owned(), receives: 3 };
        assert_eq!(Receipt::of(&message), Some(receipt));
    }
}

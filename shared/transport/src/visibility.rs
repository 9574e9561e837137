//! When a message that failed comes again.
//!
//! A function that reports a message as failed leaves it to its queue, which brings it back when the queue's visibility timeout is over: always after the same
//! time, long enough for the slowest function. Here the message's own timeout is set instead, longer with each time that it was received.

use std::time::Duration;

use aws_lambda_events::sqs::SqsMessage;
use aws_sdk_sqs::Client;
use tokio::time::timeout;

/// What the pause grows by with each failure.
const FACTOR: u64 = 5;

/// The longest pause.
const LONGEST: Duration = Duration::from_secs(900);

/// What a call may take of the time of the function, which has other messages to look after.
const CALL: Duration = Duration::from_millis(500);

/// A queue whose messages come again later and later.
#[derive(Debug, Clone)]
pub struct Visibility {
    client: Client,
    queue_url: String,
    base: Duration,
}

/// One delivery of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    handle: String,
    /// How often the message was received, this time included.
    receives: u32,
}

impl Receipt {
    /// Of a message as Lambda delivers it; none where it says too little.
    #[must_use]
    pub fn of(message: &SqsMessage) -> Option<Self> {
        let receives = message.attributes.get("ApproximateReceiveCount")?.parse().ok()?;
        Some(Self { handle: message.receipt_handle.clone()?, receives })
    }

    /// How often the message was received, this time included.
    #[must_use]
    pub const fn receives(&self) -> u32 {
        self.receives
    }

    /// The same delivery, without so many receives of before: a message may bring them along from the queue that it was moved from.
    #[must_use]
    pub fn without(self, receives: u32) -> Self {
        Self { receives: self.receives.saturating_sub(receives).max(1), ..self }
    }
}

impl Visibility {
    /// `base` is about the first pause.
    #[must_use]
    pub const fn new(client: Client, queue_url: String, base: Duration) -> Self {
        Self { client, queue_url, base }
    }

    /// Whether an event source's ARN is this queue's.
    #[must_use]
    pub fn is_of(&self, arn: &str) -> bool {
        self.queue_url.rsplit('/').next() == arn.rsplit(':').next()
    }

    /// Puts a message off that failed and may succeed later: by the base, then five times that, and so on up to 15 minutes, each halved at most by
    /// chance, so that what failed together does not come again together. Where the call fails, the queue's own visibility timeout holds.
    pub async fn later(&self, receipt: &Receipt) {
        self.set(receipt, shortened(pause(self.base, receipt.receives))).await;
    }

    /// A first pause, halved at most by chance.
    #[must_use]
    pub fn first_pause(&self) -> Duration {
        shortened(pause(self.base, 1))
    }

    /// Lets a message that no further try can mend come again at once, so that it soon lies in the dead-letter queue.
    pub async fn at_once(&self, receipt: &Receipt) {
        self.set(receipt, Duration::ZERO).await;
    }

    async fn set(&self, receipt: &Receipt, pause: Duration) {
        // Up to the next second: nothing that is put off comes at once.
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
            event_type = "message.not_put_off",
            error,
            "the message comes again when its queue says"
        );
    }
}

fn shortened(pause: Duration) -> Duration {
    pause.mul_f64(1.0 - fastrand::f64() / 2.0)
}

/// The pause after a message was received so often.
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
        assert_eq!(Receipt::of(&message), Some(receipt.clone()));
        assert_eq!(
            [0, 1, 2, 3, 9].map(|earlier| receipt.clone().without(earlier).receives()),
            [3, 2, 1, 1, 1]
        );
    }
}

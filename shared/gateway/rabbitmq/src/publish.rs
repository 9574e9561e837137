//! Publishing of one message, from the first frame to the broker's confirm.

use std::borrow::Borrow;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use lapin::message::BasicReturnMessage;
use lapin::options::BasicPublishOptions;
use lapin::types::ShortString;
use lapin::{BasicProperties, Channel, Confirmation, PublisherConfirm};

use crate::errors::Failure;

type Sending<'a> = Pin<Box<dyn Future<Output = lapin::Result<PublisherConfirm>> + Send + 'a>>;

/// Publish of one message, from sending until the broker's answer. The client library's future is
/// polled once, which queues the frames, and again only when the answer is awaited. Awaiting each
/// publish would write every message separately to the socket, and wake two threads for each.
pub(crate) enum Publish<'a> {
    Sending(Sending<'a>),
    Sent(PublisherConfirm),
    /// The answer has arrived; `None` once it was taken.
    Answered(Option<Answer>),
}

/// Answer of the broker to a publish, or the failure in its place.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    /// Id of a returned message that the client library attached to this answer; `None` if it
    /// attached none. The returned message may be another one than the answered message.
    pub(crate) returned: Option<String>,
    pub(crate) failure: Option<Failure>,
}

impl Answer {
    /// Answer that stands for a broker's answer that did not arrive: the outcome is unknown.
    pub(crate) const MISSING: Self = Self { outcome: Outcome::Unknown, returned: None, failure: None };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Unknown,
    Confirmed,
    Refused,
}

impl From<lapin::Result<Confirmation>> for Answer {
    fn from(confirmation: lapin::Result<Confirmation>) -> Self {
        let (outcome, returned, failure) = match confirmation {
            Ok(Confirmation::Ack(returned)) => (Outcome::Confirmed, returned, None),
            Ok(Confirmation::Nack(returned)) => (Outcome::Refused, returned, None),
            Ok(Confirmation::NotRequested) => (Outcome::Unknown, None, None),
            Err(error) => (Outcome::Unknown, None, Some(Failure::from(error))),
        };
        Self { outcome, returned: returned.as_ref().and_then(message_id), failure }
    }
}

fn message_id(returned: &BasicReturnMessage) -> Option<String> {
    returned.properties.message_id().as_ref().map(ToString::to_string)
}

impl<'a> Publish<'a> {
    /// Starts publishing a message with the flag `mandatory`, so that the broker returns it if it
    /// is unroutable.
    pub(crate) fn begin(
        channel: impl Borrow<Channel> + Send + Sync + 'a,
        exchange: ShortString,
        routing_key: ShortString,
        body: Vec<u8>,
        properties: BasicProperties,
    ) -> Self {
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let mut publish = Self::Sending(Box::pin(async move {
            let channel: &Channel = channel.borrow();
            channel.basic_publish(exchange, routing_key, options, &body, properties).await
        }));
        let _ = publish.poll_answer(&mut Context::from_waker(Waker::noop()));
        publish
    }

    /// Returns `Ready` once the answer to the publish has arrived.
    pub(crate) fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Self::Sending(sending) = self
            && let Poll::Ready(sent) = sending.as_mut().poll(cx)
        {
            *self = match sent {
                Ok(confirm) => Self::Sent(confirm),
                Err(error) => Self::Answered(Some(Err(error).into())),
            };
        }
        if let Self::Sent(confirm) = self
            && let Poll::Ready(answer) = Pin::new(confirm).poll(cx)
        {
            *self = Self::Answered(Some(answer.into()));
        }
        if matches!(self, Self::Answered(_)) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Takes the broker's answer; `None` if it has not arrived, or was taken before.
    pub(crate) fn take_answer(&mut self) -> Option<Answer> {
        let _ = self.poll_answer(&mut Context::from_waker(Waker::noop()));
        match self {
            Self::Answered(answer) => answer.take(),
            Self::Sending(_) | Self::Sent(_) => None,
        }
    }

    /// Returns the error that came in place of the broker's answer, for example because the channel
    /// is closed; `None` if there is no error so far, or the answer was taken.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Answered(answer) => answer.as_ref()?.failure.as_ref(),
            Self::Sending(_) | Self::Sent(_) => None,
        }
    }
}

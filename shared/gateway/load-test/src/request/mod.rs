//! Body of a request to start a load test (`POST /tests`), and its conversion to a load test.

mod error;
mod rules;
#[cfg(test)]
mod tests;

use mq::{
    Headers, List, MessageSize, Misfit, PayloadForm, ProfileName, PropsForm, RateLimit, Tags, TargetSpec,
    Transaction, TxSize, or_default,
};
use serde::Deserialize;

pub use error::{RequestError, RequestErrorKind};

use crate::bounds::{
    AckEvery, ConfirmsInFlight, DelayMs, MessageCount, Prefetch, TestSeconds, WarmUpSeconds, WorkerCount,
};
use crate::definition::{Consumers, Foreign, Length, LoadTest, Mode, Producers, Stage, StopWhen};
use crate::expect::Expect;
use crate::limits::Limits;
use crate::queues::Queues;

/// Body of a request to start a load test. Its target is only parsed: the caller of
/// [`Self::into_parts`] resolves it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoadTestRequest {
    target: Option<TargetSpec>,
    target_ref: Option<ProfileName>,
    #[serde(default, deserialize_with = "or_default")]
    queues: Queues,
    producers: Option<ProducersForm>,
    consumers: Option<ConsumersForm>,
    stages: Option<Stages>,
    duration_seconds: Option<TestSeconds>,
    messages: Option<MessageCount>,
    #[serde(default, deserialize_with = "or_default")]
    warm_up_seconds: WarmUpSeconds,
    backlog: Option<Backlog>,
    stop_when: Option<StopWhen>,
    #[serde(default, deserialize_with = "or_default")]
    mode: Mode,
    #[serde(default, deserialize_with = "or_default")]
    expect: Expect,
    foreign: Option<Foreign>,
    #[serde(default, deserialize_with = "or_default")]
    tags: Tags,
}

/// List of the stages in a request, 1 to 100.
type Stages = List<Stage, 1, 100>;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ProducersForm {
    #[serde(default, deserialize_with = "or_default")]
    count: WorkerCount,
    rate_per_sec: Option<RateLimit>,
    message_size_bytes: Option<MessageSize>,
    payload: Option<PayloadForm>,
    #[serde(default, deserialize_with = "or_default")]
    mq_props: PropsForm,
    #[serde(default, deserialize_with = "or_default")]
    headers: Headers,
    #[serde(default, deserialize_with = "or_default")]
    transaction: Transaction,
    confirms_in_flight: Option<ConfirmsInFlight>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConsumersForm {
    #[serde(default, deserialize_with = "or_default")]
    count: WorkerCount,
    rate_per_sec: Option<RateLimit>,
    prefetch: Option<Prefetch>,
    ack_every: Option<AckEvery>,
    #[serde(default, deserialize_with = "or_default")]
    delay_ms: DelayMs,
    #[serde(default, deserialize_with = "or_default")]
    transaction: ConsumersTransaction,
}

/// Member `transaction` of the request's `consumers`: whether a consumer acknowledges its messages
/// in groups, and the size of a group. Every broker acknowledges a group atomically.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ConsumersTransaction {
    #[serde(default, deserialize_with = "or_default")]
    enabled: bool,
    #[serde(default, deserialize_with = "or_default")]
    tx_size: TxSize,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Backlog {
    messages: MessageCount,
}

impl LoadTestRequest {
    /// Returns the tags in the request, which are set on the load test's messages.
    #[must_use]
    pub fn tags(&self) -> &Tags {
        &self.tags
    }

    /// Checks the members against each other, and converts the request to the name of a target
    /// profile, an inline target, and the load test. The test has no limits of a deployment yet:
    /// see [`LoadTest::within`].
    ///
    /// # Errors
    /// If members contradict each other; the error names the first contradiction.
    pub fn into_parts(self) -> Result<(Option<ProfileName>, Option<TargetSpec>, LoadTest), RequestError> {
        rules::check(&self)?;
        let length = self.length()?;
        let test = LoadTest {
            queues: self.queues,
            producers: self.producers.map(ProducersForm::into_producers).transpose()?,
            consumers: self.consumers.map(ConsumersForm::into_consumers),
            length,
            warm_up: self.warm_up_seconds,
            backlog: self.backlog.map(|backlog| backlog.messages),
            stop_when: self.stop_when,
            mode: self.mode,
            expect: self.expect,
            foreign: self.foreign,
            limits: Limits::NONE,
        };
        Ok((self.target_ref, self.target, test.within(&Limits::NONE)?))
    }

    /// Returns the length of the test, from `durationSeconds`, `messages` or `stages`. Exactly one
    /// of these must be set.
    fn length(&self) -> Result<Length, RequestError> {
        match (self.duration_seconds, self.messages, &self.stages) {
            (Some(seconds), None, None) => Ok(Length::Seconds(seconds)),
            (None, Some(count), None) => Ok(Length::Messages(count)),
            (None, None, Some(stages)) => Ok(Length::Stages(stages.as_slice().to_vec())),
            (None, None, None) => {
                Err(RequestError::contradiction("", "takes one of durationSeconds, messages and stages"))
            }
            (_, _, Some(_)) => Err(RequestError::contradiction(
                "/stages",
                "have seconds of their own: leave durationSeconds and messages out",
            )),
            (Some(_), Some(_), None) => {
                Err(RequestError::contradiction("/messages", "cannot be used together with durationSeconds"))
            }
        }
    }
}

impl LoadTest {
    /// Checks that the test stays within the limits of a deployment, and returns it with these
    /// limits.
    ///
    /// # Errors
    /// If the test exceeds a limit, or if a warm-up or a backlog does not fit into the test. The
    /// error names the first such case.
    pub fn within(self, limits: &Limits) -> Result<Self, RequestError> {
        let test = Self { limits: *limits, ..self };
        rules::check_length(&test)?;
        limits.check(&test)?;
        Ok(test)
    }
}

impl ProducersForm {
    fn into_producers(self) -> Result<Producers, RequestError> {
        let size = self.message_size_bytes.unwrap_or_default();
        let payload = self.payload.unwrap_or_default().into_payload(size);
        Ok(Producers {
            count: self.count,
            rate_per_sec: self.rate_per_sec,
            payload: payload.map_err(|misfit| within("/producers/payload", misfit))?,
            mq_props: self.mq_props.into_props().map_err(|misfit| within("/producers/mqProps", misfit))?,
            headers: self.headers,
            transaction: self.transaction,
            confirms_in_flight: self.confirms_in_flight.unwrap_or_default(),
        })
    }
}

impl ConsumersForm {
    /// Returns the number of messages that a consumer acknowledges together: `txSize` with
    /// transactions, `ackEvery` without.
    fn acknowledged_together(&self) -> u32 {
        if self.transaction.enabled {
            self.transaction.tx_size.get()
        } else {
            self.ack_every.unwrap_or_default().get()
        }
    }

    fn into_consumers(self) -> Consumers {
        let least = Prefetch::try_from(i64::from(self.acknowledged_together())).unwrap_or_default();
        Consumers {
            count: self.count,
            rate_per_sec: self.rate_per_sec,
            prefetch: self.prefetch.unwrap_or_else(|| least.max(Prefetch::default())),
            ack_every: self.ack_every.unwrap_or_default(),
            delay_ms: self.delay_ms,
            tx_size: self.transaction.enabled.then_some(self.transaction.tx_size),
        }
    }
}

fn within(form: &str, misfit: Misfit) -> RequestError {
    RequestError::contradiction(&format!("{form}{}", misfit.pointer), misfit.detail)
}

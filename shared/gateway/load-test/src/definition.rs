//! A load test as it was accepted.

use std::borrow::Cow;

use mq::{Headers, MqProps, Payload, RateLimit, Transaction, TxSize};
use serde::{Deserialize, Serialize};

use crate::bounds::{
    AckEvery, ConfirmsInFlight, DelayMs, MessageCount, Prefetch, StageRate, TestSeconds, WarmUpSeconds,
    WorkerCount,
};
use crate::expect::Expect;
use crate::limits::Limits;
use crate::micros::Micros;
use crate::queues::Queues;
use crate::schedule::{Paced, Schedule, Unthrottled};

/// A load test whose members go together and are within the limits. It is stored with the test,
/// and each step reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadTest {
    /// Queues that the load test's workers use.
    pub queues: Queues,
    /// Workers that put messages; `None` if the test only consumes.
    pub producers: Option<Producers>,
    /// Workers that take messages; `None` if the test only produces.
    pub consumers: Option<Consumers>,
    /// Length of the test. In a search, the length of each probe.
    pub length: Length,
    /// First seconds, which are not in the percentiles and rates of the report.
    pub warm_up: WarmUpSeconds,
    /// Number of messages that the queues must have before consumers begin.
    pub backlog: Option<MessageCount>,
    /// Condition that ends the load test early.
    pub stop_when: Option<StopWhen>,
    /// A single run, or a search for the highest rate.
    pub mode: Mode,
    /// Criteria that the report has a verdict on.
    pub expect: Expect,
    /// Treatment of messages that are not the test's; `None` fails the test at the first one.
    pub foreign: Option<Foreign>,
    /// Limits that the test was accepted with.
    pub limits: Limits,
}

/// Producers of a load test: the workers that put messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Producers {
    /// Number of producers.
    pub count: WorkerCount,
    /// Rate of all producers together, in messages a second; `None` if the stages have rates, or if
    /// there is no limit.
    pub rate_per_sec: Option<RateLimit>,
    /// Body of each message that the producers put.
    pub payload: Payload,
    /// Properties of each message that the producers put.
    pub mq_props: MqProps,
    /// Headers of each message that the producers put.
    pub headers: Headers,
    /// Grouping of the messages of one worker.
    pub transaction: Transaction,
    /// Maximum number of unconfirmed messages of a producer.
    pub confirms_in_flight: ConfirmsInFlight,
}

/// Consumers of a load test: the workers that take messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Consumers {
    /// Number of consumers.
    pub count: WorkerCount,
    /// Rate of all consumers together, in messages a second; `None` if there is no limit.
    pub rate_per_sec: Option<RateLimit>,
    /// Prefetch: maximum number of unacknowledged messages of a consumer.
    pub prefetch: Prefetch,
    /// Number of messages that are acknowledged together.
    pub ack_every: AckEvery,
    /// Time that a consumer works on each message, in milliseconds.
    pub delay_ms: DelayMs,
    /// Number of messages in a transaction; `None` without transactions.
    pub tx_size: Option<TxSize>,
}

/// Length of a load test: a duration or a number of messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Length {
    /// The load test lasts this long.
    Seconds(TestSeconds),
    /// The test ends with this message, counted over all workers.
    Messages(MessageCount),
    /// The test lasts as long as its stages together.
    Stages(Vec<Stage>),
}

/// Stage of a test, with a rate of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stage {
    /// Target rate of all producers together, in messages a second.
    pub rate_per_sec: StageRate,
    /// Duration of the stage in seconds.
    pub seconds: TestSeconds,
}

/// Condition that ends a test before its length, though not before the producers are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StopWhen {
    /// The queues of the load test are empty.
    Empty,
    /// No consumer received a message for [`StopWhen::IDLE`].
    Idle,
}

impl StopWhen {
    /// Time without a message after which consumers are idle.
    pub const IDLE: Micros = Micros::from_seconds(10);
}

/// Mode of a load test: a single run, or a search with several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The test runs once.
    #[default]
    Run,
    /// The test runs at one rate after another, for the highest that meets `expect`.
    Search,
}

/// Treatment of messages on the queues that are not the test's. Without one, the test fails at the
/// first of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Foreign {
    /// Consumers take the messages, count them and remove them.
    Take,
}

impl LoadTest {
    /// Counts the producers.
    #[must_use]
    pub fn producer_count(&self) -> u32 {
        self.producers.as_ref().map_or(0, |producers| producers.count.get())
    }

    /// Counts the consumers.
    #[must_use]
    pub fn consumer_count(&self) -> u32 {
        self.consumers.as_ref().map_or(0, |consumers| consumers.count.get())
    }

    /// Counts the workers, each of which has a connection.
    #[must_use]
    pub fn worker_count(&self) -> u32 {
        self.producer_count().saturating_add(self.consumer_count())
    }

    /// Returns the longest time that the test may run by its own length or by the limits. Consumers
    /// continue for a while after that: see [`crate::Plan`].
    #[must_use]
    pub fn longest(&self) -> Micros {
        match (&self.length, self.producers.as_ref().and_then(|producers| producers.rate_per_sec)) {
            (Length::Seconds(seconds), _) => Micros::from_seconds(u64::from(seconds.get())),
            (Length::Stages(stages), _) => Micros::from_seconds(total_seconds(stages)),
            (Length::Messages(count), Some(rate)) => Paced::of_messages(rate, *count, 1).end(),
            (Length::Messages(_), None) => self.limits.longest(),
        }
    }

    /// Returns the time from which the percentiles and rates of the report count.
    #[must_use]
    pub fn measured_from(&self) -> Micros {
        Micros::from_seconds(u64::from(self.warm_up.get()))
    }

    /// Returns the schedule of the producers; `None` if there are none.
    #[must_use]
    pub fn schedule(&self) -> Option<Schedule> {
        let producers = self.producers.as_ref()?;
        let workers = producers.count.get();
        Some(match (&self.length, producers.rate_per_sec) {
            (Length::Stages(stages), _) => Schedule::Paced(Paced::of_stages(stages, workers)),
            (Length::Seconds(seconds), Some(rate)) => {
                Schedule::Paced(Paced::of_seconds(rate, *seconds, workers))
            }
            (Length::Messages(count), Some(rate)) => {
                Schedule::Paced(Paced::of_messages(rate, *count, workers))
            }
            (Length::Messages(count), None) => Schedule::Unthrottled(Unthrottled::new(workers, count.get())),
            (Length::Seconds(_), None) => {
                Schedule::Unthrottled(Unthrottled::new(workers, self.most_messages()))
            }
        })
    }

    /// Returns the number of messages of all workers, if the request says it: by itself, or by a
    /// rate and a time.
    pub(crate) fn named_messages(&self) -> Option<u64> {
        match (&self.length, self.schedule()) {
            (Length::Messages(count), _) => Some(count.get()),
            (_, Some(Schedule::Paced(schedule))) => Some(schedule.total()),
            (_, Some(Schedule::Unthrottled(_)) | None) => None,
        }
    }

    /// Returns the number of messages that producers without a rate may put: those that no consumer
    /// takes stay on the queues.
    pub(crate) fn most_messages(&self) -> u64 {
        match self.consumers {
            Some(_) => self.limits.messages,
            None => self.limits.messages.min(self.most_retained()),
        }
    }

    /// Returns the highest rate, in messages a second, at which all producers together put messages
    /// or all consumers take them. `None` if only the broker bounds it: in a search, and for
    /// workers without a rate. Consumers without one take what the producers put.
    #[must_use]
    pub fn highest_rate(&self) -> Option<u64> {
        if self.mode == Mode::Search {
            return None;
        }
        let put = match (&self.producers, &self.length) {
            (None, _) => None,
            (Some(_), Length::Stages(stages)) => {
                stages.iter().map(|stage| u64::from(stage.rate_per_sec.get())).max()
            }
            (Some(producers), _) => Some(u64::from(producers.rate_per_sec?.get())),
        };
        let taken = match &self.consumers {
            None => None,
            Some(consumers) => match consumers.rate_per_sec {
                Some(rate) => Some(u64::from(rate.get())),
                None => Some(put?),
            },
        };
        put.max(taken)
    }

    /// Returns this test as one run at `rate`: a probe of a search. `None` is the test's own rate.
    #[must_use]
    pub fn at_rate(&self, rate: Option<RateLimit>) -> Cow<'_, Self> {
        if rate.is_none() {
            return Cow::Borrowed(self);
        }
        let mut probe = Self { mode: Mode::Run, ..self.clone() };
        if let Some(producers) = &mut probe.producers {
            producers.rate_per_sec = rate;
        }
        Cow::Owned(probe)
    }
}

fn total_seconds(stages: &[Stage]) -> u64 {
    stages.iter().map(|stage| u64::from(stage.seconds.get())).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::samples::accepted;

    fn highest_rate(members: &Value) -> Option<u64> {
        let mut body = json!({"targetRef": "local"});
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        accepted(body).highest_rate()
    }

    #[test]
    fn a_test_is_as_fast_as_its_faster_side_and_without_a_rate_as_the_broker() {
        let stages = json!([{"ratePerSec": 5, "seconds": 10}, {"ratePerSec": 70, "seconds": 10}]);
        for (members, expected) in [
            (json!({"producers": {"ratePerSec": 30}, "durationSeconds": 60}), Some(30)),
            (json!({"producers": {"ratePerSec": 30}, "consumers": {}, "durationSeconds": 60}), Some(30)),
            (
                json!({"producers": {"ratePerSec": 30}, "consumers": {"ratePerSec": 40}, "durationSeconds": 60}),
                Some(40),
            ),
            (json!({"producers": {}, "stages": stages}), Some(70)),
            (json!({"consumers": {"ratePerSec": 40}, "foreign": "take", "durationSeconds": 60}), Some(40)),
            (json!({"consumers": {}, "foreign": "take", "durationSeconds": 60}), None),
            (json!({"producers": {"ratePerSec": 30}, "mode": "search", "durationSeconds": 60}), None),
            (json!({"producers": {}, "consumers": {"ratePerSec": 40}, "messages": 100}), None),
        ] {
            assert_eq!(highest_rate(&members), expected, "{members}");
        }
    }
}

//! Definition of a load test, as it was accepted and stored.

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

/// Load test whose members do not contradict each other and are within the deployment's limits. It
/// is stored when the test is created, and each invocation of a worker reads it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoadTest {
    /// Queues that the load test's workers use.
    pub queues: Queues,
    /// Workers that put messages; `None` if the test only consumes.
    pub producers: Option<Producers>,
    /// Workers that take messages; `None` if the test only produces.
    pub consumers: Option<Consumers>,
    /// Length of the test; in a search, length of each of its runs.
    pub length: Length,
    /// Warm-up: seconds at the start of the test that the report's percentiles and rates leave out.
    pub warm_up: WarmUpSeconds,
    /// Number of messages that the queues must hold before the consumers begin; `None` if the
    /// consumers begin at once.
    pub backlog: Option<MessageCount>,
    /// Condition on which a consumer ends before the test's length is over. `None` means
    /// [`StopWhen::Empty`] in a test with producers, and no such condition in a test without.
    pub stop_when: Option<StopWhen>,
    /// Mode of the test: a single run, or a search for the highest rate that the target sustains.
    pub mode: Mode,
    /// Pass criteria of the load test, each of which gets a verdict in the report.
    pub expect: Expect,
    /// Treatment of foreign messages, which are on the queues but were not put by this test. `None`
    /// fails the test at the first of them.
    pub foreign: Option<Foreign>,
    /// Limits of the deployment at the time when the test was accepted.
    pub limits: Limits,
}

/// Producers of a load test: the workers that put messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Producers {
    /// Number of producers of the load test, at least one for each queue.
    pub count: WorkerCount,
    /// Rate of all producers together, in messages a second. `None` if the stages have rates, or if
    /// the producers put messages as fast as they can.
    pub rate_per_sec: Option<RateLimit>,
    /// Body of each message that the producers put.
    pub payload: Payload,
    /// Properties of each message that the producers put.
    pub mq_props: MqProps,
    /// Headers of each message that the producers put.
    pub headers: Headers,
    /// Transactions of the producers: whether each producer commits its messages in groups, and the
    /// number of messages in a group.
    pub transaction: Transaction,
    /// Maximum number of messages that a producer has sent and the broker has not confirmed yet.
    pub confirms_in_flight: ConfirmsInFlight,
}

/// Consumers of a load test: the workers that take messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Consumers {
    /// Number of consumers of the load test, at least one for each queue.
    pub count: WorkerCount,
    /// Rate of all consumers together, in messages a second; `None` if they take as fast as they
    /// can.
    pub rate_per_sec: Option<RateLimit>,
    /// Prefetch: maximum number of unacknowledged messages of a consumer.
    pub prefetch: Prefetch,
    /// Number of messages that a consumer acknowledges together.
    pub ack_every: AckEvery,
    /// Time in milliseconds that a consumer spends on each message before it takes the next.
    pub delay_ms: DelayMs,
    /// Number of messages that a consumer takes in one transaction; `None` without transactions.
    pub tx_size: Option<TxSize>,
}

/// Length of a load test: a duration, a number of messages, or stages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Length {
    /// Duration of the load test, in seconds.
    Seconds(TestSeconds),
    /// Number of messages: the test ends once all workers together have put this number, or have
    /// taken it if the test has no producers.
    Messages(MessageCount),
    /// Stages of the load test, one after the other. The test lasts as long as all of them
    /// together.
    Stages(Vec<Stage>),
}

/// Stage of a load test: a span of time in which the producers put messages at a rate of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stage {
    /// Target rate of all producers together in this stage, in messages a second; 0 is a pause.
    pub rate_per_sec: StageRate,
    /// Duration of the stage in seconds.
    pub seconds: TestSeconds,
}

/// Condition on which a consumer ends before the test's length is over, but never before all
/// producers have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StopWhen {
    /// Empty queue: a consumer ends once the producers have ended and its queue is empty.
    Empty,
    /// Idle consumer: a consumer ends once the producers have ended and it has received nothing for
    /// [`StopWhen::IDLE`].
    Idle,
}

impl StopWhen {
    /// Time without a message after which a consumer counts as idle: 10 seconds.
    pub const IDLE: Micros = Micros::from_seconds(10);
}

/// Mode of a load test: one run, or a search with several runs at different rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The test runs once.
    #[default]
    Run,
    /// The test is a search: a series of runs at different rates (probes), to find the highest rate
    /// at which a run passes.
    Search,
}

/// Treatment of foreign messages, which are on the queues but were not put by this load test. A
/// test without a treatment fails at the first foreign message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Foreign {
    /// Consumers take foreign messages (which the test did not put) off the queues, and count them.
    Take,
}

impl LoadTest {
    /// Returns the number of producers; 0 if the test only consumes.
    #[must_use]
    pub fn producer_count(&self) -> u32 {
        self.producers.as_ref().map_or(0, |producers| producers.count.get())
    }

    /// Returns the number of consumers; 0 if the test only produces.
    #[must_use]
    pub fn consumer_count(&self) -> u32 {
        self.consumers.as_ref().map_or(0, |consumers| consumers.count.get())
    }

    /// Returns the number of the test's workers, producers and consumers together. Each holds a
    /// connection.
    #[must_use]
    pub fn worker_count(&self) -> u32 {
        self.producer_count().saturating_add(self.consumer_count())
    }

    /// Returns the longest time for which the producers may run, or the consumers if there are no
    /// producers: the test's length, or the limit of hours if the length is a number of messages
    /// without a rate. Consumers continue for up to [`Plan::DRAIN`](crate::Plan::DRAIN) after the
    /// producers.
    #[must_use]
    pub fn longest(&self) -> Micros {
        match (&self.length, self.producers.as_ref().and_then(|producers| producers.rate_per_sec)) {
            (Length::Seconds(seconds), _) => Micros::from_seconds(u64::from(seconds.get())),
            (Length::Stages(stages), _) => Micros::from_seconds(total_seconds(stages)),
            (Length::Messages(count), Some(rate)) => Paced::of_messages(rate, *count, 1).end(),
            (Length::Messages(_), None) => self.limits.longest(),
        }
    }

    /// Returns the end of the warm-up, as time since the run's start. The report's percentiles and
    /// rates count from it.
    #[must_use]
    pub fn measured_from(&self) -> Micros {
        Micros::from_seconds(u64::from(self.warm_up.get()))
    }

    /// Returns the schedule that says which producer puts which message, and when; `None` if the
    /// test has no producers.
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

    /// Returns the number of messages that the definition fixes: by `messages`, by stages, or by a
    /// rate and a duration. `None` if producers put as many as they can for a duration, or if
    /// consumers alone take for a duration.
    pub(crate) fn named_messages(&self) -> Option<u64> {
        match (&self.length, self.schedule()) {
            (Length::Messages(count), _) => Some(count.get()),
            (_, Some(Schedule::Paced(schedule))) => Some(schedule.total()),
            (_, Some(Schedule::Unthrottled(_)) | None) => None,
        }
    }

    /// Returns the maximum number of messages that the producers may put. Without consumers, all
    /// messages stay on the queues, so the limits on messages that lie on the queues at one time
    /// apply too.
    pub(crate) fn most_messages(&self) -> u64 {
        match self.consumers {
            Some(_) => self.limits.messages,
            None => self.limits.messages.min(self.most_retained()),
        }
    }

    /// Returns the highest rate of the load test in messages a second: the rate of all producers or
    /// of all consumers together, whichever is higher. Consumers without a rate count with the rate
    /// of the producers. `None` if only the broker limits the rate: in a search, if producers have
    /// no rate, or if consumers have neither a rate nor producers.
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

    /// Returns the definition of a probe (run of a search): this test as a single run at `rate`, in
    /// messages a second. With `None`, returns the test unchanged.
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

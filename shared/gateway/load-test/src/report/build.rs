//! The way from a sum to a report.

use jiff::Timestamp;
use mq::Payload;

use super::number::{float, rounded};
use super::{Cost, Generator, LatencyReport, Rates, Report, SearchReport, Series, Setup, Usage, Verdicts};
use crate::accounting::{Accounting, End};
use crate::definition::LoadTest;
use crate::micros::Micros;
use crate::plan::{Plan, Role};
use crate::schedule::Schedule;
use crate::status::TestStatus;
use crate::tally::{Sum, Times};

/// Facts from which a report is built, in addition to the sum of the workers' counts.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// Id of the load test.
    pub test_id: &'a str,
    /// State that the load test has once the report is stored.
    pub status: TestStatus,
    /// Reason why the test failed; `None` unless it failed.
    pub failure: Option<&'a str>,
    /// Target of the load test, in the form that responses of the API show.
    pub target: &'a str,
    /// Start of the load test.
    pub started_at: Timestamp,
    /// Definition of the run that the report is about: the test itself, or in a search the probe
    /// with the highest rate that passed.
    pub test: &'a LoadTest,
    /// Facts about the end of the run, such as whether its queues were empty.
    pub end: End,
    /// True if the sum includes all counts that the run's workers stored.
    pub complete: bool,
    /// Probes and result of a search; `None` if the test ran once.
    pub search: Option<SearchReport>,
    /// Resources that the test used, including all runs of a search. The cost is estimated from
    /// them.
    pub usage: Usage,
}

/// Lowest fraction of the requested rate at which a run counts as having held the rate: 98 %.
pub(super) const HELD: f64 = 0.98;

impl Report {
    /// Builds the report of a run. For a run that still goes on, it builds the report so far;
    /// `facts.end` is then the time up to which all workers' counts were read.
    #[must_use]
    pub fn of(facts: &Facts<'_>, sum: &Sum) -> Self {
        let plan = Plan::of(facts.test);
        let schedule = facts.test.schedule();
        let figures = &sum.figures;
        let span = Span::of(facts, &plan, schedule.as_ref(), sum);
        let accounting = Accounting::of(&plan, schedule.as_ref(), sum, facts.end);
        let accounting = if facts.complete { accounting } else { accounting.of_some_tallies() };
        let measured = float(figures.lateness.count().max(1));
        let drains =
            facts.complete && facts.end.is_drained && schedule.is_some() && facts.test.consumers.is_some();
        let mut report = Self {
            schema: Self::SCHEMA.to_owned(),
            test_id: facts.test_id.to_owned(),
            status: facts.status,
            complete: facts.complete,
            summary: String::new(),
            failure: facts.failure.map(ToOwned::to_owned),
            target: facts.target.to_owned(),
            started_at: facts.started_at,
            duration_seconds: span.to.seconds(),
            setup: setup(facts.test),
            rates: span.rates(facts, schedule.as_ref(), sum),
            put_latency_us: LatencyReport::of(&figures.put),
            end_to_end_latency_us: LatencyReport::of(&figures.end_to_end),
            lateness_us: LatencyReport::of(&figures.lateness),
            generator: Generator {
                late_share: rounded(float(figures.late) / measured, 6),
                held_back_share: rounded(float(figures.held_back) / measured, 6),
                cpu_seconds: rounded(figures.cpu.seconds(), 3),
                billed_seconds: rounded(figures.billed.seconds(), 3),
            },
            accounting,
            most_retained: figures.points.most_retained(),
            drained_in_seconds: drains
                .then(|| rounded(figures.received_at.end().since(span.to).seconds(), 3)),
            expect: None,
            search: facts.search.clone(),
            comparison: None,
            cost: Cost::of(&facts.usage),
            series: series(&plan, sum),
        };
        report.expect = Verdicts::of(&facts.test.expect, &report);
        report.summary = super::summary::of(&report);
        report
    }
}

/// Span of time over which a report averages rates, as times since the run's start.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: Micros,
    to: Micros,
    /// End of the last second whose events count.
    last: Micros,
    /// True if the test was stopped, failed, or still runs.
    is_cut: bool,
}

impl Span {
    fn of(facts: &Facts<'_>, plan: &Plan, schedule: Option<&Schedule>, sum: &Sum) -> Self {
        let (role, times) = match schedule {
            Some(_) => (Role::Producer, sum.figures.sent_at),
            None => (Role::Consumer, sum.figures.received_at),
        };
        let (until, planned) = (plan.until(role), facts.end.of(plan, role));
        let to = match schedule {
            Some(Schedule::Paced(_)) => planned,
            // Nobody planned when workers without a rate have sent or taken the last message.
            Some(Schedule::Unthrottled(_)) | None => planned.min(times.end()),
        };
        let is_cut = planned < until;
        // Workers heed a stop within two seconds, so the second of the stop counts for nothing.
        let seconds = match to.whole_seconds() {
            whole @ 1.. if is_cut => whole,
            _ => to.get().div_ceil(Micros::A_SECOND),
        };
        let last = Micros::from_seconds(seconds);
        let to = to.min(last);
        Self { from: facts.test.measured_from().min(to), to, last, is_cut }
    }

    /// Computes the average rates over the span. If counts of workers are missing from the sum, it
    /// is unknown whether the rate was held, and `held` is true.
    fn rates(self, facts: &Facts<'_>, schedule: Option<&Schedule>, sum: &Sum) -> Rates {
        let asked = match schedule {
            Some(Schedule::Paced(schedule)) => {
                Some(schedule.due_before(self.to).saturating_sub(schedule.due_before(self.from)))
            }
            Some(Schedule::Unthrottled(_)) | None => None,
        };
        // Events are counted by the second, which says nothing of a part of the first one.
        if self.is_cut && self.to.since(self.from).get() < Micros::A_SECOND {
            return Rates { asked_per_sec: asked.map(|_| 0.0), held: true, ..Rates::default() };
        }
        let figures = &sum.figures;
        let point = figures.points.sum(self.from, self.last);
        // One message more: the last one may be sent in the next second.
        let is_held = |asked| float(point.sent.saturating_add(1)) >= HELD * float(asked);
        // The last second has confirms and receipts from after the last message was sent.
        let end_of = |times: Times| match schedule {
            Some(Schedule::Paced(_)) => self.to,
            Some(Schedule::Unthrottled(_)) | None => times.end().max(self.to).min(self.last),
        };
        let received_per_sec = match facts.test.backlog {
            Some(_) => of_consumers(facts.test, sum),
            None => per_second(point.received, self.from, end_of(figures.received_at)),
        };
        Rates {
            asked_per_sec: asked.map(|asked| per_second(asked, self.from, self.to)),
            sent_per_sec: per_second(point.sent, self.from, self.to),
            confirmed_per_sec: per_second(point.confirmed, self.from, end_of(figures.confirmed_at)),
            received_per_sec,
            held: !facts.complete || asked.is_none_or(is_held),
        }
    }
}

/// Returns a count divided by the seconds of a span, to three decimal places; 0 if the span is
/// empty.
fn per_second(count: u64, from: Micros, to: Micros) -> f64 {
    let seconds = to.since(from).seconds();
    if seconds > 0.0 { rounded(float(count) / seconds, 3) } else { 0.0 }
}

/// Returns the average rate of received messages a second, from the first to the last, after the
/// warm-up. The time that consumers waited for a backlog is not part of it.
fn of_consumers(test: &LoadTest, sum: &Sum) -> f64 {
    let Some((first, last)) = sum.figures.received_at.bounds() else { return 0.0 };
    let from = first.max(test.measured_from());
    let until = Micros::from_seconds(last.whole_seconds().saturating_add(1));
    per_second(sum.figures.points.sum(from, until).received, from, last)
}

fn setup(test: &LoadTest) -> Setup {
    let producers = test.producers.as_ref();
    let consumers = test.consumers.as_ref();
    let transaction = producers.map(|producers| producers.transaction).filter(|own| own.enabled);
    let size = producers.and_then(|producers| match &producers.payload {
        Payload::Random { size } => Some(u64::from(size.get())),
        Payload::Fixed { body } => u64::try_from(body.0.len()).ok(),
        Payload::Template { .. } => None,
    });
    Setup {
        producers: test.producer_count(),
        consumers: test.consumer_count(),
        message_size_bytes: size,
        persistence: producers.map(|producers| producers.mq_props.persistence),
        tx_size: transaction.map(|transaction| transaction.tx_size.get()),
        confirms_in_flight: producers
            .filter(|producers| !producers.transaction.enabled)
            .map(|producers| producers.confirms_in_flight.get()),
        prefetch: consumers.map(|consumers| consumers.prefetch.get()),
        warm_up_seconds: test.warm_up.get(),
    }
}

/// Lists the figures of each second, from the run's start up to the last second with an event, or
/// up to the plan's end if that is earlier.
fn series(plan: &Plan, sum: &Sum) -> Series {
    let most = plan.until(Role::Producer).max(plan.until(Role::Consumer)).whole_seconds();
    let mut series = Series::default();
    for (second, point) in sum.figures.points.iter() {
        let length = usize::try_from(second).unwrap_or(usize::MAX);
        if u64::from(second) > most {
            break;
        }
        series.sent.resize(length, 0);
        series.sent.push(point.sent);
        series.confirmed.resize(length, 0);
        series.confirmed.push(point.confirmed);
        series.received.resize(length, 0);
        series.received.push(point.received);
        series.retained.resize(length, None);
        series.retained.push(point.retained);
    }
    series
}

//! Building of a load test's report from the sum of its workers' counts.

use jiff::Timestamp;
use mq::Payload;

use super::number::{float, rounded};
use super::{Cost, Generator, LatencyReport, Rates, Report, SearchReport, Series, Setup, Usage, Verdicts};
use crate::accounting::{Accounting, EndFacts};
use crate::definition::LoadTest;
use crate::micros::Micros;
use crate::plan::{Plan, Role};
use crate::schedule::Schedule;
use crate::status::TestStatus;
use crate::tally::{Sum, Times};

/// Facts about a load test from which a report is built, in addition to the sum of its workers'
/// counts.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// Id of the load test.
    pub test_id: &'a str,
    /// State of the load test: the final state that it has once the report is stored, or the
    /// current state for the report of a running test.
    pub status: TestStatus,
    /// Reason why the test failed; `None` unless it failed.
    pub failure: Option<&'a str>,
    /// Target of the load test, in the form that responses of the API show.
    pub target: &'a str,
    /// Start of the run that the report is about; time of the test's creation if no run began.
    pub started_at: Timestamp,
    /// Definition of the run that the report is about. In a search, the run is the probe with the
    /// highest rate that passed, the last probe if none passed, or the current probe while the
    /// search goes on.
    pub test: &'a LoadTest,
    /// End of the run that the report is about: whether it was cut short, and how many messages it
    /// left on the queues.
    pub end: EndFacts,
    /// True if the sum of counts from which the report is built includes all counts that the run's
    /// workers stored.
    pub complete: bool,
    /// Probes (runs) and result of a search. `None` for a test that runs once, and before a search
    /// has its result.
    pub search: Option<SearchReport>,
    /// Resources that the test used, from which its cost is estimated. They include all runs of a
    /// search that has ended, and only the current run of one that goes on.
    pub usage: Usage,
}

/// Lowest fraction of the requested messages that must be sent, so that a run counts as having held
/// the requested rate: 98 %.
pub(super) const HELD: f64 = 0.98;

impl Report {
    /// Builds the report of a run. For a run that still goes on, it builds the report so far:
    /// `facts.end.cut_at` is then the time up to which the stored counts of all workers are
    /// complete.
    #[must_use]
    pub fn of(facts: &Facts<'_>, sum: &Sum) -> Self {
        let plan = Plan::of(facts.test);
        let schedule = facts.test.schedule();
        let figures = &sum.figures;
        let span = Span::of(facts, &plan, schedule.as_ref(), sum);
        let accounting = Accounting::of(&plan, schedule.as_ref(), sum, facts.end);
        let accounting = if facts.complete { accounting } else { accounting.of_some_tallies() };
        let measured = float(figures.lateness.count().max(1));
        let drains = facts.complete
            && facts.end.retained == Some(0)
            && schedule.is_some()
            && facts.test.consumers.is_some();
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
            most_retained: figures.points.most_retained().max(facts.end.retained),
            drained_in_seconds: drains
                .then(|| rounded(figures.received_at.end().since(span.to).seconds(), 3)),
            expect: None,
            search: facts.search.clone(),
            comparison: None,
            cost: Cost::of(&facts.usage),
            series: series(&plan, sum),
        };
        report.expect = Verdicts::of(&facts.test.expect, &report, facts.end);
        report.summary = super::summary::of(&report);
        report
    }
}

/// Span of the run over which a report averages rates, from the end of the warm-up on. Times are
/// measured from the run's start.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: Micros,
    to: Micros,
    /// End of the last whole second whose messages count in the rates.
    last: Micros,
    /// True if the run ended early (the test was stopped or failed), or if it still goes on.
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

    /// Computes the average rates over the span from `sum`, the counts of the run's workers. If
    /// `sum` lacks counts of a worker, nobody knows whether the requested rate was held, and
    /// [`Rates::held`] is true.
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

/// Returns a count of messages divided by the seconds from `from` to `to`, to three decimal places;
/// 0 if `to` is not after `from`.
fn per_second(count: u64, from: Micros, to: Micros) -> f64 {
    let seconds = to.since(from).seconds();
    if seconds > 0.0 { rounded(float(count) / seconds, 3) } else { 0.0 }
}

/// Returns the average rate of received messages a second, from the first received message after
/// the warm-up to the last one. So it leaves out the time for which consumers waited for a backlog.
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

/// Lists the figures of each second of a run, up to the last second with an event, or up to the
/// plan's end if that is earlier.
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

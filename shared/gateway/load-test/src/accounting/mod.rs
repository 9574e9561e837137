//! Accounting of a load test: the number of messages with each fate, such as received or lost, and
//! the gaps in the workers' records.

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::micros::Micros;
use crate::plan::{Plan, Role, Window, Worker};
use crate::schedule::Schedule;
use crate::tally::{Sequences, Sum};

/// End of a run of a load test, in two facts that the workers' stored counts do not contain:
/// whether the run was cut short, and how many messages it left on its queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndFacts {
    /// Time since the run's start at which the test was stopped or failed. For a run that still
    /// goes on, time up to which its report counts. `None` if the run reached its planned end.
    pub cut_at: Option<Micros>,
    /// Number of messages on the queues after the run's workers had ended. If the test puts and
    /// takes messages, zero means that no consumer held an unacknowledged message either. `None` if
    /// the number is unknown.
    pub retained: Option<u64>,
}

/// Numbers of a run's messages, by what became of them. Each message that was due has exactly one
/// fate, so `received`, `lost`, `retained`, `unrecorded`, `refused`, `inDoubt` and `notSent` add up
/// to `due`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Accounting {
    /// Number of messages that were due or were sent. In a test without a rate, a message is due
    /// when it is sent.
    pub due: u64,
    /// Number of messages that a worker recorded as sent, confirmed, refused or received.
    pub sent: u64,
    /// Number of messages that the broker confirmed.
    pub confirmed: u64,
    /// Number of messages that were received at least once.
    pub received: u64,
    /// Number of messages that were confirmed and not received although the queues are empty.
    /// `None` if that cannot be known: the test has no consumers, the queues were not seen empty, a
    /// consumer's records have a gap while confirmed messages are missing, or not all workers'
    /// counts were read.
    pub lost: Option<u64>,
    /// Number of messages that were confirmed, not received, and count as still on the queues: the
    /// queues were not seen empty, or the test has no consumers.
    pub retained: u64,
    /// Number of messages whose fate is unknown because counts of a worker are missing or could not
    /// be read: the counts of the message's producer, or of a consumer that may have received the
    /// message.
    pub unrecorded: u64,
    /// Number of messages that the broker refused.
    pub refused: u64,
    /// Number of messages that were sent, but neither confirmed, nor refused, nor received.
    pub in_doubt: u64,
    /// Number of messages that were due, but that their producer could not send.
    pub not_sent: u64,
    /// Number of messages that were received more than once.
    pub doubled: u64,
    /// Number of messages that a consumer received after a later message of the same producer.
    pub out_of_order: u64,
    /// Number of messages that consumers took although this load test did not put them.
    pub foreign_taken: u64,
    /// Gaps in the workers' records, the first [`Accounting::MOST_HOLES`] of them: spans of time in
    /// which a worker should have worked, but stored no counts. Not determined, and empty, in an
    /// incomplete report.
    pub holes: Vec<Hole>,
    /// Number of further gaps in the workers' records, beyond the [`Accounting::MOST_HOLES`] that
    /// `holes` lists.
    pub holes_omitted: u64,
}

/// Hole in a worker's records: span of time in which the worker should have worked, but for which
/// it stored no counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hole {
    /// Worker that stored no counts for this span of time.
    pub worker: Worker,
    /// Start of the hole, in seconds since the run's start.
    pub from_seconds: f64,
    /// End of the hole, in seconds since the run's start.
    pub to_seconds: f64,
    /// Minute of the run in which the hole begins; minute 0 is the first.
    pub first_window: Window,
    /// Number of messages that the hole's producer had to send in this span and that are in no
    /// worker's counts. 0 for a consumer, and for a producer without a rate.
    pub messages: u64,
}

impl EndFacts {
    /// Returns the time since the run's start at which the workers of this role ended at the
    /// latest: their planned end, or the time at which the test was stopped or failed if that is
    /// earlier.
    pub(crate) fn of(self, plan: &Plan, role: Role) -> Micros {
        let until = plan.until(role);
        self.cut_at.map_or(until, |cut| until.min(cut))
    }
}

impl Accounting {
    /// Maximum number of holes (gaps in a worker's records) that a report lists.
    pub const MOST_HOLES: usize = 1_000;

    /// Builds the accounting of a run from the sum of its workers' counts. `schedule` is `None` if
    /// the test has no producers.
    #[must_use]
    pub fn of(plan: &Plan, schedule: Option<&Schedule>, sum: &Sum, end: EndFacts) -> Self {
        let figures = &sum.figures;
        let traced =
            Sequences::all_of([&figures.sent, &figures.confirmed, &figures.refused, &figures.received]);
        let mut holes = holes(plan, schedule, sum, end, &traced);
        let (due, untraced) = due(plan, schedule, end, &traced);
        let in_holes = holes.iter().map(|hole| hole.messages).sum::<u64>().min(untraced);

        let unreceived = traced.without(&figures.received);
        let confirmed = unreceived.common(&figures.confirmed).len();
        let unconfirmed = unreceived.without(&figures.confirmed);
        let refused = unconfirmed.common(&figures.refused).len();
        let has_consumers = plan.workers().any(|worker| worker.role == Role::Consumer);
        let is_seen = !holes.iter().any(|hole| hole.worker.role == Role::Consumer);
        let is_drained = schedule.is_some() && end.retained == Some(0);
        let (lost, retained, unseen) = match (has_consumers, is_seen, is_drained) {
            (true, true, true) => (Some(confirmed), 0, 0),
            // Nothing that was confirmed is missing, whatever else the consumers did.
            (true, false, _) => ((confirmed == 0).then_some(0), 0, confirmed),
            (true, true, false) | (false, ..) => (None, confirmed, 0),
        };
        let omitted = holes.len().saturating_sub(Self::MOST_HOLES);
        holes.truncate(Self::MOST_HOLES);
        Self {
            due,
            sent: traced.len(),
            confirmed: figures.confirmed.len(),
            received: figures.received.len(),
            lost,
            retained,
            unrecorded: unseen.saturating_add(in_holes),
            refused,
            in_doubt: unconfirmed.len().saturating_sub(refused),
            not_sent: untraced.saturating_sub(in_holes),
            doubled: figures.doubled.len(),
            out_of_order: figures.out_of_order.values().sum(),
            foreign_taken: figures.foreign_taken,
            holes,
            holes_omitted: u64::try_from(omitted).unwrap_or(u64::MAX),
        }
    }

    /// Returns this accounting, corrected for counts of workers that could not be read. Messages
    /// that count as lost, retained, in doubt or not sent become unrecorded, and the list of holes
    /// becomes empty.
    pub(crate) fn of_some_tallies(self) -> Self {
        let unknown = [self.lost.unwrap_or(0), self.retained, self.in_doubt, self.not_sent];
        Self {
            lost: None,
            retained: 0,
            in_doubt: 0,
            not_sent: 0,
            unrecorded: unknown.into_iter().fold(self.unrecorded, u64::saturating_add),
            holes: Vec::new(),
            holes_omitted: 0,
            ..self
        }
    }
}

/// Returns two numbers of messages: those that were due or were sent, and those that were due but
/// are not in `traced`. `traced` are the sequence numbers of all messages that any worker counted.
/// `schedule` is `None` if the test has no producers.
fn due(plan: &Plan, schedule: Option<&Schedule>, end: EndFacts, traced: &Sequences) -> (u64, u64) {
    let limit = match schedule {
        Some(Schedule::Paced(schedule)) => schedule.due_before(end.of(plan, Role::Producer)),
        // Without a rate a message is due when it is sent.
        Some(Schedule::Unthrottled(_)) | None => 0,
    };
    let untraced = limit.saturating_sub(traced.count_below(limit));
    (traced.len().saturating_add(untraced), untraced)
}

fn holes(
    plan: &Plan,
    schedule: Option<&Schedule>,
    sum: &Sum,
    end: EndFacts,
    traced: &Sequences,
) -> Vec<Hole> {
    let mut holes = Vec::new();
    for worker in plan.workers() {
        let work = sum.work.get(&worker).cloned().unwrap_or_default();
        for (from, to) in work.gaps(end.of(plan, worker.role)) {
            let messages = match (worker.role, schedule) {
                (Role::Producer, Some(Schedule::Paced(schedule))) => {
                    let share = schedule.share(worker.number, from, to);
                    share.count.saturating_sub(traced.count_of(share))
                }
                _ => 0,
            };
            holes.push(Hole {
                worker,
                from_seconds: from.seconds(),
                to_seconds: to.seconds(),
                first_window: Window::of(from),
                messages,
            });
        }
    }
    holes
}

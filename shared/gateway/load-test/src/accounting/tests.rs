use proptest::prelude::*;
use serde_json::{from_value, json};

use super::*;
use crate::definition::LoadTest;
use crate::plan::{Lane, Step};
use crate::request::LoadTestRequest;
use crate::samples::accepted;
use crate::tally::{LateReason, Tally};

/// Fate of one message in a simulated run: whether it is sent, confirmed and received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    NotSent,
    InDoubt,
    Refused,
    Confirmed,
    Received,
    Doubled,
    /// Message that was received although no confirm came.
    ReceivedInDoubt,
}

const FATES: [Fate; 7] = [
    Fate::NotSent,
    Fate::InDoubt,
    Fate::Refused,
    Fate::Confirmed,
    Fate::Received,
    Fate::Doubled,
    Fate::ReceivedInDoubt,
];

/// Simulated run of 150 s at 4 messages a second, with a fate for each message. The counts that
/// some producers stored for a minute of the run (`lost_windows`) are missing.
#[derive(Clone, Debug)]
struct Run {
    fates: Vec<Fate>,
    lost_windows: Vec<(u32, u32)>,
}

const MESSAGES: usize = 600;
const PRODUCERS: u32 = 3;

fn some_run() -> impl Strategy<Value = Run> {
    let fates = prop::collection::vec(prop::sample::select(&FATES[..]), MESSAGES);
    let lost = prop::collection::vec((0..PRODUCERS, 0_u32..3), 0..3);
    (fates, lost).prop_map(|(fates, lost_windows)| Run { fates, lost_windows })
}

fn test() -> LoadTest {
    let producers = json!({"count": PRODUCERS, "ratePerSec": 4});
    accepted(json!({"producers": producers, "consumers": {}, "durationSeconds": 150}))
}

fn step(role: Role, number: u32, window: Window) -> Step {
    Step { lane: Lane { worker: Worker { role, number }, parity: window.parity() }, window, attempt: 0 }
}

impl Run {
    fn is_lost(&self, producer: u32, window: Window) -> bool {
        self.lost_windows.contains(&(producer, window.number()))
    }

    fn sum(&self, plan: &Plan, schedule: &Schedule) -> Sum {
        let Schedule::Paced(schedule) = schedule else { panic!("a rate") };
        let mut sum = Sum::default();
        for window in (0..plan.windows(Role::Producer)).map(Window::new) {
            for producer in (0..PRODUCERS).filter(|producer| !self.is_lost(*producer, window)) {
                let closes = plan.end_of(Role::Producer, window);
                let share = schedule.share(producer, window.opens(), closes);
                sum.add(&self.produced(step(Role::Producer, producer, window), share.sequences(), closes));
            }
        }
        sum.add(&self.consumed(plan));
        sum
    }

    fn produced(&self, step: Step, sequences: impl Iterator<Item = u64>, closes: Micros) -> Tally {
        let mut tally = Tally::new(step, step.window.opens(), PRODUCERS, Micros::ZERO);
        for sequence in sequences {
            let fate = self.fates[usize::try_from(sequence).unwrap()];
            if fate != Fate::NotSent {
                tally.sent(sequence, Micros::ZERO, Micros::ZERO, LateReason::Producer);
            }
            match fate {
                Fate::Refused => tally.refused(sequence),
                Fate::Confirmed | Fate::Received | Fate::Doubled => {
                    tally.confirmed(sequence, Micros::ZERO, Micros::ZERO);
                }
                Fate::NotSent | Fate::InDoubt | Fate::ReceivedInDoubt => {}
            }
        }
        tally.worked_until(closes);
        tally
    }

    /// Returns the counts of the run's only consumer, with all received messages in a single tally.
    fn consumed(&self, plan: &Plan) -> Tally {
        let step = step(Role::Consumer, 0, Window::new(0));
        let mut tally = Tally::new(step, Micros::ZERO, PRODUCERS, Micros::ZERO);
        for (fate, sequence) in self.fates.iter().zip(0..) {
            if matches!(fate, Fate::Received | Fate::Doubled | Fate::ReceivedInDoubt) {
                tally.received(sequence, Micros::ZERO, Micros::ZERO);
            }
            if *fate == Fate::Doubled {
                tally.received(sequence, Micros::ZERO, Micros::ZERO);
            }
        }
        tally.worked_until(plan.until(Role::Consumer));
        tally
    }

    /// Counts the messages whose fate is in `fates`. If `is_lost`, only messages whose producer's
    /// counts are missing; otherwise only the others.
    fn count(&self, schedule: &Schedule, is_lost: bool, fates: &[Fate]) -> u64 {
        let Schedule::Paced(schedule) = schedule else { panic!("a rate") };
        let of = |(fate, sequence): &(&Fate, u64)| {
            let window = Window::of(schedule.due(*sequence).unwrap());
            let producer = u32::try_from(sequence % u64::from(PRODUCERS)).unwrap();
            self.is_lost(producer, window) == is_lost && fates.contains(fate)
        };
        u64::try_from(self.fates.iter().zip(0..).filter(of).count()).unwrap()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn each_message_has_one_fate(run in some_run(), is_drained: bool) {
        let test = test();
        let (plan, schedule) = (Plan::of(&test), test.schedule().unwrap());
        let sum = run.sum(&plan, &schedule);
        let accounting = Accounting::of(&plan, Some(&schedule), &sum, EndFacts { cut_at: None, retained: is_drained.then_some(0) });
        prop_assert_eq!(accounting.due, 600);

        let seen = |fates: &[Fate]| run.count(&schedule, false, fates);
        let received = [Fate::Received, Fate::Doubled, Fate::ReceivedInDoubt];
        let in_holes = run.count(&schedule, true, &FATES);
        let received_of_holes = run.count(&schedule, true, &received);
        prop_assert_eq!(accounting.received, seen(&received) + received_of_holes);
        prop_assert_eq!(accounting.refused, seen(&[Fate::Refused]));
        prop_assert_eq!(accounting.in_doubt, seen(&[Fate::InDoubt]));
        prop_assert_eq!(accounting.not_sent, seen(&[Fate::NotSent]));
        prop_assert_eq!(accounting.unrecorded, in_holes - received_of_holes);
        let doubled_of_holes = run.count(&schedule, true, &[Fate::Doubled]);
        prop_assert_eq!(accounting.doubled, seen(&[Fate::Doubled]) + doubled_of_holes);
        let confirmed = seen(&[Fate::Confirmed]);
        let expected = if is_drained { (Some(confirmed), 0) } else { (None, confirmed) };
        prop_assert_eq!((accounting.lost, accounting.retained), expected);
        let holes: u64 = accounting.holes.iter().map(|hole| hole.messages).sum();
        prop_assert_eq!(holes, accounting.unrecorded);
    }
}

/// Simulated run of one producer and one consumer at one message a second, in which no message is
/// lost or late.
struct Calm {
    test: LoadTest,
    producer: Tally,
    consumer: Tally,
}

fn calm(until: u64) -> Calm {
    let test = accepted(json!({"producers": {"ratePerSec": 1}, "consumers": {}, "durationSeconds": 50}));
    let window = Window::new(0);
    let mut producer = Tally::new(step(Role::Producer, 0, window), Micros::ZERO, 1, Micros::ZERO);
    let mut consumer = Tally::new(step(Role::Consumer, 0, window), Micros::ZERO, 1, Micros::ZERO);
    for sequence in 0..until {
        let due = Micros::from_seconds(sequence);
        producer.sent(sequence, due, due, LateReason::Producer);
        producer.confirmed(sequence, due, due);
        consumer.received(sequence, due, due);
    }
    for tally in [&mut producer, &mut consumer] {
        tally.worked_until(Micros::from_seconds(until));
    }
    Calm { test, producer, consumer }
}

impl Calm {
    fn accounting(&self, end: EndFacts) -> Accounting {
        let mut sum = Sum::default();
        sum.add(&self.producer);
        sum.add(&self.consumer);
        Accounting::of(&Plan::of(&self.test), self.test.schedule().as_ref(), &sum, end)
    }
}

#[test]
fn a_worker_that_has_ended_has_no_hole_behind_its_end() {
    let mut run = calm(50);
    run.producer.was_last();
    run.consumer.was_last();
    let accounting = run.accounting(EndFacts { cut_at: None, retained: Some(0) });
    assert_eq!((accounting.received, accounting.lost), (50, Some(0)));
    assert_eq!(accounting.holes, []);
}

#[test]
fn a_consumer_that_vanishes_leaves_the_loss_unknown() {
    let mut run = calm(50);
    run.producer.was_last();
    // A message that nobody is seen to receive.
    run.producer.sent(50, Micros::ZERO, Micros::ZERO, LateReason::Producer);
    run.producer.confirmed(50, Micros::ZERO, Micros::ZERO);
    let accounting = run.accounting(EndFacts { cut_at: None, retained: Some(0) });
    assert_eq!((accounting.lost, accounting.unrecorded, accounting.retained), (None, 1, 0));
    let hole = &accounting.holes[0];
    assert_eq!((hole.worker.to_string().as_str(), hole.from_seconds, hole.messages), ("c0", 50.0, 0));
}

#[test]
fn nothing_is_lost_if_all_was_received_before_a_consumer_vanished() {
    let mut run = calm(50);
    run.producer.was_last();
    for is_drained in [true, false] {
        let accounting = run.accounting(EndFacts { cut_at: None, retained: is_drained.then_some(0) });
        assert_eq!((accounting.holes.len(), accounting.received, accounting.unrecorded), (1, 50, 0));
        assert_eq!(accounting.lost, Some(0));
        assert_eq!(accounting.of_some_tallies().lost, None);
    }
}

#[test]
fn a_producer_that_dies_halfway_leaves_a_hole_until_the_next_attempt() {
    let mut run = calm(20);
    run.consumer.was_last();
    let mut sum = Sum::default();
    sum.add(&run.producer);
    sum.add(&run.consumer);
    let again = Step { attempt: 1, ..run.producer.step() };
    let mut retry = Tally::new(again, Micros::from_seconds(30), 1, Micros::ZERO);
    for sequence in 30..50 {
        retry.sent(sequence, Micros::ZERO, Micros::ZERO, LateReason::Producer);
        retry.confirmed(sequence, Micros::ZERO, Micros::ZERO);
    }
    retry.worked_until(Micros::from_seconds(50));
    sum.add(&retry);
    let end = EndFacts { cut_at: None, retained: None };
    let accounting = Accounting::of(&Plan::of(&run.test), run.test.schedule().as_ref(), &sum, end);
    assert_eq!((accounting.due, accounting.sent, accounting.unrecorded), (50, 40, 10));
    let [hole] = accounting.holes.as_slice() else { panic!("{:?}", accounting.holes) };
    assert_eq!((hole.from_seconds, hole.to_seconds, hole.messages), (20.0, 30.0, 10));
}

#[test]
fn what_was_due_after_a_stop_is_not_missed() {
    let run = calm(20);
    let end = EndFacts { cut_at: Some(Micros::from_seconds(20)), retained: Some(0) };
    let accounting = run.accounting(end);
    assert_eq!((accounting.due, accounting.received, accounting.not_sent), (20, 20, 0));
    assert_eq!((accounting.lost, accounting.holes.len()), (Some(0), 0));
}

#[test]
fn what_was_due_while_a_broken_producer_waited_for_the_end_was_not_sent() {
    let mut run = calm(20);
    run.producer.was_last();
    let end = EndFacts { cut_at: Some(Micros::from_seconds(23)), retained: None };
    assert_eq!(run.accounting(end).not_sent, 3);
}

#[test]
fn without_consumers_messages_stay_and_are_not_lost() {
    let test = accepted(json!({"producers": {}, "durationSeconds": 50}));
    let mut tally = Tally::new(step(Role::Producer, 0, Window::new(0)), Micros::ZERO, 1, Micros::ZERO);
    tally.sent(7, Micros::ZERO, Micros::ZERO, LateReason::Producer);
    tally.confirmed(7, Micros::ZERO, Micros::ZERO);
    tally.worked_until(Micros::from_seconds(50));
    let mut sum = Sum::default();
    sum.add(&tally);
    let end = EndFacts { cut_at: None, retained: Some(0) };
    let accounting = Accounting::of(&Plan::of(&test), test.schedule().as_ref(), &sum, end);
    assert_eq!((accounting.due, accounting.lost, accounting.retained), (1, None, 1));
}

#[test]
fn of_many_holes_the_first_are_listed_and_all_are_counted() {
    let mut test = accepted(json!({"producers": {"ratePerSec": 1_200}, "durationSeconds": 10}));
    test.producers.as_mut().unwrap().count = 1_200.try_into().unwrap();
    let end = EndFacts { cut_at: None, retained: None };
    let accounting = Accounting::of(&Plan::of(&test), test.schedule().as_ref(), &Sum::default(), end);
    assert_eq!((accounting.holes.len(), accounting.holes_omitted), (Accounting::MOST_HOLES, 200));
    assert_eq!((accounting.due, accounting.unrecorded), (12_000, 12_000));
}

#[test]
fn a_hole_of_any_length_is_counted_at_once() {
    let body = json!({"producers": {"count": 2, "ratePerSec": 1_000_000}, "durationSeconds": 604_800});
    let request: LoadTestRequest = from_value(body).unwrap();
    let (_, _, test) = request.into_parts().unwrap();
    let end = EndFacts { cut_at: None, retained: None };
    let accounting = Accounting::of(&Plan::of(&test), test.schedule().as_ref(), &Sum::default(), end);
    let due = 604_800_000_000;
    assert_eq!((accounting.due, accounting.unrecorded), (due, due));
    let of_each = accounting.holes.iter().map(|hole| hole.messages);
    assert_eq!(of_each.collect::<Vec<_>>(), [due / 2, due / 2]);
}

#[test]
fn tallies_that_were_not_read_leave_no_loss_and_no_holes() {
    let mut run = calm(20);
    run.consumer.was_last();
    for sequence in 20..30 {
        run.producer.sent(sequence, Micros::ZERO, Micros::ZERO, LateReason::Producer);
    }
    run.producer.confirmed(20, Micros::ZERO, Micros::ZERO);
    for is_drained in [true, false] {
        let whole = run.accounting(EndFacts { cut_at: None, retained: is_drained.then_some(0) });
        assert!(!whole.holes.is_empty());
        let some = whole.of_some_tallies();
        assert_eq!((some.due, some.received, some.unrecorded), (50, 20, 30));
        assert_eq!((some.lost, some.retained, some.in_doubt, some.not_sent), (None, 0, 0, 0));
        assert_eq!((some.holes.len(), some.holes_omitted), (0, 0));
    }
}

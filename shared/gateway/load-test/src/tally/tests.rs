use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::metric::Percentile;
use crate::plan::Window;
use crate::schedule::MinuteMessages;

const PRODUCERS: u32 = 3;

fn step(lane: &str, window: u32, attempt: u32) -> Step {
    Step { lane: lane.parse().unwrap(), window: Window::new(window), attempt }
}

fn tally(step: Step) -> Tally {
    Tally::new(step, step.window.opens(), PRODUCERS, Micros::ZERO)
}

/// Event of one message: its sequence number, the time in microseconds from when it was due, and
/// the kind of the event, such as sent or received.
#[derive(Clone, Debug)]
struct Event {
    sequence: u64,
    delay: u64,
    kind: u8,
}

fn some_events() -> impl Strategy<Value = Vec<Event>> {
    let event = (0_u64..500, 0_u64..200_000_000, 0_u8..6);
    prop::collection::vec(event.prop_map(|(sequence, delay, kind)| Event { sequence, delay, kind }), 0..60)
}

/// Generates the tallies of up to five different workers' minutes.
fn some_tallies() -> impl Strategy<Value = Vec<Tally>> {
    prop::collection::vec(some_events(), 1..6).prop_map(|steps| {
        let of = |(index, events): (usize, Vec<Event>)| {
            let lane = ["p0a", "p0b", "p1a", "c0a", "c0b", "c1a"][index];
            let mut tally = tally(step(lane, u32::from(lane.ends_with('b')), 0));
            for event in &events {
                count(&mut tally, event);
            }
            tally.took(Duration::from_secs(60), Duration::from_millis(700));
            tally
        };
        steps.into_iter().enumerate().map(of).collect()
    })
}

fn count(tally: &mut Tally, event: &Event) {
    let due = Micros::new(event.sequence * 2_000);
    let at = due.plus(Micros::new(event.delay));
    match event.kind {
        0 => tally.sent(event.sequence, due, at, LateReason::Producer),
        1 => tally.sent(event.sequence, due, at, LateReason::Broker),
        2 => tally.confirmed(event.sequence, due, at),
        3 => tally.refused(event.sequence),
        4 => tally.received(event.sequence, due, at),
        _ => tally.foreign(at),
    }
    tally.worked_until(at);
}

fn sum<'a>(tallies: impl IntoIterator<Item = &'a Tally>) -> Sum {
    let mut sum = Sum::default();
    for tally in tallies {
        sum.add(tally);
    }
    sum
}

proptest! {
    // Histograms take their time without optimization.
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn a_sum_depends_neither_on_the_order_nor_on_repetitions(
        tallies in some_tallies(),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        let expected = sum(&tallies);
        let picked = order.iter().map(|index| index.get(&tallies));
        prop_assert_eq!(sum(picked.chain(&tallies)), expected);
    }

    #[test]
    fn a_tally_is_read_as_it_was_stored(tallies in some_tallies()) {
        for tally in &tallies {
            let bytes = tally.to_bytes().unwrap();
            let read = Tally::from_bytes(&bytes).unwrap();
            prop_assert_eq!(sum([&read]), sum([tally]));
            prop_assert_eq!(read.step(), tally.step());
        }
    }

    #[test]
    fn an_incomplete_tally_is_refused(tallies in some_tallies(), cut in any::<prop::sample::Index>()) {
        let bytes = tallies[0].to_bytes().unwrap();
        let cut = cut.index(bytes.len());
        prop_assert!(Tally::from_bytes(&bytes[..cut]).is_err());
    }

    #[test]
    fn a_message_that_came_twice_is_doubled_wherever_it_came(
        places in prop::collection::vec((0_u64..50, 0_usize..3), 0..120),
    ) {
        let lanes = ["c0a", "c1a", "c2a"];
        let mut tallies = lanes.map(|lane| tally(step(lane, 0, 0)));
        for (sequence, consumer) in &places {
            tallies[*consumer].received(*sequence, Micros::ZERO, Micros::ZERO);
        }
        let sum = sum(&tallies);
        let times = |sequence| places.iter().filter(|(own, _)| *own == sequence).count();
        let expected = |least| u64::try_from((0..50).filter(|own| times(*own) >= least).count()).unwrap();
        prop_assert_eq!(sum.figures.received.len(), expected(1));
        prop_assert_eq!(sum.figures.doubled.len(), expected(2));
    }
}

#[test]
fn percentiles_are_those_of_all_messages_and_no_averages() {
    let mut tallies = Vec::new();
    for worker in 0..100 {
        let mut tally = tally(step(&format!("p{worker}a"), 0, 0));
        // One worker stalls. The average of the workers' 99th percentiles would be 101 ms.
        let latency = if worker == 0 { 10_000_000 } else { 1_000 };
        for sequence in 0..10 {
            tally.confirmed(sequence * 100 + worker, Micros::ZERO, Micros::new(latency));
        }
        tallies.push(tally);
    }
    let sum = sum(&tallies);
    let at = |percentile| sum.figures.put.percentile(percentile);
    assert_eq!((sum.figures.put.count(), at(Percentile::P99)), (1_000, Some(1_000)));
    let stalled = at(Percentile::P99_9).unwrap();
    assert!(stalled.abs_diff(10_000_000) <= 10_000, "{stalled}");
}

#[test]
fn latencies_that_no_histogram_holds_are_counted() {
    let mut tally = tally(step("c0a", 0, 0));
    let due = Micros::from_seconds(10);
    tally.received(0, due, Micros::from_seconds(9));
    tally.received(1, due, due);
    tally.received(2, due, Micros::from_seconds(200));
    let latencies = &tally.figures.end_to_end;
    assert_eq!((latencies.count(), latencies.earlier, latencies.beyond), (3, 1, 1));
    assert_eq!(latencies.percentile(Percentile::P50), Some(1));
    assert_eq!(latencies.percentile(Percentile::Max), Some(120_000_000));
    assert_eq!(Latencies::default().percentile(Percentile::P50), None);
}

#[test]
fn the_warm_up_is_accounted_for_and_not_measured() {
    let mut tally = Tally::new(step("p0a", 0, 0), Micros::ZERO, 1, Micros::from_seconds(5));
    for second in 0..10 {
        let due = Micros::from_seconds(second);
        let at = due.plus(Micros::new(50_000));
        tally.sent(second, due, at, LateReason::Producer);
        tally.confirmed(second, due, at);
        tally.received(second, due, at);
    }
    let Figures { sent, late, put, end_to_end, lateness, .. } = &tally.figures;
    assert_eq!((sent.len(), *late), (10, 5));
    assert_eq!([put, end_to_end, lateness].map(Latencies::count), [5; 3]);
}

#[test]
fn order_is_that_of_one_producer_at_one_consumer() {
    let mut tally = tally(step("c0a", 0, 0));
    // Producers 0, 1 and 2 have the numbers 0, 3, 6 …, 1, 4, 7 … and 2, 5, 8 …
    for sequence in [1, 0, 3, 7, 4, 6, 2, 4] {
        tally.received(sequence, Micros::ZERO, Micros::ZERO);
    }
    assert_eq!(tally.figures.out_of_order, BTreeMap::from([(1, 1)]));
    assert_eq!(tally.figures.doubled.len(), 1);
    tally.foreign(Micros::ZERO);
    assert_eq!(tally.handled_count(), 8);
}

#[test]
fn the_times_of_all_steps_are_those_of_the_first_and_the_last_event() {
    let mut tallies = ["c0a", "c1a"].map(|lane| tally(step(lane, 0, 0)));
    assert_eq!(sum(&tallies).figures.received_at.bounds(), None);
    for (sequence, at) in [(0, 7), (1, 5)] {
        tallies[0].received(sequence, Micros::ZERO, Micros::new(at));
    }
    // A message that comes again is neither in the points nor in the times.
    tallies[0].received(0, Micros::ZERO, Micros::new(90));
    tallies[1].received(2, Micros::ZERO, Micros::new(6));
    let figures = sum(&tallies).figures;
    assert_eq!(figures.received_at.bounds(), Some((Micros::new(5), Micros::new(7))));
    assert_eq!(figures.received_at.end(), Micros::new(8));
    assert_eq!(figures.points.sum(Micros::ZERO, Micros::from_seconds(1)).received, 3);
}

#[test]
fn a_message_that_comes_again_is_measured_once_by_a_step_and_again_by_another() {
    let mut tallies = ["c0a", "c0b"].map(|lane| tally(step(lane, 0, 0)));
    for (step, milliseconds) in [(0, 1), (0, 900), (1, 50)] {
        tallies[step].received(7, Micros::ZERO, Micros::new(milliseconds * 1_000));
    }
    let first = &tallies[0].figures.end_to_end;
    assert_eq!((first.count(), first.percentile(Percentile::Max)), (1, Some(1_000)));
    let figures = sum(&tallies).figures;
    // Histograms of two steps cannot tell that they have the same message.
    let point = figures.points.sum(Micros::ZERO, Micros::from_seconds(1));
    assert_eq!((figures.end_to_end.count(), point.received), (2, 2));
    assert_eq!((figures.received.len(), figures.doubled.len()), (1, 1));
}

#[test]
fn of_what_is_on_the_queues_the_most_counts_and_not_the_sum() {
    let mut tallies = ["c0a", "c1a"].map(|lane| tally(step(lane, 0, 0)));
    for (tally, messages) in tallies.iter_mut().zip([70, 90]) {
        tally.retained(Micros::from_seconds(1), messages);
    }
    let sum = sum(&tallies);
    let point = sum.figures.points.sum(Micros::ZERO, Micros::from_seconds(2));
    assert_eq!(point.retained, Some(90));
}

#[test]
fn messages_of_others_are_received_only_if_the_test_has_none_of_its_own() {
    for (producers, received) in [(0, 2), (1, 0), (PRODUCERS, 0)] {
        let mut tally = Tally::new(step("c0a", 0, 0), Micros::ZERO, producers, Micros::ZERO);
        for _ in 0..2 {
            tally.foreign(Micros::from_seconds(1));
        }
        let sum = sum([&tally]);
        let point = sum.figures.points.sum(Micros::ZERO, Micros::from_seconds(2));
        assert_eq!((point.received, sum.figures.foreign_taken), (received, 2), "{producers}");
    }
}

#[test]
fn a_tally_of_another_version_is_not_read() {
    for bytes in [&[][..], &[0], &[1, 1, 1], &[3, 1, 1]] {
        assert!(matches!(Tally::from_bytes(bytes), Err(TallyError::Version(_))), "{bytes:?}");
    }
}

#[test]
fn a_minute_of_messages_takes_little_room() {
    for producers in [1, 50] {
        let step = step("p7a", 0, 0);
        let mut tally = Tally::new(step, Micros::ZERO, producers, Micros::ZERO);
        for index in 0..30_000 {
            let due = Micros::new(index * 2_000);
            let sequence = index * u64::from(producers) + 7 % u64::from(producers);
            tally.sent(sequence, due, due, LateReason::Producer);
            tally.confirmed(sequence, due, due.plus(Micros::new(500 + index % 1_000)));
        }
        let bytes = tally.to_bytes().unwrap().len();
        assert!(bytes < 4_000, "{bytes} with {producers} producers");
    }
}

proptest! {
    #[test]
    fn a_set_is_that_of_its_numbers_whatever_the_producers(
        producers in 1_u32..9,
        first in prop::collection::btree_set(0_u64..300, 0..100),
        second in prop::collection::btree_set(0_u64..300, 0..100),
        limit in 0_u64..400,
    ) {
        let set = |numbers: &BTreeSet<u64>| {
            let mut set = Sequences::new(producers);
            numbers.iter().for_each(|number| assert!(set.insert(*number)));
            set
        };
        let (one, other) = (set(&first), set(&second));
        prop_assert_eq!(one.common(&other), set(&(&first & &second)));
        prop_assert_eq!(one.without(&other), set(&(&first - &second)));
        prop_assert_eq!(Sequences::all_of([&one, &other]), set(&(&first | &second)));
        prop_assert_eq!(one.len(), u64::try_from(first.len()).unwrap());
        prop_assert_eq!(one.count_below(limit), u64::try_from(first.range(..limit).count()).unwrap());
        for share in (0..u64::from(producers)).map(|own| MinuteMessages { first: own, step: producers.into(), count: 20 }) {
            let known = share.sequences().filter(|number| first.contains(number)).count();
            prop_assert_eq!(one.count_of(share), u64::try_from(known).unwrap());
        }
    }
}

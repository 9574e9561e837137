use mq::RateLimit;
use proptest::prelude::*;

use super::*;
use crate::definition::Stage;
use crate::micros::Micros;
use crate::plan::Window;

fn rate(rate: i64) -> RateLimit {
    RateLimit::try_from(rate).unwrap()
}

fn stages(stages: &[(i64, i64)]) -> Vec<Stage> {
    let stage = |(rate, seconds): &(i64, i64)| Stage {
        rate_per_sec: (*rate).try_into().unwrap(),
        seconds: (*seconds).try_into().unwrap(),
    };
    stages.iter().map(stage).collect()
}

/// Generates the rates and durations in seconds of up to three stages; a rate of 0 is a pause.
fn some_stages() -> impl Strategy<Value = Vec<(i64, i64)>> {
    let stage = (prop_oneof![Just(0), 1_i64..200], 1_i64..100);
    prop::collection::vec(stage, 1..4)
}

proptest! {
    #[test]
    fn every_message_is_in_one_window_of_one_producer(spans in some_stages(), producers in 1_u32..9) {
        let schedule = Paced::of_stages(&stages(&spans), producers);
        let windows = u32::try_from(schedule.end().get().div_ceil(Window::LENGTH.get())).unwrap();
        let mut sent = Vec::new();
        for window in (0..windows).map(Window::new) {
            for producer in 0..producers {
                let share = schedule.share(producer, window.opens(), window.closes());
                for sequence in share.sequences() {
                    let due = schedule.due(sequence).unwrap();
                    prop_assert!((window.opens()..window.closes()).contains(&due), "{sequence} at {due:?}");
                    prop_assert_eq!(sequence % u64::from(producers), u64::from(producer));
                    sent.push(sequence);
                }
            }
        }
        sent.sort_unstable();
        prop_assert_eq!(sent, (0..schedule.total()).collect::<Vec<_>>());
    }

    #[test]
    fn a_window_cut_anywhere_has_the_same_messages(
        spans in some_stages(),
        producers in 1_u32..9,
        cut in 0_u64..60_000_000,
    ) {
        let schedule = Paced::of_stages(&stages(&spans), producers);
        let window = Window::new(0);
        for producer in 0..producers {
            let of = |from, to| schedule.share(producer, from, to).sequences().collect::<Vec<_>>();
            let cut = Micros::new(cut);
            let parts = [of(window.opens(), cut), of(cut, window.closes())].concat();
            prop_assert_eq!(parts, of(window.opens(), window.closes()));
        }
    }

    #[test]
    fn the_count_before_a_time_is_that_of_the_messages_due_before_it(
        spans in some_stages(),
        at in 0_u64..300_000_000,
    ) {
        let schedule = Paced::of_stages(&stages(&spans), 1);
        let before = schedule.due_before(Micros::new(at));
        let is_due_before = |sequence| schedule.due(sequence).is_some_and(|due| due.get() < at);
        prop_assert!(before == 0 || is_due_before(before - 1));
        prop_assert!(!is_due_before(before));
    }

    #[test]
    fn the_rate_over_the_whole_test_is_the_one_that_was_asked_for(
        per_second in 1_i64..=1_000_000,
        seconds in 1_i64..=604_800,
    ) {
        let schedule = Paced::of_seconds(rate(per_second), seconds.try_into().unwrap(), 1);
        prop_assert_eq!(schedule.total(), u64::try_from(per_second * seconds).unwrap());
        prop_assert_eq!(schedule.due_before(schedule.end()), schedule.total());
        prop_assert!(schedule.due(schedule.total() - 1).unwrap() < schedule.end());
        prop_assert_eq!(schedule.due(schedule.total()), None);
    }

    #[test]
    fn nothing_drifts_over_days(per_second in 1_i64..=1_000_000, day in 1_u64..7) {
        let schedule = Paced::of_seconds(rate(per_second), 604_800.try_into().unwrap(), 1);
        let seconds = day * 86_400;
        let sequence = seconds * u64::try_from(per_second).unwrap();
        prop_assert_eq!(schedule.due(sequence), Some(Micros::from_seconds(seconds)));
    }

    #[test]
    fn a_number_of_messages_is_due_whatever_the_rate(
        per_second in 1_i64..=1_000_000,
        count in 1_i64..1_000_000,
    ) {
        let schedule = Paced::of_messages(rate(per_second), count.try_into().unwrap(), 1);
        let total = u64::try_from(count).unwrap();
        prop_assert_eq!((schedule.total(), schedule.due_before(schedule.end())), (total, total));
    }

    #[test]
    fn without_a_rate_no_two_windows_share_a_number(
        first in (0_u32..10, 0_u32..10_080),
        second in (0_u32..10, 0_u32..10_080),
        already in 0_u64..1_000_000,
    ) {
        let schedule = Unthrottled::new(10, u64::MAX);
        let [first_share, second_share] =
            [first, second].map(|(producer, window)| schedule.share(producer, Window::new(window), already));
        let last = |share: MinuteMessages| share.first + (share.count - 1) * share.step;
        prop_assert_eq!(first_share.first % 10, u64::from(first.0));
        if first != second && first.0 == second.0 {
            let apart = last(first_share) < second_share.first || last(second_share) < first_share.first;
            prop_assert!(apart, "{first_share:?} {second_share:?}");
        }
    }

    #[test]
    fn quotas_add_up(producers in 1_u32..50, most in 0_u64..100_000) {
        let schedule = Unthrottled::new(producers, most);
        prop_assert_eq!((0..producers).map(|producer| schedule.quota(producer)).sum::<u64>(), most);
        for producer in 0..producers {
            let quota = schedule.quota(producer);
            prop_assert_eq!(schedule.share(producer, Window::new(3), quota).count, 0);
            prop_assert_eq!(schedule.share(producer, Window::new(3), 0).count, quota);
        }
    }
}

#[test]
fn messages_are_due_one_interval_after_another() {
    let schedule = Paced::of_seconds(rate(3), 60.try_into().unwrap(), 1);
    let due: Vec<_> = (0..4).map(|sequence| schedule.due(sequence).unwrap().get()).collect();
    assert_eq!(due, [0, 333_334, 666_667, 1_000_000]);
}

#[test]
fn no_message_is_due_in_a_pause() {
    let schedule = Paced::of_stages(&stages(&[(0, 5), (2, 1), (0, 10), (2, 1)]), 1);
    let due: Vec<_> = (0..4).map(|sequence| schedule.due(sequence).unwrap().seconds()).collect();
    assert_eq!(due, [5.0, 5.5, 16.0, 16.5]);
    assert_eq!(schedule.due(4), None);
}

//! Property tests of the connection model's invariants that need no broker.

use std::time::Duration;

use broker::Deadline;
use proptest::prelude::*;
use rabbitmq::long_running::ConnectionState::{Connected, Connecting, Disconnected, Failed, Reconnecting};
use rabbitmq::long_running::{ConnectionState, Jitter, RetryPolicy};

fn states() -> impl Strategy<Value = ConnectionState> {
    prop::sample::select(vec![Disconnected, Connecting, Connected, Reconnecting, Failed])
}

fn policies() -> impl Strategy<Value = RetryPolicy> {
    (0.001..=60.0, 1.001..=10.0, 0.001..=3_600.0, any::<bool>()).prop_map(
        |(initial, factor, max, has_jitter)| {
            let policy = RetryPolicy::new(initial, factor, max).unwrap();
            if has_jitter { policy.with_jitter(Jitter::Half) } else { policy }
        },
    )
}

proptest! {
    #[test]
    fn no_sequence_of_events_leaves_the_state_machine(wanted in prop::collection::vec(states(), 0..50)) {
        let mut state = Disconnected;
        for next in wanted {
            match state.transition_to(next) {
                Ok(reached) => {
                    prop_assert_eq!(reached, next);
                    prop_assert!(state.successors().contains(&next));
                    state = reached;
                }
                Err(illegal) => {
                    prop_assert_eq!((illegal.from, illegal.to), (state, next));
                    prop_assert!(!state.successors().contains(&next));
                }
            }
        }
        // Wherever it went: one may always give up.
        prop_assert!(state == Disconnected || state.transition_to(Disconnected).is_ok());
    }

    #[test]
    fn a_connection_is_open_only_after_an_attempt(from in states()) {
        prop_assert_eq!(from.transition_to(Connected).is_ok(), matches!(from, Connecting | Reconnecting));
        prop_assert!(from.transition_to(from).is_err());
    }

    #[test]
    fn the_current_delay_never_exceeds_the_maximum(mut policy in policies(), calls in 0..200_u64) {
        let mut last = Duration::ZERO;
        let has_jitter = policy != policy.clone().with_jitter(Jitter::None);
        for _ in 0..calls {
            let expected = policy.get_stats().current_delay;
            prop_assert!(expected <= policy.get_stats().max_delay);
            let delay = policy.next_delay();
            prop_assert!(delay.as_secs_f64() <= expected + 1e-9);
            prop_assert!(delay.as_secs_f64() >= expected / 2.0 - 1e-9);
            prop_assert!(has_jitter || delay >= last, "without jitter, delays never shrink");
            last = delay;
        }
        prop_assert_eq!(policy.get_stats().attempts, calls);
        prop_assert!(policy.get_stats().current_delay <= policy.get_stats().max_delay);
    }

    #[test]
    fn a_reset_restores_the_initial_state(policy in policies(), calls in 0..50) {
        let mut used = policy.clone();
        for _ in 0..calls {
            used.next_delay();
        }
        used.reset();
        prop_assert_eq!(used, policy);
    }

    #[test]
    fn no_delay_ends_after_the_deadline(mut policy in policies(), remaining in 0..200_u64) {
        let deadline = Deadline::after(Duration::from_secs(remaining));
        while let Some(delay) = policy.next_delay_before(deadline) {
            prop_assert!(delay < Duration::from_secs(remaining));
            if policy.get_stats().attempts > 20 {
                break;
            }
        }
    }

    #[test]
    fn parameters_out_of_their_ranges_are_refused(value in prop::num::f64::ANY) {
        prop_assert_eq!(RetryPolicy::new(value, 2.0, 60.0).is_ok(), value > 0.0 && value <= 60.0);
        prop_assert_eq!(RetryPolicy::new(1.0, value, 60.0).is_ok(), value > 1.0 && value <= 10.0);
        prop_assert_eq!(RetryPolicy::new(1.0, 2.0, value).is_ok(), value > 0.0 && value <= 3_600.0);
    }
}

#[test]
fn a_failed_connection_is_left_by_another_try_or_by_giving_up() {
    assert_eq!(Failed.successors(), [Reconnecting, Disconnected]);
}

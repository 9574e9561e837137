//! Number of messages that a worker handled (sent or took) before a step, which is an attempt at a
//! minute of the test. Only the items of the last few steps are read for it.

use std::collections::BTreeMap;

use crate::store::Item;
use crate::store::steps::{Handled, key};

/// Numbers of messages that a worker handled (sent or took) before one of its steps (attempts at a
/// minute of the test). They are read from the newest earlier step back.
///
/// The claim of a step stores the number of messages handled in all earlier windows (minutes of the
/// test) except the previous window, in which the worker's other lane may still be at work. So
/// reading back three windows is enough.
#[derive(Debug, Default)]
pub(super) struct Earlier {
    /// Number of messages that the worker handled (sent or took) in each window, by the number of
    /// the window (minute of the test).
    handled: BTreeMap<u32, u64>,
    /// Newest window `n` (minute of the test) with a claimed step, and the number of messages
    /// handled before the window `n - 1`, which that step's item states. `None` until such an item
    /// is read.
    settled: Option<(u32, u64)>,
}

impl Earlier {
    /// Reads the item of the next older step. Returns false if neither this item nor any older one
    /// is needed.
    pub(super) fn read(&mut self, item: &Item) -> bool {
        let number = |name: &str| item.get(name)?.as_n().ok()?.parse::<u64>().ok();
        let sort = item.get("sk").and_then(|sort| sort.as_s().ok());
        // Parts of tallies, and steps that were superseded before their claim, handled nothing.
        let Some((window, handled)) = sort.and_then(|sort| key::window(sort)).zip(number("handled")) else {
            return true;
        };
        if self.settled.is_some_and(|(newest, _)| window.saturating_add(1) < newest) {
            return false;
        }
        let total = self.handled.entry(window).or_default();
        *total = total.saturating_add(handled);
        if self.settled.is_none() {
            self.settled = number("settled").map(|settled| (window, settled));
        }
        true
    }

    /// Returns the number of messages that the worker handled (sent or took) before the window
    /// (minute of the test) that precedes `window`.
    pub(super) fn settled(&self, window: u32) -> u64 {
        let (newest, settled) = self.settled.unwrap_or_default();
        let since = newest.saturating_sub(1)..window.saturating_sub(1);
        if since.is_empty() { settled } else { self.count(since).saturating_add(settled) }
    }

    /// Returns the number of messages that the worker handled (sent or took) before a step, which
    /// is an attempt at the minute `window` of the test.
    pub(super) fn handled(&self, window: u32) -> Handled {
        let in_window = self.handled.get(&window).copied().unwrap_or_default();
        let before = window.checked_sub(1).and_then(|before| self.handled.get(&before)).copied();
        let before = before.unwrap_or_default().saturating_add(in_window);
        Handled { before: before.saturating_add(self.settled(window)), in_window }
    }

    fn count(&self, windows: std::ops::Range<u32>) -> u64 {
        self.handled.range(windows).map(|(_, handled)| *handled).fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::store::item::number;
    use crate::store::steps::key::StepKey;
    use crate::{Step, Window};

    fn item(window: u32, attempt: u32, attributes: &[(&str, u64)]) -> Item {
        let step = Step { lane: "p0a".parse().unwrap(), window: Window::new(window), attempt };
        let mut item = StepKey::of(Uuid::nil(), 0, step).item();
        item.extend(attributes.iter().map(|(name, value)| ((*name).to_owned(), number(value))));
        item
    }

    /// Reads items, the newest first, until an older one is not needed. Also returns the number of
    /// items that were needed.
    fn earlier(items: &[Item]) -> (Earlier, usize) {
        let mut earlier = Earlier::default();
        let read = items.iter().take_while(|item| earlier.read(item)).count();
        (earlier, read)
    }

    #[test]
    fn a_first_step_has_nothing_before_it() {
        let (earlier, _) = earlier(&[]);
        assert_eq!((earlier.settled(0), earlier.handled(0)), (0, Handled::default()));
        assert_eq!((earlier.settled(9), earlier.handled(9)), (0, Handled::default()));
    }

    #[test]
    fn a_chain_of_windows_counts_each_message_once() {
        let sent = [5, 7, 11, 13, 17, 19];
        let mut items: Vec<Item> = Vec::new();
        for (window, own) in (0..).zip(sent) {
            let (earlier, read) = earlier(&items);
            let before: u64 =
                items.iter().map(|item| item["handled"].as_n().unwrap().parse::<u64>().unwrap()).sum();
            assert_eq!(earlier.handled(window), Handled { before, in_window: 0 }, "{window}");
            assert!(read <= 2, "{read} of window {window}");
            items.insert(0, item(window, 0, &[("handled", own), ("settled", earlier.settled(window))]));
        }
    }

    #[test]
    fn the_window_before_may_still_be_sending_when_the_next_one_is_claimed() {
        let claimed =
            [item(2, 0, &[("handled", 4), ("settled", 10)]), item(1, 0, &[("handled", 3), ("settled", 0)])];
        let settled = earlier(&claimed).0.settled(3);
        assert_eq!(settled, 13);
        // Window 2 sends 5 more after the claim of window 3.
        let later = [
            item(3, 0, &[("handled", 6), ("settled", settled)]),
            item(2, 0, &[("handled", 9), ("settled", 10)]),
            item(1, 0, &[("handled", 3), ("settled", 0)]),
        ];
        assert_eq!(earlier(&later).0.handled(4), Handled { before: 28, in_window: 0 });
    }

    #[test]
    fn attempts_of_the_same_window_count_apart() {
        let items = [
            item(5, 1, &[("supersededBy", 2)]),
            item(5, 0, &[("handled", 3), ("settled", 100), ("supersededBy", 1)]),
            item(4, 0, &[("handled", 20), ("settled", 60)]),
            item(3, 0, &[("handled", 40), ("settled", 60)]),
        ];
        let (earlier, read) = earlier(&items);
        assert_eq!(earlier.handled(5), Handled { before: 123, in_window: 3 });
        assert_eq!((earlier.settled(5), read), (100, 3));
    }

    #[test]
    fn windows_that_nobody_claimed_are_passed_over() {
        let items = [item(7, 0, &[("supersededBy", 1)]), item(3, 0, &[("handled", 6), ("settled", 4)])];
        let (earlier, _) = earlier(&items);
        assert_eq!((earlier.settled(8), earlier.handled(8).before), (10, 10));
    }

    #[test]
    fn parts_of_a_tally_send_nothing() {
        let step = Step { lane: "p0a".parse().unwrap(), window: Window::new(1), attempt: 0 };
        let part = StepKey::of(Uuid::nil(), 0, step).part(0).item();
        let (earlier, _) = earlier(&[part, item(1, 0, &[("handled", 2), ("settled", 0)])]);
        assert_eq!(earlier.handled(2).before, 2);
    }
}

//! Places (for example queues) at which resumable work has its effect, and the units of work (for
//! example messages) that attempts leave there.

use serde::{Deserialize, Serialize};

use super::progress::Progress;

/// Maximum number of [`ProgressLeftBehind`] entries in a record. Beyond it, the last entry sums up
/// the units of all further places.
const MAX_LEFT: usize = 8;

/// Place where units of work (for example messages) are done, such as a queue of a queue manager.
/// An attempt continues the progress of an earlier attempt only at the same place.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// Id of the place. Different places have different ids.
    pub id: String,
    /// Display name of the place. Two places may have the same name.
    pub name: String,
}

/// Units of work (for example messages) that earlier attempts did, or may have done, at another
/// place (for example a queue) than the present one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProgressLeftBehind {
    /// Display name of the place; `None` if it was not recorded, or if the entry sums up several
    /// places.
    pub name: Option<String>,
    /// Number of units (for example messages) that are known to be done at the place.
    pub done: u64,
    /// Maximum number of further units that may have been done at the place. If it is unknown, the
    /// value is `u64::MAX / 2` or more, and [`Tally::of`](super::Tally::of) decodes it.
    pub in_doubt: u64,
}

/// Present place (for example a queue) of a record's progress, and the units of work (for example
/// messages) that earlier attempts did, or may have done, at other places.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlaceHistory {
    /// Place of the units of work that the record's progress counts as done or possibly done.
    /// `None` until an attempt records its place.
    pub place: Option<Place>,
    /// Units that earlier attempts did, or may have done, at other places: one entry for each place
    /// name, oldest first, at most 8.
    pub left_behind: Vec<ProgressLeftBehind>,
}

/// Progress and places (for example queues) with which an attempt begins, as decided by
/// [`PlaceHistory::arrive`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Progress of the earlier attempt if it worked at the same place. Otherwise no unit (for
    /// example message) counts as done, and the units of the earlier attempt count as possibly
    /// repeated.
    pub progress: Progress,
    /// Present place (for example a queue) and earlier places, to be stored in the record.
    pub place_history: PlaceHistory,
    /// True if the earlier attempt worked at another place. The record must then be updated before
    /// any unit is done at the new place. Without this update, the next attempt after a crash would
    /// assume that the new units are at the old place.
    pub has_moved: bool,
}

impl PlaceHistory {
    /// Decides with which progress an attempt begins at `place` (for example a queue). If the last
    /// attempt worked at this place, its progress is resumed. If it worked at another place, all
    /// units (for example messages) are done again, and the units that were done or in doubt there
    /// count as possibly repeated.
    ///
    /// If the last attempt recorded no place, its progress is not resumed either. Its units in
    /// doubt may be at any place. So they count as possibly repeated, and not as in doubt at
    /// `place`.
    #[must_use]
    pub fn arrive(&self, progress: Progress, place: Place) -> Arrival {
        let is_here = self.place.as_ref().is_some_and(|known| known.id == place.id);
        let goes_on = is_here || progress == Progress::default();
        let begins_anyway = self.place.is_none() && progress.done == 0;
        let has_moved = !goes_on && !begins_anyway;
        Arrival {
            progress: if goes_on { progress } else { progress.begun_again() },
            place_history: Self {
                place: Some(place),
                left_behind: if has_moved { self.left_by(progress) } else { self.left_behind.clone() },
            },
            has_moved,
        }
    }

    /// Returns the places to record after an attempt that failed with `progress`. Drops the present
    /// place if no unit (for example message) is done or in doubt there. The next attempt may work
    /// elsewhere, and its units in doubt must not be attributed to this place.
    #[must_use]
    pub fn after(&self, progress: Progress) -> Self {
        let Progress { done, in_doubt, .. } = progress;
        let place = self.place.clone().filter(|_| done > 0 || in_doubt > 0);
        Self { place, left_behind: self.left_behind.clone() }
    }

    /// Returns the units (for example messages) that attempts did, or may have done, at all places
    /// until now. Those at the present place are in `progress`. An attempt that fails before it
    /// knows its own place reports all of them.
    #[must_use]
    pub fn left_by(&self, progress: Progress) -> Vec<ProgressLeftBehind> {
        let mut left_behind = self.left_behind.clone();
        let Progress { done, in_doubt, .. } = progress;
        if done > 0 || in_doubt > 0 {
            let name = self.place.as_ref().map(|place| place.name.clone());
            leave(&mut left_behind, ProgressLeftBehind { name, done, in_doubt });
        }
        left_behind
    }
}

fn leave(left_behind: &mut Vec<ProgressLeftBehind>, left: ProgressLeftBehind) {
    let is_full = left_behind.len() >= MAX_LEFT;
    let known = left_behind.iter().position(|known| known.name == left.name);
    let index = known.or_else(|| is_full.then(|| left_behind.len().saturating_sub(1)));
    match index.and_then(|index| left_behind.get_mut(index)) {
        Some(entry) => {
            if entry.name != left.name {
                entry.name = None;
            }
            entry.done = entry.done.saturating_add(left.done);
            entry.in_doubt = entry.in_doubt.saturating_add(left.in_doubt);
        }
        None => left_behind.push(left),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(id: &str) -> Place {
        Place { id: id.to_owned(), name: format!("/:{id}") }
    }

    fn at(id: &str) -> PlaceHistory {
        PlaceHistory { place: Some(place(id)), left_behind: Vec::new() }
    }

    fn left(id: &str, done: u64, in_doubt: u64) -> ProgressLeftBehind {
        ProgressLeftBehind { name: Some(format!("/:{id}")), done, in_doubt }
    }

    #[test]
    fn at_the_same_place_work_goes_on() {
        let progress = Progress { done: 144, in_doubt: 3, repeated: 2 };
        let here = at("a").arrive(progress, place("a"));
        assert_eq!((here.progress, here.place_history, here.has_moved), (progress, at("a"), false));
    }

    #[test]
    fn a_first_attempt_begins_anywhere() {
        for place_history in [PlaceHistory::default(), at("a")] {
            let first = place_history.arrive(Progress::default(), place("b"));
            assert_eq!((first.place_history, first.has_moved), (at("b"), false));
        }
    }

    #[test]
    fn at_another_place_work_begins_again_and_moves_add_up() {
        let second = at("a").arrive(Progress { done: 100, in_doubt: 0, repeated: 0 }, place("b"));
        assert_eq!(second.progress, Progress { done: 0, in_doubt: 0, repeated: 100 });
        let third = second.place_history.arrive(second.progress.advanced(50, 3), place("a"));
        assert_eq!(third.progress, Progress { done: 0, in_doubt: 0, repeated: 153 });
        assert_eq!(third.place_history.left_behind, [left("a", 100, 0), left("b", 50, 3)]);
        let fourth = third.place_history.arrive(third.progress.advanced(7, 0), place("b"));
        assert_eq!(fourth.place_history.left_behind, [left("a", 107, 0), left("b", 50, 3)]);
        assert!(second.has_moved && third.has_moved && fourth.has_moved);
    }

    #[test]
    fn progress_at_a_place_that_nobody_noted_is_not_continued() {
        let unknown = PlaceHistory::default();
        let moved = unknown.arrive(Progress { done: 5, in_doubt: u64::MAX, repeated: 0 }, place("a"));
        assert_eq!(moved.progress, Progress { done: 0, in_doubt: 0, repeated: u64::MAX / 2 + 5 });
        let lost = ProgressLeftBehind { name: None, done: 5, in_doubt: u64::MAX };
        assert_eq!(moved.place_history.left_behind, [lost]);
        let doubt = Progress { done: 0, in_doubt: u64::MAX, repeated: 0 };
        let again = unknown.arrive(doubt, place("a"));
        let begun = Progress { done: 0, in_doubt: 0, repeated: u64::MAX / 2 };
        assert_eq!((again.progress, again.place_history, again.has_moved), (begun, at("a"), false));
    }

    /// Returns the units that a third attempt reports if it reaches no place. The first attempt
    /// failed with `progress` at the place of `failed`, and the second one crashed before it
    /// recorded a place.
    fn told_after(failed: &Arrival, progress: Progress) -> Vec<ProgressLeftBehind> {
        let noted = failed.place_history.after(progress);
        noted.left_by(Progress { in_doubt: u64::MAX, ..progress })
    }

    #[test]
    fn a_crash_before_the_first_checkpoint_is_not_told_of_the_place_of_a_later_attempt() {
        let crashed = Progress { done: 0, in_doubt: u64::MAX, repeated: 0 };
        let moved = PlaceHistory::default().arrive(crashed, place("b"));
        let unknown = ProgressLeftBehind { name: None, done: 0, in_doubt: u64::MAX };
        assert_eq!(told_after(&moved, moved.progress), [unknown], "nothing was put at b");
        let further = moved.progress.advanced(2, 1);
        assert_eq!(told_after(&moved, further), [left("b", 2, u64::MAX)]);
    }

    #[test]
    fn a_move_after_which_nothing_was_done_leaves_nothing_at_its_place() {
        let moved = at("a").arrive(Progress { done: 5, in_doubt: 1, repeated: 0 }, place("b"));
        let unknown = ProgressLeftBehind { name: None, done: 0, in_doubt: u64::MAX };
        assert_eq!(told_after(&moved, moved.progress), [left("a", 5, 1), unknown]);
        // If it crashed instead, the record names the place, and the units done there are unknown.
        let crashed = moved.place_history.left_by(Progress { in_doubt: u64::MAX, ..moved.progress });
        assert_eq!(crashed, [left("a", 5, 1), left("b", 0, u64::MAX)]);
    }

    #[test]
    fn however_often_work_moves_the_record_stays_small() {
        let mut place_history = at("0");
        for n in 1..40 {
            let progress = Progress { done: 1, in_doubt: 1, repeated: 0 };
            place_history = place_history.arrive(progress, place(&n.to_string())).place_history;
        }
        let left = place_history.left_behind;
        let sums = left.iter().fold((0, 0), |sum, left| (sum.0 + left.done, sum.1 + left.in_doubt));
        assert_eq!((left.len(), sums), (MAX_LEFT, (39, 39)));
        assert_eq!(left.last().unwrap().name, None);
    }
}

//! Cache of values for a limited time, which also runs while Lambda freezes the function.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::Moment;

/// Cache of a limited number (or weight) of values, each of which expires a fixed time after it was
/// put.
///
/// Not `moka`: it measures lifetimes by the monotonic clock, which may stand still in a paused
/// function, so that a revoked key would be accepted for longer. `quick_cache` has no lifetimes.
#[derive(Debug)]
pub struct Remembered<K, V> {
    lifetime: Duration,
    capacity: usize,
    values: Mutex<HashMap<K, Value<V>>>,
}

#[derive(Debug)]
struct Value<V> {
    since: Moment,
    weight: usize,
    value: V,
}

impl<K: Eq + Hash, V: Clone> Remembered<K, V> {
    /// Creates a cache whose values expire after `lifetime`. A full cache, of `capacity` values,
    /// stores no further ones until some have expired, so that guessed keys neither fill the memory
    /// nor replace values.
    #[must_use]
    pub fn new(lifetime: Duration, capacity: usize) -> Self {
        Self { lifetime, capacity, values: Mutex::default() }
    }

    /// Returns the value of a key, if it is cached and has not expired.
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.get_at(key, Moment::now())
    }

    /// Stores a value for the cache's lifetime from now on. A full cache does not store values of
    /// further keys.
    pub fn put(&self, key: K, value: V) {
        self.put_weighing(1, key, value);
    }

    /// Stores a value that counts as `weight` values of the capacity. It is not stored if less
    /// capacity is free.
    pub fn put_weighing(&self, weight: usize, key: K, value: V) {
        self.put_at(weight, key, value, Moment::now());
    }

    /// Removes a value from the cache before it expires.
    pub fn forget<Q: Eq + Hash + ?Sized>(&self, key: &Q)
    where
        K: Borrow<Q>,
    {
        self.values.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    fn get_at<Q: Eq + Hash + ?Sized>(&self, key: &Q, now: Moment) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let known = values.get(key).filter(|known| known.since.age_at(now) < self.lifetime)?;
        Some(known.value.clone())
    }

    fn put_at(&self, weight: usize, key: K, value: V, now: Moment) {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        values.retain(|_, known| known.since.age_at(now) < self.lifetime);
        let replaced = values.get(&key).map_or(0, |known| known.weight);
        let others = values.values().map(|known| known.weight).sum::<usize>() - replaced;
        if others + weight <= self.capacity {
            values.insert(key, Value { since: now, weight, value });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Instant, SystemTime};

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    /// Returns the present time of both clocks.
    fn clocks() -> (Instant, SystemTime) {
        (Instant::now(), SystemTime::now())
    }

    #[test]
    fn a_value_can_be_forgotten_before_its_time() {
        let remembered = Remembered::new(MINUTE, 1);
        remembered.put("key", 1);
        remembered.forget("key");
        assert_eq!(remembered.get("key"), None);
        remembered.put("other", 2);
        assert_eq!(remembered.get("other"), Some(2), "there is room again");
    }

    #[test]
    fn a_value_is_forgotten_when_its_time_is_over() {
        let (monotonic, system) = clocks();
        let at = |passed: Duration| Moment::on(monotonic + passed, system + passed);
        let remembered = Remembered::new(MINUTE, 10);
        remembered.put_at(1, "key", 1, at(Duration::ZERO));
        assert_eq!(remembered.get_at("key", at(MINUTE - Duration::from_millis(1))), Some(1));
        assert_eq!(remembered.get_at("key", at(MINUTE)), None);
        assert_eq!(remembered.get_at("other", at(Duration::ZERO)), None);
    }

    #[test]
    fn a_machine_that_was_frozen_serves_nothing_that_is_too_old() {
        let (monotonic, system) = clocks();
        let remembered = Remembered::new(MINUTE, 10);
        remembered.put_at(1, "revoked", 1, Moment::on(monotonic, system));
        let thawed = Moment::on(monotonic, system + 10 * MINUTE);
        assert_eq!(remembered.get_at("revoked", thawed), None);
    }

    #[test]
    fn guessed_keys_do_not_fill_the_memory() {
        let (monotonic, system) = clocks();
        let at = |passed: Duration| Moment::on(monotonic + passed, system + passed);
        let remembered = Remembered::new(MINUTE, 2);
        for key in 0..5 {
            remembered.put_at(1, key, key, at(Duration::ZERO));
        }
        remembered.put_at(1, 0, 10, at(Duration::ZERO));
        let known: Vec<_> = (0..5).filter_map(|key| remembered.get_at(&key, at(Duration::ZERO))).collect();
        assert_eq!(known, [10, 1]);
        remembered.put_at(1, 7, 7, at(MINUTE));
        assert_eq!(remembered.get_at(&7, at(MINUTE)), Some(7), "the old ones made room");
    }

    #[test]
    fn values_up_to_the_capacity_s_weight_are_remembered() {
        let remembered = Remembered::new(MINUTE, 10);
        for (weight, key) in [(6, "a"), (5, "too heavy"), (4, "b"), (1, "too much"), (7, "a")] {
            remembered.put_weighing(weight, key, weight);
        }
        let known = ["a", "b", "too heavy", "too much"].map(|key| remembered.get(key));
        assert_eq!(known, [Some(6), Some(4), None, None]);
        remembered.put_weighing(5, "a", 5);
        remembered.put_weighing(1, "c", 1);
        assert_eq!(["a", "c"].map(|key| remembered.get(key)), [Some(5), Some(1)], "lighter than before");
    }

    #[test]
    fn what_is_over_is_dropped_when_something_is_put() {
        let (monotonic, system) = clocks();
        let at = |passed: Duration| Moment::on(monotonic + passed, system + passed);
        let remembered = Remembered::new(MINUTE, 10);
        remembered.put_at(1, "old", 1, at(Duration::ZERO));
        remembered.put_at(1, "young", 2, at(MINUTE / 2));
        remembered.put_at(1, "new", 3, at(MINUTE));
        let values = remembered.values.lock().unwrap();
        assert_eq!((values.len(), values.contains_key("old")), (2, false));
    }
}

//! Model of a fair queue of SQS (Amazon SQS Developer Guide, "How Amazon SQS fair queues work"). A
//! message group with many messages in flight waits for the other groups while messages are still
//! sent in it.

use std::collections::{BTreeSet, HashMap};

use fastrand::Rng;

use crate::service_times::Queues;
use crate::timeline::Timeline;

/// Share above which a message group is noisy and waits for the others: of all messages in flight,
/// or of the processing time.
const NOISY_SHARE: f64 = 0.1;
/// Minimum number of messages in flight with which a group can be noisy by its share of them. A
/// group with fewer can be noisy only by its share of the processing time.
const NOISY_IN_FLIGHT: u32 = 30;
/// Group number that stands for messages without a group. They are never noisy, as if each of them
/// had a group of its own.
const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct FairQueue<T> {
    random: Rng,
    queues: Queues,
    sent: f64,
    groups: HashMap<u32, Group<T>>,
    /// Groups with waiting messages, ordered by the position of each group's first message in the
    /// queue. An entry has this position (as the bits of an `f64`) and the group's number.
    first: BTreeSet<(u64, u32)>,
    in_flight: u32,
    busy: Recent,
    pub(crate) waiting: u32,
    pub(crate) most_waiting: u32,
    /// Seconds that each received message had waited, in the order of the receives.
    pub(crate) ages: Vec<f64>,
}

#[derive(Debug)]
struct Group<T> {
    waiting: Timeline<(f64, T)>,
    in_flight: u32,
    busy: Recent,
    /// Time in simulated seconds at which the last message was sent in the group.
    sent_at: f64,
}

/// Processing seconds of a group or of the whole queue, as a sum at the simulated time `at`. The
/// sum decays exponentially, so that older seconds count less.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    seconds: f64,
    at: f64,
}

impl Recent {
    fn at(self, now: f64, horizon: f64) -> f64 {
        self.seconds * ((self.at - now) / horizon).exp()
    }

    fn add(&mut self, now: f64, horizon: f64, seconds: f64) {
        *self = Self { seconds: self.at(now, horizon) + seconds, at: now };
    }
}

impl<T> FairQueue<T> {
    pub(crate) fn new(queues: Queues, seed: u64) -> Self {
        Self {
            random: Rng::with_seed(seed),
            queues,
            sent: 0.0,
            groups: HashMap::new(),
            first: BTreeSet::new(),
            in_flight: 0,
            busy: Recent::default(),
            waiting: 0,
            most_waiting: 0,
            ages: Vec::new(),
        }
    }

    pub(crate) fn send(&mut self, now: f64, group: Option<u32>, message: T) {
        self.sent += 1.0;
        self.waiting += 1;
        self.most_waiting = self.most_waiting.max(self.waiting);
        let (rank, number) =
            (self.sent + self.random.f64() * self.queues.order_window, group.unwrap_or(NONE));
        let new =
            || Group { waiting: Timeline::default(), in_flight: 0, busy: Recent::default(), sent_at: now };
        let group = self.groups.entry(number).or_insert_with(new);
        group.sent_at = now;
        let first = group.waiting.first();
        group.waiting.push(rank, (now, message));
        if first.is_none_or(|first| rank < first) {
            first.map(|first| self.first.remove(&(first.to_bits(), number)));
            self.first.insert((rank.to_bits(), number));
        }
    }

    /// Receives the next message at the simulated time `now` (in seconds); `None` if none waits.
    /// The message is the first one of all groups that are not noisy. If only noisy groups have
    /// messages, it is the first one of the group with the fewest messages in flight.
    pub(crate) fn receive(&mut self, now: f64) -> Option<T> {
        let in_flight = |(_, number): &&(u64, u32)| self.groups.get(number).map(|group| group.in_flight);
        // Few groups are noisy, since each has a tenth of something.
        let quiet = self.first.iter().find(|(_, number)| !self.is_noisy(*number, now));
        let (rank, number) = *quiet.or_else(|| self.first.iter().min_by_key(in_flight))?;
        let group = self.groups.get_mut(&number)?;
        let (_, (sent, message)) = group.waiting.pop()?;
        self.first.remove(&(rank, number));
        self.first.extend(group.waiting.first().map(|next| (next.to_bits(), number)));
        group.in_flight += 1;
        self.in_flight += 1;
        self.waiting -= 1;
        self.ages.push(now - sent);
        Some(message)
    }

    /// Deletes a received message of a group from the queue at the simulated time `now` (in
    /// seconds). `group` is `None` for a message without a group. `seconds` is the time that the
    /// processing of the message took.
    pub(crate) fn done(&mut self, now: f64, group: Option<u32>, seconds: f64) {
        let horizon = self.queues.share_seconds;
        self.in_flight -= 1;
        self.busy.add(now, horizon, seconds);
        if let Some(group) = self.groups.get_mut(&group.unwrap_or(NONE)) {
            group.in_flight -= 1;
            group.busy.add(now, horizon, seconds);
        }
    }

    fn is_noisy(&self, number: u32, now: f64) -> bool {
        let Some(group) = self.groups.get(&number).filter(|_| number != NONE) else { return false };
        if now - group.sent_at > self.queues.quiet_after {
            return false;
        }
        let has_many = f64::from(group.in_flight) > NOISY_SHARE * f64::from(self.in_flight);
        let horizon = self.queues.share_seconds;
        (has_many && group.in_flight >= NOISY_IN_FLIGHT)
            || group.busy.at(now, horizon) > NOISY_SHARE * self.busy.at(now, horizon)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SERVICE_TIMES;
    use crate::service_times::ServiceTimes;

    /// Creates a queue that delivers messages in the order in which they were sent.
    fn queue() -> FairQueue<u32> {
        let times: ServiceTimes = toml::from_str(SERVICE_TIMES).unwrap();
        FairQueue::new(Queues { order_window: 0.0, ..times.queues }, 1)
    }

    #[test]
    fn a_group_with_much_in_flight_waits_until_it_was_sent_nothing_for_five_minutes() {
        let mut queue = queue();
        for message in 0..40 {
            queue.send(0.0, Some(1), message);
        }
        let received: Vec<_> = (0..30).filter_map(|_| queue.receive(0.0)).collect();
        assert!(received.is_sorted() && received.len() == 30);
        queue.send(300.0, Some(2), 100);
        assert_eq!(queue.receive(300.0), Some(100));
        queue.send(301.0, Some(2), 101);
        assert_eq!([301.0, 302.0].map(|now| queue.receive(now)), [Some(30), Some(31)]);
        // It is sent something again.
        queue.send(303.0, Some(1), 40);
        assert_eq!([303.0, 304.0].map(|now| queue.receive(now)), [Some(101), Some(32)]);
    }

    #[test]
    fn a_group_with_most_of_the_processing_time_waits_for_the_others() {
        let mut queue = queue();
        queue.send(0.0, Some(1), 0);
        assert_eq!(queue.receive(0.0), Some(0));
        queue.done(50.0, Some(1), 50.0);
        queue.send(50.0, Some(1), 1);
        for (group, message) in [(Some(2), 2), (None, 3)] {
            queue.send(50.0, group, message);
        }
        let received: Vec<_> = (0..4).filter_map(|_| queue.receive(50.0)).collect();
        assert_eq!(received, [2, 3, 1]);
    }
}

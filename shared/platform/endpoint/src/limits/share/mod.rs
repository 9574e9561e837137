//! Share of a rate limit's bucket: the units (for example requests) that an execution environment
//! has taken from it in advance. A share decides about requests, and about the writes that take
//! further units (draws). It does no I/O, and reads no clock.

use crate::limits::bucket::Bucket;
use crate::limits::gcra::{Form, Pace, SECOND, WINDOW, Write};

/// Age in nanoseconds from which on an environment drops unused units, and does not return them to
/// the bucket. By then, the bucket's estimate of environments does not include this one any more.
const FORFEITED: i64 = 2 * WINDOW;
/// Time in nanoseconds for which an environment does not call the table after a failed call.
const STORE_PAUSE: i64 = SECOND;
/// Maximum random delay in nanoseconds before an environment takes units again after a refusal, so
/// that not all environments write to the bucket at once.
const LONGEST_SPREAD: i64 = SECOND;

/// Number of environments that a new one assumes to use the bucket before the table's first
/// response. Otherwise it would admit the whole limit by itself while its calls fail.
const ASSUMED: f64 = 50.0;

/// Units (for example requests) that this execution environment has taken from a bucket in advance.
/// The environment may admit requests with these units without calling the table.
#[derive(Debug)]
pub(crate) struct Share {
    environment: u8,
    random: fastrand::Rng,
    /// Number of units that were taken from the bucket and not used yet. If it is negative,
    /// requests used more units than were taken, and later requests wait for this debt.
    credit: i64,
    /// State of the bucket after the last call to the table; `None` before the first call, or if
    /// the bucket had no item.
    known: Option<BucketState>,
    drawn_at: i64,
    spent: Spent,
    /// Pause in which this environment does not try to take a number of units that the bucket would
    /// refuse; `None` if there is no pause.
    pause: Option<Pause>,
    away: Option<Away>,
    granted_at: i64,
}

/// State of a bucket as this environment knows it: the time at which the bucket is full again
/// (`tat`, in nanoseconds since 1970), the ten-second window of its last write, and the number of
/// environments that use it.
#[derive(Clone, Copy, Debug)]
struct BucketState {
    tat: i64,
    window: i64,
    environments: f64,
}

/// Units (for example requests) that this environment used: `now` in the ten seconds from `period`
/// (nanoseconds since 1970) on, and `before` in the ten seconds before.
#[derive(Debug, Default)]
struct Spent {
    period: i64,
    now: i64,
    before: i64,
}

/// Pause in which this environment does not try to take `need` units or more before the time
/// `until` (nanoseconds since 1970), because the bucket would refuse them.
#[derive(Clone, Copy, Debug)]
struct Pause {
    need: i64,
    until: i64,
}

/// State of this environment while the table cannot be reached: the time of its next call to the
/// table (`retry_at`), and the time up to which it has granted itself units (`refilled_at`).
#[derive(Clone, Copy, Debug)]
struct Away {
    retry_at: i64,
    refilled_at: i64,
}

/// Decision about a request, by the units that this environment has taken in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The request is admitted and charged.
    Admitted,
    /// The request is refused until this time (nanoseconds since 1970).
    Refused(i64),
    /// This environment has too few units. It must make this draw (a write that takes units from
    /// the bucket), and then decide again.
    Draw(Draw),
}

/// Write to the table that takes units from a bucket, and the change of this environment's units if
/// the write succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Draw {
    pub(crate) write: Write,
    /// Number of units that this environment gains by the write.
    gain: i64,
    /// Number of old units that this environment loses, because the write returns them to the
    /// bucket or lets them expire.
    returned: i64,
}

/// Result of a draw, the write that takes units from a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DrawOutcome {
    /// The write succeeded, and this is the bucket after it.
    Made(Bucket),
    /// The write's condition failed. This is the bucket in the table; `None` if it has no item.
    Refused(Option<Bucket>),
    /// The table cannot be reached.
    Away,
}

impl Share {
    /// Creates a share without units. `environment` is the random byte by which this environment is
    /// counted in the bucket. `seed` is for the random delays.
    pub(crate) fn new(environment: u8, seed: u64) -> Self {
        Self {
            environment,
            random: fastrand::Rng::with_seed(seed),
            credit: 0,
            known: None,
            drawn_at: i64::MIN / 2,
            spent: Spent::default(),
            pause: None,
            away: None,
            granted_at: i64::MIN / 2,
        }
    }

    /// Decides about a request that costs `cost` units at `now` (nanoseconds since 1970). An
    /// admitted request is charged.
    pub(crate) fn take(&mut self, pace: Pace, cost: u64, now: i64) -> Step {
        let cost = signed(cost);
        self.refill(pace, now);
        if self.away.is_none() && now - self.drawn_at >= FORFEITED {
            // An old share is good for one request, so that a rare one waits for no call.
            self.credit = self.credit.min(cost);
        }
        if self.credit >= cost {
            self.spend(cost, now);
            return Step::Admitted;
        }
        if let Some(away) = self.away.filter(|away| now < away.retry_at) {
            return Step::Refused(away.retry_at);
        }
        let need = cost - self.credit;
        let start = self.start(pace, now);
        let charge = pace.cost(need);
        // A cost above the burst waits until the bucket is full, and leaves a debt.
        let allowed_at = if charge > pace.capacity() { start } else { start + charge - pace.capacity() };
        if allowed_at > now {
            if self.credit < 0 {
                if let Some(draw) = self.charge(pace, -self.credit, now) {
                    return Step::Draw(draw);
                }
                // The bucket is blocked for as long as a debt can block it.
                self.credit = 0;
            }
            return Step::Refused(self.pause(pace, need, allowed_at, now));
        }
        if let Some(until) = self.paused_until(need, now) {
            return Step::Refused(until);
        }
        let room = pace.units(now + pace.capacity() - start);
        let gain = need.max(self.target(pace, cost, now).min(room));
        Step::Draw(self.draw(pace, gain, 0, now))
    }

    /// Returns the draw (write that takes units from the bucket) if this environment has few units
    /// left, took its units more than ten seconds ago, or granted them to itself while the table
    /// was unreachable. `None` if no draw is due. `now` is in nanoseconds since 1970.
    pub(crate) fn renewal(&mut self, pace: Pace, now: i64) -> Option<Draw> {
        if let Some(away) = self.away {
            return (now >= away.retry_at).then(|| self.comeback(pace, now));
        }
        let age = now - self.drawn_at;
        let target = self.target(pace, 0, now);
        let is_old = age >= WINDOW && self.credit > 0;
        let is_low = (0..target).contains(&self.credit.saturating_mul(2));
        if !(is_low || is_old) || self.paused_until(target.max(1), now).is_some() {
            return None;
        }
        let returned = if is_old { self.credit } else { 0 };
        let given_back = if age < FORFEITED { returned } else { 0 };
        let room = pace.units(now + pace.capacity() - self.start(pace, now)) + given_back;
        let gain = target.min(room);
        if gain == 0 && returned == 0 {
            return None;
        }
        Some(Draw { returned, ..self.draw(pace, gain, given_back, now) })
    }

    /// Returns the first draw (write that takes units) after the table was unreachable. The units
    /// taken replace those that this environment granted itself. Without this draw, an environment
    /// with few requests would never call the table again.
    fn comeback(&self, pace: Pace, now: i64) -> Draw {
        let room = pace.units(now + pace.capacity() - self.start(pace, now));
        let gain = self.target(pace, 0, now).max(1).min(room);
        Draw { returned: self.credit.max(0), ..self.draw(pace, gain, 0, now) }
    }

    /// Returns the draw (write) that takes `gain` units from the bucket. `given_back` units return
    /// to the bucket by the same write, unless the bucket is full.
    fn draw(&self, pace: Pace, gain: i64, given_back: i64, now: i64) -> Draw {
        let cost = pace.cost(gain);
        let form = if self.is_full(pace, now) {
            Form::Full { tat: now + cost.min(pace.capacity() + pace.longest_debt()) }
        } else {
            let change = cost - pace.cost(given_back);
            let ceiling = if change > 0 { now + pace.capacity() - change } else { pace.latest(now) };
            Form::Running { change, ceiling }
        };
        Draw { write: self.write(pace, form, now), gain, returned: 0 }
    }

    /// Updates the share by the result of a draw, a write that takes units from the bucket. `now`
    /// is in nanoseconds since 1970.
    pub(crate) fn apply_outcome(&mut self, pace: Pace, draw: &Draw, outcome: &DrawOutcome, now: i64) {
        match outcome {
            DrawOutcome::Made(bucket) => {
                self.credit += draw.gain - draw.returned;
                self.drawn_at = now;
                (self.pause, self.away) = (None, None);
                self.known = Some(self.facts(bucket, draw.write.window));
            }
            DrawOutcome::Refused(bucket) => {
                if self.away.take().is_some() {
                    // A local share is no part of the bucket.
                    self.credit = self.credit.min(0);
                }
                self.known = bucket.as_ref().map(|bucket| self.facts(bucket, draw.write.window));
            }
            DrawOutcome::Away => self.go_without(pace, now),
        }
    }

    /// Starts a pause in taking units, because other environments wrote to the bucket first each
    /// time. Returns the time (nanoseconds since 1970) until which the request is refused.
    pub(crate) fn overtaken(&mut self, pace: Pace, cost: u64, now: i64) -> i64 {
        let need = (signed(cost) - self.credit).max(1);
        self.pause(pace, need, now, now)
    }

    /// Returns the number of units left in the share and the bucket, and the time at which the
    /// bucket is full, as of the last call to the table. Times are in nanoseconds since 1970.
    pub(crate) fn left(&self, pace: Pace, now: i64) -> (u64, i64) {
        let start = self.start(pace, now);
        let units = self.credit + pace.units(now + pace.capacity() - start);
        (u64::try_from(units.clamp(0, pace.burst())).unwrap_or_default(), start)
    }

    /// Returns whether the share can be dropped at `now` (nanoseconds since 1970): it has no debt,
    /// and its units are too old to be returned to the bucket.
    pub(crate) const fn is_idle(&self, now: i64) -> bool {
        self.credit >= 0 && now - self.drawn_at > FORFEITED
    }

    /// Charges units to the share at `now` (nanoseconds since 1970). More units than the share has
    /// become a debt. A negative number gives units back.
    pub(crate) fn spend(&mut self, units: i64, now: i64) {
        self.credit -= units;
        self.spent.add(units, now);
    }

    /// Returns the time at which the bucket will be full again (its `tat`), as of the last call to
    /// the table; `now` if it is full. Times are in nanoseconds since 1970.
    fn start(&self, pace: Pace, now: i64) -> i64 {
        if self.is_full(pace, now) { now } else { self.known.map_or(now, |known| known.tat) }
    }

    fn is_full(&self, pace: Pace, now: i64) -> bool {
        self.known.is_none_or(|known| known.tat < now || known.tat > pace.latest(now))
    }

    /// Returns the number of units to take next: at most a chunk and twice the sum of recent use
    /// and `cost`; 0 if too many environments use the bucket for any to keep units.
    fn target(&self, pace: Pace, cost: i64, now: i64) -> i64 {
        let chunk = self.known.map_or(1, |known| pace.chunk(known.environments));
        let used = self.spent.lately(now).saturating_add(cost);
        if chunk < 2 { 0 } else { chunk.min(used.saturating_mul(2)) }
    }

    /// Returns the draw (write) that charges a debt of this environment to the bucket, even if the
    /// bucket is empty; `None` if debts delay the bucket for the maximum time already.
    fn charge(&self, pace: Pace, debt: i64, now: i64) -> Option<Draw> {
        let ceiling = now + pace.capacity() + pace.longest_debt();
        if self.start(pace, now) > ceiling {
            return None;
        }
        let form = Form::Running { change: pace.cost(debt).min(pace.longest_debt()), ceiling };
        Some(Draw { write: self.write(pace, form, now), gain: debt, returned: 0 })
    }

    fn write(&self, pace: Pace, form: Form, now: i64) -> Write {
        let window = now.div_euclid(WINDOW);
        let environment = self.environment;
        let write = Write { now, latest: pace.latest(now), form, window, starts_window: true, environment };
        let valid = window..=write.last_window();
        let starts_window = self.known.is_none_or(|known| !valid.contains(&known.window));
        Write { starts_window, ..write }
    }

    fn facts(&self, bucket: &Bucket, window: i64) -> BucketState {
        let environments = bucket.environments(window, self.environment);
        BucketState { tat: bucket.tat, window: bucket.window, environments }
    }

    /// Starts a pause in taking `need` units or more, until a random time after `allowed_at`, and
    /// returns its end (nanoseconds since 1970). The random times are such that about two
    /// environments take units while the bucket regains a chunk.
    fn pause(&mut self, pace: Pace, need: i64, allowed_at: i64, now: i64) -> i64 {
        match self.pause {
            Some(pause) if pause.need <= need && pause.until >= allowed_at => pause.until,
            _ => {
                let environments = self.environments();
                let chunk = need.max(self.target(pace, 0, now));
                let longest = pace.time_to_regain(chunk, environments).min(LONGEST_SPREAD);
                let is_alone = environments < 1.5;
                let until = allowed_at + if is_alone { 0 } else { self.random.i64(0..=longest) };
                self.pause = Some(Pause { need, until });
                until
            }
        }
    }

    fn paused_until(&self, need: i64, now: i64) -> Option<i64> {
        self.pause.filter(|pause| now < pause.until && need >= pause.need).map(|pause| pause.until)
    }

    /// Records that a call to the table failed, so that the next one waits a second. At the
    /// beginning of an outage, and at most once in ten seconds, the environment grants itself a
    /// chunk of units: as many as it would take from the bucket at once.
    fn go_without(&mut self, pace: Pace, now: i64) {
        let refilled_at = self.away.map_or(now, |away| away.refilled_at);
        if self.away.is_none() && now - self.granted_at >= WINDOW {
            self.granted_at = now;
            if self.credit >= 0 {
                self.credit = self.credit.max(self.local_chunk(pace));
            }
        }
        self.away = Some(Away { retry_at: now + STORE_PAUSE, refilled_at });
    }

    /// Adds units to the share while the table cannot be reached, at the limit's rate divided by
    /// the number of environments. The share grows to at most one chunk, the units of one draw.
    fn refill(&mut self, pace: Pace, now: i64) {
        let most = self.local_chunk(pace);
        let environments = self.environments();
        let Some(away) = &mut self.away else { return };
        let unit = pace.time_to_regain(1, environments).max(1);
        let units = (now - away.refilled_at).max(0) / unit;
        away.refilled_at += units * unit;
        self.credit = self.credit.max(most.min(self.credit.saturating_add(units)));
    }

    fn local_chunk(&self, pace: Pace) -> i64 {
        pace.chunk(self.environments())
    }

    fn environments(&self) -> f64 {
        self.known.map_or(ASSUMED, |known| known.environments)
    }
}

impl Spent {
    /// Returns the units used in the present or the previous ten seconds, whichever are more.
    fn lately(&self, now: i64) -> i64 {
        match (now - self.period) / WINDOW {
            0 => self.now.max(self.before),
            1 => self.now,
            _ => 0,
        }
    }

    fn add(&mut self, units: i64, now: i64) {
        let passed = now - self.period;
        if passed >= WINDOW {
            self.before = if passed < 2 * WINDOW { self.now } else { 0 };
            (self.period, self.now) = (now, 0);
        }
        self.now = self.now.saturating_add(units).max(0);
    }
}

/// Converts a number of units to a signed number, so that a share can count a debt with it.
pub(crate) fn signed(units: u64) -> i64 {
    /// Maximum number of units of one cost. A larger cost counts as this number.
    const MOST: i64 = 1 << 50;
    i64::try_from(units).unwrap_or(MOST).min(MOST)
}

#[cfg(test)]
mod tests;

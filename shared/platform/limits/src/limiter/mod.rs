//! Decision about a request by all limits that apply to it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use access::{LimitsItem, Rate, TargetLimits};
use aws_sdk_dynamodb::Client;
use futures_util::future::join_all;
use runtime::Environment;

use crate::defaults::{Defaults, LimiterSettings};
use crate::gcra::SECOND;
use crate::policy::{ANY_QUEUE_MANAGER, Cost, LimitedTarget, Policies, Policy, Scope, Unit};
use crate::refusal::Refusal;
use crate::share::{Draw, Outcome, Share, Step, signed};
use crate::standing::Standing;
use crate::table::Table;
use crate::ticket::Ticket;

/// Most draws that a request waits for. The first may guess wrongly what the bucket is like; the
/// second fails only if another environment was faster, and so does the third.
const MOST_DRAWS: usize = 3;
/// Most draws of a renewal, which nobody waits for.
const RENEWAL_DRAWS: usize = 2;
/// Most shares that an environment holds. Beyond it, requests of further buckets draw each time.
const MOST_SHARES: usize = 10_000;
/// Time between two log lines about a table that cannot be reached.
const LOG_PAUSE: i64 = 60 * SECOND;
/// Buckets that are read at the same time.
const READS: usize = 16;

/// Limits requests by the second. A clone limits with the same shares.
#[derive(Clone, Debug)]
pub struct Limiter(Option<Arc<Inner>>);

#[derive(Debug)]
pub(crate) struct Inner {
    table: Table,
    defaults: Defaults,
    clock: Clock,
    /// Number of this environment, by chance.
    environment: u64,
    shares: Mutex<HashMap<String, Arc<Mutex<Share>>>>,
    logged_at: AtomicI64,
}

/// Source of the time.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    System,
    #[cfg(test)]
    Virtual(Arc<AtomicI64>),
}

impl Clock {
    /// Returns the time in nanoseconds since 1970.
    pub(crate) fn now(&self) -> i64 {
        match self {
            Self::System => {
                let passed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                i64::try_from(passed.as_nanos()).unwrap_or(i64::MAX / 4)
            }
            #[cfg(test)]
            Self::Virtual(now) => now.load(Ordering::Relaxed),
        }
    }
}

impl Limiter {
    /// Makes a limiter that limits nothing.
    #[must_use]
    pub const fn off() -> Self {
        Self(None)
    }

    /// Makes the limiter of an environment. It draws from the buckets of this table.
    #[must_use]
    pub fn new(dynamodb: Client, table: String, defaults: Defaults) -> Self {
        let table = Table::DynamoDb { client: dynamodb, name: table };
        Self::with(table, defaults, Clock::System, fastrand::u64(..))
    }

    pub(crate) fn with(table: Table, defaults: Defaults, clock: Clock, environment: u64) -> Self {
        Self(Some(Arc::new(Inner {
            table,
            defaults,
            clock,
            environment,
            shares: Mutex::default(),
            logged_at: AtomicI64::new(i64::MIN / 2),
        })))
    }

    /// Reads the variables of a limiter. Without `LIMITS_TABLE` nothing is limited.
    pub fn from_environment<F: Fn(&str) -> Option<String>>(
        environment: &mut Environment<F>,
    ) -> LimiterSettings {
        LimiterSettings::read(environment)
    }

    /// True if nothing is limited, so that a tenant's limits need not be read.
    #[must_use]
    pub const fn is_off(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the limits that apply to a request, from the tenant's own and the defaults. It makes
    /// no call.
    #[must_use]
    pub fn policies(&self, item: &LimitsItem, tenant: &str, target: Option<&LimitedTarget<'_>>) -> Policies {
        let Some(inner) = &self.0 else { return Policies::default() };
        let mut policies = Vec::new();
        let requests =
            TargetLimits { requests: item.requests.or(inner.defaults.requests), ..Default::default() };
        inner.add(&mut policies, tenant, &Scope::Tenant, requests);
        if let Some(target) = target {
            let own = match target.target_ref {
                Some(name) => item.targets.get(name).copied(),
                None => of_queue_manager(item, target.queue_manager),
            };
            let limits = inner.defaults.of_target(own.as_ref());
            if !limits.is_empty() {
                inner.add(&mut policies, tenant, &target.scope(), limits);
            }
        }
        Policies(policies)
    }

    /// Decides about a request. It draws from the table only if the environment's share says
    /// nothing. A cost above a burst is admitted when the bucket is full, and leaves a debt.
    ///
    /// # Errors
    /// A limit is reached. Nothing was charged.
    pub async fn admit<'a>(&'a self, policies: &Policies, cost: Cost) -> Result<Ticket<'a>, Refusal> {
        let Some(inner) = &self.0 else { return Ok(Ticket::free()) };
        inner.admit(policies, cost).await
    }

    /// Reads how much is left of the tenant's limits, those of its targets included.
    pub async fn standing(&self, tenant: &str, item: &LimitsItem) -> Vec<Standing> {
        let Some(inner) = &self.0 else { return Vec::new() };
        let mut policies = self.policies(item, tenant, None).0;
        let profiles = item.targets.iter().map(|(name, own)| (Scope::Profile(name.clone()), own));
        let managers = item.queue_managers.iter().map(|(name, own)| (Scope::QueueManager(name.clone()), own));
        for (scope, own) in profiles.chain(managers) {
            inner.add(&mut policies, tenant, &scope, inner.defaults.of_target(Some(own)));
        }
        let mut standings = Vec::with_capacity(policies.len());
        for some in policies.chunks(READS) {
            standings.extend(join_all(some.iter().map(|policy| inner.standing(policy))).await);
        }
        standings
    }
}

impl Inner {
    pub(crate) fn now(&self) -> i64 {
        self.clock.now()
    }

    /// Adds the limits of one subject.
    fn add(&self, policies: &mut Vec<Arc<Policy>>, tenant: &str, scope: &Scope, limits: TargetLimits) {
        let TargetLimits { requests, messages, bytes } = limits;
        let units = [(Unit::Requests, requests), (Unit::Messages, messages), (Unit::Bytes, bytes)];
        for (unit, rate) in units.into_iter().filter_map(|(unit, rate)| Some((unit, rate?))) {
            let pk = scope.pk(tenant, unit);
            let share = self.share(&pk);
            policies.push(Arc::new(Policy { scope: scope.clone(), unit, rate, pk, share }));
        }
    }

    /// Returns the environment's share of a bucket.
    fn share(&self, pk: &str) -> Arc<Mutex<Share>> {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = shares.get(pk) {
            return share.clone();
        }
        if shares.len() >= MOST_SHARES {
            let now = self.now();
            // A share in use is locked or cloned by a request.
            shares.retain(|_, share| {
                let is_idle = share.lock().unwrap_or_else(PoisonError::into_inner).is_idle(now);
                !is_idle || Arc::strong_count(share) > 1
            });
        }
        // Environments of one place in the count differ in the times at which they ask.
        let [place, ..] = self.environment.to_le_bytes();
        let seed = pk.bytes().fold(self.environment, |seed, byte| seed.rotate_left(5) ^ u64::from(byte));
        let share = Arc::new(Mutex::new(Share::new(place, seed)));
        if shares.len() < MOST_SHARES {
            shares.insert(pk.to_owned(), share.clone());
        }
        share
    }

    async fn admit(&self, policies: &Policies, cost: Cost) -> Result<Ticket<'_>, Refusal> {
        let now = self.now();
        let mut taken = Vec::with_capacity(policies.0.len());
        let mut open = Vec::new();
        let mut refused = None;
        // Work that moves no messages does not wait for those of earlier work.
        for policy in policies.0.iter().filter(|policy| policy.unit.of(cost) > 0) {
            let step = policy.share().take(policy.pace(), policy.unit.of(cost), now);
            match step {
                Step::Admitted => taken.push(policy),
                Step::Refused(until) => refused = later(refused, policy, until),
                Step::Draw(draw) => open.push((policy, draw)),
            }
        }
        if refused.is_none() && !open.is_empty() {
            let results = join_all(open.into_iter().map(|(policy, draw)| async move {
                (policy, self.draw(policy, policy.unit.of(cost), draw).await)
            }));
            for (policy, result) in results.await {
                match result {
                    Ok(()) => taken.push(policy),
                    Err(until) => refused = later(refused, policy, until),
                }
            }
        }
        match refused {
            None => Ok(Ticket::new(self, policies.clone(), cost)),
            Some((policy, until)) => {
                for policy in taken {
                    self.give_back(policy, policy.unit.of(cost));
                }
                Err(Refusal::new(policy, until, self.now()))
            }
        }
    }

    /// Makes the draw that a request needs, and those that follow from its outcome.
    ///
    /// # Errors
    /// The request is refused until this time.
    async fn draw(&self, policy: &Policy, cost: u64, mut draw: Draw) -> Result<(), i64> {
        for _ in 0..MOST_DRAWS {
            self.make(policy, &draw).await;
            let step = policy.share().take(policy.pace(), cost, self.now());
            match step {
                Step::Admitted => return Ok(()),
                Step::Refused(until) => return Err(until),
                Step::Draw(next) => draw = next,
            }
        }
        Err(policy.share().overtaken(policy.pace(), cost, self.now()))
    }

    /// Renews a share that runs low or is old.
    pub(crate) async fn renew(&self, policy: &Policy) {
        for _ in 0..RENEWAL_DRAWS {
            let draw = policy.share().renewal(policy.pace(), self.now());
            let Some(draw) = draw else { return };
            if self.make(policy, &draw).await {
                return;
            }
        }
    }

    /// Makes a draw, and tells the share its outcome. True if the draw was made.
    async fn make(&self, policy: &Policy, draw: &Draw) -> bool {
        let outcome = self.table.write(&policy.pk, &draw.write).await.unwrap_or_else(|error| {
            self.log_away(&error);
            Outcome::Away
        });
        policy.share().learn(policy.pace(), draw, &outcome, self.now());
        matches!(outcome, Outcome::Made(_))
    }

    /// Gives units back to a share.
    pub(crate) fn give_back(&self, policy: &Policy, units: u64) {
        policy.share().adjust(-signed(units), self.now());
    }

    async fn standing(&self, policy: &Policy) -> Standing {
        let bucket = self.table.read(&policy.pk).await.inspect_err(|error| self.log_away(error)).ok();
        Standing::new(policy, bucket.as_ref().map(Option::as_ref), self.now())
    }

    fn log_away(&self, error: &(dyn std::error::Error + 'static)) {
        let (now, logged_at) = (self.now(), self.logged_at.load(Ordering::Relaxed));
        if now - logged_at < LOG_PAUSE {
            return;
        }
        self.logged_at.store(now, Ordering::Relaxed);
        tracing::error!(
            event_type = "limits.unavailable",
            error,
            "cannot draw from the table of limits: requests pass within the local share: {error}"
        );
    }
}

impl Defaults {
    /// Returns the limits of a target: its own, and the default of each that it does not set.
    fn of_target(&self, own: Option<&TargetLimits>) -> TargetLimits {
        let own = own.copied().unwrap_or_default();
        TargetLimits {
            requests: own.requests.or(self.targets.requests),
            messages: own.messages.or(self.targets.messages),
            bytes: own.bytes.or(self.targets.bytes),
        }
    }
}

/// Returns the tenant's limits of a queue manager. Any queue manager, `*`, has the lowest ones of
/// all if it has none of its own: it may be any of them.
fn of_queue_manager(item: &LimitsItem, name: &str) -> Option<TargetLimits> {
    let own = item.queue_managers.get(name).copied();
    if own.is_some() || name != ANY_QUEUE_MANAGER {
        return own;
    }
    item.queue_managers.values().copied().reduce(|one, other| TargetLimits {
        requests: lower(one.requests, other.requests),
        messages: lower(one.messages, other.messages),
        bytes: lower(one.bytes, other.bytes),
    })
}

fn lower(one: Option<Rate>, other: Option<Rate>) -> Option<Rate> {
    let by_pace = |a: &Rate, b: &Rate| a.per_second.total_cmp(&b.per_second).then(a.burst.cmp(&b.burst));
    one.into_iter().chain(other).min_by(by_pace)
}

/// Returns the refusal that lasts longer.
fn later<'a>(
    refused: Option<(&'a Arc<Policy>, i64)>,
    policy: &'a Arc<Policy>,
    until: i64,
) -> Option<(&'a Arc<Policy>, i64)> {
    match refused {
        Some((_, other)) if other >= until => refused,
        _ => Some((policy, until)),
    }
}

#[cfg(test)]
mod tests;

//! Rate limiter: admits or refuses a request by all limits that apply to it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use access::{DefaultLimits, LimitedTarget, LimitsItem, TargetLimits};
use aws_sdk_dynamodb::Client;
use futures_util::future::join_all;

use crate::limits::gcra::SECOND;
use crate::limits::policy::{Cost, Policies, Policy, Scope, Unit};
use crate::limits::refusal::Refusal;
use crate::limits::share::{Draw, DrawOutcome, Share, Step, signed};
use crate::limits::standing::Standing;
use crate::limits::table::Table;
use crate::limits::ticket::Ticket;

/// Maximum number of writes to a bucket that a request waits for. The first may assume an outdated
/// state of the bucket; the second and third fail only if another environment writes first.
const MOST_DRAWS: usize = 3;
/// Maximum number of writes to a bucket after a request was admitted. They take units in advance,
/// for later requests in this Lambda environment.
const RENEWAL_DRAWS: usize = 2;
/// Maximum number of shares (units taken from a bucket in advance) that an environment keeps. For a
/// bucket without a share, each request writes to the table.
const MOST_SHARES: usize = 10_000;
/// Minimum time between two log lines about an unavailable table, in nanoseconds.
const LOG_PAUSE: i64 = 60 * SECOND;
/// Maximum number of buckets that are read from the table at the same time.
const READS: usize = 16;

/// Rate limiter of a Lambda function. Clones use the same stock of units (for example requests)
/// that this execution environment has taken from the buckets in advance.
#[derive(Clone, Debug)]
pub struct Limiter(Option<Arc<Inner>>);

#[derive(Debug)]
pub(crate) struct Inner {
    table: Table,
    defaults: DefaultLimits,
    clock: Clock,
    /// Random number that identifies this execution environment.
    environment: u64,
    shares: Mutex<HashMap<String, Arc<Mutex<Share>>>>,
    logged_at: AtomicI64,
}

/// Clock of the limiter: the system's, or a virtual one in tests.
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
    /// Creates a limiter that admits every request.
    #[must_use]
    pub const fn off() -> Self {
        Self(None)
    }

    /// Creates the limiter of this execution environment. Its buckets are items of the DynamoDB
    /// table `table`. The limits in `defaults` apply to tenants and targets without limits of their
    /// own.
    #[must_use]
    pub fn new(dynamodb: Client, table: String, defaults: DefaultLimits) -> Self {
        let table = Table::DynamoDb { client: dynamodb, name: table };
        Self::with(table, defaults, Clock::System, fastrand::u64(..))
    }

    pub(crate) fn with(table: Table, defaults: DefaultLimits, clock: Clock, environment: u64) -> Self {
        Self(Some(Arc::new(Inner {
            table,
            defaults,
            clock,
            environment,
            shares: Mutex::default(),
            logged_at: AtomicI64::new(i64::MIN / 2),
        })))
    }

    /// Returns whether the limiter is off, so that a tenant's limits need not be read.
    #[must_use]
    pub const fn is_off(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the limits that apply to a request to `target` (`None` for a request without a
    /// target): the tenant's own in `item`, and the defaults for the rest. Calls no service.
    #[must_use]
    pub fn policies(&self, item: &LimitsItem, tenant: &str, target: Option<&LimitedTarget<'_>>) -> Policies {
        let Some(inner) = &self.0 else { return Policies::default() };
        let limits = inner.defaults.in_force(item, target);
        let mut policies = Vec::new();
        let requests = TargetLimits { requests: limits.requests, ..TargetLimits::default() };
        inner.add(&mut policies, tenant, &Scope::Tenant, requests);
        if let Some(target) = target
            && !limits.target.is_empty()
        {
            inner.add(&mut policies, tenant, &Scope::of(target), limits.target);
        }
        Policies(policies)
    }

    /// Admits a request or refuses it. The limiter writes to the buckets only if the units that
    /// this environment has taken in advance do not suffice. A cost above the burst is admitted
    /// when the bucket is full, and then delays later requests.
    ///
    /// # Errors
    /// If a limit refuses the request. Nothing is charged then.
    pub async fn admit<'a>(&'a self, policies: &Policies, cost: Cost) -> Result<Ticket<'a>, Refusal> {
        let Some(inner) = &self.0 else { return Ok(Ticket::free()) };
        inner.admit(policies, cost).await
    }

    /// Reads how many units are left of the tenant's limit of requests, and of its limits at each
    /// target that `item` names. The result is empty if the limiter is off.
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

    /// Adds each limit that `limits` sets to `policies`. `scope` is the tenant, or one of its
    /// targets.
    fn add(&self, policies: &mut Vec<Arc<Policy>>, tenant: &str, scope: &Scope, limits: TargetLimits) {
        let TargetLimits { requests, messages, bytes } = limits;
        let units = [(Unit::Requests, requests), (Unit::Messages, messages), (Unit::Bytes, bytes)];
        for (unit, rate) in units.into_iter().filter_map(|(unit, rate)| Some((unit, rate?))) {
            let pk = scope.pk(tenant, unit);
            let share = self.share(&pk);
            policies.push(Arc::new(Policy { scope: scope.clone(), unit, rate, pk, share }));
        }
    }

    /// Returns this environment's share (units taken in advance) of the bucket with the key `pk`.
    /// The first call creates an empty share.
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
        let mut refused: Vec<(&Arc<Policy>, i64)> = Vec::new();
        // Work that moves no messages does not wait for those of earlier work.
        for policy in policies.0.iter().filter(|policy| policy.unit.of(cost) > 0) {
            let step = policy.share().take(policy.pace(), policy.unit.of(cost), now);
            match step {
                Step::Admitted => taken.push(policy),
                Step::Refused(until) => refused.push((policy, until)),
                Step::Draw(draw) => open.push((policy, draw)),
            }
        }
        if refused.is_empty() && !open.is_empty() {
            let results = join_all(open.into_iter().map(|(policy, draw)| async move {
                (policy, self.draw(policy, policy.unit.of(cost), draw).await)
            }));
            for (policy, result) in results.await {
                match result {
                    Ok(()) => taken.push(policy),
                    Err(until) => refused.push((policy, until)),
                }
            }
        }
        let Some(refusal) = Refusal::by(&refused, self.now()) else {
            return Ok(Ticket::new(self, policies.clone(), cost));
        };
        for policy in taken {
            self.give_back(policy, policy.unit.of(cost));
        }
        Err(refusal)
    }

    /// Takes units from a bucket, for a request that costs `cost` units, by the conditional write
    /// `draw`. If the bucket is not as assumed, up to two further writes are tried.
    ///
    /// # Errors
    /// If the units do not suffice, or other environments write first each time: the time until
    /// which the request is refused, in nanoseconds since 1970.
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

    /// Takes units from a bucket for later requests, if this environment has few of the bucket's
    /// units left, or took them more than ten seconds ago.
    pub(crate) async fn renew(&self, policy: &Policy) {
        for _ in 0..RENEWAL_DRAWS {
            let draw = policy.share().renewal(policy.pace(), self.now());
            let Some(draw) = draw else { return };
            // Boxed: most shares need no call, and each policy of a request has a future of its
            // own.
            if Box::pin(self.make(policy, &draw)).await {
                return;
            }
        }
    }

    /// Writes a draw (units taken from a bucket) to the table, and updates this environment's share
    /// by the result. Returns true if the write succeeded, and false if its condition failed or the
    /// table is unavailable.
    async fn make(&self, policy: &Policy, draw: &Draw) -> bool {
        let outcome = self.table.write(&policy.pk, &draw.write).await.unwrap_or_else(|error| {
            self.log_away(&error);
            DrawOutcome::Away
        });
        policy.share().apply_outcome(policy.pace(), draw, &outcome, self.now());
        matches!(outcome, DrawOutcome::Made(_))
    }

    /// Gives units that a request did not use back to this environment's share of the bucket.
    pub(crate) fn give_back(&self, policy: &Policy, units: u64) {
        policy.share().spend(-signed(units), self.now());
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

#[cfg(test)]
mod tests;

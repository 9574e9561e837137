//! Simulation of many execution environments with a virtual clock and an in-memory table. It shows
//! what they admit together, and how many calls they make to the table.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use access::{DefaultLimits, LimitedTarget, LimitsItem, Rate, TargetLimits};

use crate::limits::gcra::SECOND;
use crate::limits::limiter::{Clock, Limiter};
use crate::limits::policy::Cost;
use crate::limits::refusal::Refusal;
use crate::limits::table::Table;
use crate::limits::table::memory::Memory;

/// Start of each simulation: 2026-11-25, in nanoseconds since 1970.
const START: i64 = 1_795_564_800 * SECOND;
const MILLISECOND: i64 = SECOND / 1_000;

/// Execution environments of one function, with a common in-memory table of buckets and a virtual
/// clock.
pub(crate) struct World {
    now: Arc<AtomicI64>,
    pub(crate) memory: Memory,
    limiters: Vec<Limiter>,
    item: LimitsItem,
    pub(crate) random: fastrand::Rng,
    /// Times at which requests were admitted, by tenant, in nanoseconds since 1970.
    admitted: BTreeMap<&'static str, Vec<i64>>,
    asked: BTreeMap<&'static str, usize>,
    /// Number of calls to the table that requests had to wait for.
    pub(crate) awaited: u64,
}

impl World {
    pub(crate) fn new(environments: usize, per_second: f64, burst: u64) -> Self {
        let requests = Rate::new(per_second, Some(burst)).ok();
        Self::limited(environments, LimitsItem { requests, ..LimitsItem::default() })
    }

    pub(crate) fn limited(environments: usize, item: LimitsItem) -> Self {
        let (now, memory) = (Arc::new(AtomicI64::new(START)), Memory::default());
        let mut random = fastrand::Rng::with_seed(7);
        let limiters = (0..environments)
            .map(|_| {
                let (table, clock) = (Table::Memory(memory.clone()), Clock::Virtual(now.clone()));
                Limiter::with(table, DefaultLimits::default(), clock, random.u64(..))
            })
            .collect();
        let (admitted, asked) = (BTreeMap::new(), BTreeMap::new());
        Self { now, memory, limiters, item, random, admitted, asked, awaited: 0 }
    }

    pub(crate) fn advance(&self, time: i64) {
        self.now.fetch_add(time, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> i64 {
        self.now.load(Ordering::Relaxed)
    }

    pub(crate) fn limiter(&self, environment: usize) -> &Limiter {
        &self.limiters[environment]
    }

    /// Sends a request of a tenant to the environment with this index. If the request is admitted,
    /// the environment also takes units in advance for later requests.
    pub(crate) async fn ask(&mut self, environment: usize, tenant: &'static str) -> Result<(), Refusal> {
        *self.asked.entry(tenant).or_default() += 1;
        let limiter = self.limiters[environment].clone();
        let policies = limiter.policies(&self.item, tenant, None);
        let before = self.memory.calls();
        let ticket = limiter.admit(&policies, Cost::default()).await;
        self.awaited += self.memory.calls() - before;
        ticket?.renew().await;
        let now = self.now();
        self.admitted.entry(tenant).or_default().push(now);
        Ok(())
    }

    /// Simulates this number of seconds, in which each tenant sends its rate of requests per second
    /// to random environments.
    pub(crate) async fn run(&mut self, seconds: i64, rates: &[(&'static str, f64)]) {
        for _ in 0..seconds * 1_000 {
            self.advance(MILLISECOND);
            for &(tenant, rate) in rates {
                let mut expected = rate / 1_000.0;
                while self.random.f64() < expected {
                    expected -= 1.0;
                    let environment = self.random.usize(0..self.limiters.len());
                    let _refused = self.ask(environment, tenant).await;
                }
            }
        }
    }

    /// Returns the fraction of a tenant's requests that was admitted.
    fn part(&self, tenant: &str) -> f64 {
        count(self.admitted[tenant].len()) / count(self.asked[tenant])
    }

    /// Returns the maximum number of a tenant's requests that were admitted within ten seconds.
    pub(crate) fn worst_window(&self, tenant: &str) -> usize {
        let times = &self.admitted[tenant];
        let mut first = 0;
        let windows = times.iter().enumerate().map(|(last, time)| {
            while time - times[first] >= 10 * SECOND {
                first += 1;
            }
            last + 1 - first
        });
        windows.max().unwrap_or_default()
    }

    fn all_asked(&self) -> usize {
        self.asked.values().sum()
    }
}

#[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
const fn count(number: usize) -> f64 {
    number as f64
}

#[tokio::test]
async fn fifty_environments_admit_at_most_a_tenth_too_much_and_starve_no_tenant() {
    let mut world = World::new(50, 100.0, 100);
    world.run(40, &[("over", 1_000.0), ("near", 90.0), ("below", 20.0)]).await;
    for tenant in ["over", "near", "below"] {
        let worst = world.worst_window(tenant);
        assert!(worst <= 1_210, "{tenant}: {worst} in ten seconds, of 1100");
    }
    let over = world.admitted["over"].len();
    assert!(over >= 3_700, "what the limit allows is used: {over} of 4100");
    assert!(world.part("near") > 0.98, "{}", world.part("near"));
    assert!(world.part("below") > 0.999, "{}", world.part("below"));
}

#[tokio::test]
async fn bursts_that_find_full_shares_stay_within_the_bound() {
    let mut world = World::new(50, 1_000.0, 500);
    for _ in 0..4 {
        world.run(4, &[("bursty", 3_000.0)]).await;
        world.run(4, &[("bursty", 500.0)]).await;
        world.advance(3 * SECOND);
    }
    let worst = world.worst_window("bursty");
    assert!(worst <= 11_550, "{worst} in ten seconds, of 10500");
}

#[tokio::test]
async fn a_tenant_below_its_limit_waits_for_no_call() {
    let mut world = World::new(5, 1_000.0, 1_000);
    world.run(30, &[("below", 300.0)]).await;
    assert!((world.part("below") - 1.0).abs() < f64::EPSILON);
    assert!(world.awaited <= 15, "only the first requests of an environment wait: {}", world.awaited);
    let (calls, asked) = (world.memory.calls(), world.all_asked());
    assert!(calls * 20 < u64::try_from(asked).unwrap(), "{calls} calls for {asked} requests");
}

#[tokio::test]
async fn a_flood_of_one_environment_costs_few_calls() {
    let mut world = World::new(1, 10.0, 10);
    world.run(20, &[("flood", 1_000.0)]).await;
    let (calls, asked) = (world.memory.calls(), world.all_asked());
    assert!(world.worst_window("flood") <= 121);
    // One call or two for each unit that the rate brings.
    assert!(calls <= 450, "{calls} calls for {asked} requests");
}

#[tokio::test]
async fn a_share_that_is_not_used_returns_to_the_bucket() {
    // Nothing refills the bucket in the time of this test: what returns can be drawn once more.
    let mut world = World::new(2, 0.001, 1_000);
    for _ in 0..200 {
        world.ask(0, "acme").await.unwrap();
    }
    world.advance(15 * SECOND);
    // An old share is still good for this request, which returns the rest, and draws a new one.
    world.ask(0, "acme").await.unwrap();
    let mut admitted = 201;
    while world.ask(1, "acme").await.is_ok() {
        admitted += 1;
    }
    assert!((930..=940).contains(&admitted), "{admitted}: all but the 66 of the new share");
}

#[tokio::test]
async fn requests_pass_within_the_local_share_while_the_table_is_away() {
    let mut world = World::new(1, 100.0, 100);
    world.ask(0, "acme").await.unwrap();
    world.memory.set_away(true);
    world.run(10, &[("acme", 1_000.0)]).await;
    let admitted = world.admitted["acme"].len();
    assert!((500..=1_100).contains(&admitted), "{admitted}");
    world.memory.set_away(false);
    world.run(10, &[("acme", 1_000.0)]).await;
    let later = world.admitted["acme"].len() - admitted;
    assert!((1_000..=1_250).contains(&later), "{later}");
}

/// Checks that new environments whose first calls fail, for example by a timeout, call the table
/// again. Each of them receives fewer requests than it admits without the table.
#[tokio::test]
async fn environments_whose_first_call_failed_return_to_the_table() {
    let mut world = World::new(20, 100.0, 100);
    world.memory.set_away(true);
    world.run(2, &[("acme", 300.0)]).await;
    let before = world.admitted["acme"].len();
    world.memory.set_away(false);
    world.run(20, &[("acme", 300.0)]).await;
    let admitted = world.admitted["acme"].len() - before;
    assert!((1_900..=2_300).contains(&admitted), "{admitted}: the bucket has 2,100");
}

#[tokio::test]
async fn environments_that_have_had_no_answer_admit_at_most_a_tenth_too_much() {
    let mut world = World::new(50, 500.0, 500);
    let rates = [("over", 1_500.0), ("below", 100.0)];
    world.memory.set_away(true);
    world.run(1, &rates).await;
    world.memory.set_away(false);
    world.run(20, &rates).await;
    let worst = world.worst_window("over");
    assert!(worst <= 6_050, "{worst} in ten seconds, of 5500");
    assert!(world.part("below") > 0.99, "{}", world.part("below"));
}

#[tokio::test]
async fn a_table_that_is_away_gives_no_share_twice() {
    let mut world = World::new(1, 0.001, 100);
    world.ask(0, "acme").await.unwrap();
    for _ in 0..5 {
        world.memory.set_away(true);
        while world.ask(0, "acme").await.is_ok() {}
        world.memory.set_away(false);
        world.advance(SECOND);
    }
    let admitted = world.admitted["acme"].len();
    assert!(admitted <= 20, "{admitted}: a share has 6");
}

#[tokio::test]
async fn limits_of_a_target_hold_beside_the_tenant_s() {
    let messages = TargetLimits { messages: Rate::new(100.0, Some(100)).ok(), ..TargetLimits::default() };
    let item = LimitsItem {
        requests: Rate::new(1_000.0, Some(1_000)).ok(),
        targets: [("orders".to_owned(), messages)].into(),
        ..LimitsItem::default()
    };
    let world = World::limited(1, item.clone());
    let limiter = world.limiter(0);
    let orders = LimitedTarget { target_ref: Some("orders"), queue_manager: "QM1" };
    let policies = limiter.policies(&item, "acme", Some(&orders));
    assert!(policies.count_volume());
    let ten = Cost { messages: 10, bytes: 0 };
    for _ in 0..10 {
        limiter.admit(&policies, ten).await.unwrap().renew().await;
    }
    let refused = limiter.admit(&policies, ten).await.unwrap_err().problem();
    assert_eq!(refused.reason, api::Reason::TargetRateLimit, "{refused}");
    // Without the target nothing is refused, and the refused request cost the tenant nothing.
    let alone = limiter.policies(&item, "acme", None);
    assert!(!alone.count_volume());
    let standing = limiter.standing("acme", &item).await;
    let left: Vec<_> = standing.iter().map(|limit| (limit.name.as_str(), limit.remaining)).collect();
    assert_eq!(left[1], ("targets/orders", Some(0)));
    for _ in 0..985 {
        limiter.admit(&alone, Cost::default()).await.unwrap().renew().await;
    }
}

use access::Rate;
use proptest::prelude::*;

use crate::limits::simulation::World;

use super::*;

fn item(per_second: f64, burst: u64) -> LimitsItem {
    LimitsItem { requests: Rate::new(per_second, Some(burst)).ok(), ..LimitsItem::default() }
}

fn messages(per_second: f64, burst: u64) -> LimitsItem {
    let limits =
        TargetLimits { messages: Rate::new(per_second, Some(burst)).ok(), ..TargetLimits::default() };
    LimitsItem { queue_managers: [("QM1".to_owned(), limits)].into(), ..LimitsItem::default() }
}

const TARGET: LimitedTarget<'_> = LimitedTarget { target_ref: None, queue_manager: "QM1" };

fn cost(messages: u64) -> Cost {
    Cost { messages, bytes: 0 }
}

#[tokio::test]
async fn a_limiter_that_is_off_limits_nothing() {
    let limiter = Limiter::off();
    let policies = limiter.policies(&item(1.0, 1), "acme", Some(&TARGET));
    assert!(limiter.is_off() && policies.0.is_empty());
    for _ in 0..10 {
        let ticket = limiter.admit(&policies, cost(1_000_000)).await.unwrap();
        ticket.renew().await;
        assert!(ticket.headers().is_empty());
        ticket.settle(cost(5));
    }
    assert!(limiter.standing("acme", &item(1.0, 1)).await.is_empty());
}

#[tokio::test]
async fn a_replay_costs_nothing() {
    let world = World::limited(1, item(10.0, 10));
    let limiter = world.limiter(0);
    let policies = limiter.policies(&item(10.0, 10), "acme", None);
    for _ in 0..1_000 {
        let ticket = limiter.admit(&policies, Cost::default()).await.unwrap();
        ticket.renew().await;
        ticket.refund();
    }
    for _ in 0..10 {
        limiter.admit(&policies, Cost::default()).await.unwrap().renew().await;
    }
    assert!(limiter.admit(&policies, Cost::default()).await.is_err());
}

#[tokio::test]
async fn a_cost_above_the_burst_needs_a_full_bucket_and_leaves_a_debt() {
    let world = World::limited(1, messages(100.0, 100));
    let limiter = world.limiter(0);
    let policies = limiter.policies(&messages(100.0, 100), "acme", Some(&TARGET));
    limiter.admit(&policies, cost(500)).await.unwrap();
    world.advance(4 * SECOND);
    assert!(limiter.admit(&policies, cost(1)).await.is_err(), "400 of 500 messages are over");
    world.advance(SECOND / 50);
    limiter.admit(&policies, cost(1)).await.unwrap();
    assert!(limiter.admit(&policies, cost(500)).await.is_err(), "the bucket is not full");
    world.advance(2 * SECOND);
    limiter.admit(&policies, cost(500)).await.unwrap();
}

#[tokio::test]
async fn what_was_moved_is_charged_in_place_of_what_was_expected() {
    let limits = messages(100.0, 100);
    let world = World::limited(2, limits.clone());
    let limiter = world.limiter(0);
    let policies = limiter.policies(&limits, "acme", Some(&TARGET));
    for _ in 0..50 {
        limiter.admit(&policies, cost(80)).await.unwrap().settle(cost(0));
    }
    limiter.admit(&policies, cost(0)).await.unwrap().settle(cost(90));
    assert!(limiter.admit(&policies, cost(80)).await.is_err(), "some 10 are left");
    let other = world.limiter(1);
    let policies = other.policies(&limits, "acme", Some(&TARGET));
    assert!(other.admit(&policies, cost(80)).await.is_err(), "the debt is charged for all");
}

#[tokio::test]
async fn a_refusal_says_which_limit_and_how_long() {
    let world = World::limited(1, item(0.5, 4));
    let limiter = world.limiter(0);
    let policies = limiter.policies(&item(0.5, 4), "acme", None);
    for left in (0..4_u64).rev() {
        let ticket = limiter.admit(&policies, Cost::default()).await.unwrap();
        let headers = ticket.headers();
        if left >= 2 {
            assert!(headers.is_empty(), "{left} of 4 are left");
        } else {
            assert_eq!(headers[0], ("ratelimit-policy", "\"tenant\";q=4;w=8".to_owned()));
            assert_eq!(headers[1].1, format!("\"tenant\";r={left};t={}", 8 - 2 * left));
        }
    }
    let problem = limiter.admit(&policies, Cost::default()).await.unwrap_err().problem();
    assert_eq!(problem.reason, api::Reason::TenantRateLimit);
    assert_eq!(problem.extensions["violated-policies"], serde_json::json!(["tenant"]));
    assert_eq!(problem.retry_after, Some(2));
    assert_eq!(problem.headers[1], ("ratelimit", "\"tenant\";r=0;t=2".to_owned()));
    assert!(
        problem.detail.contains("the tenant's limit is 0.5 requests a second, at most 4 at once"),
        "{problem}"
    );
}

#[tokio::test]
async fn fields_have_bytes_and_no_messages() {
    let rate = Rate::new(10.0, Some(100)).ok();
    let limits = TargetLimits { requests: None, messages: rate, bytes: rate };
    let item = LimitsItem { queue_managers: [("QM1".to_owned(), limits)].into(), ..LimitsItem::default() };
    let world = World::limited(1, item.clone());
    let limiter = world.limiter(0);
    let policies = limiter.policies(&item, "acme", Some(&TARGET));
    let ticket = limiter.admit(&policies, Cost { messages: 90, bytes: 60 }).await.unwrap();
    let expected = [
        ("ratelimit-policy", "\"target-bytes\";q=100;w=10;qu=\"content-bytes\"".to_owned()),
        ("ratelimit", "\"target-bytes\";r=40;t=6".to_owned()),
    ];
    assert_eq!(ticket.headers(), expected);
}

#[tokio::test]
async fn a_tenant_s_limit_is_its_own_or_the_default() {
    let defaults = DefaultLimits::parse("requests=5/5", "messages=7/7").unwrap();
    let world = World::limited(1, LimitsItem::default());
    let clock = Clock::Virtual(Arc::new(AtomicI64::new(world.now())));
    let limiter = Limiter::with(Table::Memory(world.memory.clone()), defaults, clock, 1);
    let rates = |item: &LimitsItem, target: Option<&LimitedTarget<'_>>| -> Vec<String> {
        let policies = limiter.policies(item, "acme", target);
        policies
            .0
            .iter()
            .map(|policy| format!("{} {}={}", policy.scope, policy.unit.as_str(), policy.rate))
            .collect()
    };
    assert_eq!(rates(&LimitsItem::default(), None), ["tenant requests=5/5"]);
    let profile = LimitedTarget { target_ref: Some("orders"), queue_manager: "QM1" };
    let own = LimitsItem { requests: Rate::new(9.0, None).ok(), ..messages(1.0, 1) };
    assert_eq!(rates(&own, Some(&TARGET)), ["tenant requests=9/9", "queueManagers/QM1 messages=1/1"]);
    assert_eq!(rates(&own, Some(&profile)), ["tenant requests=9/9", "targets/orders messages=7/7"]);
    let standing = limiter.standing("acme", &own).await;
    assert_eq!(
        serde_json::to_value(&standing[1]).unwrap(),
        serde_json::json!({"name": "queueManagers/QM1", "unit": "messages", "perSecond": 1.0, "burst": 1, "remaining": 1})
    );
    world.memory.set_away(true);
    assert_eq!(limiter.standing("acme", &own).await[0].remaining, None);
}

#[tokio::test]
async fn a_refusal_names_each_limit_that_is_reached() {
    let rate = Rate::new(0.001, Some(1)).ok();
    let limits = TargetLimits { requests: rate, messages: rate, bytes: rate };
    let item = LimitsItem { queue_managers: [("QM1".to_owned(), limits)].into(), ..LimitsItem::default() };
    let world = World::limited(1, item.clone());
    let limiter = world.limiter(0);
    let policies = limiter.policies(&item, "acme", Some(&TARGET));
    let one = Cost { messages: 1, bytes: 1 };
    limiter.admit(&policies, one).await.unwrap();
    let violated = async |cost: Cost| {
        let problem = limiter.admit(&policies, cost).await.unwrap_err().problem();
        problem.extensions["violated-policies"].clone()
    };
    assert_eq!(violated(one).await, serde_json::json!(["target", "target-messages", "target-bytes"]));
    assert_eq!(violated(cost(0)).await, serde_json::json!(["target"]));
}

#[tokio::test]
async fn a_refusal_does_not_charge_the_other_limits() {
    let limits = LimitsItem { requests: Rate::new(0.001, Some(3)).ok(), ..messages(0.001, 1) };
    let world = World::limited(1, limits.clone());
    let limiter = world.limiter(0);
    let policies = limiter.policies(&limits, "acme", Some(&TARGET));
    limiter.admit(&policies, cost(1)).await.unwrap();
    for _ in 0..10 {
        assert!(limiter.admit(&policies, cost(1)).await.is_err());
    }
    for _ in 0..2 {
        limiter.admit(&policies, cost(0)).await.unwrap();
    }
    let refused = limiter.admit(&policies, cost(0)).await.unwrap_err().problem();
    assert_eq!(refused.reason, api::Reason::TenantRateLimit);
}

/// Token bucket in integer arithmetic, for comparison: it counts billionths of units.
struct Reference {
    rate: i64,
    burst: i64,
    tokens: i64,
}

impl Reference {
    fn pass(&mut self, time: i64) {
        self.tokens = (self.tokens + self.rate * time).min(self.burst * SECOND);
    }

    fn take(&mut self, cost: i64) -> bool {
        let is_enough = self.tokens >= cost * SECOND;
        if is_enough {
            self.tokens -= cost * SECOND;
        }
        is_enough
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn one_environment_without_chunks_is_a_token_bucket(
        rate in prop::sample::select(vec![1_i64, 2]),
        burst in 1_i64..9,
        steps in prop::collection::vec((0_i64..40, 1_i64..9), 1..200),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let limits = messages(f64::from(i32::try_from(rate).unwrap()), u64::try_from(burst).unwrap());
        let world = World::limited(1, limits.clone());
        let limiter = world.limiter(0);
        let policies = limiter.policies(&limits, "acme", Some(&TARGET));
        let mut reference = Reference { rate, burst, tokens: burst * SECOND };
        for (tenths, units) in steps {
            let (time, units) = (tenths * SECOND / 10, units.min(burst));
            world.advance(time);
            reference.pass(time);
            let admitted = runtime.block_on(limiter.admit(&policies, cost(u64::try_from(units).unwrap())));
            prop_assert_eq!(admitted.is_ok(), reference.take(units), "{} units", units);
        }
    }

    #[test]
    fn no_order_of_requests_passes_the_bound(
        environments in 1_usize..7,
        rate in 1_u32..500,
        burst in 1_u64..500,
        steps in prop::collection::vec((0_i64..700, 0_usize..7, 1_usize..60), 1..120),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut world = World::new(environments, f64::from(rate), burst);
        for (milliseconds, environment, requests) in steps {
            world.advance(milliseconds * SECOND / 1_000);
            for _ in 0..requests {
                let _refused = runtime.block_on(world.ask(environment % environments, "acme"));
            }
        }
        let admits = burst + 10 * u64::from(rate);
        // Shares that were drawn while fewer environments drew are larger than those of all, and an
        // old share is good for one request.
        let bound = admits + admits / 4 + 7;
        let worst = u64::try_from(world.worst_window("acme")).unwrap();
        prop_assert!(worst <= bound, "{} of {}", worst, admits);
    }
}

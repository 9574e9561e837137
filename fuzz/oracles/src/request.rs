//! Oracle for the way from a request's body to the work order for `mq-access`, for the gateway's
//! five operations that have one. A refusal is always the caller's mistake, and an accepted order
//! fits into a Lambda invocation. For a load test, the stored test must be read back unchanged.

use std::sync::LazyLock;

use api::{Problem, json};
use connection_test::ConnectionTestRequest;
use consume::ConsumeRequest;
use depth::DepthRequest;
use front::{Action, NamedTarget, Operation, Plan};
use load_test::LoadTest;
use load_tests::{NewTest, StartRequest};
use move_messages::MoveRequest;
use mq::{InlineTargets, Profile, Target, TargetError};
use orders::{Work, WorkOrder, from_target};
use produce::ProduceRequest;

use crate::json::is_the_callers;

/// Lambda's limit for the payload of a synchronous invocation, in bytes.
const MAX_INVOCATION: usize = 6 * 1024 * 1024;
/// Maximum number of bytes of a work order besides those of the request's body.
const FRAME: usize = 16 * 1024;

static SAMPLE: LazyLock<WorkOrder> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../../../events/gateway/mq-access/produce-too-late.json"))
        .expect("the sample is an order")
});

static PROFILE: LazyLock<Profile> = LazyLock::new(|| {
    let profile = r#"{"target": {"broker": "rabbitmq", "connName": "h:1", "queue": "Q"}, "queues": ["*"]}"#;
    serde_json::from_str(profile).expect("the text above is a profile")
});

static ALLOWED: LazyLock<InlineTargets> = LazyLock::new(|| {
    "rabbitmq://h:*/* ibmmq://h:*/*?channel=*&login=none".parse().expect("the text is an allow-list")
});

/// Checks the parsers of requests with a fuzz input: its first byte chooses the operation, the rest
/// is the body.
pub(crate) fn check(input: &[u8]) {
    let Some((operation, body)) = input.split_first() else { return };
    match operation % 6 {
        0 => check_as::<ProduceRequest>(body),
        1 => check_as::<ConsumeRequest>(body),
        2 => check_as::<DepthRequest>(body),
        3 => check_as::<MoveRequest>(body),
        4 => check_as::<ConnectionTestRequest>(body),
        _ => check_load_test(body),
    }
}

fn check_as<O: Operation<Work = Action>>(body: &[u8]) {
    match planned::<O>(body) {
        Err(problem) => is_the_callers(&problem),
        Ok(plan) => check_plan(plan, body.len()),
    }
}

fn planned<O: Operation>(body: &[u8]) -> Result<Plan<O::Work>, Problem> {
    json::parse(body).and_then(json::read::<O>).and_then(O::plan)
}

fn resolved(named: &NamedTarget) -> Result<Target, TargetError> {
    let profile = named.target_ref.as_ref().map(|_| &*PROFILE);
    Target::resolve(profile, named.target.as_ref(), ALLOWED.of("fuzz"))
}

fn check_load_test(body: &[u8]) {
    let Plan { named, action: NewTest(test), .. } = match planned::<StartRequest>(body) {
        Ok(plan) => plan,
        Err(problem) => return is_the_callers(&problem),
    };
    if let Err(error) = resolved(&named) {
        return is_the_callers(&from_target(&error));
    }
    let stored = serde_json::to_string(&test).expect("every test can be written");
    let read: LoadTest = serde_json::from_str(&stored).expect("a test is read as it was written");
    assert!(read == test, "{test:?} is read as {read:?}");
}

fn check_plan(plan: Plan, body: usize) {
    let target = match resolved(&plan.named) {
        Ok(target) => target,
        Err(error) => return is_the_callers(&from_target(&error)),
    };
    let WorkOrder { trace_id, tenant, work: Work::Change { execution, .. } } = SAMPLE.clone() else {
        unreachable!("the sample is a produce")
    };
    let work = match plan.action {
        Action::Read(read) => Work::Read { target, read },
        Action::Change(_, change) => Work::Change { target, execution, change },
    };
    let order = WorkOrder { trace_id, tenant, work };
    let sent = serde_json::to_vec(&order).expect("every order can be written");
    assert!(sent.len() <= MAX_INVOCATION && sent.len() <= body + FRAME, "{} of {body}", sent.len());
    let arrived: WorkOrder = serde_json::from_slice(&sent).expect("an order is read as it was written");
    assert!(arrived == order, "{order:?} arrives as {arrived:?}");
}

//! Crash tests on IBM MQ. Its units of work happen completely or not at all, so the tests can count
//! exactly which messages are there twice, or both on the queue and in a response.

use std::time::Duration;

use end_to_end::On;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::crash::fault::{EITHER, Fault, Struck, Victim};
use crate::crash::journey::{Journey, Load, told};
use crate::crash::stand::faults::{Blow, Op};
use crate::crash::stand::{Asked, Operation, Reply, Stand};
use crate::crash::{in_parallel_on, seeds};

/// Maximum number of connections of one environment of `mq-access`, as in the template.
const CONNECTION_CAP: usize = 5;

/// MQI call at which a fault strikes: MQPUT, MQGET or MQCMIT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Put,
    Get,
    Commit,
}

/// Time of a fault at an MQI call: before the call takes effect, so that it never does, or after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Before,
    After,
}

/// Fault of a request to the queue manager, at one of its MQI calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtManager {
    /// `mq-access` is killed during the call.
    Killed(Verb, When),
    /// The connection to the queue manager breaks during the call.
    Cut(Verb, When),
    /// The queue manager is killed during the call, and started again.
    Restarted(Verb, When),
    /// MQCMIT returns this reason code.
    Committed(u16, When),
}

use AtManager::{Committed, Cut, Killed, Restarted};
use Verb::{Commit, Get, Put};
use When::{After, Before};

const BACKED_OUT: u16 = 2003;
const CALL_INTERRUPTED: u16 = 2549;

/// Faults that strike an MQCMIT.
const AT_COMMIT: [AtManager; 9] = [
    Killed(Commit, Before),
    Killed(Commit, After),
    Cut(Commit, Before),
    Cut(Commit, After),
    Restarted(Commit, Before),
    Restarted(Commit, After),
    Committed(BACKED_OUT, Before),
    Committed(CALL_INTERRUPTED, Before),
    Committed(CALL_INTERRUPTED, After),
];

/// Lists the faults that can strike an operation on IBM MQ.
fn faults(operation: Operation) -> Vec<Fault> {
    let own: &[Fault] = match operation {
        Operation::Produce => &[],
        Operation::Consume => &[
            Fault::KilledBeforeCommit,
            Fault::Store(Op::Prepare, Blow::DropAnswer),
            Fault::StoreEvery(Op::Prepare, Blow::DropRequest),
            Fault::StoreEvery(Op::Prepare, Blow::DropAnswer),
        ],
        Operation::Move => &[
            Fault::KilledBeforeCheckpoint,
            Fault::KilledAfterCheckpoint,
            Fault::Store(Op::Checkpoint, Blow::DropAnswer),
            Fault::StoreEvery(Op::Checkpoint, Blow::DropRequest),
            Fault::StoreEvery(Op::Checkpoint, Blow::DropAnswer),
        ],
    };
    let midway: &[Verb] = match operation {
        Operation::Produce => &[Put],
        Operation::Consume => &[Get],
        Operation::Move => &[Put, Get],
    };
    let midway =
        midway.iter().flat_map(|verb| [Killed(*verb, After), Cut(*verb, After), Restarted(*verb, Before)]);
    let either = EITHER.iter().chain(own).filter(|fault| !fault.takes_seconds()).copied();
    either.chain(AT_COMMIT.into_iter().chain(midway).map(Fault::AtManager)).collect()
}

impl AtManager {
    /// Lists the right responses, as status and reason. Returns `None` for a restart, after which
    /// any response is right: it may be over before the client library notices it.
    fn expected(self, operation: Operation) -> Option<&'static [&'static str]> {
        let is_produce = operation == Operation::Produce;
        match self {
            Killed(..) => Some(&["502 OUTCOME_IN_DOUBT"]),
            Restarted(..) => None,
            Cut(Put | Get, _) => Some(&["503 BROKER_UNREACHABLE"]),
            Committed(BACKED_OUT, _) => Some(&["502 BROKER_REJECTED"]),
            // What was put and is there was committed; what was got and is back was not.
            Cut(Commit, After) | Committed(_, After) if is_produce => {
                Some(&["201", "503 BROKER_UNREACHABLE"])
            }
            Cut(Commit, Before) | Committed(_, Before) if !is_produce => Some(&["503 BROKER_UNREACHABLE"]),
            Cut(Commit, _) | Committed(..) => Some(&["502 OUTCOME_IN_DOUBT"]),
        }
    }

    /// Sends the request, inflicts the fault, and returns the response. `struck.at` is the number
    /// of the MQPUT or MQGET that it strikes, or of a message whose MQCMIT it strikes.
    pub(crate) async fn strike(self, stand: &mut Stand, struck: Struck<'_>) -> Reply {
        let (verb, when, effect) = match self {
            Killed(verb, when) | Restarted(verb, when) => (verb, when, ("hang", json!(true))),
            Cut(verb, when) => (verb, when, ("cut", json!(true))),
            Committed(reason, when) => (Commit, when, ("reason", json!(reason))),
        };
        let (verb, nth) = match verb {
            Put => ("MQPUT", struck.at),
            Get => ("MQGET", struck.at),
            Commit => ("MQCMIT", unit_of(struck.asked, struck.at)),
        };
        let when = if when == Before { "before" } else { "after" };
        let mut fault = json!({"verb": verb, "nth": nth, "when": when});
        fault[effect.0] = effect.1;
        stand.broker.manager().fault(&fault);
        let reply = stand.ask_later(struck.asked);
        match self {
            Killed(..) if reached(stand, &reply).await => stand.mq_access.kill(),
            Restarted(..) if reached(stand, &reply).await => {
                stand.broker.manager_mut().kill();
                stand.broker.manager_mut().run();
            }
            _ => {}
        }
        reply.await.unwrap()
    }
}

/// Returns the number of the request's transaction, counted from 1, that has the message with index
/// `at`.
fn unit_of(asked: &Asked, at: usize) -> usize {
    let transaction = &asked.body["batch"]["transaction"];
    match transaction["txSize"].as_u64() {
        Some(size) if transaction["enabled"] == true => at / usize::try_from(size).unwrap() + 1,
        _ => 1,
    }
}

/// Waits until the queue manager has inflicted its fault. Returns false if the response came first.
async fn reached(stand: &Stand, reply: &JoinHandle<Reply>) -> bool {
    while stand.broker.manager().faults() > 0 {
        if reply.is_finished() {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    true
}

impl Fault {
    /// Returns the fault on IBM MQ that corresponds to this fault on RabbitMQ.
    pub(crate) fn on_ibm_mq(self, operation: Operation) -> Self {
        match (self, operation) {
            (Self::KilledMidway, Operation::Produce | Operation::Move) => {
                Self::AtManager(Killed(Put, Before))
            }
            (Self::CutMidway(_), Operation::Produce | Operation::Move) => Self::AtManager(Cut(Put, Before)),
            (Self::CutMidway(_), Operation::Consume) => Self::AtManager(Cut(Get, Before)),
            (other, _) => other,
        }
    }
}

#[tokio::test]
async fn a_produce_leaves_what_was_committed_and_nothing_else() {
    each(Operation::Produce).await;
}

#[tokio::test]
async fn a_consume_leaves_what_was_not_committed_and_nothing_else() {
    each(Operation::Consume).await;
}

#[tokio::test]
async fn a_move_leaves_every_message_at_one_place() {
    each(Operation::Move).await;
}

async fn each(operation: Operation) {
    let tries = (0..)
        .zip(faults(operation))
        .flat_map(|(index, fault)| (0..seeds().div_ceil(2)).map(move |seed| (fault, seed * 1000 + index)));
    in_parallel_on(On::IbmMq, tries, async |stand, (fault, seed)| one(stand, operation, fault, seed).await)
        .await;
}

async fn one(stand: &mut Stand, operation: Operation, fault: Fault, seed: u64) {
    println!("{operation:?}, {fault:?}, seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut journey = Journey::begin(stand, operation, Load::Usual, &mut random).await;
    let reply = journey.suffer(stand, fault, &mut random).await;
    let expected = match fault.on_ibm_mq(operation) {
        Fault::AtManager(at) => at.expected(operation).map(<[_]>::to_vec),
        other => Some(vec![other.expected(operation)]),
    };
    if let Some(expected) = expected {
        assert!(expected.contains(&told(&reply.answer).as_str()), "{expected:?}: {}", told(&reply.answer));
    }
    stand.heal().await;
    let (left, there) = journey.on_queue(stand).await;
    let done = journey.until_done(stand).await;
    let (count, all) = (journey.count, journey.told());
    let answer = done.answer.json();
    let is_replay = done.answer.header("idempotent-replay") == Some("true");
    let twice = journey.check(stand, &done).await;
    println!("| {fault:?} | {operation:?} of {count} | {left} of {there} | {all} | {twice} twice");
    match operation {
        Operation::Produce => {
            let number = |name: &str| usize::try_from(answer[name].as_u64().unwrap()).unwrap();
            assert_eq!(twice, 0, "a retry finds what is there: {answer}");
            // What was found is there once for certain.
            let again = if is_replay { 0 } else { count - number("resumedFrom") };
            assert_eq!(left + again, count, "{answer}");
            assert!(number("possibleDuplicates") <= again, "{answer}");
        }
        Operation::Consume => {
            // All of the unit of work is back, or none of it. It is the answer's only if that was
            // stored before.
            let got = usize::try_from(answer["count"].as_u64().unwrap()).unwrap();
            let is_stored = answer["deliveryInDoubt"] == true;
            assert_eq!(twice, if is_stored && left == there { got } else { 0 }, "{answer}");
            assert!(!is_stored || left == there || left + got == there, "{left} of {there} are left");
        }
        Operation::Move => assert_eq!(twice, 0, "{answer}"),
    }
}

/// Checks each operation after two to four faults in a row under one idempotency key, some of them
/// at a random moment.
#[tokio::test]
async fn everything_ends_well_after_sequences_of_faults() {
    const PER_SEED: u64 = 4;
    in_parallel_on(On::IbmMq, 0..seeds() * PER_SEED, async |stand, seed| {
        for operation in [Operation::Produce, Operation::Consume, Operation::Move] {
            let mut faults = faults(operation);
            let any_moment = [Victim::Front, Victim::MqAccess].map(Fault::AtAnyMoment);
            faults.extend(any_moment.repeat(4));
            let mut random = fastrand::Rng::with_seed(seed);
            let chosen: Vec<_> =
                (0..random.usize(2..=4)).map(|_| faults[random.usize(0..faults.len())]).collect();
            println!("{operation:?}, seed {seed}: {chosen:?}");
            let mut journey = Journey::begin(stand, operation, Load::Usual, &mut random).await;
            for fault in chosen {
                journey.suffer(stand, fault, &mut random).await;
                stand.heal().await;
                stand.age(&journey.asked).await;
            }
            let done = journey.until_done(stand).await;
            println!("{operation:?}, seed {seed}: {}", journey.told());
            journey.check(stand, &done).await;
        }
    })
    .await;
}

/// Checks that an operation ends in time if its MQCMIT hangs. Whether the commit took effect is
/// unknown then.
#[tokio::test]
async fn a_commit_that_is_never_answered_ends_in_time() {
    let hanging = async |operation: Operation, when: &str, expected: &str| {
        let mut stand = Stand::start_on(On::IbmMq).await;
        let mut random = fastrand::Rng::with_seed(9);
        let mut journey = Journey::begin(&stand, operation, Load::Usual, &mut random).await;
        if operation == Operation::Produce {
            journey.asked.body["batch"]["transaction"] = json!({"enabled": false});
        }
        stand.broker.manager().fault(&json!({"verb": "MQCMIT", "hang": true, "when": when}));
        let reply = stand.ask(&journey.asked).await;
        assert_eq!(told(&reply.answer), expected, "{operation:?}, {when}");
        assert!(reply.took < Duration::from_secs(28), "{:?}", reply.took);
        journey.replies.push(reply);
        // The call is under way until its process ends.
        stand.mq_access.end_idle();
        let done = journey.until_done(&mut stand).await;
        journey.check(&stand, &done).await;
    };
    tokio::join!(
        hanging(Operation::Produce, "after", "201"),
        hanging(Operation::Consume, "before", "502 OUTCOME_IN_DOUBT"),
        hanging(Operation::Consume, "after", "502 OUTCOME_IN_DOUBT"),
    );
}

/// Checks that an environment of `mq-access` ends when no connection is usable any more, so that
/// the next request gets another one. A connection whose work cannot be backed out stays open until
/// its process ends.
#[tokio::test]
async fn an_environment_that_can_open_no_connection_ends() {
    let mut stand = Stand::start_on(On::IbmMq).await;
    let queue = stand.broker.queue().await;
    let members = json!({"messages": [{"bodyText": "a"}, {"bodyText": "b"}]});
    for _ in 0..CONNECTION_CAP {
        let manager = stand.broker.manager();
        manager.fault(&json!({"verb": "MQPUT", "nth": 2, "reason": 2053}));
        manager.fault(&json!({"verb": "MQBACK", "reason": 2102, "times": 9}));
        let refused = stand.ask(&stand.request(Operation::Produce, &queue, members.clone())).await;
        assert_eq!(told(&refused.answer), "502 QUEUE_FULL");
        manager.control(&json!("reset"));
    }
    let ended = async {
        while !stand.mq_access.has_ended() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), ended).await.expect("the environment ends");
    let asked = stand.request(Operation::Produce, &queue, members);
    assert_eq!(told(&stand.ask(&asked).await.answer), "201");
    assert_eq!(stand.broker.ready(&queue).await, 2, "what was left open is not backed out");
    stand.heal().await;
}

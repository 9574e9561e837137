//! The same on IBM MQ, whose units of work happen wholly or not at all. So what is there twice, or
//! on the queue as well as in an answer, can be counted to the message.

use std::time::Duration;

use end_to_end::On;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::crash::fault::{EITHER, Fault, Struck, Victim};
use crate::crash::journey::{Journey, Load, told};
use crate::crash::stand::faults::{Blow, Op};
use crate::crash::stand::{Asked, Operation, Reply, Stand};
use crate::crash::{in_parallel_on, seeds};

/// The template's.
const CONNECTION_CAP: usize = 5;

/// A call of the MQI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Put,
    Get,
    Commit,
}

/// When something befalls a call: what it asks for is not done then, or it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Before,
    After,
}

/// Fault at the queue manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtManager {
    /// `mq-access` dies while the call is under way.
    Killed(Verb, When),
    /// The connection breaks.
    Cut(Verb, When),
    /// The queue manager dies while the call is under way, and runs again.
    Restarted(Verb, When),
    /// The commit ends with this reason code.
    Committed(u16, When),
}

use AtManager::{Committed, Cut, Killed, Restarted};
use Verb::{Commit, Get, Put};
use When::{After, Before};

const BACKED_OUT: u16 = 2003;
const CALL_INTERRUPTED: u16 = 2549;

/// Faults that befall a commit.
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

/// Lists the faults that can befall an operation.
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
    /// Lists what a client may be told, as status and reason; `None` for a restart, which may be
    /// over before the library has noticed it.
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

    /// Asks while this happens, at the `nth` call of its verb.
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

/// The unit of work, counted from 1, that has the message of this number.
fn unit_of(asked: &Asked, at: usize) -> usize {
    let transaction = &asked.body["batch"]["transaction"];
    match transaction["txSize"].as_u64() {
        Some(size) if transaction["enabled"] == true => at / usize::try_from(size).unwrap() + 1,
        _ => 1,
    }
}

/// Waits until the fault has come; `false` if the answer came first.
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
    /// Returns the fault of IBM MQ that corresponds to this one.
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

/// Several faults under one key, among them some at any moment.
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

/// The commit hangs until `mq-access` gives up, and it is unknown whether it happened.
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

/// A connection whose work cannot be backed out stays open, and nothing but the end of its process
/// ends it. So a process in which every connection is such a one ends, and the next request gets
/// another.
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

//! Faults of the crash tests, and the code that inflicts each of them on one request.

use std::time::Duration;

use end_to_end::{Queue, Site};
use tokio::task::JoinHandle;

use crate::crash::ibm_mq::AtManager;
use crate::crash::moves::MOVE_ONLY;
use crate::crash::stand::faults::{Blow, Held, Op};
use crate::crash::stand::network::{ACK, Cut, GET_OK, PUBLISH, QUEUE_DECLARE_OK, Reached};
use crate::crash::stand::{Asked, Operation, Reply, Stand};

/// Process or connection that a fault ends at a random moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Victim {
    Front,
    MqAccess,
    Connection,
}

/// Fault that a request meets. Variants that begin with `Front` kill the HTTP function, such as
/// `produce`; the others with `Killed` kill `mq-access`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The HTTP function dies before its claim reaches the store.
    FrontKilledBeforeClaim,
    FrontKilledAfterClaim,
    /// The HTTP function dies while `mq-access` works, which completes its work.
    FrontKilledDuringWork,
    /// `mq-access` dies before it reads its work order.
    KilledOnArrival,
    /// `mq-access` dies while it publishes, or while it has unacknowledged messages and nothing is
    /// stored.
    KilledMidway,
    /// `mq-access` dies when a consume's result is stored and no message is acknowledged.
    KilledBeforeCommit,
    /// `mq-access` dies when moved messages are on their destination queue, but not in the record.
    KilledBeforeCheckpoint,
    /// `mq-access` dies when a produce has recorded its progress and continues, or when a move has
    /// recorded it and the messages are still on their source queue.
    KilledAfterCheckpoint,
    /// `mq-access` dies before it stores a large result in S3.
    KilledBeforeObject,
    KilledAfterObject,
    /// `mq-access` dies when the broker has done the work, but the record does not say so.
    KilledBeforeCompletion,
    /// `mq-access` dies when the record is complete and the response is not sent.
    KilledAfterCompletion,
    /// A single request of the kind `Op` to the store fails in the way of [`Blow`].
    Store(Op, Blow),
    /// All requests of the kind `Op` to the store fail in the way of [`Blow`].
    StoreEvery(Op, Blow),
    /// All requests to the store fail in the way of [`Blow`], including those for API keys.
    StoreDown(Blow),
    /// The broker cannot be reached, and the store fails when that failure is to be recorded.
    BrokerAndStoreDown,
    /// The broker refuses TCP connections.
    BrokerDown,
    /// The connection to the broker breaks during a produce, or at a consume's first message.
    CutMidway(Cut),
    /// The connection breaks when the broker sends a publisher confirm.
    ConfirmsCut(Cut),
    /// All messages of a produce are on the queue, but all confirms after the first are lost.
    ConfirmsLost,
    /// The connection breaks before the acknowledgement of a consume or move reaches the broker.
    CommitCut(Cut),
    /// The connection breaks after the acknowledgement of a consume or move, so that the broker's
    /// confirming answer is lost.
    CommitAnswerCut(Cut),
    /// The HTTP function's invocation of `mq-access` fails in the way of [`Blow`].
    Handover(Blow),
    /// Fault at IBM MQ's queue manager.
    AtManager(AtManager),
    /// The process or connection ends at a random moment.
    AtAnyMoment(Victim),
}

/// Delay that exceeds the time-out of one attempt of the AWS SDK.
pub(crate) const LATE: Duration = Duration::from_millis(1_200);
/// Delay after which `mq-access` must refuse a work order as too late, even if the clocks differ.
pub(crate) const TOO_LATE: Duration = Duration::from_millis(8_300);

/// Time without growth after which a queue is taken to have every message that was sent.
const ALL_IS_PUT: Duration = Duration::from_millis(60);

/// Faults that can strike any operation. The first seven are crashes of a process.
pub(crate) const EITHER: &[Fault] = &[
    Fault::FrontKilledBeforeClaim,
    Fault::FrontKilledAfterClaim,
    Fault::FrontKilledDuringWork,
    Fault::KilledOnArrival,
    Fault::KilledMidway,
    Fault::KilledBeforeCompletion,
    Fault::KilledAfterCompletion,
    Fault::Store(Op::Claim, Blow::DropRequest),
    Fault::Store(Op::Claim, Blow::DropAnswer),
    Fault::Store(Op::Claim, Blow::SwallowAnswer),
    Fault::Store(Op::Claim, Blow::Late(LATE)),
    Fault::Store(Op::Claim, Blow::Status(500)),
    Fault::Store(Op::Complete, Blow::DropRequest),
    Fault::Store(Op::Complete, Blow::DropAnswer),
    Fault::Store(Op::Complete, Blow::SwallowAnswer),
    Fault::Store(Op::Complete, Blow::Late(LATE)),
    Fault::Store(Op::Complete, Blow::Status(503)),
    Fault::StoreEvery(Op::Claim, Blow::DropRequest),
    Fault::StoreEvery(Op::Claim, Blow::DropAnswer),
    Fault::StoreEvery(Op::Complete, Blow::DropRequest),
    Fault::StoreEvery(Op::Complete, Blow::DropAnswer),
    Fault::StoreDown(Blow::DropRequest),
    Fault::StoreDown(Blow::SwallowRequest),
    Fault::StoreDown(Blow::Status(500)),
    Fault::BrokerDown,
    Fault::BrokerAndStoreDown,
    Fault::CutMidway(Cut::Fin),
    Fault::CutMidway(Cut::Reset),
    Fault::Handover(Blow::Status(429)),
    Fault::Handover(Blow::Status(500)),
    Fault::Handover(Blow::DropRequest),
    Fault::Handover(Blow::DropAnswer),
    Fault::Handover(Blow::Late(TOO_LATE)),
];

pub(crate) const PRODUCE_ONLY: &[Fault] =
    &[Fault::ConfirmsCut(Cut::Fin), Fault::ConfirmsCut(Cut::Reset), Fault::ConfirmsLost];

pub(crate) const CONSUME_ONLY: &[Fault] = &[
    Fault::KilledBeforeCommit,
    Fault::Store(Op::Prepare, Blow::DropRequest),
    Fault::Store(Op::Prepare, Blow::DropAnswer),
    Fault::Store(Op::Prepare, Blow::SwallowAnswer),
    Fault::Store(Op::Prepare, Blow::Late(LATE)),
    Fault::Store(Op::Prepare, Blow::Status(500)),
    Fault::StoreEvery(Op::Prepare, Blow::DropRequest),
    Fault::StoreEvery(Op::Prepare, Blow::DropAnswer),
    Fault::CommitCut(Cut::Fin),
    Fault::CommitCut(Cut::Reset),
    Fault::CommitAnswerCut(Cut::Fin),
    Fault::CommitAnswerCut(Cut::Reset),
];

/// Faults at a random moment, after which several responses are right.
pub(crate) const AT_ANY_MOMENT: &[Fault] = &[
    Fault::AtAnyMoment(Victim::Front),
    Fault::AtAnyMoment(Victim::MqAccess),
    Fault::AtAnyMoment(Victim::Connection),
];

/// Request that a fault strikes, with its queue and the time of the fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Struck<'a> {
    pub(crate) asked: &'a Asked,
    pub(crate) queue: &'a Queue,
    /// Index of the message at which the fault strikes. Faults at any moment use `moment` instead,
    /// which counts from the request.
    pub(crate) at: usize,
    pub(crate) moment: Duration,
}

impl Fault {
    /// Lists the faults that can strike an operation on RabbitMQ.
    pub(crate) fn of(operation: Operation) -> Vec<Self> {
        let own = match operation {
            Operation::Produce => PRODUCE_ONLY,
            Operation::Consume => CONSUME_ONLY,
            Operation::Move => MOVE_ONLY,
        };
        [EITHER, own].concat()
    }

    /// Returns true if a test of this fault takes seconds. Such a fault is tested once, not for
    /// each seed.
    pub(crate) fn takes_seconds(self) -> bool {
        matches!(
            self,
            Self::StoreDown(Blow::SwallowRequest)
                | Self::StoreEvery(_, Blow::SwallowRequest)
                | Self::Handover(Blow::Late(_))
        )
    }

    /// Returns the status and the reason in the response that a client gets if this is the
    /// request's first fault.
    pub(crate) fn expected(self, operation: Operation) -> &'static str {
        let done = match operation {
            Operation::Produce => "201",
            Operation::Consume | Operation::Move => "200",
        };
        match self {
            Self::FrontKilledBeforeClaim | Self::FrontKilledAfterClaim | Self::FrontKilledDuringWork => "500",
            Self::StoreEvery(Op::Checkpoint, _) if operation == Operation::Move => "503 STORE_UNAVAILABLE",
            Self::Store(..) | Self::StoreEvery(Op::Complete | Op::Checkpoint, _) => done,
            Self::StoreEvery(..) | Self::StoreDown(_) => "503 STORE_UNAVAILABLE",
            Self::BrokerDown | Self::BrokerAndStoreDown => "503 BROKER_UNREACHABLE",
            Self::CutMidway(_) if operation == Operation::Consume => "503 BROKER_UNREACHABLE",
            Self::Handover(Blow::Status(429) | Blow::Late(_)) => "503 BUSY",
            Self::AtAnyMoment(_) | Self::AtManager(_) => panic!("it depends on the moment"),
            Self::KilledOnArrival
            | Self::KilledMidway
            | Self::KilledBeforeCommit
            | Self::KilledBeforeCheckpoint
            | Self::KilledAfterCheckpoint
            | Self::KilledBeforeObject
            | Self::KilledAfterObject
            | Self::KilledBeforeCompletion
            | Self::KilledAfterCompletion
            | Self::CutMidway(_)
            | Self::ConfirmsCut(_)
            | Self::ConfirmsLost
            | Self::CommitCut(_)
            | Self::CommitAnswerCut(_)
            | Self::Handover(_) => "502 OUTCOME_IN_DOUBT",
        }
    }

    /// Sends the request, inflicts the fault on it, and returns the response.
    pub(crate) async fn strike(self, stand: &mut Stand, struck: Struck<'_>) -> Reply {
        let Struck { asked, at, .. } = struck;
        let fault = match stand.broker {
            Site::RabbitMq(_) => self,
            Site::IbmMq(..) => self.on_ibm_mq(asked.operation),
        };
        match fault {
            Self::AtManager(at_manager) => at_manager.strike(stand, struck).await,
            Self::FrontKilledBeforeClaim => {
                let held = stand.faults.hold_request(Op::Claim);
                held_and(stand, asked, held, |stand| stand.front(asked.operation).kill()).await
            }
            Self::FrontKilledAfterClaim => {
                let held = stand.faults.hold_answer(Op::Claim);
                held_and(stand, asked, held, |stand| stand.front(asked.operation).kill()).await
            }
            Self::FrontKilledDuringWork => front_killed_during_work(stand, asked).await,
            Self::KilledOnArrival => {
                stand.lambda.kill_on_arrival();
                stand.ask(asked).await
            }
            Self::KilledMidway if asked.operation != Operation::Consume => {
                let reached = stand.network.swallow_from(PUBLISH, at);
                cut_and(stand, asked, reached, |stand| stand.mq_access.kill()).await
            }
            Self::KilledMidway => killed_at(stand, asked, stand.faults.hold_request(Op::Prepare)).await,
            Self::KilledBeforeCommit => killed_at(stand, asked, stand.faults.hold_answer(Op::Prepare)).await,
            Self::KilledBeforeCompletion => {
                killed_at(stand, asked, stand.faults.hold_request(Op::Complete)).await
            }
            Self::KilledAfterCompletion => {
                killed_at(stand, asked, stand.faults.hold_answer(Op::Complete)).await
            }
            Self::KilledBeforeCheckpoint => {
                killed_at(stand, asked, stand.faults.hold_request(Op::Checkpoint)).await
            }
            Self::KilledAfterCheckpoint => {
                killed_at(stand, asked, stand.faults.hold_answer(Op::Checkpoint)).await
            }
            Self::KilledBeforeObject => {
                killed_at(stand, asked, stand.faults.hold_request(Op::PutObject)).await
            }
            Self::KilledAfterObject => killed_at(stand, asked, stand.faults.hold_answer(Op::PutObject)).await,
            Self::Store(op, blow) => {
                stand.faults.next(op, blow);
                stand.ask(asked).await
            }
            Self::StoreEvery(op, blow) => {
                stand.faults.every(op, blow);
                stand.ask(asked).await
            }
            Self::StoreDown(blow) => {
                for op in
                    [Op::Access, Op::Claim, Op::TakeOver, Op::Checkpoint, Op::Prepare, Op::Complete, Op::Fail]
                {
                    stand.faults.every(op, blow);
                }
                stand.ask(asked).await
            }
            Self::BrokerAndStoreDown => {
                stand.stop_broker().await;
                stand.faults.every(Op::Fail, Blow::DropRequest);
                stand.ask(asked).await
            }
            Self::BrokerDown => {
                stand.stop_broker().await;
                stand.ask(asked).await
            }
            Self::CutMidway(cut) if asked.operation != Operation::Consume => {
                let reached = stand.network.cut_at(PUBLISH, at, cut);
                cut_and(stand, asked, reached, |_| ()).await
            }
            Self::CutMidway(cut) => {
                let reached = stand.network.cut_at(GET_OK, 0, cut);
                cut_and(stand, asked, reached, |_| ()).await
            }
            // The first message goes alone and is confirmed alone. That of a move is then
            // acknowledged.
            Self::ConfirmsCut(cut) => {
                let nth = if asked.operation == Operation::Move { 0 } else { 1 };
                let reached = stand.network.cut_at(ACK, nth, cut);
                cut_and(stand, asked, reached, |_| ()).await
            }
            Self::ConfirmsLost => confirms_lost(stand, struck).await,
            Self::CommitCut(cut) => {
                let nth = if asked.operation == Operation::Move { 1 } else { 0 };
                let reached = stand.network.cut_at(ACK, nth, cut);
                cut_and(stand, asked, reached, |_| ()).await
            }
            Self::CommitAnswerCut(cut) => {
                let reached = stand.network.cut_after(ACK, QUEUE_DECLARE_OK, cut);
                cut_and(stand, asked, reached, |_| ()).await
            }
            Self::Handover(blow) => {
                stand.faults.next(Op::Invoke, blow);
                stand.ask(asked).await
            }
            Self::AtAnyMoment(victim) => {
                let reply = stand.ask_later(asked);
                tokio::time::sleep(struck.moment).await;
                match victim {
                    Victim::Front => drop(stand.front(asked.operation).kill_any()),
                    Victim::MqAccess => drop(stand.mq_access.kill_any()),
                    Victim::Connection => stand.network.cut(Cut::Reset),
                }
                reply.await.unwrap()
            }
        }
    }
}

/// Sends a request, and calls `then` once the proxy holds a request to the store. If the response
/// comes first, returns it, since the fault did not happen.
async fn held_and(stand: &Stand, asked: &Asked, mut held: Held, then: impl FnOnce(&Stand)) -> Reply {
    let mut reply = stand.ask_later(asked);
    tokio::select! {
        () = held.reached() => then(stand),
        early = &mut reply => return early.unwrap(),
    }
    let reply = reply.await.unwrap();
    // Not before: the request that is held must not go on.
    drop(held);
    reply
}

async fn killed_at(stand: &Stand, asked: &Asked, held: Held) -> Reply {
    held_and(stand, asked, held, |stand| stand.mq_access.kill()).await
}

async fn cut_and(stand: &Stand, asked: &Asked, reached: Reached, then: impl FnOnce(&Stand)) -> Reply {
    let mut reply: JoinHandle<Reply> = stand.ask_later(asked);
    tokio::select! {
        () = reached.reached() => then(stand),
        early = &mut reply => return early.unwrap(),
    }
    reply.await.unwrap()
}

async fn front_killed_during_work(stand: &Stand, asked: &Asked) -> Reply {
    let mut held = stand.faults.hold_request(Op::Complete);
    let mut reply = stand.ask_later(asked);
    tokio::select! {
        () = held.reached() => stand.front(asked.operation).kill(),
        early = &mut reply => return early.unwrap(),
    }
    let reply = reply.await.unwrap();
    held.release();
    stand.mq_access.settled().await;
    reply
}

async fn confirms_lost(stand: &Stand, Struck { asked, queue, .. }: Struck<'_>) -> Reply {
    // The first message goes alone and is confirmed alone.
    let reached = stand.network.swallow_from(ACK, 1);
    let mut reply = stand.ask_later(asked);
    tokio::select! {
        () = reached.reached() => {}
        early = &mut reply => return early.unwrap(),
    }
    let mut there = (0, stand.broker.ready(queue).await);
    while there.0 != there.1 {
        tokio::time::sleep(ALL_IS_PUT).await;
        there = (there.1, stand.broker.ready(queue).await);
    }
    stand.network.cut(Cut::Fin);
    reply.await.unwrap()
}

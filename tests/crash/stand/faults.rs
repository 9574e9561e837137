//! What goes wrong between two programs, and when: rules over the requests that pass.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use test_support::http_server::{Answer, response};
use tokio::sync::oneshot;

/// Time that a crash point may take to be reached.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request, by what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    /// An item of the access table is read.
    Access,
    Claim,
    TakeOver,
    Checkpoint,
    Prepare,
    Complete,
    Fail,
    /// The item of a batch.
    PutBatch,
    PutObject,
    GetObject,
    /// Whether an object is there.
    HeadObject,
    /// A message to a queue.
    Send,
    /// The order to `mq-access`.
    Invoke,
    Other,
}

/// Effect of a rule on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blow {
    /// The request never arrives: the connection is closed.
    DropRequest,
    /// The request is done, and the connection is closed instead of an answer.
    DropAnswer,
    /// The request never arrives, and its sender gets no response.
    SwallowRequest,
    /// The request is done, and no answer comes.
    SwallowAnswer,
    /// The request arrives late.
    Late(Duration),
    /// The request is refused with this status.
    Status(u16),
}

#[derive(Debug)]
enum Effect {
    Blow(Blow),
    /// The request waits; `true` is before it is done, `false` after.
    Hold {
        before: bool,
        reached: oneshot::Sender<()>,
        go: oneshot::Receiver<()>,
    },
}

#[derive(Debug)]
struct Rule {
    op: Option<Op>,
    skip: usize,
    left: usize,
    effect: Effect,
}

/// The rules in force, and what passed. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    rules: Arc<Mutex<Vec<Rule>>>,
    seen: Arc<Mutex<Vec<Op>>>,
    weather: Arc<Mutex<Option<Weather>>>,
}

/// Blows that strike any request, with a probability.
#[derive(Debug)]
struct Weather {
    random: fastrand::Rng,
    probability: f64,
}

impl Weather {
    fn strike(&mut self) -> Option<Effect> {
        let blows = [Blow::DropRequest, Blow::DropAnswer, Blow::Status(500)];
        let struck = self.random.f64() < self.probability;
        struck.then(|| Effect::Blow(blows[self.random.usize(0..blows.len())]))
    }
}

/// A request that waits. Dropping this closes its connection: it is never done, or never answered.
#[derive(Debug)]
pub(crate) struct Held {
    reached: Option<oneshot::Receiver<()>>,
    go: oneshot::Sender<()>,
}

impl Held {
    /// Waits for the request to come.
    pub(crate) async fn reached(&mut self) {
        let reached = self.reached.take().expect("it is waited for once");
        tokio::time::timeout(PATIENCE, reached).await.expect("the crash point is reached").unwrap();
    }

    /// Lets the request go on.
    pub(crate) fn release(self) {
        let _ = self.go.send(());
    }
}

impl Faults {
    /// Strikes the `nth` request of a kind, counted from 0.
    pub(crate) fn nth(&self, op: Op, nth: usize, blow: Blow) {
        self.add(Rule { op: Some(op), skip: nth, left: 1, effect: Effect::Blow(blow) });
    }

    /// Strikes the next request of a kind.
    pub(crate) fn next(&self, op: Op, blow: Blow) {
        self.nth(op, 0, blow);
    }

    /// Strikes every request of a kind from now on.
    pub(crate) fn every(&self, op: Op, blow: Blow) {
        self.add(Rule { op: Some(op), skip: 0, left: usize::MAX, effect: Effect::Blow(blow) });
    }

    /// Strikes every request from now on.
    pub(crate) fn all(&self, blow: Blow) {
        self.add(Rule { op: None, skip: 0, left: usize::MAX, effect: Effect::Blow(blow) });
    }

    /// Holds the next request of a kind before it is done.
    pub(crate) fn hold_request(&self, op: Op) -> Held {
        self.hold_nth_request(op, 0)
    }

    /// Holds the `nth` request of a kind, counted from 0, before it is done.
    pub(crate) fn hold_nth_request(&self, op: Op, nth: usize) -> Held {
        self.hold(op, nth, true)
    }

    /// Holds the next request's answer.
    pub(crate) fn hold_answer(&self, op: Op) -> Held {
        self.hold_nth_answer(op, 0)
    }

    /// Holds the answer to the `nth` request of a kind.
    pub(crate) fn hold_nth_answer(&self, op: Op, nth: usize) -> Held {
        self.hold(op, nth, false)
    }

    fn hold(&self, op: Op, nth: usize, before: bool) -> Held {
        let ((arrived, reached), (go, gone)) = (oneshot::channel(), oneshot::channel());
        let effect = Effect::Hold { before, reached: arrived, go: gone };
        self.add(Rule { op: Some(op), skip: nth, left: 1, effect });
        Held { reached: Some(reached), go }
    }

    fn add(&self, rule: Rule) {
        self.rules.lock().unwrap().push(rule);
    }

    /// Strikes requests of all kinds with a probability.
    pub(crate) fn weather(&self, probability: f64, random: fastrand::Rng) {
        *self.weather.lock().unwrap() = Some(Weather { random, probability });
    }

    /// Ends all faults.
    pub(crate) fn clear(&self) {
        *self.weather.lock().unwrap() = None;
        self.rules.lock().unwrap().clear();
    }

    /// Counts the requests of a kind that came, struck or not.
    pub(crate) fn seen(&self, op: Op) -> usize {
        self.seen.lock().unwrap().iter().filter(|seen| **seen == op).count()
    }

    fn strike(&self, op: Op) -> Option<Effect> {
        self.seen.lock().unwrap().push(op);
        if let Some(weather) = self.weather.lock().unwrap().as_mut() {
            return weather.strike();
        }
        let mut rules = self.rules.lock().unwrap();
        let index = rules.iter().position(|rule| rule.op.is_none_or(|wanted| wanted == op))?;
        let rule = &mut rules[index];
        if rule.skip > 0 {
            rule.skip -= 1;
            return None;
        }
        if let (Effect::Blow(blow), true) = (&rule.effect, rule.left > 1) {
            return Some(Effect::Blow(*blow));
        }
        Some(rules.remove(index).effect)
    }

    /// Lets a request through as far as the rules allow. What is done is done also where its sender
    /// has gone away.
    pub(crate) async fn pass(
        &self,
        op: Op,
        forward: impl Future<Output = Response<Bytes>> + Send + 'static,
    ) -> Answer {
        let struck = self.strike(op);
        tokio::spawn(async move { suffer(struck, forward).await }).await.unwrap()
    }
}

async fn suffer(struck: Option<Effect>, forward: impl Future<Output = Response<Bytes>>) -> Answer {
    match struck {
        None => Some(forward.await),
        Some(Effect::Blow(Blow::DropRequest)) => None,
        Some(Effect::Blow(Blow::DropAnswer)) => {
            forward.await;
            None
        }
        Some(Effect::Blow(Blow::SwallowRequest)) => std::future::pending().await,
        Some(Effect::Blow(Blow::SwallowAnswer)) => {
            forward.await;
            std::future::pending().await
        }
        Some(Effect::Blow(Blow::Late(delay))) => {
            tokio::time::sleep(delay).await;
            Some(forward.await)
        }
        Some(Effect::Blow(Blow::Status(status))) => Some(refusal(status)),
        Some(Effect::Hold { before: true, reached, go }) => {
            let _ = reached.send(());
            go.await.ok()?;
            Some(forward.await)
        }
        Some(Effect::Hold { before: false, reached, go }) => {
            let answer = forward.await;
            let _ = reached.send(());
            go.await.ok()?;
            Some(answer)
        }
    }
}

/// Returns an error in the form of AWS's JSON protocols; in any other form the SDK reads only the
/// status.
fn refusal(status: u16) -> Response<Bytes> {
    let kind = match status {
        429 => "TooManyRequestsException",
        503 => "ServiceUnavailable",
        _ => "InternalServerError",
    };
    let mut refusal = response(status, format!(r#"{{"__type":"{kind}","message":"a fault of the tests"}}"#));
    refusal.headers_mut().insert("x-amzn-errortype", http::HeaderValue::from_static(kind));
    refusal
}

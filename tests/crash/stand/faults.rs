//! Faults between two programs of the crash tests: rules of a proxy about the requests that pass
//! it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use test_support::http_server::{Answer, response};
use tokio::sync::oneshot;

/// Maximum time until a request that a test wants to hold reaches the proxy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Kind of a request that passes a proxy, by its meaning for the program that sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    /// Request other than `PutItem` to a DynamoDB table that is not the idempotency table, for
    /// example the read of an API key or of a batch item.
    Access,
    Claim,
    TakeOver,
    Checkpoint,
    Prepare,
    Complete,
    Fail,
    /// Write of a batch item.
    PutBatch,
    PutObject,
    GetObject,
    /// HEAD request, which asks whether an S3 object exists.
    HeadObject,
    /// Send of a message to an SQS queue.
    Send,
    /// Invocation of `mq-access` by an HTTP function.
    Invoke,
    Other,
}

/// Failure that the proxy inflicts on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blow {
    /// Closes the sender's connection, and does not forward the request.
    DropRequest,
    /// Forwards the request, but closes the sender's connection in place of the response.
    DropAnswer,
    /// Neither forwards the request nor responds. The connection stays open.
    SwallowRequest,
    /// Forwards the request, but does not respond. The connection stays open.
    SwallowAnswer,
    /// Forwards the request after this delay.
    Late(Duration),
    /// Responds with this HTTP status, and does not forward the request.
    Status(u16),
}

#[derive(Debug)]
enum Effect {
    Blow(Blow),
    /// Holds the request: before it is forwarded if `before`, otherwise before its response is
    /// returned.
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

/// Rules for the requests that pass a proxy, and the kinds of those that have passed. Clones share
/// both.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    rules: Arc<Mutex<Vec<Rule>>>,
    seen: Arc<Mutex<Vec<Op>>>,
    weather: Arc<Mutex<Option<Weather>>>,
}

/// Random failures of requests of any kind, each with this probability.
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

/// Request that the proxy holds for a test. Dropping this closes the sender's connection, so that
/// the request is never forwarded, or never answered.
#[derive(Debug)]
pub(crate) struct Held {
    reached: Option<oneshot::Receiver<()>>,
    go: oneshot::Sender<()>,
}

impl Held {
    /// Waits until the request has reached the proxy. Panics after [`PATIENCE`].
    pub(crate) async fn reached(&mut self) {
        let reached = self.reached.take().expect("it is waited for once");
        tokio::time::timeout(PATIENCE, reached).await.expect("the crash point is reached").unwrap();
    }

    /// Lets the proxy forward the request, or return its response.
    pub(crate) fn release(self) {
        let _ = self.go.send(());
    }
}

impl Faults {
    /// Makes the `nth` of the following requests of a kind fail, counted from 0.
    pub(crate) fn nth(&self, op: Op, nth: usize, blow: Blow) {
        self.add(Rule { op: Some(op), skip: nth, left: 1, effect: Effect::Blow(blow) });
    }

    /// Makes the next request of a kind fail.
    pub(crate) fn next(&self, op: Op, blow: Blow) {
        self.nth(op, 0, blow);
    }

    /// Makes every request of a kind fail from now on.
    pub(crate) fn every(&self, op: Op, blow: Blow) {
        self.add(Rule { op: Some(op), skip: 0, left: usize::MAX, effect: Effect::Blow(blow) });
    }

    /// Makes every request fail from now on.
    pub(crate) fn all(&self, blow: Blow) {
        self.add(Rule { op: None, skip: 0, left: usize::MAX, effect: Effect::Blow(blow) });
    }

    /// Holds the next request of a kind before it is forwarded.
    pub(crate) fn hold_request(&self, op: Op) -> Held {
        self.hold_nth_request(op, 0)
    }

    /// Holds the `nth` of the following requests of a kind, counted from 0, before it is forwarded.
    pub(crate) fn hold_nth_request(&self, op: Op, nth: usize) -> Held {
        self.hold(op, nth, true)
    }

    /// Forwards the next request of a kind, and holds the response to it.
    pub(crate) fn hold_answer(&self, op: Op) -> Held {
        self.hold_nth_answer(op, 0)
    }

    /// Forwards the `nth` of the following requests of a kind, counted from 0, and holds the
    /// response to it.
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

    /// Makes requests of any kind fail at random from now on, each with this probability.
    pub(crate) fn weather(&self, probability: f64, random: fastrand::Rng) {
        *self.weather.lock().unwrap() = Some(Weather { random, probability });
    }

    /// Removes all rules, so that requests do not fail any more.
    pub(crate) fn clear(&self) {
        *self.weather.lock().unwrap() = None;
        self.rules.lock().unwrap().clear();
    }

    /// Returns the number of requests of a kind that reached the proxy, including those that
    /// failed.
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

    /// Forwards a request by `forward`, as far as the rules allow. A request that is forwarded is
    /// completed even if its sender has closed the connection.
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

/// Returns an error response in the form of AWS's JSON protocols. From any other form the SDK reads
/// only the status.
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

//! Events of a test's state machine, and the answers to them.

use jiff::Timestamp;
use load_test::store::TestRun;
use load_test::{Lane, Plan, Step, Window};
use serde::{Deserialize, Serialize};

/// Action that the state machine of a load test asks for. Members that the action does not need are
/// ignored.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
pub enum Event {
    /// Begin a run (the whole test, or one rate of a search). No run begins if the test was
    /// stopped, has failed or has ended, or if the test's queues cannot be used.
    Prepare(TestRun),
    /// Work as one worker until the end of one minute of the test.
    Step(Turn),
    /// Close a run: judge it and, if no other run follows, end the test with its report.
    Close(Closing),
}

/// Turn of a lane (one of a worker's two series of invocations): one attempt to work in one minute
/// of the test.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Turn {
    #[serde(flatten)]
    pub of: TestRun,
    pub lane: Lane,
    pub window: Window,
    pub attempt: u32,
}

/// Run of a load test that is to be closed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Closing {
    #[serde(flatten)]
    pub of: TestRun,
    /// True in an execution of the state machine that only closes the test, because the execution
    /// that ran the test is gone, or because the test was stopped while no worker was running.
    #[serde(default)]
    pub close: bool,
}

/// Response of the function to an event of the state machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Answer {
    Prepared(Lanes),
    Done(NextTurn),
    Closed(Closed),
}

/// Lanes of a run (the series of invocations that do the workers' work); empty if there is nothing
/// to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lanes {
    #[serde(flatten)]
    pub of: TestRun,
    pub lanes: Vec<LaneStart>,
}

/// First minute of the test in which a lane (a worker's series of invocations) works, and the time
/// at which its invocation starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LaneStart {
    pub lane: Lane,
    pub window: Window,
    pub at: Timestamp,
}

/// Next minute of the test in which a lane (a worker's series of invocations) works, and the time
/// at which its invocation starts. Both are absent if the lane is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NextTurn {
    #[serde(flatten)]
    pub of: TestRun,
    pub lane: Lane,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// Result of closing a run. If `more` is true, another run follows, and `run` is the number of that
/// run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Closed {
    #[serde(flatten)]
    pub of: TestRun,
    pub more: bool,
}

impl Event {
    pub(crate) fn run(&self) -> &TestRun {
        match self {
            Self::Prepare(of) | Self::Close(Closing { of, .. }) | Self::Step(Turn { of, .. }) => of,
        }
    }

    /// Returns the name of the action in the event, such as `prepare`.
    pub(crate) const fn action(&self) -> &'static str {
        match self {
            Self::Prepare(_) => "prepare",
            Self::Step(_) => "step",
            Self::Close(_) => "close",
        }
    }
}

impl Lanes {
    /// Returns the lanes (the workers' series of invocations) of a run that starts at `start`, each
    /// with its first minute of work.
    pub(crate) fn of(run: &TestRun, plan: &Plan, start: Timestamp) -> Self {
        let lanes = plan.lanes().filter_map(|lane| {
            let window = plan.next(lane, None)?;
            Some(LaneStart { lane, window, at: Plan::starts_at(start, window) })
        });
        Self { of: run.clone(), lanes: lanes.collect() }
    }

    pub(crate) fn none(run: &TestRun) -> Self {
        Self { of: run.clone(), lanes: Vec::new() }
    }
}

impl Closed {
    /// Creates the response for a run that no other run follows.
    pub(crate) fn last(run: &TestRun) -> Self {
        Self { of: run.clone(), more: false }
    }

    /// Creates the response for a probe (run at one rate) of a search that another probe follows.
    pub(crate) fn followed(run: &TestRun) -> Self {
        Self { of: TestRun { run: run.run.saturating_add(1), ..run.clone() }, more: true }
    }
}

impl Turn {
    pub(crate) const fn step(&self) -> Step {
        Step { lane: self.lane, window: self.window, attempt: self.attempt }
    }

    /// Creates the response that ends the lane (a series of invocations), which has no further
    /// minute to work in.
    pub(crate) fn done(&self) -> NextTurn {
        NextTurn { of: self.of.clone(), lane: self.lane, window: None, at: None }
    }

    /// Creates the response that continues the lane (a series of invocations) in `window`, a minute
    /// of the run that began at `start`. `None` ends the lane.
    pub(crate) fn then(&self, window: Option<Window>, start: Timestamp) -> NextTurn {
        NextTurn { window, at: window.map(|window| Plan::starts_at(start, window)), ..self.done() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json, to_value};

    use super::*;

    const TEST: &str = "01939a6e-0000-7000-8000-000000000001";

    fn run(members: Value) -> Value {
        let mut whole = json!({"tenant": "t", "testId": TEST, "run": 0});
        let Value::Object(members) = members else { panic!("members") };
        whole.as_object_mut().unwrap().extend(members);
        whole
    }

    #[test]
    fn an_action_is_read_with_whatever_else_the_machine_carries() {
        let of = TestRun { tenant: "t".to_owned(), test_id: TEST.parse().unwrap(), run: 0 };
        let event: Event = from_value(run(json!({"action": "prepare", "close": true}))).unwrap();
        assert_eq!(event, Event::Prepare(of.clone()));
        for (members, close) in [
            (json!({"action": "close"}), false),
            (json!({"action": "close", "close": false}), false),
            (json!({"action": "close", "close": true}), true),
        ] {
            let expected = Event::Close(Closing { of: of.clone(), close });
            assert_eq!(from_value::<Event>(run(members)).unwrap(), expected);
        }
        let members = json!({"action": "step", "lane": "c1b", "window": 3, "attempt": 2, "at": "x"});
        let Event::Step(turn) = from_value(run(members)).unwrap() else { panic!("a step") };
        assert_eq!((&turn.of, turn.lane.to_string().as_str()), (&of, "c1b"));
        assert_eq!((turn.window.number(), turn.attempt), (3, 2));
        for wrong in [json!({"action": "step", "lane": "c1b", "window": 3}), json!({"action": "wait"})] {
            assert!(from_value::<Event>(run(wrong)).is_err());
        }
    }

    #[test]
    fn the_sample_events_are_read() {
        let read = |sample| serde_json::from_str::<Event>(sample).unwrap();
        let prepare = read(include_str!("../../../../events/gateway/load-step/prepare.json"));
        let step = read(include_str!("../../../../events/gateway/load-step/step.json"));
        let close = read(include_str!("../../../../events/gateway/load-step/close.json"));
        assert_eq!([&prepare, &step, &close].map(Event::action), ["prepare", "step", "close"]);
        assert_eq!((prepare.run(), step.run()), (close.run(), close.run()));
    }

    #[test]
    fn a_lane_goes_on_with_its_next_window_or_is_done() {
        let members = json!({"action": "step", "lane": "p0a", "window": 0, "attempt": 0});
        let Event::Step(turn) = from_value(run(members)).unwrap() else { panic!("a step") };
        let start: Timestamp = "2026-11-26T10:00:00Z".parse().unwrap();
        let next = to_value(Answer::Done(turn.then(Some(Window::new(2)), start))).unwrap();
        assert_eq!(next, run(json!({"lane": "p0a", "window": 2, "at": "2026-11-26T10:01:57Z"})));
        let done = run(json!({"lane": "p0a"}));
        assert_eq!(to_value(Answer::Done(turn.done())).unwrap(), done);
        assert_eq!(to_value(Answer::Done(turn.then(None, start))).unwrap(), done);
    }

    #[test]
    fn a_run_that_is_closed_names_the_next_one_if_there_is_one() {
        let of = TestRun { tenant: "t".to_owned(), test_id: TEST.parse().unwrap(), run: 3 };
        let closed = |closed| to_value(Answer::Closed(closed)).unwrap();
        assert_eq!(closed(Closed::last(&of)), run(json!({"run": 3, "more": false})));
        assert_eq!(closed(Closed::followed(&of)), run(json!({"run": 4, "more": true})));
        assert_eq!(
            to_value(Answer::Prepared(Lanes::none(&of))).unwrap(),
            run(json!({"run": 3, "lanes": []}))
        );
    }
}

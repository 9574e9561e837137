//! Events that the state machine of load tests sends to this function, and the responses to them.

use jiff::Timestamp;
use load_test::store::TestRun;
use load_test::{Lane, Plan, Step, Window};
use serde::{Deserialize, Serialize};

/// Event of the state machine of load tests: the action that this function is to do. Members that
/// the action does not need are ignored.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "action", rename_all = "lowercase")]
pub enum Event {
    /// Begin a run: the whole test, or a probe (run at one rate) of a search. No run begins if the
    /// test was stopped, has failed or has ended, or if the test's queues cannot be used.
    Prepare(TestRun),
    /// Work as one worker of the test until the end of one minute.
    Step(StepEvent),
    /// Close a run: judge it and, if no other run follows, end the test with its report.
    Close(CloseEvent),
}

/// Event for one invocation of a lane (one of a worker's two series of invocations): the minute of
/// the test in which it is to work, and the number of the attempt at this minute, from 0.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct StepEvent {
    #[serde(flatten)]
    pub of: TestRun,
    pub lane: Lane,
    pub window: Window,
    pub attempt: u32,
}

/// Event to close a run of a load test.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct CloseEvent {
    #[serde(flatten)]
    pub of: TestRun,
    /// True in an execution of the state machine that only closes the test, because the execution
    /// that ran the test is gone, or because the test was stopped while no worker was at work.
    #[serde(default, rename = "close")]
    pub only_closes: bool,
}

/// Response of this function to an event of the state machine. It is serialized without the
/// variant's name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Answer {
    Prepared(Lanes),
    Done(StepResponse),
    Closed(Closed),
}

/// Response to the preparation of a run: the run's lanes (the series of invocations that do the
/// workers' work). The list is empty if no run begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lanes {
    #[serde(flatten)]
    pub of: TestRun,
    pub lanes: Vec<LaneStart>,
}

/// Start of a lane (a worker's series of invocations): the first minute of the test in which it
/// works, and the time at which the invocation for this minute starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LaneStart {
    pub lane: Lane,
    pub window: Window,
    #[serde(rename = "at")]
    pub starts_at: Timestamp,
}

/// Response to an invocation of a lane (a worker's series of invocations): the next minute of the
/// test in which the lane works, and the time at which the invocation for this minute starts. Both
/// are absent if the lane has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepResponse {
    #[serde(flatten)]
    pub of: TestRun,
    pub lane: Lane,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    #[serde(rename = "at", skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<Timestamp>,
}

/// Response to the closing of a run. If `more` is true, another run follows, and `of` is that run;
/// otherwise `of` is the run that was closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Closed {
    #[serde(flatten)]
    pub of: TestRun,
    pub more: bool,
}

impl Event {
    pub(crate) fn run(&self) -> &TestRun {
        match self {
            Self::Prepare(of) | Self::Close(CloseEvent { of, .. }) | Self::Step(StepEvent { of, .. }) => of,
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
    /// Returns the response with the lanes (the workers' series of invocations) of a run that
    /// starts at `start`. Each lane has its first minute of work.
    pub(crate) fn of(run: &TestRun, plan: &Plan, start: Timestamp) -> Self {
        let lanes = plan.lanes().filter_map(|lane| {
            let window = plan.next(lane, None)?;
            Some(LaneStart { lane, window, starts_at: Plan::starts_at(start, window) })
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

    /// Creates the response for the probe `run` (run at one rate) of a search that another probe
    /// follows. The response names the next probe.
    pub(crate) fn followed(run: &TestRun) -> Self {
        Self { of: TestRun { run: run.run.saturating_add(1), ..run.clone() }, more: true }
    }
}

impl StepEvent {
    pub(crate) const fn step(&self) -> Step {
        Step { lane: self.lane, window: self.window, attempt: self.attempt }
    }

    /// Creates the response that ends the lane (a worker's series of invocations).
    pub(crate) fn done(&self) -> StepResponse {
        StepResponse { of: self.of.clone(), lane: self.lane, window: None, starts_at: None }
    }

    /// Creates the response that continues the lane (a worker's series of invocations) in the
    /// minute `window` of the run that began at `start`. With `None`, the response ends the lane.
    pub(crate) fn then(&self, window: Option<Window>, start: Timestamp) -> StepResponse {
        StepResponse { window, starts_at: window.map(|window| Plan::starts_at(start, window)), ..self.done() }
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
        for (members, only_closes) in [
            (json!({"action": "close"}), false),
            (json!({"action": "close", "close": false}), false),
            (json!({"action": "close", "close": true}), true),
        ] {
            let expected = Event::Close(CloseEvent { of: of.clone(), only_closes });
            assert_eq!(from_value::<Event>(run(members)).unwrap(), expected);
        }
        let members = json!({"action": "step", "lane": "c1b", "window": 3, "attempt": 2, "at": "x"});
        let Event::Step(step) = from_value(run(members)).unwrap() else { panic!("a step") };
        assert_eq!((&step.of, step.lane.to_string().as_str()), (&of, "c1b"));
        assert_eq!((step.window.number(), step.attempt), (3, 2));
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
        let Event::Step(step) = from_value(run(members)).unwrap() else { panic!("a step") };
        let start: Timestamp = "2026-11-26T10:00:00Z".parse().unwrap();
        let next = to_value(Answer::Done(step.then(Some(Window::new(2)), start))).unwrap();
        assert_eq!(next, run(json!({"lane": "p0a", "window": 2, "at": "2026-11-26T10:01:57Z"})));
        let done = run(json!({"lane": "p0a"}));
        assert_eq!(to_value(Answer::Done(step.done())).unwrap(), done);
        assert_eq!(to_value(Answer::Done(step.then(None, start))).unwrap(), done);
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

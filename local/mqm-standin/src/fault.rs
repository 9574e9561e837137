//! Faults that tests inject, and the calls that they affect.

use std::sync::{Mutex, PoisonError};

use serde::Deserialize;

/// Fault to inject into calls of the MQI.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fault {
    /// Name of the MQI verb that the fault affects, such as MQPUT.
    verb: String,
    /// Number of the first matching call that the fault affects; 1 is the next call.
    #[serde(default = "one")]
    nth: u32,
    /// Number of calls in a row that the fault affects.
    #[serde(default = "one")]
    times: u32,
    /// Name of the only application that the fault affects; `None` for all.
    application: Option<String>,
    #[serde(flatten)]
    effect: Effect,
    /// Moment of the fault: in place of the call, or after it was carried out.
    #[serde(default)]
    when: When,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Effect {
    /// The call returns this reason code.
    Reason(i32),
    /// The call is carried out, and warns with this reason code if it ends well.
    Warning(i32),
    /// The connection is closed, as if the network had failed. The value is ignored.
    Cut(bool),
    /// The call never returns. The value is ignored.
    Hang(bool),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum When {
    /// The call is not carried out.
    #[default]
    Before,
    /// The call is carried out, and its response is lost or replaced.
    After,
}

fn one() -> u32 {
    1
}

#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<Vec<Fault>>);

impl Faults {
    pub(crate) fn add(&self, fault: Fault) {
        self.faults().push(fault);
    }

    pub(crate) fn clear(&self) {
        self.faults().clear();
    }

    pub(crate) fn count(&self) -> usize {
        self.faults().len()
    }

    /// Returns the effect of the first fault that is due at this call, if any. The call also counts
    /// towards `nth` of the faults that match it and are not due yet.
    pub(crate) fn of(&self, verb: &str, application: &str) -> Option<(Effect, When)> {
        let mut faults = self.faults();
        let mut found = None;
        for fault in faults.iter_mut() {
            let concerns = fault.application.as_ref().is_none_or(|name| name == application);
            if fault.verb != verb || !concerns {
                continue;
            }
            if fault.nth > 1 {
                fault.nth -= 1;
            } else if found.is_none() {
                fault.times = fault.times.saturating_sub(1);
                found = Some((fault.effect, fault.when));
            }
        }
        faults.retain(|fault| fault.times > 0);
        found
    }

    fn faults(&self) -> std::sync::MutexGuard<'_, Vec<Fault>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

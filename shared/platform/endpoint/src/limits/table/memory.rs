//! In-memory table of buckets for tests, which applies writes by the same conditions as DynamoDB.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use super::Unavailable;
use crate::limits::bucket::Bucket;
use crate::limits::gcra::{Form, Write};
use crate::limits::share::DrawOutcome;

/// In-memory table of buckets for tests, which counts its writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    buckets: HashMap<String, Bucket>,
    calls: u64,
    away: bool,
}

impl Memory {
    pub(crate) fn write(&self, pk: &str, write: &Write) -> Result<DrawOutcome, Unavailable> {
        let mut state = self.0.lock().unwrap();
        state.calls += 1;
        if state.away {
            return Err(Unavailable("the table is away".to_owned()));
        }
        let old = state.buckets.get(pk).cloned();
        let Some(new) = applied(write, old.as_ref()) else { return Ok(DrawOutcome::Refused(old)) };
        state.buckets.insert(pk.to_owned(), new.clone());
        Ok(DrawOutcome::Made(new))
    }

    pub(crate) fn read(&self, pk: &str) -> Result<Option<Bucket>, Unavailable> {
        let state = self.0.lock().unwrap();
        if state.away {
            return Err(Unavailable("the table is away".to_owned()));
        }
        Ok(state.buckets.get(pk).cloned())
    }

    pub(crate) fn calls(&self) -> u64 {
        self.0.lock().unwrap().calls
    }

    pub(crate) fn set_away(&self, away: bool) {
        self.0.lock().unwrap().away = away;
    }
}

/// Returns the bucket after a write that takes units; `None` if the write's condition fails.
pub(crate) fn applied(write: &Write, old: Option<&Bucket>) -> Option<Bucket> {
    let tat = match (write.form, old.map(|bucket| bucket.tat)) {
        (Form::Running { change, ceiling }, Some(tat)) if (write.now..=ceiling).contains(&tat) => {
            tat + change
        }
        (Form::Full { tat }, None) => tat,
        (Form::Full { tat }, Some(old)) if old < write.now || old > write.latest => tat,
        _ => return None,
    };
    let window = old.map(|bucket| bucket.window);
    let is_over = window.is_none_or(|window| !(write.window..=write.last_window()).contains(&window));
    if is_over != write.starts_window {
        return None;
    }
    let own = BTreeSet::from([write.environment]);
    Some(match old {
        Some(old) if !write.starts_window => {
            let mut seen = old.seen.clone();
            seen.extend(&own);
            Bucket { tat, seen, ..old.clone() }
        }
        _ => Bucket {
            tat,
            window: write.window,
            last_window: window.unwrap_or(write.window),
            last_seen: old.map_or_else(|| own.clone(), |old| old.seen.clone()),
            seen: own,
        },
    })
}

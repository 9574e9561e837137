//! The state that a queue manager starts with: the queues of the configuration, and the messages of
//! the journal.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::journal::{Journal, Record};
use super::state::{Phase, SinceLimit, State};
use crate::configuration::Configuration;

pub(super) fn state(configuration: Configuration, path: &Path) -> io::Result<State> {
    let definitions = configuration.queues.clone();
    let (journal, records) = Journal::open(path)?;
    let mut state = State {
        configuration,
        phase: Phase::Running,
        queues: BTreeMap::new(),
        sessions: BTreeMap::new(),
        journal,
        since_limit: SinceLimit::default(),
        next: 0,
    };
    for definition in definitions {
        state.define(definition);
    }
    for record in records {
        state.replay(record);
    }
    state.rewrite_journal()?;
    Ok(state)
}

impl State {
    /// Applies a record of the journal at the start. No session exists yet, so no message is held.
    fn replay(&mut self, record: Record) {
        match record {
            Record::Commit { puts, gets } => {
                for (name, place, stored) in puts {
                    self.next = self.next.max(place.sequence);
                    if let Some(queue) = self.queues.get_mut(&name) {
                        queue.add(place, stored, None);
                    }
                }
                for (name, place) in gets {
                    self.queues.get_mut(&name).and_then(|queue| queue.take_ready(place));
                }
            }
            Record::Backout(places) => {
                for (name, place) in places {
                    let Some(queue) = self.queues.get_mut(&name) else { continue };
                    if let Some(mut stored) = queue.take_ready(place) {
                        stored.message.descriptor.backout_count += 1;
                        queue.add(place, stored, None);
                    }
                }
            }
        }
    }

    /// Rewrites the journal with the present state.
    fn rewrite_journal(&mut self) -> io::Result<()> {
        let messages = self.queues.values().flat_map(|queue| {
            queue.persistent().map(|(place, stored)| Record::Commit {
                puts: vec![(queue.definition.name.clone(), place, stored.clone())],
                gets: Vec::new(),
            })
        });
        self.journal.rewrite(messages)
    }

    /// Rewrites the journal if it has grown large.
    pub(super) fn tidy_journal(&mut self) {
        if self.journal.is_due() && self.rewrite_journal().is_err() {
            self.journal.failed = true;
        }
    }
}

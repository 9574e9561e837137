//! MQCMIT and MQBACK.

use libmqm_sys as mq;

use super::journal::Record;
use super::session::{Work, WorkKind};
use super::state::State;
use crate::protocol::{Answer, Chars, Reason};

impl State {
    /// Makes a unit of work happen, whole: with one record of the journal.
    pub(super) fn commit(&mut self, session: u64) -> Result<Answer, Reason> {
        let work = self.session(session)?.work.iter().cloned();
        let (puts, gets): (Vec<_>, Vec<_>) = work.partition(|work| work.kind == WorkKind::Put);
        self.record_commit(&puts, &gets);
        if self.check_journal().is_err() {
            let _ = self.back(session);
            return Err(Reason(mq::MQRC_RESOURCE_PROBLEM));
        }
        self.session_mut(session)?.work.clear();
        for work in gets {
            if let Ok(queue) = self.opened_queue(&work.queue, work.id) {
                queue.drop_held(work.place);
            }
        }
        let mut arrived: Vec<Chars> = Vec::new();
        for work in puts {
            if let Ok(queue) = self.opened_queue(&work.queue, work.id) {
                queue.release(work.place, |_| ());
                if !arrived.contains(&work.queue) {
                    arrived.push(work.queue);
                }
            }
        }
        for name in arrived {
            self.arrived(&name);
        }
        self.tidy_journal();
        Ok(Answer::None)
    }

    fn record_commit(&mut self, puts: &[Work], gets: &[Work]) {
        let persistent = |work: &&Work| {
            let queue = self.queues.get(&work.queue).filter(|queue| queue.id == work.id);
            queue
                .and_then(|queue| queue.held(work.place))
                .is_some_and(|stored| stored.message.is_persistent())
        };
        let gets: Vec<_> =
            gets.iter().filter(persistent).map(|work| (work.queue.clone(), work.place)).collect();
        let puts: Vec<_> = puts
            .iter()
            .filter(persistent)
            .filter_map(|work| {
                let stored = self.queues.get(&work.queue)?.held(work.place)?;
                Some((work.queue.clone(), work.place, stored.clone()))
            })
            .collect();
        if !puts.is_empty() || !gets.is_empty() {
            self.journal.append(&Record::Commit { puts, gets });
        }
    }

    /// Undoes a unit of work: what was got comes back with a higher backout count.
    pub(super) fn back(&mut self, session: u64) -> Result<Answer, Reason> {
        let work = std::mem::take(&mut self.session_mut(session)?.work);
        let mut backed_out = Vec::new();
        for work in work {
            let Ok(queue) = self.opened_queue(&work.queue, work.id) else { continue };
            match work.kind {
                WorkKind::Put => {
                    queue.drop_held(work.place);
                }
                WorkKind::Get => {
                    let mut persistent = false;
                    queue.release(work.place, |message| {
                        message.descriptor.backout_count += 1;
                        persistent = message.is_persistent();
                    });
                    if persistent {
                        backed_out.push((work.queue, work.place));
                    }
                }
            }
        }
        if !backed_out.is_empty() {
            self.journal.append(&Record::Backout(backed_out));
        }
        Ok(Answer::None)
    }
}

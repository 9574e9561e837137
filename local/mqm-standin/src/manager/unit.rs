//! Ends of a unit of work: MQCMIT and MQBACK.

use super::journal::Record;
use super::queue::Stored;
use super::session::Work;
use super::state::State;
use crate::protocol::{Answer, Reply, done};

impl State {
    /// Commits the session's unit of work, with one record of the journal.
    pub(super) fn commit(&mut self, session: u64) -> Reply {
        let work = self.session(session)?.work.iter().cloned();
        let (puts, gets): (Vec<_>, Vec<_>) = work.partition(|work| work.is_put);
        self.record_commit(&puts, &gets);
        if let Err(reason) = self.check_journal() {
            self.back(session)?;
            return Err(reason);
        }
        self.session_mut(session)?.work.clear();
        for work in gets {
            if let Ok(queue) = self.queue(&work.queue) {
                queue.drop_held(work.place);
            }
        }
        for work in puts {
            if let Ok(queue) = self.queue(&work.queue) {
                queue.release(work.place, |_| ());
            }
        }
        self.tidy_journal();
        done(Answer::None)
    }

    fn record_commit(&mut self, puts: &[Work], gets: &[Work]) {
        let name = |work: &Work| work.queue.clone();
        let put = |work: &Work| Some((name(work), work.place, self.persistent(work)?.clone()));
        let puts: Vec<_> = puts.iter().filter_map(put).collect();
        let gets = gets.iter().filter(|work| self.persistent(work).is_some());
        let gets: Vec<_> = gets.map(|work| (name(work), work.place)).collect();
        if !puts.is_empty() || !gets.is_empty() {
            self.journal.append(&Record::Commit { puts, gets });
        }
    }

    /// Returns the message of an operation; `None` if it is not persistent.
    fn persistent(&self, work: &Work) -> Option<&Stored> {
        let stored = self.queues.get(&work.queue)?.held(work.place);
        stored.filter(|stored| stored.message.is_persistent())
    }

    /// Backs out the session's unit of work. Messages that it got are ready again, with a higher
    /// backout count.
    pub(super) fn back(&mut self, session: u64) -> Reply {
        let work = std::mem::take(&mut self.session_mut(session)?.work);
        let mut backed_out = Vec::new();
        for work in work {
            let Ok(queue) = self.queue(&work.queue) else { continue };
            if work.is_put {
                queue.drop_held(work.place);
                continue;
            }
            queue.release(work.place, |message| {
                message.descriptor.backout_count += 1;
                if message.is_persistent() {
                    backed_out.push((work.queue.clone(), work.place));
                }
            });
        }
        if !backed_out.is_empty() {
            self.journal.append(&Record::Backout(backed_out));
        }
        done(Answer::None)
    }
}

//! Queue that sends several files at once. Files of one establishment arrive in their order: of two
//! items of one product without a date, the one that arrives later wins.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::task::{Id, JoinError, JoinSet};

use super::delivery::{End, Prepared, Sender, stopped};
use super::finished::{FileLocation, FinishedFiles};
use super::progress::{ProgressMessage, Step};
use super::report::Sent;
use super::source::Source;
use crate::exit::{Exit, Failure};

/// Queue of files to send, of which up to `parallel` are sent at once.
#[derive(Debug)]
pub(crate) struct Pipeline {
    sender: Arc<Sender>,
    /// Directories that finished files are moved to; `None` without `--watch`.
    finished: Option<Arc<FinishedFiles>>,
    parallel: usize,
    waiting: VecDeque<Source>,
    tasks: JoinSet<Task>,
    /// Number and name of the file of each task, for the outcome of a task that panics.
    running: HashMap<Id, (usize, String)>,
    /// True while a file is being inspected. Files are inspected one after another, so that their
    /// order is known.
    is_preparing: bool,
    count: usize,
    /// Receiver for each group, which is the files of one establishment. The last file of the group
    /// signals there that the next file of the group may be sent.
    turns: HashMap<String, oneshot::Receiver<()>>,
    /// Groups, each the files of one establishment, that are not sent for now. A file of the group
    /// failed, and is tried again first.
    blocked: HashSet<String>,
}

/// Result of a background task of the pipeline: a file was inspected, or its delivery has ended.
#[derive(Debug)]
enum Task {
    Prepared(usize, Box<Prepared>),
    /// The delivery of a file has ended. If `blocks` is true, later files of its establishment wait
    /// until the file is tried again.
    Ended {
        sent: Box<Sent>,
        blocks: bool,
    },
}

/// Signals for one file, which keep the files of its establishment in order: from the file before,
/// and to the file after. If the value is dropped under `--watch` without a signal, the file after
/// is not sent.
#[derive(Debug)]
struct OrderSignals {
    before: Option<oneshot::Receiver<()>>,
    over: Option<oneshot::Sender<()>>,
    is_blocked: bool,
}

impl OrderSignals {
    fn pass_on(&mut self) {
        if let Some(over) = self.over.take() {
            // There may be no file after this one.
            let _unheard = over.send(());
        }
    }
}

impl Pipeline {
    /// Creates an empty queue that sends up to `parallel` files at once. Finished files are moved
    /// to `finished`; without it (no `--watch`), they stay.
    pub(crate) fn new(sender: Arc<Sender>, finished: Option<FinishedFiles>, parallel: usize) -> Self {
        Self {
            sender,
            finished: finished.map(Arc::new),
            parallel,
            waiting: VecDeque::new(),
            tasks: JoinSet::new(),
            running: HashMap::new(),
            is_preparing: false,
            count: 0,
            turns: HashMap::new(),
            blocked: HashSet::new(),
        }
    }

    /// Adds a file to the end of the queue.
    pub(crate) fn add(&mut self, source: Source) {
        self.waiting.push_back(source);
    }

    /// Removes the files whose inspection has not begun yet.
    pub(crate) fn forget_waiting(&mut self) {
        self.waiting.clear();
    }

    /// Lets files of a group (one establishment) be sent again, after a failed file of the group
    /// had blocked them.
    pub(crate) fn release(&mut self, group: &str) {
        self.blocked.remove(group);
        if let Some(last) = self.turns.get_mut(group)
            && last.try_recv() != Err(TryRecvError::Empty)
        {
            self.turns.remove(group);
        }
    }

    /// Returns whether no file waits and none is being sent.
    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.tasks.is_empty()
    }

    /// Waits until the delivery of any file has ended, and returns its outcome; `None` if the queue
    /// is empty. If the returned future is dropped, no file is lost.
    pub(crate) async fn next(&mut self) -> Option<Sent> {
        loop {
            self.begin();
            let ended = self.tasks.join_next_with_id().await?;
            let id = ended.as_ref().map_or_else(JoinError::id, |(id, _)| *id);
            let running = self.running.remove(&id);
            match ended.map(|(_, task)| task) {
                Ok(Task::Prepared(file, prepared)) => {
                    self.is_preparing = false;
                    self.deliver(file, *prepared);
                }
                Ok(Task::Ended { sent, blocks }) => {
                    if let Some(content) = sent.content.as_ref().filter(|_| blocks) {
                        self.blocked.insert(content.group());
                    }
                    // Only what is looked at may end without a delivery.
                    self.is_preparing &= sent.content.is_some();
                    return Some(*sent);
                }
                Err(error) => {
                    self.is_preparing = false;
                    let failure = Failure::new(Exit::Error, "a file was given up").why(error.to_string());
                    let (file, name) = running.unwrap_or_else(|| (self.count, "a file".to_owned()));
                    let _unheard = self.sender.news.send(ProgressMessage { file, step: Step::Ended });
                    return Some(Sent::failed(file, name, failure));
                }
            }
        }
    }

    fn begin(&mut self) {
        if self.is_preparing || self.tasks.len() >= self.parallel {
            return;
        }
        let Some(source) = self.waiting.pop_front() else { return };
        let (file, sender, name) = (self.count, Arc::clone(&self.sender), source.name.clone());
        let (path, finished) = (source.path.clone(), self.finished.clone());
        self.count = self.count.saturating_add(1);
        self.is_preparing = true;
        let running = (file, name.clone());
        let task = self.tasks.spawn(async move {
            let stamp = source.stamp().await.ok();
            match sender.prepare(file, source).await {
                Ok(prepared) => Task::Prepared(file, Box::new(prepared)),
                Err(failure) => {
                    let sent = Sent { stamp, ..Sent::failed(file, name, failure) };
                    let sent = Box::new(end(&sender, finished.as_deref(), &path, sent).await);
                    Task::Ended { sent, blocks: false }
                }
            }
        });
        self.running.insert(task.id(), running);
    }

    fn deliver(&mut self, file: usize, prepared: Prepared) {
        let (over, next) = oneshot::channel();
        let group = prepared.content.group();
        let is_blocked = self.blocked.contains(&group);
        let before = self.turns.insert(group, next);
        let mut signals = OrderSignals { before, over: Some(over), is_blocked };
        let (sender, finished) = (Arc::clone(&self.sender), self.finished.clone());
        let running = (file, prepared.source.name.clone());
        let task = self.tasks.spawn(async move {
            let path = prepared.source.path.clone();
            let sent = deliver(&sender, file, prepared, &mut signals).await;
            let sent = Box::new(end(&sender, finished.as_deref(), &path, sent).await);
            let blocks = sender.watches() && sent.place == FileLocation::Stays && signals.over.is_some();
            if !blocks {
                signals.pass_on();
            }
            Task::Ended { sent, blocks }
        });
        self.running.insert(task.id(), running);
    }
}

async fn deliver(sender: &Sender, file: usize, prepared: Prepared, signals: &mut OrderSignals) -> Sent {
    let mut sent = Sent {
        file,
        name: prepared.source.name.clone(),
        content: Some(prepared.content.clone()),
        entry: Some(prepared.entry.clone()),
        is_replay: false,
        end: End::Stopped,
        stamp: Some(prepared.stamp.clone()),
        place: FileLocation::Stays,
        program: sender.api.program().to_owned(),
    };
    if signals.is_blocked {
        return sent;
    }
    if let Some(before) = signals.before.take() {
        let is_passed_on = tokio::select! {
            over = before => over.is_ok(),
            () = stopped(sender.stopping.clone()) => return sent,
        };
        // The file before stays, and is sent first when it is tried again.
        if !is_passed_on && sender.watches() {
            return sent;
        }
    }
    if sender.is_stopping() {
        return sent;
    }
    let accepted = match sender.accept(file, &prepared).await {
        Ok(accepted) => accepted,
        Err(failure) => {
            sent.end = End::Failed(failure);
            return sent;
        }
    };
    signals.pass_on();
    sent.is_replay = accepted.is_replay;
    sent.end = sender.wait(file, &accepted).await;
    sent.entry = Some(accepted.entry);
    sent
}

/// Moves a file of a watched directory to `done` or `failed`, and tells the progress display that
/// its delivery has ended.
async fn end(
    sender: &Sender,
    finished: Option<&FinishedFiles>,
    path: &std::path::Path,
    mut sent: Sent,
) -> Sent {
    if let Some(finished) = finished {
        match finished.put(&sender.api, path, &sent).await {
            Ok(place) => {
                // A file that is put back is another load.
                if let (FileLocation::Moved(path), End::Final(_), Some(entry)) =
                    (&place, &sent.end, &sent.entry)
                {
                    let _unwritten = sender.journal.add(&entry.elsewhere(path));
                }
                sent.place = place;
            }
            Err(failure) => sent.end = End::Failed(failure),
        }
    }
    let _unheard = sender.news.send(ProgressMessage { file: sent.file, step: Step::Ended });
    sent
}

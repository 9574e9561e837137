//! Files on their way side by side. Files of one establishment arrive in their order, because of
//! two products without a date the one that arrives later wins.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::task::JoinSet;

use super::away::{Away, Place};
use super::delivery::{End, Prepared, Sender, stopped};
use super::progress::{News, Step};
use super::report::Sent;
use super::source::Source;
use crate::exit::{Exit, Failure};

/// Queue of files to send, of which up to `parallel` are sent at once.
#[derive(Debug)]
pub(crate) struct Pipeline {
    sender: Arc<Sender>,
    /// Directories that finished files are moved to; `None` without `--watch`.
    away: Option<Arc<Away>>,
    parallel: usize,
    waiting: VecDeque<Source>,
    tasks: JoinSet<Task>,
    /// True while a file is inspected. Files are inspected one after another, so that their order
    /// is known.
    is_preparing: bool,
    count: usize,
    /// Receiver for each group (files of one establishment). The last file of the group signals
    /// there that the next one may be sent.
    turns: HashMap<String, oneshot::Receiver<()>>,
    /// Groups (files of one establishment) of which no file is sent until a failed file is tried
    /// again.
    blocked: HashSet<String>,
}

/// Result of a task of the pipeline.
#[derive(Debug)]
enum Task {
    Prepared(usize, Box<Prepared>),
    /// A file's delivery has ended. If `blocks` is true, later files of its group wait until it is
    /// tried again.
    Ended {
        sent: Box<Sent>,
        blocks: bool,
    },
}

/// Signals that keep the files of a group (one establishment) in order: from the file before, and
/// to the file after. If this is dropped without a signal under `--watch`, the file after is not
/// sent.
#[derive(Debug)]
struct Turn {
    before: Option<oneshot::Receiver<()>>,
    over: Option<oneshot::Sender<()>>,
    is_blocked: bool,
}

impl Turn {
    fn pass_on(&mut self) {
        if let Some(over) = self.over.take() {
            // There may be no file after this one.
            let _unheard = over.send(());
        }
    }
}

impl Pipeline {
    /// Creates an empty queue that sends up to `parallel` files at once.
    pub(crate) fn new(sender: Arc<Sender>, away: Option<Away>, parallel: usize) -> Self {
        Self {
            sender,
            away: away.map(Arc::new),
            parallel,
            waiting: VecDeque::new(),
            tasks: JoinSet::new(),
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

    /// Removes the files that have not been started yet.
    pub(crate) fn forget_waiting(&mut self) {
        self.waiting.clear();
    }

    /// Lets the files of a group be sent again, after a failed file of the group blocked them.
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

    /// Waits until the next file has ended; `None` if the queue is empty. If the returned future is
    /// dropped, no file is lost.
    pub(crate) async fn next(&mut self) -> Option<Sent> {
        loop {
            self.begin();
            match self.tasks.join_next().await? {
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
                    return Some(Sent::failed(self.count, "a file".to_owned(), failure));
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
        let (path, away) = (source.path.clone(), self.away.clone());
        self.count = self.count.saturating_add(1);
        self.is_preparing = true;
        self.tasks.spawn(async move {
            let version = source.version().await.ok();
            match sender.prepare(file, source).await {
                Ok(prepared) => Task::Prepared(file, Box::new(prepared)),
                Err(failure) => {
                    let sent = Sent { version, ..Sent::failed(file, name, failure) };
                    let sent = Box::new(end(&sender, away.as_deref(), &path, sent).await);
                    Task::Ended { sent, blocks: false }
                }
            }
        });
    }

    fn deliver(&mut self, file: usize, prepared: Prepared) {
        let (over, next) = oneshot::channel();
        let group = prepared.content.group();
        let is_blocked = self.blocked.contains(&group);
        let before = self.turns.insert(group, next);
        let mut turn = Turn { before, over: Some(over), is_blocked };
        let (sender, away) = (Arc::clone(&self.sender), self.away.clone());
        self.tasks.spawn(async move {
            let path = prepared.source.path.clone();
            let sent = deliver(&sender, file, prepared, &mut turn).await;
            let sent = Box::new(end(&sender, away.as_deref(), &path, sent).await);
            let blocks = sender.watches() && sent.place == Place::Stays && turn.over.is_some();
            if !blocks {
                turn.pass_on();
            }
            Task::Ended { sent, blocks }
        });
    }
}

async fn deliver(sender: &Sender, file: usize, prepared: Prepared, turn: &mut Turn) -> Sent {
    let mut sent = Sent {
        file,
        name: prepared.source.name.clone(),
        content: Some(prepared.content.clone()),
        entry: Some(prepared.entry.clone()),
        is_replay: false,
        end: End::Stopped,
        version: Some(prepared.version.clone()),
        place: Place::Stays,
        program: sender.api.program().to_owned(),
    };
    if turn.is_blocked {
        return sent;
    }
    if let Some(before) = turn.before.take() {
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
    turn.pass_on();
    sent.is_replay = accepted.is_replay;
    sent.end = sender.wait(file, &accepted).await;
    sent.entry = Some(accepted.entry);
    sent
}

/// Moves a file of a watched directory to its final place, and announces the end of its delivery.
async fn end(sender: &Sender, away: Option<&Away>, path: &std::path::Path, mut sent: Sent) -> Sent {
    if let Some(away) = away {
        match away.put(&sender.api, path, &sent).await {
            Ok(place) => {
                // A file that is put back is another load.
                if let (Place::Moved(path), End::Final(_), Some(entry)) = (&place, &sent.end, &sent.entry) {
                    let _unwritten = sender.journal.add(&entry.elsewhere(path));
                }
                sent.place = place;
            }
            Err(failure) => sent.end = End::Failed(failure),
        }
    }
    let _unheard = sender.news.send(News { file: sent.file, step: Step::Ended });
    sent
}

//! `send --watch`: sends the files of a directory as they appear, until a signal stops the program.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;

use super::content::Content;
use super::delivery::End;
use super::finished::FileLocation;
use super::folder::Folder;
use super::pipeline::Pipeline;
use super::progress::{Progress, ProgressMessage};
use super::report::{Sent, worst};
use super::source::Source;
use super::{RESULT, TICK, tell};
use crate::args::Send;
use crate::exit::{Exit, Explain as _, Failure};
use crate::output::{Format, Output};

/// Time after which a file that could not be sent is tried again.
const REST: Duration = Duration::from_secs(60);

/// State of `send --watch`: the directory, the files that are being sent, and the time of the next
/// scan.
pub(crate) struct Watch<'a> {
    args: &'a Send,
    folder: Folder,
    pipeline: Pipeline,
    /// Paths of the files that are queued or being sent, by the names under which the pipeline
    /// reports their outcomes.
    in_pipeline: HashMap<String, PathBuf>,
    /// Files that stay in the directory after a failure, each with the time of its next attempt and
    /// its establishment (`None` if the file could not be read). All files of the establishment
    /// wait, so that they are sent in order.
    retry_later: HashMap<PathBuf, (Instant, Option<String>)>,
    next_scan: Instant,
    /// Time from which on requests may be sent, after a random delay; `None` until the first scan
    /// that finds a file.
    begin: Option<Instant>,
    scans: u32,
    is_scanning: bool,
    exits: Vec<Exit>,
}

impl<'a> Watch<'a> {
    /// Creates the state before the first scan of the directory.
    pub(crate) fn new(args: &'a Send, folder: Folder, pipeline: Pipeline) -> Self {
        Self {
            args,
            folder,
            pipeline,
            in_pipeline: HashMap::new(),
            retry_later: HashMap::new(),
            next_scan: Instant::now(),
            begin: None,
            scans: 0,
            is_scanning: true,
            exits: Vec::new(),
        }
    }

    /// Sends files as they appear. With `--once`, returns the exit code of the file with the most
    /// severe outcome. Otherwise runs until a signal stops the program or the API refuses its key.
    ///
    /// # Errors
    /// If the directory cannot be read any more.
    pub(crate) async fn run(
        mut self,
        stop: &watch::Sender<bool>,
        heard: &mut UnboundedReceiver<ProgressMessage>,
        progress: &mut Progress,
        out: &mut Output,
    ) -> Result<Exit, Failure> {
        let mut ticks = tokio::time::interval(TICK);
        let asked = asked_to_stop()?;
        tokio::pin!(asked);
        let mut was_asked = false;
        while self.is_scanning || !self.pipeline.is_idle() {
            tokio::select! {
                Some(news) = heard.recv() => progress.hear(news, out),
                sent = self.pipeline.next(), if !self.pipeline.is_idle() => {
                    if let Some(sent) = sent {
                        self.ended(&sent, progress, out);
                        if sent.exit() == Exit::Denied {
                            // No other file can do better, and the service manager starts it again.
                            self.end(stop);
                        }
                    }
                }
                () = tokio::time::sleep_until(self.next_scan.into()), if self.is_scanning => {
                    self.look(progress, out)?;
                }
                () = &mut asked, if !was_asked => {
                    was_asked = true;
                    progress.say("stopping: what is on its way goes on at the next start", out);
                    self.end(stop);
                }
                _ = ticks.tick() => progress.tick(out),
            }
        }
        while let Ok(news) = heard.try_recv() {
            progress.hear(news, out);
        }
        let exit = worst(self.exits.iter().copied());
        if self.args.once && self.exits.is_empty() && self.args.error_on_nothing && !was_asked {
            return Ok(Exit::Nothing);
        }
        Ok(if self.args.once || exit == Exit::Denied { exit } else { Exit::Done })
    }

    fn end(&mut self, stop: &watch::Sender<bool>) {
        self.is_scanning = false;
        self.pipeline.forget_waiting();
        stop.send_replace(true);
    }

    fn look(&mut self, progress: &Progress, out: &mut Output) -> Result<(), Failure> {
        let now = Instant::now();
        self.next_scan = now.checked_add(self.args.interval).unwrap_or(now);
        self.scans = self.scans.saturating_add(1);
        for (_, (_, group)) in self.retry_later.extract_if(|_, (until, _)| *until <= now) {
            if let Some(group) = group {
                self.pipeline.release(&group);
            }
        }
        let busy: HashSet<PathBuf> =
            self.in_pipeline.values().chain(self.retry_later.keys()).cloned().collect();
        let ready = self.folder.look(&busy, |left| progress.say(left, out))?;
        let jitter = self.args.jitter;
        let begin = match self.begin {
            Some(begin) => begin,
            None if ready.is_empty() => now,
            None => {
                let pause = jitter.mul_f64(fastrand::f64());
                if pause > self.args.interval {
                    let seconds = pause.as_secs();
                    progress.say(
                        &format!("beginning in {seconds} s, so that not all senders begin at once"),
                        out,
                    );
                }
                *self.begin.insert(now.checked_add(pause).unwrap_or(now))
            }
        };
        if begin > now {
            return Ok(());
        }
        for path in ready {
            let source = Source::file(&path);
            self.in_pipeline.insert(source.name.clone(), path);
            self.pipeline.add(source);
        }
        // A file has to be seen twice.
        if self.args.once && self.scans >= 2 {
            self.is_scanning = false;
        }
        Ok(())
    }

    fn ended(&mut self, sent: &Sent, progress: &Progress, out: &mut Output) {
        self.exits.push(sent.exit());
        if !self.args.once {
            // One that runs for months keeps what it has to know at its end.
            self.exits.retain(|exit| *exit == Exit::Denied);
        }
        if let Some(path) = self.in_pipeline.remove(&sent.name)
            && sent.place == FileLocation::Stays
        {
            let now = Instant::now();
            let group = sent.content.as_ref().map(Content::group);
            let others = self.retry_later.values().filter(|(_, other)| group.is_some() && *other == group);
            let until = others.map(|(until, _)| *until).min();
            let until = until.or_else(|| now.checked_add(REST)).unwrap_or(now);
            self.retry_later.insert(path, (until, group));
        }
        if out.format() == Format::Ndjson {
            out.json(RESULT, &sent.json());
            out.flush();
        } else {
            progress.say(&summary(sent), out);
        }
        progress.above(|| tell(sent, out));
    }
}

/// Returns the outcome of a file as a log line.
fn summary(sent: &Sent) -> String {
    let what = match (&sent.end, sent.batch()) {
        (_, Some(batch)) => {
            format!("{}, {} items, {} in error", batch.status, batch.items_parsed, batch.items_failed)
        }
        (End::Accepted(_), _) => "accepted".to_owned(),
        (End::Stopped, _) => "not sent".to_owned(),
        (_, None) => "failed".to_owned(),
    };
    let place = match &sent.place {
        FileLocation::Stays => String::new(),
        FileLocation::Moved(path) => format!(", moved to {}", path.display()),
        FileLocation::Overwritten => ", written anew meanwhile".to_owned(),
    };
    format!("{}: {what}{place}", sent.name)
}

/// Returns a future that completes when a signal asks the program to stop.
///
/// # Errors
/// If the signals cannot be received.
#[cfg(unix)]
fn asked_to_stop() -> Result<impl Future<Output = ()>, Failure> {
    use tokio::signal::unix::{SignalKind, signal};

    let listen = |kind| signal(kind).or_explain(|| "listen for signals".to_owned());
    let mut terminate = listen(SignalKind::terminate())?;
    let mut interrupt = listen(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Returns a future that completes when a person stops the program, or Windows shuts down.
///
/// # Errors
/// If the signals cannot be received.
#[cfg(windows)]
fn asked_to_stop() -> Result<impl Future<Output = ()>, Failure> {
    use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown};

    let explain = || "listen for signals".to_owned();
    let (mut c, mut pause) = (ctrl_c().or_explain(explain)?, ctrl_break().or_explain(explain)?);
    let (mut close, mut shutdown) = (ctrl_close().or_explain(explain)?, ctrl_shutdown().or_explain(explain)?);
    Ok(async move {
        tokio::select! {
            _ = c.recv() => {}
            _ = pause.recv() => {}
            _ = close.recv() => {}
            _ = shutdown.recv() => {}
        }
    })
}

//! Starts the components, notices when one ends by itself, and ends them all.

pub(crate) mod leftovers;
pub(crate) mod process;

use std::path::Path;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tokio::net::{TcpStream, UnixStream};
use tokio::process::{Child, Command};
use tokio::sync::{mpsc, watch};

use crate::components::{Component, Ready, postgres};
use crate::console;
use crate::failure::{Explain as _, Failure};
use crate::layout::Layout;

/// RabbitMQ needs about one second for an orderly stop; the data is thrown away in any case.
const GRACE: Duration = Duration::from_secs(4);
const POLL: Duration = Duration::from_millis(50);
/// Time after which waiting for a component is given up.
const PATIENCE: Duration = Duration::from_secs(240);

#[derive(Debug)]
pub(crate) struct Supervisor {
    layout: Layout,
    running: Mutex<Vec<Running>>,
    report_end: mpsc::UnboundedSender<Ended>,
}

#[derive(Debug)]
struct Running {
    pid: i32,
    stop_signal: Signal,
    ended: watch::Receiver<bool>,
}

/// A component's process is over.
#[derive(Debug)]
pub(crate) struct Ended {
    name: &'static str,
    how: String,
}

impl Supervisor {
    /// Returns a supervisor, and the channel on which components that end are reported.
    pub(crate) fn new(layout: Layout) -> (Self, mpsc::UnboundedReceiver<Ended>) {
        let (report_end, ends) = mpsc::unbounded_channel();
        (Self { layout, running: Mutex::default(), report_end }, ends)
    }

    /// Starts a component in a process group of its own (so that Ctrl-C reaches the supervisor
    /// alone), and waits until it answers. The caller watches the channel of ends at the same time.
    ///
    /// # Errors
    /// If it cannot be started, or does not answer in time.
    pub(crate) async fn start(&self, component: Component) -> Result<(), Failure> {
        let Component { name, command, ready, usual, stop_signal } = component;
        let begin = Instant::now();
        self.spawn(name, command, stop_signal)?;
        let answered = tokio::time::timeout(PATIENCE, async {
            while !answers(&ready).await {
                tokio::time::sleep(POLL).await;
            }
        });
        if console::during(&format!("starting {name}"), usual, answered).await.is_err() {
            let problem = format!("{name} does not answer after {} s.", PATIENCE.as_secs());
            return Err(Failure::new(with_log(&problem, &self.layout.log(name))));
        }
        console::say(format_args!("  {name} is up after {:.1} s", begin.elapsed().as_secs_f64()));
        Ok(())
    }

    fn spawn(&self, name: &'static str, mut command: Command, stop_signal: Signal) -> Result<(), Failure> {
        let explain = || format!("start {name}");
        let log = std::fs::File::create(self.layout.log(name)).or_explain(explain)?;
        isolate(&mut command, &self.layout);
        command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone().or_explain(explain)?)
            .stderr(log);
        let child = command.spawn().or_explain(explain)?;
        let (report, ended) = watch::channel(false);
        if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
            let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
            running.push(Running { pid, stop_signal, ended });
        }
        tokio::spawn(watch_end(name, child, report, self.report_end.clone()));
        Ok(())
    }

    /// Returns the sentence about a component that ended by itself.
    pub(crate) fn describe(&self, ended: &Ended) -> Failure {
        let problem = format!("{} ended by itself ({}).", ended.name, ended.how);
        Failure::new(with_log(&problem, &self.layout.log(ended.name)))
    }

    /// Ends all components, the last started first, and their remaining descendants.
    pub(crate) async fn stop(&self) {
        let mut running = std::mem::take(&mut *self.running.lock().unwrap_or_else(PoisonError::into_inner));
        while let Some(mut component) = running.pop() {
            process::signal_group(component.pid, component.stop_signal);
            if tokio::time::timeout(GRACE, component.ended.wait_for(|ended| *ended)).await.is_err() {
                process::signal_group(component.pid, Signal::SIGKILL);
            }
        }
        leftovers::end(&self.layout).await;
    }
}

/// Gives a cleared environment `PATH`, a locale and the stack's mark, which all descendants of the
/// process carry. Nothing else of the user's environment reaches it.
pub(crate) fn isolate(command: &mut Command, layout: &Layout) {
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command.env("LC_ALL", "C.UTF-8").env(process::MARKER, layout.state());
}

async fn watch_end(
    name: &'static str,
    mut child: Child,
    report: watch::Sender<bool>,
    ends: mpsc::UnboundedSender<Ended>,
) {
    let how = match child.wait().await {
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    };
    let _nobody_waits = report.send(true);
    let _nobody_listens = ends.send(Ended { name, how });
}

async fn answers(ready: &Ready) -> bool {
    match ready {
        Ready::Listens(port) => TcpStream::connect(("127.0.0.1", *port)).await.is_ok(),
        Ready::Accepts(socket) => UnixStream::connect(socket).await.is_ok(),
        Ready::Answers(url) => reqwest::get(url).await.is_ok_and(|response| response.status().is_success()),
        Ready::Connects(url) => postgres::connects(url).await,
    }
}

/// A problem, the end of the log that may explain it, and where the rest is.
fn with_log(problem: &str, log: &Path) -> String {
    const LINES: usize = 15;
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let tail = lines.iter().skip(lines.len().saturating_sub(LINES));
    let tail: Vec<_> = tail.map(|line| format!("  | {line}\n")).collect();
    format!("{problem}\n{}The whole log: {}", tail.concat(), log.display())
}

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

/// Time that a component has to stop before it is killed. RabbitMQ needs about one second for a
/// clean stop. The data is discarded anyway.
const GRACE: Duration = Duration::from_secs(4);
const POLL: Duration = Duration::from_millis(50);
/// Time limit for a component to start.
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

/// End of a component's process.
#[derive(Debug)]
pub(crate) struct Ended {
    name: &'static str,
    how: String,
}

impl Supervisor {
    /// Creates a supervisor, and the channel on which it reports components that end.
    pub(crate) fn new(layout: Layout) -> (Self, mpsc::UnboundedReceiver<Ended>) {
        let (report_end, ends) = mpsc::unbounded_channel();
        (Self { layout, running: Mutex::default(), report_end }, ends)
    }

    /// Starts a component, and waits until it is ready. It runs in its own process group, so that
    /// Ctrl-C reaches only the supervisor. Meanwhile, the caller must watch the channel of ended
    /// components.
    ///
    /// # Errors
    /// If the component cannot be started, or is not ready in time.
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

    /// Builds the error for a component that ended by itself, with the end of its log.
    pub(crate) fn describe(&self, ended: &Ended) -> Failure {
        let problem = format!("{} ended by itself ({}).", ended.name, ended.how);
        Failure::new(with_log(&problem, &self.layout.log(ended.name)))
    }

    /// Stops all components, the last started one first, and then kills what is left of their child
    /// processes.
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

/// Adds `PATH`, a locale and the stack's marker variable to a cleared environment. All descendants
/// of the process inherit the marker. Nothing else of the user's environment is passed on.
pub(crate) fn isolate(command: &mut Command, layout: &Layout) {
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command.env("LC_ALL", "C.UTF-8").env(process::MARKER, &layout.state);
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

/// Formats a problem with the last lines of a log and the log's path.
fn with_log(problem: &str, log: &Path) -> String {
    const LINES: usize = 15;
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let tail = lines.iter().skip(lines.len().saturating_sub(LINES));
    let tail: Vec<_> = tail.map(|line| format!("  | {line}\n")).collect();
    format!("{problem}\n{}The whole log: {}", tail.concat(), log.display())
}

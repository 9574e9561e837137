//! `mqm-standin run` starts a queue manager; `mqm-standin control` sends it a command.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use mqm_standin::configuration::Configuration;
use mqm_standin::manager::Manager;
use mqm_standin::server::{Server, control_socket};

#[derive(Debug, Parser)]
#[command(version, about = "A queue manager for tests. It is not IBM MQ.")]
enum Command {
    /// Run until standard input ends or a signal comes. Prints `ready` once clients can connect.
    Run {
        /// Directory of the sockets. Clients find it through the variable `MQM_STANDIN_DIR`.
        #[arg(long, env = "MQM_STANDIN_DIR")]
        directory: PathBuf,
        #[arg(long)]
        configuration: PathBuf,
        /// Run until a signal arrives, even if standard input is closed.
        #[arg(long)]
        detached: bool,
    },
    /// Send a line of JSON to the control socket, and print the answer.
    Control {
        #[arg(long, env = "MQM_STANDIN_DIR")]
        directory: PathBuf,
        #[arg(long, default_value = "QM1")]
        queue_manager: String,
        line: String,
    },
}

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::Run { directory, configuration, detached } => {
            run(&directory, &configuration).map(|()| wait(detached))
        }
        Command::Control { directory, queue_manager, line } => control(&directory, &queue_manager, &line),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(directory: &Path, configuration: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let configuration = Configuration::read(configuration)?;
    let (name, listeners) = (configuration.name.clone(), configuration.listeners.clone());
    std::fs::create_dir_all(directory)?;
    // Held until the process ends.
    let lock = File::create(directory.join(format!("{name}.lock")))?;
    lock.try_lock().map_err(|_| format!("{name} runs in {} already", directory.display()))?;
    let journal = directory.join(format!("{name}.journal"));
    let manager = Manager::start(configuration, &journal);
    let manager =
        manager.map_err(|error| format!("the journal {} cannot be used: {error}", journal.display()))?;
    let server = Arc::new(Server::new(manager));
    server.listen(directory, &name, &listeners)?;
    std::mem::forget(lock);
    writeln!(io::stdout(), "ready")?;
    Ok(())
}

/// Waits until standard input is closed. If `detached`, waits forever, so that only a signal ends
/// the process.
fn wait(detached: bool) {
    let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
    if detached {
        loop {
            std::thread::park();
        }
    }
}

fn control(directory: &Path, name: &str, line: &str) -> Result<(), Box<dyn std::error::Error>> {
    let mut socket = UnixStream::connect(control_socket(directory, name))?;
    writeln!(socket, "{line}")?;
    let mut answer = String::new();
    BufReader::new(socket).read_line(&mut answer)?;
    write!(io::stdout(), "{answer}")?;
    Ok(())
}

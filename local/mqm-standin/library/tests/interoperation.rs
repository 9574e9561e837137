//! IBM's own clients for Python and Node.js, which load this library by its name, against the
//! stand-in's queue manager. Each test but one runs one file of `local/mqm-standin/tests` with
//! pytest. `make mqi` runs them all.

#![cfg(test)]

use std::process::Command;

use test_support::built::{self, MQ_LIBRARY, MQ_MANAGER};
use test_support::environment::{environment, repository};

/// A directory with the library alone. Cargo builds it beside the tests, among other libraries.
fn library() -> tempfile::TempDir {
    let library = built::find(MQ_LIBRARY).unwrap();
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(library, directory.path().join(MQ_LIBRARY)).unwrap();
    directory
}

/// Runs tests with the library and the queue manager's program, and returns what they print.
fn run(command: &mut Command) -> String {
    let library = library();
    let sockets = tempfile::Builder::new().prefix("mqm-").tempdir_in("/tmp").unwrap();
    let run = command
        .env("LD_LIBRARY_PATH", library.path())
        .env("MQM_STANDIN_PROGRAM", built::find(MQ_MANAGER).unwrap())
        .env("MQM_STANDIN_SOCKETS", sockets.path())
        .env_remove("MQSERVER")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{output}{}", String::from_utf8_lossy(&run.stderr));
    output
}

fn pytest(file: &str) {
    let root = repository();
    let python = ("scripts/python-env.sh", "local/mqm-standin/requirements.txt");
    let environment = environment(python.0, "mqm-standin", python.1);
    let output = run(Command::new(environment.join("bin/python"))
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", file])
        .current_dir(root.join("local/mqm-standin/tests"))
        .env("MQM_STANDIN_CARGO", env!("CARGO"))
        .env("PYTHONDONTWRITEBYTECODE", "1"));
    // What ran, for the log.
    println!("{}", output.lines().last().unwrap_or_default());
    assert!(output.contains(" passed"), "no test ran: {output}");
}

/// IBM's client for Node.js finds the library by its name too, and gets messages by callbacks.
#[test]
fn the_client_for_node_works() {
    let root = repository();
    let source = "local/mqm-standin/node";
    let environment = environment("scripts/node-env.sh", "mqm-standin-node", source);
    let output = run(Command::new("npm")
        .args(["test", "--silent"])
        .current_dir(environment)
        .env("MQM_STANDIN_CONFIGURATION", root.join("local/mqm-standin/qm1.toml")));
    assert!(output.contains("# pass 5"), "not all tests ran: {output}");
}

macro_rules! files {
    ($($test:ident: $file:literal,)*) => {$(
        #[test]
        fn $test() {
            pytest($file);
        }
    )*};
}

files! {
    messages_are_put_got_and_browsed: "test_messages.py",
    units_of_work_happen_whole_or_not_at_all: "test_units.py",
    reason_codes_are_those_of_the_queue_manager: "test_reasons.py",
    callbacks_are_called_with_messages: "test_callbacks.py",
    faults_come_when_asked_for: "test_faults.py",
    properties_and_selection_strings: "test_properties.py",
    the_command_server_obeys_administrators: "test_commands.py",
    structures_and_constants_are_ibms: "test_layouts.py",
}

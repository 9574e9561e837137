//! IBM's own Python client, which loads this library by its name, against the stand-in's queue
//! manager. Each test runs one file of `local/mqm-standin/tests` with pytest.

#![cfg(test)]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use test_support::built::{self, MQ_LIBRARY, MQ_MANAGER};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().unwrap()
}

/// The Python environment with the client. Tests are processes of their own, and one makes it.
fn environment(root: &Path) -> PathBuf {
    std::fs::create_dir_all(root.join(".local")).unwrap();
    let lock = File::create(root.join(".local/mqm-standin.lock")).unwrap();
    lock.lock().unwrap();
    let made = Command::new("scripts/python-env.sh")
        .args([".local/mqm-standin", "local/mqm-standin/requirements.txt"])
        .current_dir(root)
        .status();
    assert!(made.unwrap().success(), "the Python environment could not be made");
    root.join(".local/mqm-standin/bin/python")
}

/// A directory with the library alone. Cargo builds it beside the tests, among other libraries.
fn library() -> tempfile::TempDir {
    let library = built::find(MQ_LIBRARY).unwrap();
    let directory = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(library, directory.path().join(MQ_LIBRARY)).unwrap();
    directory
}

fn pytest(file: &str) {
    let root = root();
    let python = environment(&root);
    let library = library();
    let sockets = tempfile::Builder::new().prefix("mqm-").tempdir_in("/tmp").unwrap();
    let run = Command::new(python)
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", file])
        .current_dir(root.join("local/mqm-standin/tests"))
        .env("LD_LIBRARY_PATH", library.path())
        .env("MQM_STANDIN_PROGRAM", built::find(MQ_MANAGER).unwrap())
        .env("MQM_STANDIN_SOCKETS", sockets.path())
        .env("MQM_STANDIN_CARGO", env!("CARGO"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env_remove("MQSERVER")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{output}{}", String::from_utf8_lossy(&run.stderr));
    // What ran, for the log.
    println!("{}", output.lines().last().unwrap_or_default());
    assert!(output.contains(" passed"), "no test ran: {output}");
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
    faults_come_when_asked_for: "test_faults.py",
    properties_and_selection_strings: "test_properties.py",
    the_command_server_obeys_administrators: "test_commands.py",
    structures_and_constants_are_ibms: "test_layouts.py",
}

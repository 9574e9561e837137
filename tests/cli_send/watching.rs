//! Tests of `integrahub send` for a directory that it watches.

use std::path::Path;
use std::time::{Duration, Instant};

use end_to_end::{CommandLine, Ran};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{PATIENCE, array, cnpj, count, items, lines, write};

/// Returns the sorted names of all files below a directory, without the names of their directories,
/// which are days.
fn below(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                found.push(path.file_name().unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

const WATCH: [&str; 9] =
    ["send", "--type", "delta", "--watch", "out", "--interval", "200ms", "--jitter", "0s"];

#[tokio::test]
async fn a_directory_is_sent_once_and_its_files_are_put_away() {
    let (program, cnpj) = (CommandLine::new(), cnpj());
    std::fs::create_dir(program.directory().join("out")).unwrap();
    write(&program, "out/good.json", &array(&items(&cnpj, 2, 0)));
    write(&program, "out/some.ndjson", &lines(&items(&cnpj, 2, 1)));
    write(&program, "out/broken.json", b"[{");
    write(&program, "out/other.csv", b"x");
    write(&program, "out/writing.json.part", b"[");
    let ran = program.run(&[&WATCH[..], &["--once"]].concat()).expect(6);
    let out = program.directory().join("out");
    assert_eq!(
        below(&out.join("done")),
        [
            "good.json",
            "good.json.result.json",
            "some.ndjson",
            "some.ndjson.errors.ndjson",
            "some.ndjson.result.json"
        ]
    );
    assert_eq!(below(&out.join("failed")), ["broken.json", "broken.json.result.json"]);
    assert!(out.join("other.csv").exists() && out.join("writing.json.part").exists());
    assert!(
        ran.stderr.contains("out/good.json: COMPLETED, 2 items, 0 in error, moved to "),
        "{}",
        ran.stderr
    );
    assert_eq!(count(&cnpj).await, 2);

    let nothing = program.run(&[&WATCH[..], &["--once", "--error-on-nothing"]].concat());
    nothing.expect(9);
    // The same file once more is another load.
    write(&program, "out/good.json", &array(&items(&cnpj, 2, 0)));
    program.run(&[&WATCH[..], &["--once"]].concat()).expect(0);
    assert_eq!(below(&out.join("done")).iter().filter(|name| name.starts_with("good.json")).count(), 4);
}

#[tokio::test]
async fn a_directory_is_watched_until_the_program_is_asked_to_stop() {
    let (program, cnpj) = (CommandLine::new(), cnpj());
    let out = program.directory().join("out");
    std::fs::create_dir(&out).unwrap();
    let mut watching = program.command(&WATCH).spawn().unwrap();
    write(&program, "out/a.json", &array(&items(&cnpj, 1, 0)));
    let begin = Instant::now();
    while out.join("a.json").exists() {
        assert!(begin.elapsed() < PATIENCE, "{:?}", watching.try_wait());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let second = program.run(&[&WATCH[..], &["--once"]].concat()).expect(5);
    assert!(second.stderr.contains("another integrahub watches"), "{}", second.stderr);
    kill(Pid::from_raw(watching.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    let ran = Ran::of(&watching.wait_with_output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert!(ran.stderr.contains("stopping"), "{}", ran.stderr);
    assert_eq!(below(&out.join("done")), ["a.json", "a.json.result.json"]);
}

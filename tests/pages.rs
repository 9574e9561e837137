//! Tests of the commands in the documentation: they are pasted into a clean shell in the order of a
//! page. Below a command, a page shows the output that a reader sees, in which `…` stands for any
//! text.

use std::fmt::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use end_to_end::{Broker, Queue, variable};
use test_support::built;

/// Page of the documentation, and the headings whose sections have commands for the local stack.
struct Page {
    name: &'static str,
    text: &'static str,
    headings: &'static [&'static str],
}

const START: Page = Page {
    name: "start.md",
    text: include_str!("../docs/start.md"),
    headings: &["Open a second terminal", "Send messages", "Load products", "Find out what happened"],
};
const INGEST: Page = Page {
    name: "ingest.md",
    text: include_str!("../docs/ingest.md"),
    headings: &["Send a catalogue", "Send a large catalogue"],
};
const MESSAGES: Page =
    Page { name: "messages.md", text: include_str!("../docs/messages.md"), headings: &["Exchanges"] };
const LARGE_BODIES: Page = Page {
    name: "large-bodies.md",
    text: include_str!("../docs/large-bodies.md"),
    headings: &["Large bodies", "Messages that no response can carry", "Bodies that no request can carry"],
};
const IBM_MQ: Page =
    Page { name: "ibm-mq.md", text: include_str!("../docs/ibm-mq.md"), headings: &["Try it"] };
const FILES: Page = Page {
    name: "files.md",
    text: include_str!("../docs/files.md"),
    headings: &["Drop a file", "Wait for its result", "Follow its batch", "Submit a refused file again"],
};
const LOAD_TESTS: Page =
    Page { name: "load-tests.md", text: include_str!("../docs/load-tests.md"), headings: &["Run a test"] };
const CLI: Page =
    Page { name: "cli.md", text: include_str!("../docs/cli.md"), headings: &["Try it on the local stack"] };
const DOCTOR: Page = Page {
    name: "doctor.md",
    text: include_str!("../docs/doctor.md"),
    headings: &["Try it on the local stack"],
};
const SEND: Page =
    Page { name: "send.md", text: include_str!("../docs/send.md"), headings: &["Try it on the local stack"] };
const STORED_RESPONSES: Page = Page {
    name: "stored-responses.md",
    text: include_str!("../docs/stored-responses.md"),
    headings: &["Read a stored response"],
};

/// Block of commands on a page, with the output that the page shows below it.
#[derive(Debug, Default)]
struct Block {
    commands: String,
    shown: String,
}

impl Page {
    fn blocks(&self) -> Vec<Block> {
        let (mut blocks, mut is_ours, mut fence) = (Vec::<Block>::new(), false, None);
        let mut found = Vec::new();
        for line in self.text.lines() {
            match (fence, line.trim()) {
                (None, heading) if heading.starts_with('#') => {
                    let heading = heading.trim_start_matches('#').trim();
                    is_ours = self.headings.contains(&heading);
                    found.extend(is_ours.then_some(heading));
                }
                (None, "```sh") if is_ours => {
                    blocks.push(Block::default());
                    fence = Some("sh");
                }
                (None, "```text") if is_ours => fence = Some("text"),
                (None, other) if other.starts_with("```") => fence = Some("other"),
                (Some(_), "```") => fence = None,
                (Some("sh"), _) => writeln!(blocks.last_mut().unwrap().commands, "{line}").unwrap(),
                (Some("text"), _) => writeln!(blocks.last_mut().unwrap().shown, "{line}").unwrap(),
                _ => {}
            }
        }
        assert_eq!(found, self.headings, "the headings of {}", self.name);
        blocks
    }

    /// Runs all blocks of the page in one shell, and checks their output. The shell gets nothing
    /// from this process's environment but the variables needed to find programs.
    fn run(&self) {
        let blocks = self.blocks();
        assert!(!blocks.is_empty());
        let directory = tempfile::tempdir().unwrap();
        let state = Path::new(&variable("INTEGRAHUB_STACK_ENV")).parent().unwrap().to_owned();
        symlink(state, directory.path().join(".local")).unwrap();
        let mut script = "set -euo pipefail\n".to_owned();
        for (number, block) in blocks.iter().enumerate() {
            writeln!(script, "{}printf '\\n{}%s\\n' {number}", block.commands, END).unwrap();
        }
        let shell = Command::new("bash")
            .args(["--noprofile", "--norc", "-c", &script])
            .env_clear()
            .env("PATH", format!("{}:{}:{AWS_CLI}", programs().display(), variable("PATH")))
            .env("HOME", directory.path())
            .env("TMPDIR", directory.path())
            .current_dir(&directory)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let (seen, complaints) =
            (String::from_utf8_lossy(&shell.stdout), String::from_utf8_lossy(&shell.stderr));
        let mut rest = &*seen;
        for (number, block) in blocks.iter().enumerate() {
            let Some((output, behind)) = rest.split_once(&format!("\n{END}{number}\n")) else {
                panic!("{}: this fails:\n{}\n{rest}\n{complaints}", self.name, block.commands)
            };
            rest = behind;
            let missing = missing(output, &block.shown);
            assert!(
                missing.is_none(),
                "{}: {missing:?} is not in the output of\n{}\n{output}\n{complaints}",
                self.name,
                block.commands
            );
        }
    }
}

/// Returns the directory of the programs that were built with this test, such as `integrahub`.
fn programs() -> PathBuf {
    built::find("integrahub").unwrap().parent().unwrap().to_owned()
}

/// Directory of the local stack's AWS CLI, which a page's commands use if no other one is
/// installed.
const AWS_CLI: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../.local/python/bin");

/// Beginning of the line that the shell prints after each block, followed by the block's number.
const END: &str = "--- end of block ";

/// Returns the first part of the text `shown` that `output` does not contain after the parts before
/// it. Returns `None` if all parts follow in order. Parts are lines, split at each `…`.
fn missing<'a>(mut output: &str, shown: &'a str) -> Option<&'a str> {
    let parts = shown.lines().flat_map(|line| line.split('…')).map(str::trim);
    for part in parts.filter(|part| !part.is_empty()) {
        match output.split_once(part) {
            Some((_, behind)) => output = behind,
            None => return Some(part),
        }
    }
    None
}

#[test]
fn parts_of_what_is_shown_follow_each_other() {
    assert_eq!(missing("HTTP/1.1 201 Created\n{\"a\":1,\"b\":2}", "HTTP/1.1 201 …\n{…\"b\":2…}"), None);
    assert_eq!(missing("b a", "a…b"), Some("b"));
}

/// Empties the stack's example queues, as a reader finds them, and runs a page's commands.
async fn run(page: &Page) {
    let broker = Broker::connect().await;
    for name in ["DEV.QUEUE.1", "DEV.QUEUE.2", "DEV.QUEUE.3"] {
        broker.drain(&Queue { name: name.to_owned() }).await;
    }
    page.run();
}

#[tokio::test]
async fn the_commands_of_start_work_as_printed() {
    run(&START).await;
}

#[tokio::test]
async fn the_commands_of_ingest_work_as_printed() {
    run(&INGEST).await;
}

#[tokio::test]
async fn the_commands_of_messages_work_as_printed() {
    run(&MESSAGES).await;
}

#[tokio::test]
async fn the_commands_of_large_bodies_work_as_printed() {
    run(&LARGE_BODIES).await;
}

#[tokio::test]
async fn the_commands_of_ibm_mq_work_as_printed() {
    run(&IBM_MQ).await;
}

#[tokio::test]
async fn the_commands_of_files_work_as_printed() {
    run(&FILES).await;
}

#[tokio::test]
async fn the_commands_of_load_tests_work_as_printed() {
    run(&LOAD_TESTS).await;
}

#[tokio::test]
async fn a_stored_response_can_be_read_as_printed() {
    run(&STORED_RESPONSES).await;
}

#[tokio::test]
async fn the_commands_of_the_command_line_work_as_printed() {
    run(&CLI).await;
}

#[tokio::test]
async fn the_commands_of_the_doctor_work_as_printed() {
    run(&DOCTOR).await;
}

#[tokio::test]
async fn the_commands_of_the_sender_work_as_printed() {
    run(&SEND).await;
}

#[test]
fn no_page_has_an_item_of_the_access_table_to_type() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs");
    let pages = std::fs::read_dir(docs).unwrap().map(|entry| entry.unwrap().path());
    let readme = Path::new(docs).join("../README.md");
    let pages: Vec<_> =
        pages.chain([readme]).filter(|path| path.extension().is_some_and(|kind| kind == "md")).collect();
    assert!(pages.len() > 30);
    for path in pages {
        let page = std::fs::read_to_string(&path).unwrap();
        assert!(!page.contains("put-item"), "{}", path.display());
    }
}

//! Progress display of `integrahub send`: bars at a terminal, lines every ten seconds elsewhere,
//! and events for programs.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, MultiProgress, ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::journal::Way;
use crate::output::{Format, Output, harmless};

/// Minimum time between two lines about the progress of one file.
const LINE: Duration = Duration::from_secs(10);
/// Minimum time between two progress events of one file that have the same kind.
const EVENT: Duration = Duration::from_secs(1);

const SCHEMA: &str = "integrahub.send-event.v1";

/// Message to the progress display: a step of a file, or a request that is sent again.
#[derive(Clone, Debug)]
pub(crate) struct ProgressMessage {
    /// Number of the file in this process, from 0; `NO_FILE` for a request that is sent again.
    pub(crate) file: usize,
    pub(crate) step: Step,
}

/// Step in the delivery of a file, of which the progress display is told.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The file was found, and will be read.
    Found { name: String, bytes: u64 },
    /// The first `bytes` of the file have been read.
    Read { bytes: u64 },
    /// The load of the file is planned: its way (request or upload) and its idempotency key.
    /// `goes_on` is true if an earlier command began the load.
    Ready { way: Way, key: String, goes_on: bool },
    /// The first `bytes` of the file have been uploaded.
    Sending { bytes: u64 },
    /// The API accepted the file as a batch with this id. `is_replay` is true if the API had
    /// accepted a load with the same idempotency key before, although this command did not continue
    /// a load from the journal.
    Accepted { batch_id: String, is_replay: bool },
    /// The batch is being processed: its status, the number of items parsed so far, and the number
    /// of those that are loaded or in error.
    Processing { status: String, parsed: u64, done: u64 },
    /// A request failed for the reason `what`, and is sent again after `pause`.
    Retry { what: String, pause: Duration },
    /// The delivery of the file has ended.
    Ended,
}

/// Form of the progress display: bars, lines, events or nothing.
enum Form {
    Bars(MultiProgress),
    Lines(Instant),
    Events,
    Silent,
}

/// Progress display for all files of one `integrahub send` command.
pub(crate) struct Progress {
    form: Form,
    files: BTreeMap<usize, Watched>,
}

/// File that is being sent, with its progress bar and its last state in words.
struct Watched {
    name: String,
    bytes: u64,
    now: String,
    bar: ProgressBar,
    event: Option<Instant>,
}

impl Progress {
    /// Creates the progress display. Its form depends on `--output`, `--quiet` and whether standard
    /// error is a terminal.
    pub(crate) fn of(out: &Output) -> Self {
        let form = match out.format() {
            Format::Ndjson => Form::Events,
            _ if out.is_quiet() => Form::Silent,
            _ if out.is_terminal() => Form::Bars(MultiProgress::new()),
            _ => Form::Lines(Instant::now()),
        };
        Self { form, files: BTreeMap::new() }
    }

    /// Updates the display by a message about a file, or about a request that is sent again.
    pub(crate) fn hear(&mut self, news: ProgressMessage, out: &mut Output) {
        let ProgressMessage { file, step } = news;
        if let Form::Events = self.form {
            return self.event(file, &step, out);
        }
        match step {
            Step::Found { name, bytes } => self.found(file, name, bytes),
            Step::Read { bytes } => self.update(file, "reading", bytes),
            Step::Ready { goes_on, .. } => {
                if goes_on
                    && !matches!(self.form, Form::Silent)
                    && let Some(name) = self.files.get(&file).map(|watched| watched.name.clone())
                {
                    self.say(&format!("{name}: an earlier run began it, and it goes on"), out);
                }
                self.update(file, "waiting for its turn", 0);
            }
            Step::Sending { bytes } => self.update(file, "sending", bytes),
            Step::Accepted { .. } => self.accepted(file),
            Step::Processing { status, parsed, done } => self.processing(file, &status, parsed, done),
            Step::Retry { what, pause } => {
                if !matches!(self.form, Form::Silent) {
                    self.say(&format!("{what}: trying again in {:.1} s", pause.as_secs_f64()), out);
                }
            }
            Step::Ended => {
                if let Some(watched) = self.files.remove(&file) {
                    watched.bar.finish_and_clear();
                }
            }
        }
    }

    fn found(&mut self, file: usize, name: String, bytes: u64) {
        let bar = match &self.form {
            Form::Bars(bars) => {
                let bar = bars.add(ProgressBar::new(bytes));
                bar.set_style(style("{prefix:28!} {bar:24} {bytes:>10} of {total_bytes:10} {msg}"));
                bar.set_prefix(short(&harmless(&name, &[])));
                bar
            }
            _ => ProgressBar::hidden(),
        };
        self.files.insert(file, Watched { name, bytes, now: String::new(), bar, event: None });
    }

    fn update(&mut self, file: usize, what: &'static str, bytes: u64) {
        let Some(watched) = self.files.get_mut(&file) else { return };
        watched.bar.set_position(bytes);
        watched.bar.set_message(what);
        watched.now = format!("{what}, {} of {}", HumanBytes(bytes), HumanBytes(watched.bytes));
    }

    fn accepted(&mut self, file: usize) {
        let Some(watched) = self.files.get_mut(&file) else { return };
        watched.bar.set_style(style("{prefix:28!} {bar:24} {pos:>10} of {len:10} items {msg}"));
        watched.bar.set_length(0);
        watched.bar.set_position(0);
        watched.bar.set_message("accepted");
        "accepted".clone_into(&mut watched.now);
    }

    fn processing(&mut self, file: usize, status: &str, parsed: u64, done: u64) {
        let Some(watched) = self.files.get_mut(&file) else { return };
        watched.bar.set_length(parsed);
        watched.bar.set_position(done);
        watched.bar.set_message(harmless(status, &[]).into_owned());
        watched.now = format!("{status}, {done} of {parsed} items");
    }

    /// Prints a line about each file if the last lines are ten seconds old. Bars and events need no
    /// such lines.
    pub(crate) fn tick(&mut self, out: &mut Output) {
        let Form::Lines(last) = &mut self.form else { return };
        if last.elapsed() < LINE {
            return;
        }
        *last = Instant::now();
        for watched in self.files.values() {
            out.note(&format!("{}: {}", watched.name, watched.now));
        }
    }

    /// Prints a sentence for the user, above the progress bars if there are any.
    pub(crate) fn say(&self, text: &str, out: &mut Output) {
        self.above(|| out.note(text));
    }

    /// Calls `write`, which prints something else, while the progress bars are hidden.
    pub(crate) fn above(&self, write: impl FnOnce()) {
        match &self.form {
            Form::Bars(bars) => bars.suspend(write),
            _ => write(),
        }
    }

    fn event(&mut self, file: usize, step: &Step, out: &mut Output) {
        if let Step::Found { name, bytes } = step {
            self.found(file, name.clone(), *bytes);
        }
        if let Step::Retry { what, pause } = step {
            let event = json!({"event": "retry", "what": what, "pauseSeconds": pause.as_secs_f64()});
            return write(&event, out);
        }
        let Some(watched) = self.files.get_mut(&file) else { return };
        let (event, members) = match step {
            Step::Found { bytes, .. } => ("found", json!({"bytes": bytes})),
            Step::Read { bytes } => ("reading", json!({"bytes": bytes, "of": watched.bytes})),
            Step::Ready { way, key, goes_on } => {
                ("ready", json!({"way": way.as_str(), "key": key, "continues": goes_on}))
            }
            Step::Sending { bytes } => ("sending", json!({"bytes": bytes, "of": watched.bytes})),
            Step::Accepted { batch_id, is_replay } => {
                ("accepted", json!({"batchId": batch_id, "replayed": is_replay}))
            }
            Step::Processing { status, parsed, done } => {
                ("processing", json!({"status": status, "items": parsed, "done": done}))
            }
            Step::Retry { .. } | Step::Ended => {
                self.files.remove(&file);
                return;
            }
        };
        let is_frequent = matches!(step, Step::Read { .. } | Step::Sending { .. } | Step::Processing { .. });
        if is_frequent && watched.event.is_some_and(|last| last.elapsed() < EVENT) {
            return;
        }
        watched.event = is_frequent.then(Instant::now);
        let mut document = json!({"event": event, "file": watched.name});
        if let (Some(document), Value::Object(members)) = (document.as_object_mut(), members) {
            document.extend(members);
        }
        write(&document, out);
    }
}

fn write(event: &Value, out: &mut Output) {
    out.json(SCHEMA, event);
    out.flush();
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("=> ")
}

/// Shortens a file name to 28 characters at its beginning, because the end distinguishes files.
fn short(name: &str) -> String {
    const LONGEST: usize = 28;
    let length = name.chars().count();
    if length <= LONGEST {
        return name.to_owned();
    }
    let end: String = name.chars().skip(length.saturating_sub(LONGEST.saturating_sub(1))).collect();
    format!("…{end}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::memory::output;

    fn journey() -> Vec<Step> {
        vec![
            Step::Found { name: "a.json".to_owned(), bytes: 10 },
            Step::Read { bytes: 4 },
            Step::Read { bytes: 10 },
            Step::Ready { way: Way::Upload, key: "k".to_owned(), goes_on: true },
            Step::Sending { bytes: 5 },
            Step::Accepted { batch_id: "b".to_owned(), is_replay: false },
            Step::Processing { status: "PROCESSING".to_owned(), parsed: 3, done: 1 },
            Step::Retry { what: "503 BUSY".to_owned(), pause: Duration::from_millis(1500) },
            Step::Ended,
        ]
    }

    fn told(format: Format) -> (String, String) {
        let (mut out, data, words) = output(format, None);
        let mut progress = Progress::of(&out);
        for step in journey() {
            progress.hear(ProgressMessage { file: 0, step }, &mut out);
            progress.tick(&mut out);
        }
        assert!(progress.files.is_empty());
        (data.text(), words.text())
    }

    #[test]
    fn programs_get_events_and_not_one_for_each_block() {
        let (data, words) = told(Format::Ndjson);
        let events: Vec<Value> = data.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let names: Vec<&str> = events.iter().map(|event| event["event"].as_str().unwrap()).collect();
        assert_eq!(names, ["found", "reading", "ready", "sending", "accepted", "processing", "retry"]);
        assert!(events.iter().all(|event| event["schema"] == SCHEMA));
        assert!(events[..6].iter().all(|event| event["file"] == "a.json"));
        assert_eq!(events[2]["continues"], true);
        assert_eq!(words, "");
    }

    #[test]
    fn nothing_is_said_if_it_is_not_wanted() {
        let (mut out, data, words) = output(Format::Text, None);
        let mut progress = Progress { form: Form::Silent, files: BTreeMap::new() };
        for step in journey() {
            progress.hear(ProgressMessage { file: 0, step }, &mut out);
        }
        assert_eq!((data.text(), words.text()), (String::new(), String::new()));
    }

    #[test]
    fn without_a_terminal_people_read_few_lines_and_data_stays_clean() {
        let (data, words) = told(Format::Text);
        assert_eq!(data, "");
        assert_eq!(
            words,
            "a.json: an earlier run began it, and it goes on\n503 BUSY: trying again in 1.5 s\n"
        );
        let (mut out, _, words) = output(Format::Text, None);
        let mut progress = Progress::of(&out);
        for step in journey().into_iter().take(5) {
            progress.hear(ProgressMessage { file: 0, step }, &mut out);
        }
        let long_ago = Instant::now().checked_sub(LINE).unwrap();
        progress.form = Form::Lines(long_ago);
        progress.tick(&mut out);
        progress.tick(&mut out);
        assert_eq!(words.text().lines().last(), Some("a.json: sending, 5 B of 10 B"));
    }

    #[test]
    fn names_are_cut_where_they_are_alike() {
        assert_eq!(short("a.json"), "a.json");
        let long = short("/srv/exports/2026/11/22/loja-12.ndjson.gz");
        assert!(long.starts_with('…') && long.ends_with("loja-12.ndjson.gz") && long.chars().count() == 28);
    }
}

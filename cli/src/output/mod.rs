//! Output of a command: data on standard output, notes and errors on standard error.
//!
//! Every JSON document has a member `schema`, such as `integrahub.keys.v1`. Its version changes
//! with each change that a reader of the document would notice.

mod confirm;
#[cfg(test)]
pub(crate) mod memory;
mod terminal;

use std::io::{self, BufRead, IsTerminal as _, Write};

use serde_json::{Map, Value};

pub(crate) use self::terminal::harmless;
use self::terminal::{LINES, has_colour};
use crate::args::Global;
use crate::exit::{Explain as _, Failure};
use crate::member::shown;

/// Format of the data on standard output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Tables and sentences, for people.
    #[default]
    Text,
    /// A single JSON document.
    Json,
    /// A JSON document on each line: for each item of a list, or for each event.
    Ndjson,
}

/// Standard output and standard error of the program, and the answers that a person types.
pub(crate) struct Output {
    format: Format,
    data: Box<dyn Write + Send>,
    notes: Box<dyn Write + Send>,
    answers: Box<dyn BufRead + Send>,
    /// True if standard output is a terminal.
    stdout_is_terminal: bool,
    /// True if standard error is a terminal.
    stderr_is_terminal: bool,
    /// True if a person can answer questions: standard input and standard error are a terminal.
    interactive: bool,
    /// True if standard output is coloured.
    data_colour: bool,
    /// True if standard error is coloured.
    notes_colour: bool,
    yes: bool,
    quiet: bool,
    broken: Option<io::Error>,
}

impl Output {
    /// Creates the output of the process, on its standard streams.
    pub(crate) fn of_process(global: &Global) -> Self {
        let stdout_is_terminal = io::stdout().is_terminal();
        let stderr_is_terminal = io::stderr().is_terminal();
        let variable = |name: &str| std::env::var_os(name);
        Self {
            format: global.output,
            data: Box::new(io::BufWriter::new(io::stdout())),
            notes: Box::new(io::stderr()),
            answers: Box::new(io::BufReader::new(io::stdin())),
            stdout_is_terminal,
            stderr_is_terminal,
            interactive: io::stdin().is_terminal() && stderr_is_terminal,
            data_colour: has_colour(global.color, stdout_is_terminal, variable),
            notes_colour: has_colour(global.color, stderr_is_terminal, variable),
            yes: global.yes,
            quiet: global.quiet,
            broken: None,
        }
    }

    /// Returns the format of the command's output.
    pub(crate) const fn format(&self) -> Format {
        self.format
    }

    /// Returns whether standard error is a terminal, so that progress bars make sense.
    pub(crate) const fn is_terminal(&self) -> bool {
        self.stderr_is_terminal
    }

    /// Returns whether `--quiet` suppresses progress bars and status lines.
    pub(crate) const fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Returns whether a write to standard output has failed, as in a pipe to a `head` that has
    /// ended.
    pub(crate) const fn is_closed(&self) -> bool {
        self.broken.is_some()
    }

    /// Writes a JSON object with the name of its schema as the first member.
    pub(crate) fn json(&mut self, schema: &str, value: &Value) {
        let document = with_schema(schema, value);
        let text = match self.format {
            Format::Ndjson => document.to_string(),
            Format::Text | Format::Json => format!("{document:#}"),
        };
        self.line(&text);
    }

    /// Writes a table without borders. Only a terminal shows the header; a pipe receives the rows
    /// alone.
    pub(crate) fn table(&mut self, header: &[&str], rows: Vec<Vec<String>>) {
        let mut lines = rows;
        for cell in lines.iter_mut().flatten() {
            *cell = harmless(cell, &[]).into_owned();
        }
        if self.stdout_is_terminal {
            lines.insert(0, header.iter().map(|&name| name.to_uppercase()).collect());
        }
        let mut widths = vec![0; header.len()];
        for line in &lines {
            for (width, cell) in widths.iter_mut().zip(line) {
                *width = (*width).max(cell.chars().count());
            }
        }
        for (number, line) in lines.iter().enumerate() {
            let cells = line.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
            let text = cells.collect::<Vec<_>>().join("  ");
            let text = text.trim_end();
            if number == 0 && self.stdout_is_terminal && self.data_colour {
                // `finish` reports what could not be written.
                let _remembered = self.exactly(format!("\u{1b}[2m{text}\u{1b}[0m\n").as_bytes());
            } else {
                self.line(text);
            }
        }
    }

    /// Writes a list: as text a table, as JSON one document whose member `member` has the items, as
    /// NDJSON one document for each item.
    pub(crate) fn list(
        &mut self,
        schema: &str,
        member: &str,
        items: Vec<Value>,
        header: &[&str],
        rows: Vec<Vec<String>>,
    ) {
        match self.format {
            Format::Text => self.table(header, rows),
            Format::Json => {
                let document = Map::from_iter([(member.to_owned(), Value::Array(items))]);
                self.json(schema, &Value::Object(document));
            }
            Format::Ndjson => {
                for item in &items {
                    self.json(schema, item);
                }
            }
        }
    }

    /// Writes a list of JSON objects as [`Self::list`] does. `list` is the name of the member that
    /// has them in a JSON document. Each entry of `columns` has a column's title and the member of
    /// an object that it shows.
    pub(crate) fn members(&mut self, schema: &str, list: &str, items: Vec<Value>, columns: &[(&str, &str)]) {
        let header: Vec<&str> = columns.iter().map(|&(name, _)| name).collect();
        let row =
            |item: &Value| -> Vec<String> { columns.iter().map(|(_, member)| shown(item, member)).collect() };
        let rows = items.iter().map(row).collect();
        self.list(schema, list, items, &header, rows);
    }

    /// Writes one object: as text a line for each name and value in `rows`, otherwise `value` as
    /// JSON.
    pub(crate) fn thing(&mut self, schema: &str, value: &Value, rows: &[(&str, String)]) {
        if self.format != Format::Text {
            return self.json(schema, value);
        }
        let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
        for (name, value) in rows {
            let line = format!("{name:<width$}  {}", harmless(value, &[]));
            self.line(line.trim_end());
        }
    }

    /// Writes a line to standard output.
    pub(crate) fn line(&mut self, text: &str) {
        // `finish` reports what could not be written.
        let _remembered = self.raw(text.as_bytes()).and_then(|()| self.raw(b"\n"));
    }

    /// Writes data from outside the program, such as bodies of messages. On a terminal, control
    /// characters are escaped, because they could command it; otherwise the bytes are unchanged.
    ///
    /// # Errors
    /// If standard output did not accept everything, now or earlier.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.stdout_is_terminal {
            return self.exactly(bytes);
        }
        bytes.utf8_chunks().try_for_each(|part| {
            self.exactly(harmless(part.valid(), &LINES).as_bytes())?;
            part.invalid().iter().try_for_each(|&byte| match byte {
                // A terminal that knows no UTF-8 takes these for control characters.
                0x80..=0x9f => self.exactly(format!("\\x{byte:02x}").as_bytes()),
                _ => self.exactly(&[byte]),
            })
        })
    }

    /// Writes bytes unchanged, even to a terminal. They must come from the program or the command
    /// line.
    ///
    /// # Errors
    /// If standard output did not accept everything, now or earlier.
    pub(crate) fn exactly(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = match &self.broken {
            Some(error) => Err(error.kind().into()),
            None => self.data.write_all(bytes),
        };
        self.remember(written)
    }

    fn remember(&mut self, written: io::Result<()>) -> io::Result<()> {
        written.map_err(|error| {
            let kind = error.kind();
            self.broken.get_or_insert(error);
            kind.into()
        })
    }

    /// Writes a note for the user to standard error.
    pub(crate) fn note(&mut self, text: &str) {
        // Without standard error there is nobody to tell.
        let _unread = writeln!(self.notes, "{}", harmless(text, &LINES));
    }

    /// Writes a failure to standard error.
    pub(crate) fn fail(&mut self, failure: &Failure) {
        let head = if self.notes_colour { "\u{1b}[31merror\u{1b}[0m" } else { "error" };
        let _unread = writeln!(self.notes, "{head}: {}", harmless(&failure.to_string(), &LINES));
    }

    /// Writes buffered output to standard output, as before a long wait.
    pub(crate) fn flush(&mut self) {
        let flushed = self.data.flush();
        let _remembered = self.remember(flushed);
    }

    /// Flushes standard output at the end of the program.
    ///
    /// # Errors
    /// If standard output did not accept everything. A reader that closed the pipe is no error.
    pub(crate) fn finish(&mut self) -> Result<(), Failure> {
        self.flush();
        match self.broken.take() {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(error).or_explain(|| "write to standard output".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// Returns a JSON object with the name of its schema as the first member.
pub(crate) fn with_schema(schema: &str, value: &Value) -> Value {
    let mut document = Map::from_iter([("schema".to_owned(), Value::String(schema.to_owned()))]);
    match value {
        Value::Object(members) => document.extend(members.clone()),
        other => {
            document.insert("value".to_owned(), other.clone());
        }
    }
    Value::Object(document)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::memory::output;
    use super::*;

    const SCHEMA: &str = "integrahub.tests.v1";

    fn listed(format: Format) -> String {
        let (mut out, data, _) = output(format, None);
        let items = vec![json!({"name": "a"}), json!({"name": "long"})];
        let rows = vec![vec!["a".into(), "1".into()], vec!["long".into(), String::new()]];
        out.list(SCHEMA, "things", items, &["name", "count"], rows);
        data.text()
    }

    #[test]
    fn a_list_has_the_form_that_was_asked_for() {
        assert_eq!(listed(Format::Text), "a     1\nlong\n");
        let whole: Value = serde_json::from_str(&listed(Format::Json)).unwrap();
        assert_eq!(whole, json!({"schema": SCHEMA, "things": [{"name": "a"}, {"name": "long"}]}));
        let lines = listed(Format::Ndjson);
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines[1], json!({"schema": SCHEMA, "name": "long"}));
    }

    #[test]
    fn people_see_the_header_and_a_pipe_does_not() {
        let (mut out, data, _) = output(Format::Text, None);
        out.stdout_is_terminal = true;
        out.table(&["name"], vec![vec!["a".into()]]);
        assert_eq!(data.text(), "NAME\na\n");
    }

    #[test]
    fn a_failure_has_the_colour_of_standard_error() {
        let (mut out, _, words) = output(Format::Text, None);
        out.data_colour = true;
        out.fail(&Failure::usage("wrong"));
        assert_eq!(words.text(), "error: wrong\n");
        out.notes_colour = true;
        out.fail(&Failure::usage("wrong"));
        assert!(words.text().contains("\u{1b}[31merror"));
    }

    #[test]
    fn a_reader_that_has_seen_enough_is_no_error() {
        struct Closed(io::ErrorKind);
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(self.0.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        for (kind, fails) in [(io::ErrorKind::BrokenPipe, false), (io::ErrorKind::StorageFull, true)] {
            let (mut out, ..) = output(Format::Text, None);
            out.data = Box::new(Closed(kind));
            out.line("data");
            assert!(out.is_closed());
            assert_eq!(out.finish().is_err(), fails, "{kind:?}");
        }
    }
}

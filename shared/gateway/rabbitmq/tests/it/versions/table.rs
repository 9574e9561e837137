//! Table of test results in the form of `tables.md` beside this file, with a row for each operation
//! on a type of queue, and a column for each RabbitMQ version.

use std::fmt;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/versions/tables.md");
/// Titles of the first two columns of a table, by which the table is found in `tables.md`.
pub(crate) type Head = [&'static str; 2];

/// Result of one operation on one type of queue, with one version of RabbitMQ.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) operation: String,
    pub(crate) queue: String,
    pub(crate) outcome: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Table {
    head: Head,
    versions: Vec<String>,
    /// Rows of the table: operation, queue, and a result for each version, in the order of
    /// `versions`.
    rows: Vec<(String, String, Vec<String>)>,
}

impl Table {
    pub(crate) fn new(head: Head) -> Self {
        Self { head, versions: Vec::new(), rows: Vec::new() }
    }

    /// Adds a column with one version's results. The first column determines the rows, and later
    /// ones must have the same.
    pub(crate) fn add(&mut self, version: &str, column: Vec<Row>) {
        if self.rows.is_empty() {
            self.rows =
                column.iter().map(|row| (row.operation.clone(), row.queue.clone(), Vec::new())).collect();
        }
        self.versions.push(version.to_owned());
        for ((operation, queue, outcomes), row) in self.rows.iter_mut().zip(column) {
            assert_eq!((&*operation, &*queue), (&row.operation, &row.queue));
            outcomes.push(row.outcome);
        }
    }

    /// Reads from `tables.md` the table whose first two column titles are `first`.
    ///
    /// # Panics
    /// If the document has no such table.
    pub(crate) fn of_the_documentation(first: Head) -> Self {
        let document = std::fs::read_to_string(DOCUMENT).unwrap();
        let cells = |line: &str| -> Vec<String> {
            line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
        };
        let mut lines =
            document.lines().skip_while(|line| !cells(line).starts_with(&first.map(str::to_owned)));
        let head = cells(lines.next().expect("tables.md has the table"));
        let mut table = Self { versions: head[first.len()..].to_vec(), ..Self::new(first) };
        let mut operation = String::new();
        for line in lines.skip(1).take_while(|line| line.starts_with('|')) {
            let cells = cells(line);
            // An empty cell repeats the one above.
            if !cells[0].is_empty() {
                operation.clone_from(&cells[0]);
            }
            table.rows.push((operation.clone(), cells[1].clone(), cells[2..].to_vec()));
        }
        table
    }

    pub(crate) fn versions(&self) -> &[String] {
        &self.versions
    }

    pub(crate) fn has(&self, version: &str) -> bool {
        self.versions.iter().any(|known| known == version)
    }

    fn outcome(&self, operation: &str, queue: &str, version: &str) -> Option<&str> {
        let row = self.rows.iter().find(|row| row.0 == operation && row.1 == queue)?;
        let column = self.versions.iter().position(|known| known == version)?;
        row.2.get(column).map(String::as_str)
    }

    /// Returns a line for each result in `seen` that differs from this table, for the versions that
    /// both have.
    pub(crate) fn differences(&self, seen: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        if self.rows.len() != seen.rows.len() {
            differences.push(format!("{} rows, of {}", self.rows.len(), seen.rows.len()));
        }
        for (operation, queue, _) in &seen.rows {
            for version in seen.versions.iter().filter(|version| self.has(version)) {
                let (said, seen) =
                    (self.outcome(operation, queue, version), seen.outcome(operation, queue, version));
                if said != seen {
                    differences.push(format!("{operation}, {queue}, {version}: {said:?}, seen {seen:?}"));
                }
            }
        }
        differences
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| {} | {} |", self.head.join(" | "), self.versions.join(" | "))?;
        writeln!(f, "|{}", "---|".repeat(self.head.len() + self.versions.len()))?;
        let mut above = "";
        for (operation, queue, outcomes) in &self.rows {
            let shown = if operation == above { "" } else { operation };
            writeln!(f, "| {shown} | {queue} | {} |", outcomes.join(" | "))?;
            above = operation;
        }
        Ok(())
    }
}

//! Exit codes of the program, and failures of commands with their texts for people.

use std::fmt;
use std::process::ExitCode;

pub(crate) use attempt::chain;

/// Outcome of a command, whose number is the exit code of the process. `docs/cli.md` has the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Exit {
    /// The command did everything that it was asked to do.
    Done = 0,
    /// The command failed for a reason that no other exit code covers.
    Error = 1,
    /// The command line or a file of settings cannot be used.
    Usage = 2,
    /// The work was done, but some of its items are in error.
    Partial = 3,
    /// The API key or the AWS credentials do not permit the command.
    Denied = 4,
    /// The failure is temporary: the same command may succeed later.
    Temporary = 5,
    /// The request was refused for good: the same request would be refused again.
    Refused = 6,
    /// The work is held until a person confirms it.
    Held = 7,
    /// The time limit for waiting passed, and the work continues.
    TimedOut = 8,
    /// The command found nothing to do or to show.
    Nothing = 9,
    /// A check of `integrahub doctor` found a fault.
    Faulty = 10,
    /// A check of `integrahub doctor` gave a warning, and `--strict` makes that an error.
    Doubtful = 11,
    /// An expectation of a load test was not met.
    ExpectFailed = 99,
}

impl Exit {
    /// All outcomes, in the order of their exit codes.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 13] = [
        Self::Done,
        Self::Error,
        Self::Usage,
        Self::Partial,
        Self::Denied,
        Self::Temporary,
        Self::Refused,
        Self::Held,
        Self::TimedOut,
        Self::Nothing,
        Self::Faulty,
        Self::Doubtful,
        Self::ExpectFailed,
    ];

    /// Returns the exit code of the process.
    pub(crate) const fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Failure of a command, printed in up to three lines: what failed, why, and what to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// Exit code of the program after this failure.
    pub(crate) exit: Exit,
    /// First line of the text: what failed.
    pub(crate) what: String,
    /// Second line: the cause, with the status, reason and trace id of the API's response if there
    /// was one; `None` if there is no more to say.
    pub(crate) why: Option<String>,
    /// Third line: the step that the user should take next; `None` if there is none.
    pub(crate) next: Option<String>,
}

impl Failure {
    /// Creates a failure with an exit code and the description of what failed, without a cause and
    /// a next step.
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self { exit, what: what.into(), why: None, next: None }
    }

    /// Creates a failure with exit code 2: the command line or the settings cannot be used.
    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(Exit::Usage, what)
    }

    /// Creates a failure with exit code 6: the request contradicts itself or stored data.
    pub(crate) fn refused(what: impl Into<String>) -> Self {
        Self::new(Exit::Refused, what)
    }

    /// Adds the cause to the failure, as its second line.
    #[must_use]
    pub(crate) fn why(mut self, why: impl Into<String>) -> Self {
        self.why = Some(why.into());
        self
    }

    /// Adds the step that the user should take next to the failure, as its third line.
    #[must_use]
    pub(crate) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.what)?;
        for line in [&self.why, &self.next].into_iter().flatten() {
            write!(formatter, "\n{line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

/// Conversion of errors to failures of a command, which name the attempted action.
pub(crate) trait Explain<T> {
    /// Converts an error to a failure with exit code 1; `attempt` completes the sentence "could not
    /// …".
    ///
    /// # Errors
    /// Returns the failure if `self` is an error.
    fn or_explain(self, attempt: impl FnOnce() -> String) -> Result<T, Failure>;
}

impl<T, E: std::error::Error + 'static> Explain<T> for Result<T, E> {
    fn or_explain(self, attempt: impl FnOnce() -> String) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(Exit::Error, format!("could not {}", attempt())).why(chain(&error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the exit codes in the table of docs/cli.md.
    fn documented() -> Vec<String> {
        let page = include_str!("../../docs/cli.md");
        let table = page.split("## Exit codes").nth(1).unwrap();
        let rows = table.lines().skip_while(|line| !line.starts_with('|')).skip(2);
        let codes = rows.take_while(|line| line.starts_with('|'));
        codes.map(|row| row.split('|').nth(1).unwrap().trim().trim_matches('`').to_owned()).collect()
    }

    #[test]
    fn the_page_lists_every_exit_code_and_no_other() {
        let codes: Vec<String> = Exit::ALL.iter().map(|exit| exit.code().to_string()).collect();
        assert_eq!(documented(), codes);
        assert!(Exit::ALL.is_sorted());
    }

    #[test]
    fn a_failure_says_what_why_and_what_next() {
        let failure = Failure::usage("the file cannot be read").why("line 3").next("correct it");
        assert_eq!(failure.to_string(), "the file cannot be read\nline 3\ncorrect it");
        assert_eq!(failure.exit.code(), 2);
    }
}

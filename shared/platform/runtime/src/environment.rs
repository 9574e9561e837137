//! A function's configuration, read once at start; all missing and wrong variables are reported
//! together.

use std::fmt::Display;
use std::str::FromStr;

/// Reader of environment variables, which collects all faults before it reports them.
///
/// ```
/// let lookup = |name: &str| (name == "TABLE").then(|| "records".to_owned());
/// let mut environment = runtime::Environment::of(lookup);
/// let table: String = environment.required("TABLE");
/// let cap: usize = environment.optional("CAP", 5);
/// assert_eq!((table.as_str(), cap), ("records", 5));
/// assert!(environment.check().is_ok());
/// ```
pub struct Environment<F> {
    lookup: F,
    wrong: Vec<String>,
}

/// Error with one sentence for each environment variable that is missing or malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the environment is not complete: {}", .0.join("; "))]
pub struct EnvironmentError(Vec<String>);

impl Environment<fn(&str) -> Option<String>> {
    /// Creates a reader of the process's environment variables.
    #[must_use]
    pub fn of_process() -> Self {
        Self::of(|name| std::env::var(name).ok())
    }
}

impl<F: Fn(&str) -> Option<String>> Environment<F> {
    /// Creates a reader of variables that `lookup` returns by name, such as those of a test.
    pub fn of(lookup: F) -> Self {
        Self { lookup, wrong: Vec::new() }
    }

    /// Reads a mandatory variable. If it is missing or malformed, the type's default value is
    /// returned, and [`check`](Self::check) will fail.
    pub fn required<T: FromStr<Err: Display> + Default>(&mut self, name: &str) -> T {
        let faults = self.wrong.len();
        let value = self.given(name);
        if value.is_none() && self.wrong.len() == faults {
            self.wrong.push(format!("{name} is missing"));
        }
        value.unwrap_or_default()
    }

    /// Reads an optional variable; returns `default` if it is missing or empty. If it is malformed,
    /// also returns `default`, and [`check`](Self::check) will fail.
    pub fn optional<T: FromStr<Err: Display>>(&mut self, name: &str, default: T) -> T {
        self.given(name).unwrap_or(default)
    }

    /// Reads an optional variable; returns `None` if it is missing or empty. If it is malformed,
    /// also returns `None`, and [`check`](Self::check) will fail.
    pub fn given<T: FromStr<Err: Display>>(&mut self, name: &str) -> Option<T> {
        let value = (self.lookup)(name).filter(|value| !value.is_empty())?;
        value.parse().map_err(|error| self.wrong.push(format!("{name}: {error}"))).ok()
    }

    /// Adds a fault for [`check`](Self::check) to report, which concerns several variables or a
    /// value that was parsed without error.
    pub fn refuse(&mut self, fault: impl Into<String>) {
        self.wrong.push(fault.into());
    }

    /// Ends the reading of variables.
    ///
    /// # Errors
    /// If any variable is missing or malformed, or if a fault was added: the error names all of
    /// them.
    pub fn check(self) -> Result<(), EnvironmentError> {
        if self.wrong.is_empty() { Ok(()) } else { Err(EnvironmentError(self.wrong)) }
    }
}

impl<F> std::fmt::Debug for Environment<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Environment").field("wrong", &self.wrong).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_wrong_is_reported_together() {
        let mut environment = Environment::of(|name| (name == "CAP").then(|| "many".to_owned()));
        let _: String = environment.required("TABLE");
        let cap: u8 = environment.optional("CAP", 5);
        assert_eq!(cap, 5);
        let error = environment.check().unwrap_err().to_string();
        assert!(error.contains("TABLE is missing") && error.contains("CAP: invalid digit"), "{error}");
    }
}

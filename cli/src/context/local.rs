//! The local stack that `make run` starts, found by the file that the stack writes while it runs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use url::Url;

use crate::aws;
use crate::exit::{Explain as _, Failure};
use crate::input;

/// Path of the local stack's file of variables, relative to the repository.
const FILE: &str = ".local/env";
/// Environment variable that replaces the path of the local stack's file of variables.
const VARIABLE: &str = "INTEGRAHUB_STACK_ENV";

/// Variables of a running local stack: the addresses and names of its resources.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct LocalStack {
    variables: BTreeMap<String, String>,
}

impl std::fmt::Debug for LocalStack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalStack").field("variables", &self.variables.len()).finish_non_exhaustive()
    }
}

impl LocalStack {
    /// Finds the local stack of this directory, or of the nearest parent directory that has one.
    /// The environment variable [`VARIABLE`] takes precedence. Returns `None` if no local stack
    /// runs.
    ///
    /// # Errors
    /// If the stack's file exists and cannot be read, or is too large.
    pub(crate) fn find() -> Result<Option<Self>, Failure> {
        let named = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        let path = match named {
            Some(path) => Some(path),
            None => {
                let here = std::env::current_dir().or_explain(|| "find the current directory".to_owned())?;
                here.ancestors().map(|directory| directory.join(FILE)).find(|path| path.is_file())
            }
        };
        let Some(path) = path else { return Ok(None) };
        Ok(input::settings(&path)?.map(|text| Self::parse(&text)))
    }

    /// Parses the local stack's file: lines of the form `export NAME='VALUE'`, where `'\''` stands
    /// for an apostrophe in the value. Other lines are ignored.
    pub(crate) fn parse(text: &str) -> Self {
        let exported = text.lines().filter_map(|line| line.strip_prefix("export "));
        let pairs = exported.filter_map(|line| line.split_once('='));
        let plain = |(name, value): (&str, &str)| {
            let value = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\'')).unwrap_or(value);
            (name.to_owned(), value.replace(r"'\''", "'"))
        };
        Self { variables: pairs.map(plain).collect() }
    }

    /// Returns the value of a variable in the local stack's file.
    pub(crate) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// Returns the base URL of the local stack's API; `None` if the stack's file has none.
    pub(super) fn url(&self) -> Result<Option<Url>, Failure> {
        let parse = |url: &str| url.parse().or_explain(|| format!("read the API's address {url}"));
        self.variable("API").map(parse).transpose()
    }

    /// Returns the names of the local stack's tables, function and log group.
    pub(super) fn names(&self) -> aws::Names {
        let variable = |name| self.variable(name).map(str::to_owned);
        aws::Names {
            access_table: variable("ACCESS_TABLE"),
            idempotency_table: variable("IDEMPOTENCY_TABLE"),
            establishments_function: variable("ESTABLISHMENTS_FUNCTION"),
            audit_log_group: variable("AUDIT_LOG_GROUP"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_read_as_it_was_written() {
        let text =
            "export API='http://127.0.0.1:1'\n# a remark\nexport AMQP_URL='amqp://it'\\''s:=&\"a\"@h'\n";
        let stack = LocalStack::parse(text);
        assert_eq!(stack.variable("API"), Some("http://127.0.0.1:1"));
        assert_eq!(stack.variable("AMQP_URL"), Some("amqp://it's:=&\"a\"@h"));
        assert_eq!(stack.variable("ABSENT"), None);
    }
}

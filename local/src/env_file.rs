//! Addresses and keys of the API and of the stores behind it, as a file that a shell can source.

use std::io::Write as _;
use std::path::Path;

use tempfile::{NamedTempFile, TempPath};

use crate::failure::{Explain as _, Failure};

pub(crate) type Variables = Vec<(&'static str, String)>;

/// Quotes a text as one word for the shell.
fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

/// Writes the env file in one step. It is removed when the returned path is dropped, at the end of
/// the stack. Only its owner can read it, because it has the broker's password.
pub(crate) fn publish(path: &Path, variables: &Variables) -> Result<TempPath, Failure> {
    let explain = || format!("write {}", path.display());
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut file = NamedTempFile::new_in(directory).or_explain(explain)?;
    for (name, value) in variables {
        writeln!(file, "export {name}={}", quoted(value)).or_explain(explain)?;
    }
    file.persist(path).or_explain(explain)?;
    TempPath::try_from_path(path).or_explain(explain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_that_sources_the_file_passes_each_value_on_as_it_is_while_the_file_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("env");
        let value = r#"amqp://it's&"a" $HOME `id` \ #word"#;
        let variables = vec![("AMQP_URL", value.to_owned()), ("AWS_REGION", "r".to_owned())];
        let file = publish(&path, &variables).unwrap();
        let script = format!(". {} && printenv AMQP_URL AWS_REGION", path.display());
        let shown = std::process::Command::new("sh").args(["-euc", &script]).output().unwrap();
        assert_eq!(String::from_utf8(shown.stdout).unwrap(), format!("{value}\nr\n"));
        drop(file);
        assert!(!path.exists());
    }
}

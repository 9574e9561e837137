//! Determines the directories of this program's files, by the rules of XDG or of Windows.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::exit::Failure;

/// Environment variables by which one directory of this program is found. The first variable that
/// is set decides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectoryVariables {
    /// Purpose of the directory, as the end of the error message "there is no place …" if no
    /// variable is set.
    pub(crate) purpose: &'static str,
    /// Name of the variable that contains the path of the directory itself.
    pub(crate) own: &'static str,
    /// Name of the XDG variable whose value, with `/integrahub` appended, is the directory.
    pub(crate) xdg: &'static str,
    /// Name of the Windows variable whose value, with `\integrahub` appended, is the directory.
    pub(crate) windows: &'static str,
    /// Path relative to `HOME` which, with `/integrahub` appended, is the directory.
    pub(crate) home: &'static str,
}

impl DirectoryVariables {
    /// Determines the path of the directory, which may not exist yet. `variable` returns the value
    /// of an environment variable.
    ///
    /// # Errors
    /// If no variable is set.
    pub(crate) fn find(&self, variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, Failure> {
        let path = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let below = |base: Option<PathBuf>| base.map(|base| base.join("integrahub"));
        path(self.own)
            .or_else(|| below(path(self.xdg)))
            .or_else(|| if cfg!(windows) { below(path(self.windows)) } else { None })
            .or_else(|| below(path("HOME").map(|home| home.join(self.home))))
            .ok_or_else(|| {
                Failure::usage(format!("there is no place {}", self.purpose))
                    .why(format!("neither {} nor HOME is set", self.own))
                    .next(format!("set {} to a directory", self.own))
            })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn the_directory_is_the_one_of_the_first_variable_that_is_set() {
        const VARIABLES: DirectoryVariables = DirectoryVariables {
            purpose: "for tests",
            own: "INTEGRAHUB_TEST_DIR",
            xdg: "XDG_TEST_HOME",
            windows: "TESTDATA",
            home: ".local/test",
        };
        let of = |set: &[(&str, &str)]| {
            let set: BTreeMap<_, _> =
                set.iter().map(|&(name, value)| (name.to_owned(), value.into())).collect();
            VARIABLES.find(|name| set.get(name).cloned())
        };
        let home = ("HOME", "/home/ana");
        assert_eq!(of(&[home]), Ok("/home/ana/.local/test/integrahub".into()));
        assert_eq!(of(&[home, ("XDG_TEST_HOME", "/etc/ana")]), Ok("/etc/ana/integrahub".into()));
        assert_eq!(of(&[home, ("XDG_TEST_HOME", "")]), Ok("/home/ana/.local/test/integrahub".into()));
        assert_eq!(of(&[home, ("INTEGRAHUB_TEST_DIR", "/x")]), Ok("/x".into()));
        assert!(of(&[]).unwrap_err().what.contains("no place for tests"));
    }
}

//! Directories and files of a local stack.

use std::path::{Path, PathBuf};

use crate::failure::{Explain as _, Failure};

/// Directories of one stack: `.local/` for `make run`, `.local/test/` for the stack of the tests.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) root: PathBuf,
    pub(crate) state: PathBuf,
}

impl Layout {
    /// Returns the layout of the stack that `make run` starts.
    ///
    /// # Errors
    /// If the current directory is outside the repository.
    pub(crate) fn of_run() -> Result<Self, Failure> {
        let root = repository_root()?;
        Ok(Self { state: root.join(".local"), root })
    }

    /// Returns the layout of the stack that tests run against.
    ///
    /// # Errors
    /// If the current directory is outside the repository.
    pub(crate) fn of_tests() -> Result<Self, Failure> {
        let root = repository_root()?;
        Ok(Self { state: root.join(".local/test"), root })
    }

    #[cfg(test)]
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), state: root.join(".local") }
    }

    /// Returns the path of the Python interpreter in this environment, which `scripts/setup.sh`
    /// creates. All stacks of the repository share it.
    pub(crate) fn python(&self, environment: &str) -> PathBuf {
        self.root.join(".local").join(environment).join("bin/python")
    }

    pub(crate) fn env_file(&self) -> PathBuf {
        self.state.join("env")
    }

    pub(crate) fn lock_file(&self) -> PathBuf {
        self.state.join("lock")
    }

    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.state.join("logs").join(format!("{name}.log"))
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.state.join("data")
    }

    /// Empties the directories of data and logs, so that nothing of an earlier run is left.
    pub(crate) fn start_afresh(&self) -> Result<(), Failure> {
        for directory in [self.data(), self.state.join("logs")] {
            match std::fs::remove_dir_all(&directory) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(error).or_explain(|| format!("empty {}", directory.display()))?;
                }
                _ => {}
            }
            create(&directory)?;
        }
        Ok(())
    }

    /// Creates the data directory of a component, and returns its path.
    pub(crate) fn component_directory(&self, name: &str) -> Result<PathBuf, Failure> {
        let directory = self.data().join(name);
        create(&directory)?;
        Ok(directory)
    }
}

/// Creates a directory with its parents.
pub(crate) fn create(directory: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(directory).or_explain(|| format!("create {}", directory.display()))
}

fn repository_root() -> Result<PathBuf, Failure> {
    let here = std::env::current_dir().or_explain(|| "find the current directory".into())?;
    here.ancestors()
        .find(|directory| {
            directory.join("template.yaml").is_file() && directory.join("local/deploy.py").is_file()
        })
        .map(Path::to_owned)
        .ok_or_else(|| {
            Failure::new("Run this inside the repository: no template.yaml in this directory or above it.")
        })
}

//! Directory of the PostgreSQL server's files. PostgreSQL refuses to run as root, so for root it
//! runs as another user, to whom the directory is given.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use test_support::postgres::{self, Account};

use crate::failure::{Explain as _, Failure};
use crate::layout::Layout;

/// Name of the link in the component's directory that points to the server's directory.
const LINK: &str = "home";
const PREFIX: &str = "integrahub-postgres-";

/// Creates a temporary directory that only the server can read, and a link to it in `own`, by which
/// a later clean-up finds it. Returns the directory, and the account to run the server as; `None`
/// for the present user.
///
/// # Errors
/// If there is no user to run it as, or the file system refuses.
pub(super) fn prepare(own: &Path) -> Result<(PathBuf, Option<Account>), Failure> {
    let explain = || "create a temporary directory for PostgreSQL".to_owned();
    let (directory, account) = postgres::home(PREFIX).or_explain(explain)?;
    symlink(directory.path(), own.join(LINK)).or_explain(explain)?;
    Ok((directory.keep(), account))
}

/// Removes the server's directory and the link to it, if they exist.
pub(crate) fn forget(layout: &Layout) {
    let link = layout.data().join("postgres").join(LINK);
    let Ok(directory) = std::fs::read_link(&link) else { return };
    let ours =
        directory.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(PREFIX));
    if ours {
        // What is left of it is temporary files at worst.
        let _kept = std::fs::remove_dir_all(&directory);
    }
    let _kept = std::fs::remove_file(link);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_s_directory_goes_and_nothing_else_does() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::at(root.path());
        let own = layout.component_directory("postgres").unwrap();
        let (other, _) = prepare(&own).unwrap();
        std::fs::write(other.join("file"), "").unwrap();
        forget(&layout);
        assert!(!other.exists() && own.is_dir());
        forget(&layout);

        let precious = root.path().join("precious");
        std::fs::create_dir(&precious).unwrap();
        symlink(&precious, own.join(LINK)).unwrap();
        forget(&layout);
        assert!(precious.is_dir() && !own.join(LINK).exists());
    }
}

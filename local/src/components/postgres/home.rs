//! The directory of the server's files. PostgreSQL refuses to run as root, so for root it runs as
//! another user, and that user must be able to get there: below a home such as `/root` it is not.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use test_support::postgres::{ACCOUNT, Account};

use crate::failure::{Explain as _, Failure};
use crate::layout::Layout;

/// A link in the component's own directory to the one that is used instead.
const ELSEWHERE: &str = "elsewhere";
const PREFIX: &str = "integrahub-postgres-";

/// A directory that is the server's alone: `own`, or a temporary one that `own` links to. No user:
/// ourselves.
///
/// # Errors
/// There is no user to run it as, or the file system refuses.
pub(super) fn prepare(own: &Path) -> Result<(PathBuf, Option<Account>), Failure> {
    if !nix::unistd::geteuid().is_root() {
        give(own, None)?;
        return Ok((own.to_owned(), None));
    }
    let account = Account::find().or_explain(|| format!("look up the user {ACCOUNT}"))?;
    let account = account.ok_or_else(|| {
        Failure::new(format!(
            "PostgreSQL does not run as root, and there is no user {ACCOUNT} to run it as: start again as another \
             user, or create that one."
        ))
    })?;
    let home = if reaches(account, own)? { own.to_owned() } else { elsewhere(own)? };
    give(&home, Some(account))?;
    Ok((home, Some(account)))
}

fn give(home: &Path, account: Option<Account>) -> Result<(), Failure> {
    let explain = || format!("prepare {}", home.display());
    std::fs::set_permissions(home, Permissions::from_mode(0o700)).or_explain(explain)?;
    match account {
        Some(account) => chown(home, Some(account.uid), Some(account.gid)).or_explain(explain),
        None => Ok(()),
    }
}

/// True if a user can reach a directory. It is tried out, because modes alone do not decide: groups
/// and access lists count too.
fn reaches(account: Account, directory: &Path) -> Result<bool, Failure> {
    Command::new("test")
        .arg("-x")
        .arg(directory)
        .current_dir("/")
        .uid(account.uid)
        .gid(account.gid)
        .stdin(Stdio::null())
        .status()
        .map(|status| status.success())
        .or_explain(|| format!("find out whether {ACCOUNT} can reach {}", directory.display()))
}

/// Makes a temporary directory, linked before it is used, so that a clean-up finds it.
fn elsewhere(own: &Path) -> Result<PathBuf, Failure> {
    let explain = || "create a temporary directory for PostgreSQL".to_owned();
    let directory = tempfile::Builder::new().prefix(PREFIX).tempdir().or_explain(explain)?;
    symlink(directory.path(), own.join(ELSEWHERE)).or_explain(explain)?;
    Ok(directory.keep())
}

/// Removes the directory that was used instead of the component's own, if there was one.
pub(crate) fn forget_elsewhere(layout: &Layout) {
    let link = layout.data().join("postgres").join(ELSEWHERE);
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
    fn the_other_directory_goes_and_nothing_else_does() {
        let root = tempfile::tempdir().unwrap();
        let layout = Layout::at(root.path());
        let own = layout.component_directory("postgres").unwrap();
        let other = elsewhere(&own).unwrap();
        std::fs::write(other.join("file"), "").unwrap();
        forget_elsewhere(&layout);
        assert!(!other.exists() && own.is_dir());
        forget_elsewhere(&layout);

        let precious = root.path().join("precious");
        std::fs::create_dir(&precious).unwrap();
        symlink(&precious, own.join(ELSEWHERE)).unwrap();
        forget_elsewhere(&layout);
        assert!(precious.is_dir() && !own.join(ELSEWHERE).exists());
    }

    #[test]
    fn a_directory_below_a_closed_one_is_not_reached() {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("inner");
        std::fs::create_dir(&inner).unwrap();
        let nobody = Account { uid: 65534, gid: 65534 };
        std::fs::set_permissions(root.path(), Permissions::from_mode(0o700)).unwrap();
        assert!(!reaches(nobody, &inner).unwrap());
        std::fs::set_permissions(root.path(), Permissions::from_mode(0o711)).unwrap();
        assert!(reaches(nobody, &inner).unwrap());
    }
}

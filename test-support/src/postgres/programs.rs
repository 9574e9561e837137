//! Location of PostgreSQL's programs.

use std::path::{Path, PathBuf};

use crate::root::Root;

/// Directory of PostgreSQL's programs in Debian, by version. Debian does not add it to `PATH`.
const DEBIAN: &str = "/usr/lib/postgresql";

/// Returns the directory with the programs of the newest PostgreSQL in a root, as a path inside
/// that root. The machine's own programs may also be on `PATH`.
pub(super) fn programs(root: &Root) -> Option<PathBuf> {
    if let Some(directory) = root.directory() {
        let found = newest(&directory.join(DEBIAN.trim_start_matches('/')))?;
        return found.strip_prefix(directory).ok().map(|found| Path::new("/").join(found));
    }
    newest(Path::new(DEBIAN)).or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).find(|directory| has_server(directory))
    })
}

fn newest(versions: &Path) -> Option<PathBuf> {
    std::fs::read_dir(versions)
        .ok()?
        .flatten()
        .filter_map(|entry| {
            let version: u32 = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .filter(|(_, directory)| has_server(directory))
        .max()
        .map(|(_, directory)| directory)
}

/// Returns true if the directory has the server's programs, not only the clients.
fn has_server(directory: &Path) -> bool {
    ["initdb", "postgres"].iter().all(|program| directory.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_with_a_server_is_taken() {
        let versions = tempfile::tempdir().unwrap();
        for (version, programs) in
            [("9", ["initdb", "postgres"]), ("15", ["initdb", "postgres"]), ("17", ["psql", "pg_dump"])]
        {
            let directory = versions.path().join(version).join("bin");
            std::fs::create_dir_all(&directory).unwrap();
            for program in programs {
                std::fs::write(directory.join(program), "").unwrap();
            }
        }
        std::fs::create_dir(versions.path().join("common")).unwrap();
        assert_eq!(newest(versions.path()), Some(versions.path().join("15/bin")));
        assert_eq!(newest(&versions.path().join("missing")), None);
    }
}

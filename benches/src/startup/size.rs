//! Size of a deployment, unpacked and as a zip.

use std::io::{self, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::DeflateEncoder;

use crate::error::Error;

/// Bytes, unpacked and zipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) unpacked: u64,
    pub(crate) zipped: u64,
}

/// Bytes that a zip has for an entry, twice, beside its name; and bytes that end it.
const ENTRY: u64 = 30 + 46;
const END: u64 = 22;

/// Measures a file, or everything in a directory.
pub(crate) fn size(path: &Path) -> Result<Size, Error> {
    let mut size = Size { unpacked: 0, zipped: END };
    add(path, path, &mut size)?;
    Ok(size)
}

fn add(root: &Path, path: &Path, size: &mut Size) -> Result<(), Error> {
    if path.is_dir() {
        for entry in std::fs::read_dir(path)? {
            add(root, &entry?.path(), size)?;
        }
        return Ok(());
    }
    let mut deflated = DeflateEncoder::new(Count(0), Compression::best());
    size.unpacked += io::copy(&mut std::fs::File::open(path)?, &mut deflated)?;
    let name = path.strip_prefix(root).unwrap_or(path).as_os_str().len();
    size.zipped += deflated.finish()?.0 + ENTRY + 2 * u64::try_from(name).unwrap_or_default();
    Ok(())
}

#[derive(Debug)]
struct Count(u64);

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += u64::try_from(bytes.len()).unwrap_or_default();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_below_a_directory_count() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("below")).unwrap();
        std::fs::write(directory.path().join("a"), [7; 1000]).unwrap();
        std::fs::write(directory.path().join("below/b"), [7; 500]).unwrap();
        let size = size(directory.path()).unwrap();
        assert_eq!(size.unpacked, 1500);
        let names = 2 * u64::try_from("a".len() + "below/b".len()).unwrap();
        let content = size.zipped - END - 2 * ENTRY - names;
        assert!((4..100).contains(&content), "{size:?}");
    }
}

//! `logs/front.log`: a line per request, and why a function gave no answer.

use std::fmt::Display;
use std::fs::File;
use std::io::Write as _;

use jiff::Timestamp;

use crate::failure::{Explain as _, Failure};
use crate::layout::Layout;

#[derive(Debug)]
pub(crate) struct Log(File);

impl Log {
    /// Creates the log file of the API's front.
    pub(crate) fn open(layout: &Layout) -> Result<Self, Failure> {
        let path = layout.log("front");
        File::create(&path).or_explain(|| format!("write {}", path.display())).map(Self)
    }

    /// Writes a line to the log; a failed write must not fail a request.
    pub(super) fn line(&self, text: impl Display) {
        let _full_disk = writeln!(&self.0, "{} {text}", Timestamp::now());
    }
}

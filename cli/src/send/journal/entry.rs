//! Lines of the journal, in which `integrahub send` records its loads.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Version of the format of the journal's lines.
pub(super) const VERSION: u32 = 1;

/// State of a load, as the journal records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum State {
    /// The request may have been sent, and no response is known yet.
    Sending,
    /// The API accepted the content as a batch. It is not known yet how the batch ended.
    Accepted,
    /// The batch of the load has ended.
    Final,
    /// The API refused the request and stored nothing of it.
    Refused,
}

/// Way in which content is sent to the API. A retry of a load must use the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Way {
    /// The body of the request contains the content.
    Request,
    /// The content is uploaded to S3.
    Upload,
}

impl Way {
    /// Returns the name of the way in which content is sent: `request` or `upload`.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Upload => "upload",
        }
    }
}

/// Line of the journal, which records a load and its state at one time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    pub(crate) version: u32,
    pub(crate) at: Timestamp,
    pub(crate) state: State,
    /// Base URL of the API that the load was sent to.
    pub(crate) api: String,
    /// Identity of the load: its options, form and SHA-256, or the key that the user gave with
    /// `--key`. Without that option, the idempotency key is derived from the identity.
    pub(crate) identity: String,
    pub(crate) key: String,
    pub(crate) way: Way,
    /// Number of times that this content was loaded, including this load.
    pub(crate) occurrence: u32,
    pub(crate) file: PathBuf,
    pub(crate) bytes: u64,
    /// Time of the file's last change; `None` if the file system does not tell it.
    pub(crate) modified: Option<Timestamp>,
    pub(crate) batch_id: Option<String>,
}

impl Entry {
    /// Creates the first journal entry of a load. The caller adds the path, size and last change of
    /// the file.
    pub(crate) fn new(state: State, api: &str, identity: &str, key: String, way: Way) -> Self {
        Self {
            version: VERSION,
            at: Timestamp::now(),
            state,
            api: api.to_owned(),
            identity: identity.to_owned(),
            key,
            way,
            occurrence: 1,
            file: PathBuf::new(),
            bytes: 0,
            modified: None,
            batch_id: None,
        }
    }

    /// Returns the entry with another state and the present time.
    #[must_use]
    pub(crate) fn now(&self, state: State) -> Self {
        Self { state, at: Timestamp::now(), ..self.clone() }
    }

    /// Returns the entry with the state [`State::Final`] and the path that the file was moved to.
    /// With an empty `path`, `--watch` sends the file again, because no file has that path.
    #[must_use]
    pub(crate) fn elsewhere(&self, path: &Path) -> Self {
        Self { file: path.to_owned(), ..self.now(State::Final) }
    }
}

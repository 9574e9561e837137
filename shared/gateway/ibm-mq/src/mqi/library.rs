//! IBM's client library, loaded at run time.
#![allow(unsafe_code)]

use std::path::{Path, PathBuf};

use libmqm_sys::dlopen2::{MqWrapper, MqmContainer};

/// IBM's client library with its functions. It is never unloaded, since it runs threads of its own.
pub(crate) struct Library(MqmContainer);

#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("`{}` is not an absolute path", .0.display())]
    NotAbsolute(PathBuf),
    #[error("there is no file `{}`", .0.display())]
    Missing(PathBuf),
    #[error("`{}` cannot be loaded", .0.display())]
    Unusable(PathBuf, #[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Library {
    /// Loads the library from `path`; it must export every function of the MQI.
    pub(crate) fn load(path: &Path) -> Result<Self, LoadError> {
        if !path.is_absolute() {
            return Err(LoadError::NotAbsolute(path.to_owned()));
        }
        if !path.is_file() {
            return Err(LoadError::Missing(path.to_owned()));
        }
        // SAFETY: the path is absolute and comes from the deployment's configuration, which names
        // IBM's client library there. Its initialization has no requirement. The functions are
        // declared by bindings that were generated from IBM's headers.
        let container = unsafe { MqmContainer::load(path) };
        container.map(Self).map_err(|error| LoadError::Unusable(path.to_owned(), Box::new(error)))
    }

    pub(super) fn functions(&self) -> &MqWrapper {
        &self.0
    }
}

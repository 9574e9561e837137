//! Opening a connection, on the thread that will own it.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use mq::BrokerError;

use crate::channel_table::{self, ChannelTableError};
use crate::errors::During;
use crate::facts::QueueManager;
use crate::mqi::{Connection, Library, LoadError, Login, Refusal, Route};
use crate::settings::Settings;
use crate::worker::ThreadState;

/// Reason why a connection could not be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error(transparent)]
    Library(#[from] LoadError),
    #[error("`{}` cannot be made", .0.display())]
    DataPath(PathBuf, #[source] io::Error),
    #[error(transparent)]
    Table(#[from] ChannelTableError),
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl ConnectError {
    pub(crate) fn into_error(self, queue_manager: &str) -> BrokerError {
        match self {
            Self::Refused(refusal) => refusal.into_error(During::LogIn { queue_manager }),
            Self::Library(error) => {
                let detail = format!(
                    "IBM MQ's client library is not part of this deployment, or cannot be loaded: {error}"
                );
                BrokerError::unreachable(detail).caused_by(error)
            }
            Self::Table(error) => {
                let detail = error.to_string();
                BrokerError::unsupported(detail).caused_by(error)
            }
            Self::DataPath(..) => {
                BrokerError::unreachable("IBM MQ's client has no place for its files").caused_by(self)
            }
        }
    }
}

/// Opens a connection, on the thread that will own it, and inquires the queue manager's attributes.
/// Checks a channel table for TLS before, if the target requires TLS.
pub(crate) fn open(
    library: &Mutex<Option<&'static Library>>,
    settings: &Settings,
    login: &Login,
    conn_name: &str,
    belongings: ThreadState,
) -> Result<(Connection, Option<QueueManager>), ConnectError> {
    let library = loaded(library, settings)?;
    if let (Route::Table { url }, Some(_)) = (&login.route, &login.tls) {
        channel_table::promises_tls(url, &login.queue_manager)?;
    }
    let connection = Connection::open(library, login, conn_name, belongings)?;
    let queue_manager = match QueueManager::ask(&connection) {
        Ok(queue_manager) => Some(queue_manager),
        Err(refusal) if refusal.spares_the_connection() => None,
        Err(refusal) => return Err(refusal.into()),
    };
    Ok((connection, queue_manager))
}

fn loaded(
    library: &Mutex<Option<&'static Library>>,
    settings: &Settings,
) -> Result<&'static Library, ConnectError> {
    let mut library = library.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(library) = *library {
        return Ok(library);
    }
    if let Some(path) = &settings.data_path {
        fs::create_dir_all(path).map_err(|error| ConnectError::DataPath(path.clone(), error))?;
    }
    // Kept for the life of the process: the library has threads of its own.
    let loaded: &'static Library = Box::leak(Box::new(Library::load(&settings.library)?));
    *library = Some(loaded);
    Ok(loaded)
}

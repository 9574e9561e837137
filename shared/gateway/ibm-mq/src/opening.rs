//! Opens a connection to a queue manager. This runs on the thread that owns the connection from
//! then on, because IBM's client library requires that.

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

/// Reason why a connection to a queue manager could not be opened.
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

/// Opens a connection to the queue manager of `login`, and returns it with the queue manager's
/// attributes (`None` if the user may not inquire them). Must be called on the thread that is to
/// own the connection. `conn_name` has the addresses to try, unless `login` names a channel table.
///
/// Before anything is sent, checks a channel table of a `login` with TLS: each channel that the
/// client may use must have a cipher specification. Loads IBM's client library into `library` if
/// that is still empty.
///
/// # Errors
/// If the check fails, the library cannot be loaded, or the queue manager refuses.
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

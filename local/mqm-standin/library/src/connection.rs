//! Connection handles: which socket each stands for, and who may use it.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::ThreadId;

use libmqm_sys as mq;
use mqm_standin::protocol::{
    self, Answer, Chars, Connect, Connected, ConnectionName, Reason, Reply, Request,
};

use crate::consumption::Consumption;
use crate::exports::Callback;

/// Names the directory of the stand-in's sockets.
const DIRECTORY: &str = "MQM_STANDIN_DIR";

/// This library's file.
const LIBRARY: &str = "libmqm_r.so";

#[derive(Debug)]
pub(crate) struct Connection {
    /// `None` once the connection is lost.
    socket: Mutex<Option<UnixStream>>,
    sharing: Sharing,
    queue_manager: Chars,
    pub(crate) asynchronous: Mutex<Asynchronous>,
    pub(crate) consumption: Consumption<Callback>,
}

/// How threads share a handle: MQCNO_HANDLE_SHARE_*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    None(ThreadId),
    Block,
    NoBlock,
}

/// What MQSTAT reports of asynchronous puts since it was asked last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asynchronous {
    pub(crate) succeeded: i32,
    pub(crate) warned: i32,
    pub(crate) failed: i32,
    /// Completion and reason of the first put that did not succeed.
    pub(crate) first: Option<(i32, i32)>,
}

static CONNECTIONS: Mutex<Connections> = Mutex::new(Connections { last: 0, by_handle: BTreeMap::new() });

struct Connections {
    last: i32,
    by_handle: BTreeMap<i32, Arc<Connection>>,
}

fn connections() -> MutexGuard<'static, Connections> {
    CONNECTIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a new connection is, or that this thread has it already.
#[derive(Debug)]
pub(crate) enum Opened {
    New(i32, Connected),
    Already(i32),
}

/// Connects by the first of these channels and addresses that answers.
pub(crate) fn open(request: &Connect, route: &[(Chars, ConnectionName)]) -> Result<Opened, Reason> {
    let thread = std::thread::current().id();
    let sharing = if request.options & mq::MQCNO_HANDLE_SHARE_BLOCK != 0 {
        Sharing::Block
    } else if request.options & mq::MQCNO_HANDLE_SHARE_NO_BLOCK != 0 {
        Sharing::NoBlock
    } else {
        Sharing::None(thread)
    };
    if sharing == Sharing::None(thread)
        && let Some(handle) = of_thread(sharing, &request.queue_manager)
    {
        return Ok(Opened::Already(handle));
    }
    let mut failure = Reason(mq::MQRC_HOST_NOT_AVAILABLE);
    for (channel, address) in route {
        let request = Connect { channel: channel.clone(), ..request.clone() };
        match connect(request, &socket(address)) {
            Ok((socket, connected)) => {
                let connection = Connection {
                    socket: Mutex::new(Some(socket)),
                    sharing,
                    queue_manager: connected.queue_manager.clone(),
                    asynchronous: Mutex::default(),
                    consumption: Consumption::default(),
                };
                let mut connections = connections();
                connections.last += 1;
                let handle = connections.last;
                connections.by_handle.insert(handle, Arc::new(connection));
                return Ok(Opened::New(handle, connected));
            }
            Err(reason) => failure = reason,
        }
        // The next address is for a queue manager that is not there, not for one that refuses.
        let absent = [mq::MQRC_HOST_NOT_AVAILABLE, mq::MQRC_Q_MGR_NOT_AVAILABLE, mq::MQRC_Q_MGR_QUIESCING];
        if !absent.contains(&failure.0) {
            break;
        }
    }
    Err(failure)
}

/// The socket of an address: in the directory that the environment names, or else beside this
/// library or where the process is.
fn socket(address: &ConnectionName) -> PathBuf {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        return address.socket(Path::new(&directory));
    }
    let beside = own_directory().map(|directory| address.socket(directory)).filter(|socket| socket.exists());
    beside.unwrap_or_else(|| address.socket(Path::new("")))
}

/// Where this library was loaded from, as the system lists what is mapped (proc_pid_maps(5)).
fn own_directory() -> Option<&'static Path> {
    static DIRECTORY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
        let path = maps.lines().filter_map(|line| line.find('/').and_then(|at| line.get(at..)));
        let library =
            path.map(Path::new).find(|path| path.file_name().is_some_and(|name| name == LIBRARY))?;
        library.parent().map(Path::to_owned)
    };
    DIRECTORY.get_or_init(find).as_deref()
}

/// The connection that this thread has to that queue manager and shares with no other.
fn of_thread(sharing: Sharing, queue_manager: &Chars) -> Option<i32> {
    let connections = connections();
    let mut own = connections.by_handle.iter().filter(|(_, connection)| {
        connection.sharing == sharing && connection.queue_manager == *queue_manager && connection.is_alive()
    });
    own.next().map(|(handle, _)| *handle)
}

fn connect(request: Connect, path: &Path) -> Result<(UnixStream, Connected), Reason> {
    let absent = Reason(mq::MQRC_HOST_NOT_AVAILABLE);
    let mut socket = UnixStream::connect(path).map_err(|_| absent)?;
    protocol::write(&mut socket, &Request::Connect(request)).map_err(|_| absent)?;
    let reply: Reply = protocol::read(&mut socket).map_err(|_| Reason(mq::MQRC_CONNECTION_BROKEN))?;
    match reply.answer {
        Answer::Connected(connected) => Ok((socket, connected)),
        _ => Err(Reason(reply.reason)),
    }
}

/// The connection, if this thread may use it now.
pub(crate) fn find(handle: i32) -> Result<Arc<Connection>, Reason> {
    let connection = find_to_control(handle)?;
    connection.consumption.admit()?;
    Ok(connection)
}

/// The connection, also while its callbacks are called by another thread.
pub(crate) fn find_to_control(handle: i32) -> Result<Arc<Connection>, Reason> {
    let connection = connections().by_handle.get(&handle).cloned();
    let connection = connection.ok_or(Reason(mq::MQRC_HCONN_ERROR))?;
    match connection.sharing {
        Sharing::None(owner)
            if owner != std::thread::current().id() && !connection.consumption.is_caller() =>
        {
            Err(Reason(mq::MQRC_HCONN_ERROR))
        }
        _ => Ok(connection),
    }
}

/// Ends a connection. What was not committed is: MQDISC commits. Callbacks are stopped first.
pub(crate) fn close(handle: i32) -> Result<(), Reason> {
    let connection = find_to_control(handle)?;
    connection.consumption.stop();
    let result = connection.call(&Request::Disconnect);
    connections().by_handle.remove(&handle);
    result.map(|_| ())
}

impl Connection {
    fn is_alive(&self) -> bool {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Sends a request and waits for its reply. A reply that says "failed" is an error.
    pub(crate) fn call(&self, request: &Request) -> Result<Reply, Reason> {
        let mut socket = match self.sharing {
            Sharing::NoBlock => match self.socket.try_lock() {
                Ok(socket) => socket,
                Err(TryLockError::WouldBlock) => return Err(Reason(mq::MQRC_CALL_IN_PROGRESS)),
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            },
            Sharing::Block | Sharing::None(_) => self.socket.lock().unwrap_or_else(PoisonError::into_inner),
        };
        let broken = Reason(mq::MQRC_CONNECTION_BROKEN);
        let stream = socket.as_mut().ok_or(broken)?;
        let exchanged = protocol::write(stream, request).and_then(|()| protocol::read::<Reply>(stream));
        match exchanged {
            Ok(reply) if reply.completion == mq::MQCC_FAILED => Err(Reason(reply.reason)),
            Ok(reply) => Ok(reply),
            Err(_) => {
                *socket = None;
                Err(broken)
            }
        }
    }

    /// Counts what an asynchronous put came to.
    pub(crate) fn count(&self, completion: i32, reason: i32) {
        let mut counts = self.asynchronous.lock().unwrap_or_else(PoisonError::into_inner);
        match completion {
            mq::MQCC_OK => counts.succeeded += 1,
            mq::MQCC_WARNING => counts.warned += 1,
            _ => counts.failed += 1,
        }
        if completion != mq::MQCC_OK && counts.first.is_none() {
            counts.first = Some((completion, reason));
        }
    }

    /// What was counted, which begins anew.
    pub(crate) fn take_counts(&self) -> Asynchronous {
        std::mem::take(&mut *self.asynchronous.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

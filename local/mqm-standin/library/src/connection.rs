//! Connection handles: the socket that each stands for, and the threads that may use it.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use libmqm_sys as mq;
use mqm_standin::protocol::{self, Answer, Chars, Connect, ConnectionName, Id, Reason, Reply, Request};

/// Environment variable with the directory of the stand-in's sockets; the default is the working
/// directory.
const DIRECTORY: &str = "MQM_STANDIN_DIR";

/// Channels and their addresses, in the order in which they are tried.
pub(crate) type Route = Vec<(Chars, ConnectionName)>;

#[derive(Debug)]
pub(crate) struct Connection {
    /// Socket of the connection; `None` once the connection is lost.
    socket: Mutex<Option<UnixStream>>,
    /// Thread that alone may use the handle; `None` if threads share it (MQCNO_HANDLE_SHARE_*).
    owner: Option<ThreadId>,
    queue_manager: Chars,
}

static CONNECTIONS: Mutex<Connections> = Mutex::new(Connections { last: 0, by_handle: BTreeMap::new() });

struct Connections {
    last: i32,
    by_handle: BTreeMap<i32, Arc<Connection>>,
}

fn connections() -> MutexGuard<'static, Connections> {
    CONNECTIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Connects through the first channel and address of `route` that answers. Returns the handle and
/// the connection's id. If this thread already has an unshared connection to the queue manager,
/// returns its handle, and `None` for the id.
pub(crate) fn open(request: &Connect, route: &Route) -> Result<(i32, Option<Id>), Reason> {
    let shares = mq::MQCNO_HANDLE_SHARE_BLOCK | mq::MQCNO_HANDLE_SHARE_NO_BLOCK;
    let owner = (request.options & shares == 0).then(|| std::thread::current().id());
    let is_own = |connection: &Connection| {
        connection.owner == owner
            && connection.queue_manager == request.queue_manager
            && connection.is_alive()
    };
    if owner.is_some()
        && let Some((handle, _)) = connections().by_handle.iter().find(|(_, connection)| is_own(connection))
    {
        return Ok((*handle, None));
    }
    let directory = PathBuf::from(std::env::var_os(DIRECTORY).unwrap_or_default());
    let mut failure = Reason(mq::MQRC_HOST_NOT_AVAILABLE);
    for (channel, address) in route {
        let request = Connect { channel: channel.clone(), ..request.clone() };
        match connect(request, &address.socket(&directory)) {
            Ok((socket, queue_manager, id)) => {
                let connection = Connection { socket: Mutex::new(Some(socket)), owner, queue_manager };
                let mut connections = connections();
                connections.last += 1;
                let handle = connections.last;
                connections.by_handle.insert(handle, Arc::new(connection));
                return Ok((handle, Some(id)));
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

fn connect(request: Connect, path: &Path) -> Result<(UnixStream, Chars, Id), Reason> {
    let absent = Reason(mq::MQRC_HOST_NOT_AVAILABLE);
    let mut socket = UnixStream::connect(path).map_err(|_| absent)?;
    protocol::write(&mut socket, &Request::Connect(request)).map_err(|_| absent)?;
    let broken = Reason(mq::MQRC_CONNECTION_BROKEN);
    match protocol::read::<Reply>(&mut socket).map_err(|_| broken)?? {
        (Answer::Connected { queue_manager, connection_id }, _) => Ok((socket, queue_manager, connection_id)),
        _ => Err(broken),
    }
}

/// Returns the connection of a handle, if this thread may use it.
pub(crate) fn find(handle: i32) -> Result<Arc<Connection>, Reason> {
    let connection = connections().by_handle.get(&handle).cloned();
    let may = |owner: ThreadId| owner == std::thread::current().id();
    connection.filter(|connection| connection.owner.is_none_or(may)).ok_or(Reason(mq::MQRC_HCONN_ERROR))
}

/// Ends a connection, and commits its uncommitted work: MQDISC commits.
pub(crate) fn close(handle: i32) -> Result<i32, Reason> {
    let result = find(handle)?.call(&Request::Disconnect);
    connections().by_handle.remove(&handle);
    result.map(|(_, warning)| warning)
}

impl Connection {
    fn is_alive(&self) -> bool {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Sends a request to the stand-in's server and waits for its reply.
    pub(crate) fn call(&self, request: &Request) -> Reply {
        let mut socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let broken = Reason(mq::MQRC_CONNECTION_BROKEN);
        let stream = socket.as_mut().ok_or(broken)?;
        let exchanged = protocol::write(stream, request).and_then(|()| protocol::read::<Reply>(stream));
        exchanged.unwrap_or_else(|_| {
            *socket = None;
            Err(broken)
        })
    }
}

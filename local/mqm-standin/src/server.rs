//! Connections of clients: a thread each, a request and its reply at a time.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libmqm_sys as mq;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::control;
use crate::fault::{Effect, Faults, When, completion};
use crate::manager::Manager;
use crate::protocol::{self, Answer, ConnectionName, Reply, Request};

/// A queue manager and the faults it shall have.
#[derive(Debug)]
pub struct Server {
    pub(crate) manager: Manager,
    pub(crate) faults: Faults,
}

impl Server {
    pub fn new(manager: Manager) -> Self {
        Self { manager, faults: Faults::default() }
    }

    /// Listens at each connection name, and at the control socket, in the directory. Returns once
    /// all sockets are there.
    pub fn listen(
        self: &Arc<Self>,
        directory: &Path,
        name: &str,
        listeners: &[ConnectionName],
    ) -> io::Result<()> {
        for listener in listeners {
            let server = Arc::clone(self);
            accept(&listener.socket(directory), move |socket| server.serve(socket))?;
        }
        let server = Arc::clone(self);
        accept(&control_socket(directory, name), move |socket| control::serve(&server, &socket))
    }

    fn serve(&self, mut socket: UnixStream) {
        let Ok(Request::Connect(connect)) = protocol::read(&mut socket) else { return };
        let application = connect.application.to_string();
        let fault = self.faults.of("MQCONN", &application);
        match fault {
            Some((Effect::Reason(reason), _)) => {
                let _ = protocol::write(&mut socket, &Reply::failed(reason));
                return;
            }
            Some((Effect::Hang(_), _)) => return until_gone(&socket),
            Some((Effect::Cut(_), _)) => return,
            Some((Effect::Warning(_), _)) | None => {}
        }
        let (session, answer) = match self.manager.connect(&connect) {
            Ok(connected) => connected,
            Err(reason) => {
                let _ = protocol::write(&mut socket, &Reply::from(Err(reason)));
                return;
            }
        };
        let mut commits = false;
        let reply = match fault {
            Some((Effect::Warning(reason), _)) => Reply::warning(reason, answer),
            _ => Reply::ok(answer),
        };
        if protocol::write(&mut socket, &reply).is_ok() {
            commits = self.converse(&mut socket, session, &application);
        }
        self.manager.disconnect(session, commits);
        if commits {
            let _ = protocol::write(&mut socket, &Reply::ok(Answer::None));
        }
    }

    /// Serves calls until MQDISC (`true`) or until the connection is lost.
    fn converse(&self, socket: &mut UnixStream, session: u64, application: &str) -> bool {
        while let Ok(request) = protocol::read::<Request>(socket) {
            let fault = match self.faults.of(request.verb(), application) {
                // A connection that is broken for its client is for the queue manager, too.
                Some((Effect::Reason(mq::MQRC_CONNECTION_BROKEN), when)) => Some((Effect::Cut(true), when)),
                fault => fault,
            };
            match fault {
                Some((Effect::Cut(_), When::Before)) => return false,
                Some((Effect::Hang(_), When::Before)) => {
                    until_gone(socket);
                    return false;
                }
                _ => {}
            }
            if fault.is_none() && request == Request::Disconnect {
                return true;
            }
            let reply = match fault {
                Some((Effect::Reason(reason), When::Before)) => self.refuse(session, &request, reason),
                Some((Effect::Reason(reason), When::After)) => {
                    let answer = self.call(session, request, socket).answer;
                    Reply { completion: completion(reason), reason, answer }
                }
                Some((Effect::Warning(reason), _)) => warned(self.call(session, request, socket), reason),
                Some((Effect::Cut(_), _)) => {
                    self.call(session, request, socket);
                    return false;
                }
                Some((Effect::Hang(_), _)) => {
                    self.call(session, request, socket);
                    until_gone(socket);
                    return false;
                }
                None => self.call(session, request, socket),
            };
            if protocol::write(socket, &reply).is_err() {
                return false;
            }
        }
        false
    }

    fn call(&self, session: u64, request: Request, socket: &UnixStream) -> Reply {
        self.manager.call(session, request, &|| has_gone(socket))
    }

    /// A call that fails with a reason code of the fault's choice. A commit that says "backed out"
    /// is.
    fn refuse(&self, session: u64, request: &Request, reason: i32) -> Reply {
        if *request == Request::Commit && reason == mq::MQRC_BACKED_OUT {
            self.manager.call(session, Request::Back, &|| false);
        }
        Reply { completion: completion(reason), reason, answer: Answer::None }
    }
}

/// The reply with a warning, unless it is a failure.
fn warned(reply: Reply, reason: i32) -> Reply {
    match reply.completion {
        mq::MQCC_FAILED => reply,
        _ => Reply::warning(reason, reply.answer),
    }
}

/// The control socket of a queue manager.
pub fn control_socket(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.control"))
}

fn accept(path: &Path, serve: impl Fn(UnixStream) + Clone + Send + 'static) -> io::Result<()> {
    // Left by a queue manager that was killed. A living one holds the lock of the directory.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let serve = serve.clone();
            std::thread::spawn(move || serve(socket));
        }
    });
    Ok(())
}

/// Whether the peer has closed its end.
fn has_gone(socket: &UnixStream) -> bool {
    closes(socket, PollTimeout::ZERO)
}

/// Waits until the peer closes its end.
fn until_gone(socket: &UnixStream) {
    while !closes(socket, PollTimeout::NONE) {}
}

fn closes(socket: &UnixStream, within: PollTimeout) -> bool {
    let mut polled = [PollFd::new(socket.as_fd(), PollFlags::empty())];
    let ends = PollFlags::POLLHUP | PollFlags::POLLERR;
    let _ = poll(&mut polled, within);
    polled.iter().any(|polled| polled.revents().is_some_and(|events| events.intersects(ends)))
}

//! Server of client connections. Each has a thread, which answers one request after the other.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libmqm_sys as mq;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::control;
use crate::fault::{Effect, Faults, When};
use crate::manager::Manager;
use crate::protocol::{self, Answer, ConnectionName, Reason, Reply, Request};

/// Server of one queue manager, with the faults to inject.
#[derive(Debug)]
pub struct Server {
    pub(crate) manager: Manager,
    pub(crate) faults: Faults,
}

impl Server {
    pub fn new(manager: Manager) -> Self {
        Self { manager, faults: Faults::default() }
    }

    /// Listens on a Unix socket for each connection name, and on the control socket, in this
    /// directory. Returns when all sockets exist.
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

    /// Serves the calls of one connection until it ends. Work that is still uncommitted then is
    /// backed out.
    fn serve(&self, mut socket: UnixStream) {
        let mut session = None;
        let mut application = String::new();
        while let Ok(request) = protocol::read(&mut socket) {
            if let Request::Connect(connect) = &request {
                application = connect.application.to_string();
            }
            let reply = self.answer(&mut session, request, &application, &socket);
            let is_answered = reply.is_some_and(|reply| protocol::write(&mut socket, &reply).is_ok());
            if !is_answered || session.is_none() {
                break;
            }
        }
        if let Some(session) = session {
            self.manager.state().end(session);
        }
    }

    /// Carries out a call, with the fault to inject if there is one. Returns `None` if the
    /// connection is to be closed without a reply.
    fn answer(
        &self,
        session: &mut Option<u64>,
        mut request: Request,
        application: &str,
        socket: &UnixStream,
    ) -> Option<Reply> {
        let fault = self.faults.of(request.verb(), application);
        // A commit that says "backed out" is.
        let backed_out = Some((Effect::Reason(mq::MQRC_BACKED_OUT), When::Before));
        let backs_out = request == Request::Commit && fault == backed_out;
        if backs_out {
            request = Request::Back;
        }
        let is_carried_out = match fault {
            Some((Effect::Warning(_), _) | (_, When::After)) | None => true,
            Some((_, When::Before)) => backs_out,
        };
        let call = || self.manager.call(session, request, &|| closes(socket, PollTimeout::ZERO));
        let reply = is_carried_out.then(call);
        match fault {
            None => reply,
            Some((Effect::Warning(warning), _)) => reply.map(|reply| Ok((reply?.0, warning))),
            // A connection that is broken for its client is for the queue manager, too.
            Some((Effect::Reason(mq::MQRC_CONNECTION_BROKEN) | Effect::Cut(_), _)) => None,
            Some((Effect::Reason(mq::MQRC_BACKED_OUT), _)) => Some(Ok((Answer::None, mq::MQRC_BACKED_OUT))),
            Some((Effect::Reason(reason), _)) => Some(Err(Reason(reason))),
            Some((Effect::Hang(_), _)) => {
                while !closes(socket, PollTimeout::NONE) {}
                None
            }
        }
    }
}

/// Returns the path of a queue manager's control socket.
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

/// Returns true if the peer has closed the connection, or closes it within this time.
fn closes(socket: &UnixStream, within: PollTimeout) -> bool {
    let mut polled = [PollFd::new(socket.as_fd(), PollFlags::empty())];
    let ends = PollFlags::POLLHUP | PollFlags::POLLERR;
    let _ = poll(&mut polled, within);
    polled.iter().any(|polled| polled.revents().is_some_and(|events| events.intersects(ends)))
}

//! One connection to a queue manager.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use ::mq::Credentials;
use libmqm_sys::{self as mq, MQLONG};
use secrecy::ExposeSecret as _;

use super::structures::{self, fill};
use super::{Codes, Effect, Library, Refusal, Verb, length_of};
use crate::key_repository::KeyRepository;
use crate::reason::Reason;

/// Route to the queue manager: a channel definition, or a table of them.
#[derive(Clone, Debug)]
pub(crate) enum Route {
    /// Channel definition that the gateway makes from the target.
    Channel { name: String },
    /// Client channel definition table, in which the queue manager's name selects the entry.
    Table { url: String },
}

/// Resources that a connection occupies until it has ended.
pub(crate) trait Occupied: Send + 'static {
    /// Path of the file with the key repository, if the connection has one, and true if another
    /// connection of this process already uses it. The client warns about that (2391), and uses the
    /// settings that it has.
    fn key_file(&self) -> Option<(&Path, bool)>;

    /// Logs that the connection has ended; `polite` if the queue manager answered that.
    fn disconnected(&self, polite: bool);

    /// Keeps the resources for ever: the connection will not end before its process does.
    fn keep(self: Box<Self>);
}

/// TLS settings of a channel.
#[derive(Clone, Debug)]
pub(crate) struct ChannelTls {
    pub(crate) repository: Arc<KeyRepository>,
    pub(crate) cipher_spec: String,
}

/// Parameters of a connection, except the addresses of its hosts and the path of its key
/// repository.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    /// Name of the queue manager; empty for the default one, with a leading `*` for any of a group.
    pub(crate) queue_manager: String,
    pub(crate) route: Route,
    pub(crate) tls: Option<ChannelTls>,
    pub(crate) credentials: Option<Credentials>,
    /// Application name that an administrator sees for the connection; at most 28 bytes.
    pub(crate) application: String,
    /// Interval of heartbeats that the gateway requests, in seconds.
    pub(crate) heartbeat: MQLONG,
}

/// Size in bytes of the buffer that bodies are read to. A message that does not fit is read to a
/// larger one.
pub(crate) const BUFFER: usize = 64 * 1024;

/// Number of attempts to back out when a connection ends.
const BACK_OUTS: usize = 3;

/// Reason codes after which the connection no longer exists, and the queue manager has backed out
/// by itself.
const ENDED: [MQLONG; 5] = [
    mq::MQRC_CONNECTION_BROKEN,
    mq::MQRC_HCONN_ERROR,
    mq::MQRC_Q_MGR_STOPPING,
    mq::MQRC_Q_MGR_NOT_AVAILABLE,
    mq::MQRC_CONNECTION_STOPPING,
];

/// An open connection, owned by the thread that made it. Dropping it backs out uncommitted work,
/// and disconnects. A connection that cannot back out is left open: its messages stay locked until
/// this process ends, and then the queue manager backs them out.
pub(crate) struct Connection {
    library: &'static Library,
    handle: mq::MQHCONN,
    /// Resources of the connection. They are returned once the connection has ended, and never if
    /// it is left open.
    occupied: Option<Box<dyn Occupied>>,
    /// True if a message may have been put or got since the last commit or backout.
    has_unit_of_work: Cell<bool>,
    /// Buffer for bodies, kept between operations.
    buffer: RefCell<Vec<u8>>,
    /// Makes the type neither `Send` nor `Sync`: other threads must not use the handle.
    thread: PhantomData<*const ()>,
}

impl Connection {
    /// Connects with one attempt at each address of `conn_name`, unless a table has them, and
    /// blocks until that has ended. `occupied` belongs to the connection until it has ended.
    pub(crate) fn open(
        library: &'static Library,
        login: &Login,
        conn_name: &str,
        occupied: impl Occupied,
    ) -> Result<Self, Refusal> {
        let mut cno = structures::connect_options();
        cno.Options = mq::MQCNO_CLIENT_BINDING | mq::MQCNO_RECONNECT_DISABLED | mq::MQCNO_HANDLE_SHARE_NONE;
        fill(&mut cno.ApplName, &login.application);

        let mut channel = structures::channel();
        channel.HeartbeatInterval = login.heartbeat;
        match &login.route {
            Route::Channel { name } => {
                fill(&mut channel.ChannelName, name);
                fill(&mut channel.ConnectionName, conn_name);
            }
            Route::Table { url } => {
                cno.CCDTUrlPtr = url.as_ptr().cast_mut().cast();
                cno.CCDTUrlLength = length_of(url.as_bytes());
            }
        }

        let mut security = structures::security();
        if let Some(credentials) = &login.credentials {
            let password = credentials.password.expose_secret();
            security.CSPUserIdPtr = credentials.user.as_ptr().cast_mut().cast();
            security.CSPUserIdLength = length_of(credentials.user.as_bytes());
            security.CSPPasswordPtr = password.as_ptr().cast_mut().cast();
            security.CSPPasswordLength = length_of(password.as_bytes());
            cno.SecurityParmsPtr = std::ptr::from_mut(&mut security);
        }

        let mut tls = structures::tls();
        let key_file = occupied.key_file();
        if let (Some(ChannelTls { repository, cipher_spec }), Some((file, _))) = (&login.tls, key_file) {
            fill(&mut channel.SSLCipherSpec, cipher_spec);
            fill(&mut tls.KeyRepository, &file.to_string_lossy());
            if let Some(label) = &repository.certificate_label {
                fill(&mut tls.CertificateLabel, label);
            }
            if let Some(password) = &repository.password {
                let password = password.expose_secret();
                // Version with a password of the key repository (MQ 9.3 or later).
                tls.Version = mq::MQSCO_VERSION_6;
                tls.KeyRepoPasswordPtr = password.as_ptr().cast_mut().cast();
                tls.KeyRepoPasswordLength = length_of(password.as_bytes());
            }
            cno.SSLConfigPtr = std::ptr::from_mut(&mut tls);
        }
        // A channel definition would override a table.
        if let Route::Channel { .. } = login.route {
            cno.ClientConnPtr = std::ptr::from_mut(&mut channel).cast();
        }

        let mut name = [0; 48];
        fill(&mut name, &login.queue_manager);
        let mut handle = mq::MQHC_UNUSABLE_HCONN;
        let Codes { mut completion, mut reason } = Codes::UNSET;
        // SAFETY: `cno` and what it points to (`channel`, `security`, `tls`, and the texts of
        // `login`) live until the call returns, and every length is that of its text. The library
        // only reads the texts, although it takes them as mutable.
        unsafe {
            library.functions().MQCONNX(&name, &mut cno, &mut handle, &mut completion, &mut reason);
        }
        let joins = key_file.is_some_and(|(_, is_joined)| is_joined);
        let verb = if joins { Verb::Join } else { Verb::Connect };
        let checked = Codes { completion, reason }.check(verb);
        if let Err(refusal @ Refusal { effect: Effect::Nothing, .. }) = checked {
            return Err(refusal);
        }
        // A warning that is not harmless came with a connection, which ends here then.
        let this = Self {
            library,
            handle,
            occupied: Some(Box::new(occupied)),
            has_unit_of_work: Cell::new(false),
            buffer: RefCell::default(),
            thread: PhantomData,
        };
        checked.map(|_| this)
    }

    pub(super) fn library(&self) -> &'static Library {
        self.library
    }

    pub(super) fn handle(&self) -> mq::MQHCONN {
        self.handle
    }

    /// Commits the unit of work.
    ///
    /// # Errors
    /// If it was not committed, or may not have been: the reason shows which. Warnings are errors
    /// here, for example that the queue manager backed the unit of work out.
    pub(crate) fn commit(&self) -> Result<(), Refusal> {
        let Codes { mut completion, mut reason } = Codes::UNSET;
        // SAFETY: the handle is open, and this is its thread.
        unsafe { self.library.functions().MQCMIT(self.handle, &mut completion, &mut reason) };
        Codes { completion, reason }.check(Verb::Commit)?;
        self.has_unit_of_work.set(false);
        Ok(())
    }

    /// Records that a call follows that may put or get a message in the unit of work.
    pub(super) fn begins_unit_of_work(&self) {
        self.has_unit_of_work.set(true);
    }

    /// Backs out uncommitted work of an earlier operation, so that the next one does not commit it.
    pub(crate) fn back_out_leftovers(&self) -> Result<(), Refusal> {
        if self.has_unit_of_work.get() { self.back_out() } else { Ok(()) }
    }

    /// Returns a buffer of at least [`BUFFER`] bytes, with arbitrary content.
    pub(crate) fn take_buffer(&self) -> Vec<u8> {
        let mut buffer = self.buffer.take();
        buffer.resize(buffer.len().max(BUFFER), 0);
        buffer
    }

    /// Keeps a buffer for the next operation, unless a message has enlarged it.
    pub(crate) fn keep_buffer(&self, buffer: Vec<u8>) {
        if buffer.len() == BUFFER {
            self.buffer.replace(buffer);
        }
    }

    /// Backs out, with up to 3 attempts. True if that succeeded or the connection no longer exists.
    fn is_backed_out(&self) -> bool {
        (0..BACK_OUTS).any(|_| match self.back_out() {
            Ok(()) => true,
            Err(refusal) => ENDED.contains(&refusal.reason),
        })
    }

    /// Leaves the connection open, and keeps its resources for as long as this process lives.
    fn leave_open(&mut self, why: &str) {
        tracing::error!(event_type = "connection.left_open", "{why}");
        if let Some(occupied) = self.occupied.take() {
            occupied.keep();
        }
    }

    /// Backs out the unit of work.
    pub(crate) fn back_out(&self) -> Result<(), Refusal> {
        let Codes { mut completion, mut reason } = Codes::UNSET;
        // SAFETY: the handle is open, and this is its thread.
        unsafe { self.library.functions().MQBACK(self.handle, &mut completion, &mut reason) };
        Codes { completion, reason }.check(Verb::BackOut)?;
        self.has_unit_of_work.set(false);
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Disconnecting commits uncommitted work, so that has to be backed out first.
        if !self.is_backed_out() {
            self.leave_open("cannot back out, so the connection stays open: a disconnection would commit");
            return;
        }
        let Codes { mut completion, mut reason } = Codes::UNSET;
        // SAFETY: the handle is open, this is its thread, and it is not used afterwards.
        unsafe { self.library.functions().MQDISC(&mut self.handle, &mut completion, &mut reason) };
        let checked = Codes { completion, reason }.check(Verb::Disconnect);
        match checked {
            Err(refusal) if !ENDED.contains(&refusal.reason) => {
                let name = Reason::of(refusal.reason).name;
                self.leave_open(&format!("cannot disconnect ({name}), so the connection stays open"));
            }
            ended => {
                if let Some(occupied) = &self.occupied {
                    occupied.disconnected(ended.is_ok());
                }
            }
        }
    }
}

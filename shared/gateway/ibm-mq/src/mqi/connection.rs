//! Connection to a queue manager, with its unit of work.
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

/// Source from which IBM's client takes the channel definition for a connection.
#[derive(Clone, Debug)]
pub(crate) enum Route {
    /// Channel of this name, defined by the target's addresses and TLS settings.
    Channel { name: String },
    /// Client channel definition table (CCDT) at this URL; the queue manager's name selects the
    /// channel.
    Table { url: String },
}

/// Resources that a connection occupies until it has ended, such as its permit under the connection
/// cap.
pub(crate) trait Occupied: Send + 'static {
    /// Returns the path of the key repository file, and true if another connection of this process
    /// already uses the same TLS settings; `None` if the connection does not use TLS. MQCONNX warns
    /// in case of true (MQRC_SSL_ALREADY_INITIALIZED, 2391).
    fn key_file(&self) -> Option<(&Path, bool)>;

    /// Logs that the connection has ended. `polite` is true if the queue manager confirmed MQDISC.
    fn disconnected(&self, polite: bool);

    /// Keeps the resources until the process ends, because the connection cannot be ended.
    fn keep(self: Box<Self>);
}

/// TLS settings of a channel: the key repository, and the cipher specification.
#[derive(Clone, Debug)]
pub(crate) struct ChannelTls {
    pub(crate) repository: Arc<KeyRepository>,
    pub(crate) cipher_spec: String,
}

/// Parameters for connecting to a queue manager, without the resolved addresses and the path of the
/// key repository.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    /// Name of the queue manager. Empty means the default one; a leading `*` means any member of a
    /// group.
    pub(crate) queue_manager: String,
    pub(crate) route: Route,
    pub(crate) tls: Option<ChannelTls>,
    pub(crate) credentials: Option<Credentials>,
    /// Application name that administrators see for the connection; at most 28 bytes.
    pub(crate) application: String,
    /// Interval of heartbeats that the gateway requests for the connection, in seconds.
    pub(crate) heartbeat: MQLONG,
}

/// Initial size in bytes of the buffer for message bodies, which grows for a larger message.
pub(crate) const BUFFER: usize = 64 * 1024;

/// Maximum number of MQBACK calls when a connection ends.
const BACK_OUTS: usize = 3;

/// Reason codes after which the connection no longer exists; the queue manager backs out its unit
/// of work.
const ENDED: [MQLONG; 5] = [
    mq::MQRC_CONNECTION_BROKEN,
    mq::MQRC_HCONN_ERROR,
    mq::MQRC_Q_MGR_STOPPING,
    mq::MQRC_Q_MGR_NOT_AVAILABLE,
    mq::MQRC_CONNECTION_STOPPING,
];

/// Open connection, owned by the thread that opened it. Dropping the value backs out uncommitted
/// work and disconnects. If the backout fails, the connection stays open, since MQDISC would
/// commit; its messages stay locked until the process ends, and then the queue manager backs them
/// out.
pub(crate) struct Connection {
    library: &'static Library,
    handle: mq::MQHCONN,
    /// Resources of the connection, released after it has ended. `None` once they are kept for
    /// ever, because the connection is left open.
    occupied: Option<Box<dyn Occupied>>,
    /// True if a message may have been put or received in the unit of work since the last commit or
    /// backout.
    has_unit_of_work: Cell<bool>,
    /// Buffer for message bodies, which is reused by the operations on this connection.
    buffer: RefCell<Vec<u8>>,
    /// Marker that makes the type neither `Send` nor `Sync`: other threads must not use the handle.
    thread: PhantomData<*const ()>,
}

impl Connection {
    /// Connects with MQCONNX, which tries each address of `conn_name` once, and blocks until the
    /// call returns. If the login names a channel table, the table has the addresses. `occupied` is
    /// released when the connection has ended.
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
    /// If the commit failed or may have failed: see [`Refusal::may_have_committed`]. Warnings are
    /// errors too, for example that the queue manager backed out.
    pub(crate) fn commit(&self) -> Result<(), Refusal> {
        let Codes { mut completion, mut reason } = Codes::UNSET;
        // SAFETY: the handle is open, and this is its thread.
        unsafe { self.library.functions().MQCMIT(self.handle, &mut completion, &mut reason) };
        Codes { completion, reason }.check(Verb::Commit)?;
        self.has_unit_of_work.set(false);
        Ok(())
    }

    /// Records that the next call may put or get a message in the unit of work.
    pub(super) fn begins_unit_of_work(&self) {
        self.has_unit_of_work.set(true);
    }

    /// Backs out uncommitted work of an earlier operation, if there is any, so that the next commit
    /// does not include it.
    pub(crate) fn back_out_leftovers(&self) -> Result<(), Refusal> {
        if self.has_unit_of_work.get() { self.back_out() } else { Ok(()) }
    }

    /// Returns a buffer of at least [`BUFFER`] bytes with arbitrary content: the buffer of an
    /// earlier operation, or a new one.
    pub(crate) fn take_buffer(&self) -> Vec<u8> {
        let mut buffer = self.buffer.take();
        buffer.resize(buffer.len().max(BUFFER), 0);
        buffer
    }

    /// Keeps a buffer for the next operation on this connection, if the buffer still has the
    /// initial size [`BUFFER`].
    pub(crate) fn keep_buffer(&self, buffer: Vec<u8>) {
        if buffer.len() == BUFFER {
            self.buffer.replace(buffer);
        }
    }

    /// Backs out uncommitted work, with up to 3 attempts. True if an attempt succeeded, or the
    /// connection no longer exists.
    fn is_backed_out(&self) -> bool {
        (0..BACK_OUTS).any(|_| match self.back_out() {
            Ok(()) => true,
            Err(refusal) => ENDED.contains(&refusal.reason),
        })
    }

    /// Leaves the connection open, logs the reason `why`, and keeps its resources until the process
    /// ends.
    fn leave_open(&mut self, why: &str) {
        tracing::error!(event_type = "connection.left_open", "{why}");
        if let Some(occupied) = self.occupied.take() {
            occupied.keep();
        }
    }

    /// Backs out the unit of work with MQBACK.
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

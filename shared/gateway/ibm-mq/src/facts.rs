//! Attributes of a queue manager and of its queues.

use libmqm_sys::{self as mqi, MQLONG};

use crate::mqi::{Connection, Object, Refusal};

/// Attributes that a queue manager reports. A user may be allowed to connect, but not to inquire
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueManager {
    pub(crate) name: String,
    /// Unique identifier (QMID), which differs between queue managers of the same name.
    pub(crate) id: String,
    pub(crate) platform: MQLONG,
    pub(crate) command_level: MQLONG,
    pub(crate) ccsid: MQLONG,
    /// Maximum number of messages in a unit of work (attribute MAXUMSGS).
    pub(crate) max_uncommitted: u64,
}

impl QueueManager {
    pub(crate) fn ask(connection: &Connection) -> Result<Self, Refusal> {
        let queue_manager = Object::open_queue_manager(connection)?;
        let ([platform, command_level, ccsid, max], [name, id]) = queue_manager.inquire(
            [
                mqi::MQIA_PLATFORM,
                mqi::MQIA_COMMAND_LEVEL,
                mqi::MQIA_CODED_CHAR_SET_ID,
                mqi::MQIA_MAX_UNCOMMITTED_MSGS,
            ],
            [
                (mqi::MQCA_Q_MGR_NAME, mqi::MQ_Q_MGR_NAME_LENGTH),
                (mqi::MQCA_Q_MGR_IDENTIFIER, mqi::MQ_Q_MGR_IDENTIFIER_LENGTH),
            ],
        )?;
        Ok(Self {
            name,
            id,
            platform,
            command_level,
            ccsid,
            max_uncommitted: u64::try_from(max).unwrap_or_default(),
        })
    }

    /// Inquires and returns the version of the queue manager, such as `9.4.5.0`. Fails for queue
    /// managers before 7.1, which do not report it.
    pub(crate) fn ask_version(connection: &Connection) -> Result<String, Refusal> {
        let queue_manager = Object::open_queue_manager(connection)?;
        let ([], [digits]) = queue_manager.inquire([], [(mqi::MQCA_VERSION, mqi::MQ_VERSION_LENGTH)])?;
        let parts = [0..2, 2..4, 4..6, 6..8].map(|range| {
            let part = digits.get(range).unwrap_or_default();
            part.strip_prefix('0').unwrap_or(part).to_owned()
        });
        Ok(parts.join("."))
    }

    pub(crate) fn platform(&self) -> String {
        match self.platform {
            mqi::MQPL_ZOS => "z/OS".to_owned(),
            mqi::MQPL_UNIX => "UNIX".to_owned(),
            mqi::MQPL_OS400 => "IBM i".to_owned(),
            mqi::MQPL_WINDOWS_NT | mqi::MQPL_WINDOWS => "Windows".to_owned(),
            mqi::MQPL_APPLIANCE => "appliance".to_owned(),
            mqi::MQPL_NSK => "NonStop".to_owned(),
            other => format!("platform {other}"),
        }
    }
}

/// Kind of an IBM MQ queue: local, or one without messages of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QueueKind {
    Local(LocalQueue),
    /// Queue that holds no messages of its own. The text names its kind, such as a definition of a
    /// remote queue.
    WithoutMessages(&'static str),
}

/// Attributes of a local queue, which the gateway may have reached through an alias.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LocalQueue {
    pub(crate) depth: u64,
    pub(crate) max_depth: u64,
    pub(crate) open_input: u64,
    pub(crate) open_output: u64,
    /// Backout threshold (BOTHRESH) of the queue: the number of backouts from which a message
    /// belongs on the backout queue; 0 means none.
    pub(crate) backout_threshold: u64,
    /// Name of the backout queue (BOQNAME); empty if there is none.
    pub(crate) backout_queue: String,
}

/// Maximum number of aliases to follow. IBM MQ allows one; the limit ends a chain of aliases that
/// refer to each other.
const MOST_ALIASES: usize = 4;

impl QueueKind {
    /// Inquires the kind of the queue of this name, and returns it with the attributes of a local
    /// queue. An alias is followed to its base queue.
    pub(crate) fn ask(connection: &Connection, name: &str) -> Result<Self, Refusal> {
        let mut name = name.to_owned();
        for steps in 0..MOST_ALIASES {
            let is_alias = steps > 0;
            let queue = match Object::open_queue(connection, &name, mqi::MQOO_INQUIRE) {
                // A topic, for example.
                Err(Refusal { reason: mqi::MQRC_UNKNOWN_OBJECT_NAME, .. }) if is_alias => {
                    return Ok(Self::WithoutMessages("an alias of something that is no queue here"));
                }
                opened => opened?,
            };
            let ([kind], []) = queue.inquire([mqi::MQIA_Q_TYPE], [])?;
            let kind = match (kind, is_alias) {
                (mqi::MQQT_LOCAL, _) => return LocalQueue::ask(&queue).map(Self::Local),
                (mqi::MQQT_ALIAS, _) => {
                    let names = [(mqi::MQCA_BASE_Q_NAME, mqi::MQ_Q_NAME_LENGTH)];
                    let ([], [base]) = queue.inquire([], names)?;
                    name = base;
                    continue;
                }
                (mqi::MQQT_REMOTE, true) => "an alias of a definition of a remote queue",
                (mqi::MQQT_REMOTE, false) => "a definition of a remote queue",
                (mqi::MQQT_CLUSTER, true) => "an alias of a queue of the cluster at another queue manager",
                (mqi::MQQT_CLUSTER, false) => "a queue of the cluster at another queue manager",
                _ => "of an unknown type",
            };
            return Ok(Self::WithoutMessages(kind));
        }
        Ok(Self::WithoutMessages("an alias of aliases"))
    }

    /// Inquires the kind of a queue as [`Self::ask`] does; `None` if the user may not inquire it.
    pub(crate) fn ask_if_allowed(connection: &Connection, name: &str) -> Result<Option<Self>, Refusal> {
        match Self::ask(connection, name) {
            Err(refusal) if refusal.spares_the_connection() => Ok(None),
            asked => asked.map(Some),
        }
    }
}

impl LocalQueue {
    fn ask(queue: &Object<'_>) -> Result<Self, Refusal> {
        let (numbers, [backout_queue]) = queue.inquire(
            [
                mqi::MQIA_CURRENT_Q_DEPTH,
                mqi::MQIA_MAX_Q_DEPTH,
                mqi::MQIA_OPEN_INPUT_COUNT,
                mqi::MQIA_OPEN_OUTPUT_COUNT,
                mqi::MQIA_BACKOUT_THRESHOLD,
            ],
            [(mqi::MQCA_BACKOUT_REQ_Q_NAME, mqi::MQ_Q_NAME_LENGTH)],
        )?;
        let [depth, max_depth, open_input, open_output, backout_threshold] =
            numbers.map(|number| u64::try_from(number).unwrap_or_default());
        Ok(Self { depth, max_depth, open_input, open_output, backout_threshold, backout_queue })
    }
}

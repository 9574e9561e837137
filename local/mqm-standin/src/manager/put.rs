//! MQPUT, which puts a message on a queue.

use libmqm_sys as mq;

use super::journal::Record;
use super::queue::{Hold, Stored};
use super::session::Work;
use super::state::State;
use crate::clock::put_date_and_time;
use crate::protocol::{Answer, Chars, Context, Descriptor, Message, Put, Reason, Reply};
use crate::text::UTF_8;

/// Context options of MQPMO. Each comes with the option that MQOPEN must have had, and the reason
/// code if it did not.
const CONTEXTS: [(i32, i32, i32); 2] = [
    (mq::MQPMO_PASS_ALL_CONTEXT, mq::MQOO_PASS_ALL_CONTEXT, mq::MQRC_NOT_OPEN_FOR_PASS_ALL),
    (mq::MQPMO_SET_ALL_CONTEXT, mq::MQOO_SET_ALL_CONTEXT, mq::MQRC_NOT_OPEN_FOR_SET_ALL),
];

/// Options of MQPUT that the stand-in supports. It does not keep the logical order of groups, and
/// supports no other context options.
const KNOWN: i32 = mq::MQPMO_SYNCPOINT
    | mq::MQPMO_NO_SYNCPOINT
    | mq::MQPMO_FAIL_IF_QUIESCING
    | mq::MQPMO_PASS_ALL_CONTEXT
    | mq::MQPMO_SET_ALL_CONTEXT;

/// Highest priority of a message (MAXPRTY), a constant of IBM MQ.
const HIGHEST_PRIORITY: i32 = 9;

/// Report options that a put may ask for. The stand-in accepts them, but sends no reports.
const REPORTS: i32 = mq::MQRO_EXCEPTION_WITH_FULL_DATA
    | mq::MQRO_EXPIRATION_WITH_FULL_DATA
    | mq::MQRO_COA_WITH_FULL_DATA
    | mq::MQRO_COD_WITH_FULL_DATA
    | mq::MQRO_PAN
    | mq::MQRO_NAN
    | mq::MQRO_ACTIVITY
    | mq::MQRO_PASS_CORREL_ID
    | mq::MQRO_PASS_MSG_ID
    | mq::MQRO_DISCARD_MSG
    | mq::MQRO_PASS_DISCARD_AND_EXPIRY;

impl Put {
    fn has(&self, option: i32) -> bool {
        self.options & option != 0
    }
}

impl State {
    pub(super) fn put(&mut self, session: u64, put: Put) -> Reply {
        self.check_phase(put.has(mq::MQPMO_FAIL_IF_QUIESCING))?;
        check_options(&put)?;
        let opened = self.handle(session, put.handle)?;
        if !opened.has(mq::MQOO_OUTPUT) {
            return Err(Reason(mq::MQRC_NOT_OPEN_FOR_OUTPUT));
        }
        if let Some((.., reason)) =
            CONTEXTS.iter().find(|(given, needed, _)| put.has(*given) && !opened.has(*needed))
        {
            return Err(Reason(*reason));
        }
        let through = opened.opened.clone();
        let base = opened.queue.clone().ok_or(Reason(mq::MQRC_NOT_OPEN_FOR_OUTPUT))?;
        // An alias may be inhibited as well as its base queue.
        for name in [&through, &base] {
            if self.definition(name)?.put_inhibited {
                return Err(Reason(mq::MQRC_PUT_INHIBITED));
            }
        }
        self.check_length(&base, put.message.length())?;
        self.expire(&base);

        let context = self.context(session, &put)?;
        let is_in_unit = put.has(mq::MQPMO_SYNCPOINT);
        let mut message = put.message;
        message.descriptor.context = context;
        let (number, warning) = self.complete(&mut message.descriptor, &through)?;
        if message.is_persistent() && self.queue(&base)?.creator.is_some() {
            return Err(Reason(mq::MQRC_PERSISTENT_NOT_ALLOWED));
        }
        let descriptor = message.descriptor.clone();
        self.store(&base, message, number, is_in_unit.then_some(session))?;
        Ok((Answer::Put(Box::new(descriptor)), warning))
    }

    /// Puts a message on a queue: in the unit of work of a session, or at once.
    fn store(
        &mut self,
        name: &Chars,
        message: Message,
        number: u64,
        unit: Option<u64>,
    ) -> Result<(), Reason> {
        let queue = self.queue(name)?;
        if queue.is_full() {
            return Err(Reason(mq::MQRC_Q_FULL));
        }
        let place = queue.place(message.descriptor.priority, number);
        let stored = Stored::from(message);
        if let Some(session) = unit {
            self.join_unit(session, Work { queue: name.clone(), place, is_put: true })?;
            self.queue(name)?.add(place, stored, Some(Hold::Put));
            return Ok(());
        }
        if stored.message.is_persistent() {
            let puts = vec![(name.clone(), place, stored.clone())];
            self.journal.append(&Record::Commit { puts, gets: Vec::new() });
            self.tidy_journal();
            self.check_journal()?;
        }
        self.queue(name)?.add(place, stored, None);
        Ok(())
    }

    /// Puts a message from the control socket, and commits it.
    pub(crate) fn put_committed(&mut self, name: &Chars, mut message: Message) -> Result<(), Reason> {
        if !self.queues.contains_key(name) {
            return Err(Reason(mq::MQRC_UNKNOWN_OBJECT_NAME));
        }
        let (number, _) = self.complete(&mut message.descriptor, name)?;
        let context = &mut message.descriptor.context;
        (context.put_date, context.put_time) = put_date_and_time();
        self.store(name, message, number, None)
    }

    fn check_length(&self, name: &Chars, length: i32) -> Result<(), Reason> {
        if length > self.configuration.max_message_length {
            Err(Reason(mq::MQRC_MSG_TOO_BIG_FOR_Q_MGR))
        } else if length > self.definition(name)?.max_message_length {
            Err(Reason(mq::MQRC_MSG_TOO_BIG_FOR_Q))
        } else {
            Ok(())
        }
    }

    /// Checks the descriptor and fills in the values of the queue and the queue manager. Returns
    /// the message's number, and a warning or MQRC_NONE.
    fn complete(&mut self, descriptor: &mut Descriptor, through: &Chars) -> Result<(u64, i32), Reason> {
        let number = self.number();
        let definition = self.definition(through)?;
        check_descriptor(descriptor)?;
        let unknown_report = check_report(descriptor.report)?;
        if descriptor.persistence == mq::MQPER_PERSISTENCE_AS_Q_DEF {
            descriptor.persistence = definition.persistence;
        }
        if descriptor.priority == mq::MQPRI_PRIORITY_AS_Q_DEF {
            descriptor.priority = definition.priority;
        }
        let is_above = descriptor.priority > HIGHEST_PRIORITY;
        if matches!(descriptor.ccsid, mq::MQCCSI_Q_MGR | mq::MQCCSI_APPL) {
            descriptor.ccsid = UTF_8;
        }
        if descriptor.message_id == [0; 24] {
            descriptor.message_id = self.id(number);
        }
        let in_group =
            mq::MQMF_MSG_IN_GROUP | mq::MQMF_LAST_MSG_IN_GROUP | mq::MQMF_SEGMENT | mq::MQMF_LAST_SEGMENT;
        if descriptor.flags & in_group == 0 {
            (descriptor.group_id, descriptor.sequence, descriptor.offset) = ([0; 24], 1, 0);
        } else if descriptor.group_id == [0; 24] {
            descriptor.group_id = self.id(number | 1 << 41);
        }
        if !descriptor.reply_to_queue.is_blank() && descriptor.reply_to_manager.is_blank() {
            descriptor.reply_to_manager = self.name();
        }
        descriptor.backout_count = 0;
        Ok((number, if is_above { mq::MQRC_PRIORITY_EXCEEDS_MAXIMUM } else { unknown_report }))
    }

    /// Returns the context of a message. By default it names the connection's user and application
    /// and the present time; the put may set its own, or pass on that of a message that was got.
    fn context(&self, session: u64, put: &Put) -> Result<Context, Reason> {
        if put.has(mq::MQPMO_SET_ALL_CONTEXT) {
            return Ok(put.message.descriptor.context.clone());
        }
        if put.has(mq::MQPMO_PASS_ALL_CONTEXT) {
            let source = self.handle(session, put.context).ok();
            let source = source.filter(|source| source.has(mq::MQOO_SAVE_ALL_CONTEXT));
            let source = source.ok_or(Reason(mq::MQRC_CONTEXT_HANDLE_ERROR))?;
            return source.context.clone().ok_or(Reason(mq::MQRC_CONTEXT_NOT_AVAILABLE));
        }
        let sender = self.session(session)?;
        let (put_date, put_time) = put_date_and_time();
        Ok(Context {
            user: Chars::from(sender.user.as_str()),
            application_type: mq::MQAT_UNIX,
            application: sender.application.clone(),
            put_date,
            put_time,
            ..Context::default()
        })
    }
}

fn check_options(put: &Put) -> Result<(), Reason> {
    let several = |options: i32| (put.options & options).count_ones() > 1;
    if put.has(!KNOWN) {
        return Err(Reason(mq::MQRC_OPTION_ENVIRONMENT_ERROR));
    }
    let wrong = several(mq::MQPMO_SYNCPOINT | mq::MQPMO_NO_SYNCPOINT)
        || several(mq::MQPMO_PASS_ALL_CONTEXT | mq::MQPMO_SET_ALL_CONTEXT);
    if wrong { Err(Reason(mq::MQRC_OPTIONS_ERROR)) } else { Ok(()) }
}

/// Checks the report options of a message. Returns a warning if the unknown ones may be ignored, or
/// else an error. Options of MQRO_ACCEPT_UNSUP_IF_XMIT_MASK may be ignored only on a transmission
/// queue, which the stand-in does not have.
fn check_report(report: i32) -> Result<i32, Reason> {
    match report & !REPORTS {
        0 => Ok(mq::MQRC_NONE),
        unknown if unknown & !mq::MQRO_ACCEPT_UNSUP_MASK == 0 => Ok(mq::MQRC_UNKNOWN_REPORT_OPTION),
        _ => Err(Reason(mq::MQRC_REPORT_OPTIONS_ERROR)),
    }
}

fn check_descriptor(descriptor: &Descriptor) -> Result<(), Reason> {
    let persistences = [mq::MQPER_NOT_PERSISTENT, mq::MQPER_PERSISTENT, mq::MQPER_PERSISTENCE_AS_Q_DEF];
    let types = [mq::MQMT_DATAGRAM, mq::MQMT_REQUEST, mq::MQMT_REPLY, mq::MQMT_REPORT];
    let kind = descriptor.message_type;
    let is_type = types.contains(&kind)
        || (mq::MQMT_APPL_FIRST..=mq::MQMT_APPL_LAST).contains(&kind)
        || (mq::MQMT_SYSTEM_FIRST..=mq::MQMT_SYSTEM_LAST).contains(&kind);
    let checks = [
        (persistences.contains(&descriptor.persistence), mq::MQRC_PERSISTENCE_ERROR),
        (descriptor.priority >= mq::MQPRI_PRIORITY_AS_Q_DEF, mq::MQRC_PRIORITY_ERROR),
        (descriptor.expiry > 0 || descriptor.expiry == mq::MQEI_UNLIMITED, mq::MQRC_EXPIRY_ERROR),
        (is_type, mq::MQRC_MSG_TYPE_ERROR),
        (descriptor.sequence >= 1, mq::MQRC_MSG_SEQ_NUMBER_ERROR),
        (descriptor.offset >= 0, mq::MQRC_OFFSET_ERROR),
        (kind != mq::MQMT_REQUEST || !descriptor.reply_to_queue.is_blank(), mq::MQRC_MISSING_REPLY_TO_Q),
    ];
    let failed = checks.into_iter().find(|(holds, _)| !holds);
    failed.map_or(Ok(()), |(_, reason)| Err(Reason(reason)))
}

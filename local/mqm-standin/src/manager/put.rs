//! MQPUT and MQPUT1.

use libmqm_sys as mq;

use super::journal::Record;
use super::queue::{Hold, Place, Stored};
use super::session::{Work, WorkKind};
use super::state::State;
use crate::definition::Definition;
use crate::protocol::{
    Answer, Chars, Descriptor, IdentityContext, Message, OriginContext, Put, Reason, Receipt, Reply, Target,
};

/// Options that need a queue manager that the stand-in is not: groups kept in order by it.
const ELSEWHERE: i32 = mq::MQPMO_LOGICAL_ORDER;

const PASSES: i32 = mq::MQPMO_PASS_IDENTITY_CONTEXT | mq::MQPMO_PASS_ALL_CONTEXT;
const SETS: i32 = mq::MQPMO_SET_IDENTITY_CONTEXT | mq::MQPMO_SET_ALL_CONTEXT;

/// MAXPRTY, which nobody can change.
const HIGHEST_PRIORITY: i32 = 9;

/// The report options that this queue manager knows. It sends no report.
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

/// Context options of MQPMO, and what MQOPEN must have had for each.
const CONTEXTS: [(i32, i32); 4] = [
    (mq::MQPMO_PASS_IDENTITY_CONTEXT, mq::MQOO_PASS_IDENTITY_CONTEXT),
    (mq::MQPMO_PASS_ALL_CONTEXT, mq::MQOO_PASS_ALL_CONTEXT),
    (mq::MQPMO_SET_IDENTITY_CONTEXT, mq::MQOO_SET_IDENTITY_CONTEXT),
    (mq::MQPMO_SET_ALL_CONTEXT, mq::MQOO_SET_ALL_CONTEXT),
];

impl State {
    pub(super) fn put(&mut self, session: u64, put: Put) -> Reply {
        let Put { target, options, context, message } = put;
        let (handle, opened) = match &target {
            Target::Handle(handle) => (*handle, None),
            Target::Object(open) => {
                let passed = CONTEXTS.iter().filter(|(put, _)| options & put != 0);
                let wanted = passed.fold(mq::MQOO_OUTPUT, |wanted, (_, open)| wanted | open);
                let mut open = open.clone();
                open.options |= wanted;
                match self.open(session, &open) {
                    Ok(opened) => (opened.handle, Some(opened)),
                    Err(Reason(reason)) => return Reply::failed(reason),
                }
            }
        };
        let result = self.put_to(session, handle, options, context, message);
        if opened.is_some() {
            self.close(session, handle, mq::MQCO_NONE);
        }
        match result {
            Ok((receipt, warning)) => {
                let answer = Answer::Put(Box::new(receipt));
                warning.map_or_else(
                    || Reply::ok(answer.clone()),
                    |reason| Reply::warning(reason, answer.clone()),
                )
            }
            Err(Reason(reason)) => Reply::failed(reason),
        }
    }

    fn put_to(
        &mut self,
        session: u64,
        handle: i32,
        options: i32,
        context: i32,
        mut message: Message,
    ) -> Result<(Receipt, Option<i32>), Reason> {
        self.check_phase(options & mq::MQPMO_FAIL_IF_QUIESCING != 0)?;
        check_options(options)?;
        let opened = self.handle(session, handle)?;
        if !opened.has(mq::MQOO_OUTPUT) {
            return Err(Reason(mq::MQRC_NOT_OPEN_FOR_OUTPUT));
        }
        if CONTEXTS.iter().any(|&(put, open)| options & put != 0 && !opened.has(open)) {
            return Err(Reason(context_reason(options)));
        }
        let through = opened.opened.clone();
        let (name, id) = opened.queue.clone().ok_or(Reason(mq::MQRC_NOT_OPEN_FOR_OUTPUT))?;
        self.check_inhibited(&through, &name)?;
        self.check_length(session, &name, &message)?;
        self.expire(&name);

        let sequence = self.number();
        let warning = self.complete(&mut message.descriptor, &through, options, sequence)?;
        self.give_context(session, options, context, &mut message.descriptor)?;
        if message.is_persistent() && self.definition(&name)?.is_temporary() {
            return Err(Reason(mq::MQRC_PERSISTENT_NOT_ALLOWED));
        }
        let queue = self.opened_queue(&name, id)?;
        if queue.is_full() {
            return Err(Reason(mq::MQRC_Q_FULL));
        }
        let place = queue.place(message.descriptor.priority, sequence);
        let receipt = Receipt {
            descriptor: message.descriptor.clone(),
            resolved_queue: name.clone(),
            resolved_manager: Chars::from(self.configuration.name.as_str()),
        };
        let stored = Stored { expires: expires(message.descriptor.expiry), message };
        self.store(session, (name, id), place, stored, options & mq::MQPMO_SYNCPOINT != 0)?;
        Ok((receipt, warning))
    }

    fn store(
        &mut self,
        session: u64,
        (name, id): (Chars, u64),
        place: Place,
        stored: Stored,
        in_unit: bool,
    ) -> Result<(), Reason> {
        if in_unit {
            let work = Work { queue: name.clone(), id, place, kind: WorkKind::Put };
            self.join_unit(session, work)?;
            self.opened_queue(&name, id)?.add(place, stored, Some(Hold::Put(session)));
            return Ok(());
        }
        self.commit_put((name, id), place, stored)
    }

    fn commit_put(&mut self, (name, id): (Chars, u64), place: Place, stored: Stored) -> Result<(), Reason> {
        if stored.message.is_persistent() {
            let puts = vec![(name.clone(), place, stored.clone())];
            self.journal.append(&Record::Commit { puts, gets: Vec::new() });
            self.tidy_journal();
            self.check_journal()?;
        }
        self.opened_queue(&name, id)?.add(place, stored, None);
        self.arrived(&name);
        Ok(())
    }

    /// Puts a message past every client, and commits it.
    pub(crate) fn put_committed(&mut self, name: &Chars, mut message: Message) -> Result<(), Reason> {
        let id = self.queues.get(name).ok_or(Reason(mq::MQRC_UNKNOWN_OBJECT_NAME))?.id;
        let sequence = self.number();
        self.complete(&mut message.descriptor, name, mq::MQPMO_NONE, sequence)?;
        let (put_date, put_time) = crate::clock::put_date_and_time();
        let origin = &mut message.descriptor.origin;
        (origin.put_date, origin.put_time) = (put_date.as_str().into(), put_time.as_str().into());
        let queue = self.opened_queue(name, id)?;
        if queue.is_full() {
            return Err(Reason(mq::MQRC_Q_FULL));
        }
        let place = queue.place(message.descriptor.priority, sequence);
        let stored = Stored { expires: expires(message.descriptor.expiry), message };
        self.commit_put((name.clone(), id), place, stored)
    }

    pub(super) fn definition(&self, name: &Chars) -> Result<&Definition, Reason> {
        self.queues.get(name).map(|queue| &queue.definition).ok_or(Reason(mq::MQRC_Q_DELETED))
    }

    /// An alias may be inhibited as well as its base queue.
    fn check_inhibited(&self, through: &Chars, name: &Chars) -> Result<(), Reason> {
        for name in [through, name] {
            if self.definition(name)?.number_of(mq::MQIA_INHIBIT_PUT) == mq::MQQA_PUT_INHIBITED {
                return Err(Reason(mq::MQRC_PUT_INHIBITED));
            }
        }
        Ok(())
    }

    fn check_length(&self, session: u64, name: &Chars, message: &Message) -> Result<(), Reason> {
        let length = i32::try_from(message.body.len()).unwrap_or(i32::MAX);
        if length > self.configuration.max_message_length {
            return Err(Reason(mq::MQRC_MSG_TOO_BIG_FOR_Q_MGR));
        }
        if length > self.max_message_length(session) {
            return Err(Reason(mq::MQRC_MSG_TOO_BIG_FOR_CHANNEL));
        }
        if length > self.definition(name)?.number_of(mq::MQIA_MAX_MSG_LENGTH) {
            return Err(Reason(mq::MQRC_MSG_TOO_BIG_FOR_Q));
        }
        Ok(())
    }

    /// Checks the descriptor and fills in what the queue and the queue manager decide. Returns a
    /// warning.
    fn complete(
        &self,
        descriptor: &mut Descriptor,
        through: &Chars,
        options: i32,
        sequence: u64,
    ) -> Result<Option<i32>, Reason> {
        let definition = self.definition(through)?;
        check_descriptor(descriptor)?;
        let has_unknown_report = check_report(descriptor.report)?;
        if descriptor.persistence == mq::MQPER_PERSISTENCE_AS_Q_DEF {
            descriptor.persistence = definition.number_of(mq::MQIA_DEF_PERSISTENCE);
        }
        if descriptor.priority == mq::MQPRI_PRIORITY_AS_Q_DEF {
            descriptor.priority = definition.number_of(mq::MQIA_DEF_PRIORITY);
        }
        let is_above = descriptor.priority > HIGHEST_PRIORITY;
        let warning = is_above.then_some(mq::MQRC_PRIORITY_EXCEEDS_MAXIMUM);
        let warning = warning.or(has_unknown_report.then_some(mq::MQRC_UNKNOWN_REPORT_OPTION));
        if matches!(descriptor.ccsid, mq::MQCCSI_Q_MGR | mq::MQCCSI_APPL) {
            descriptor.ccsid = self.configuration.ccsid;
        }
        if options & mq::MQPMO_NEW_MSG_ID != 0 || descriptor.message_id == [0; 24] {
            descriptor.message_id = self.id(sequence);
        }
        if options & mq::MQPMO_NEW_CORREL_ID != 0 {
            descriptor.correlation_id = self.id(sequence | 1 << 40);
        }
        let in_group =
            mq::MQMF_MSG_IN_GROUP | mq::MQMF_LAST_MSG_IN_GROUP | mq::MQMF_SEGMENT | mq::MQMF_LAST_SEGMENT;
        if descriptor.flags & in_group == 0 {
            descriptor.group_id = [0; 24];
            descriptor.sequence = 1;
            descriptor.offset = 0;
        } else if descriptor.group_id == [0; 24] {
            descriptor.group_id = self.id(sequence | 1 << 41);
        }
        if descriptor.message_type == mq::MQMT_REQUEST && descriptor.reply_to_queue.is_blank() {
            return Err(Reason(mq::MQRC_MISSING_REPLY_TO_Q));
        }
        if !descriptor.reply_to_queue.is_blank() && descriptor.reply_to_manager.is_blank() {
            descriptor.reply_to_manager = Chars::from(self.configuration.name.as_str());
        }
        descriptor.backout_count = 0;
        Ok(warning)
    }

    /// Says who put the message, as the options of the put have it.
    fn give_context(
        &self,
        session: u64,
        options: i32,
        from: i32,
        descriptor: &mut Descriptor,
    ) -> Result<(), Reason> {
        let putter = self.session(session)?;
        let (put_date, put_time) = crate::clock::put_date_and_time();
        let identity =
            IdentityContext { user: Chars::from(putter.user.as_str()), ..IdentityContext::default() };
        let origin = OriginContext {
            application_type: mq::MQAT_UNIX,
            application: putter.application.clone(),
            put_date: Chars::from(put_date.as_str()),
            put_time: Chars::from(put_time.as_str()),
            data: Chars::default(),
        };
        if options & mq::MQPMO_NO_CONTEXT != 0 {
            descriptor.identity = IdentityContext::default();
            let none = OriginContext { application_type: mq::MQAT_NO_CONTEXT, ..OriginContext::default() };
            descriptor.origin = none;
        } else if options & PASSES != 0 {
            let source = self.handle(session, from).map_err(|_| Reason(mq::MQRC_CONTEXT_HANDLE_ERROR))?;
            if !source.has(mq::MQOO_SAVE_ALL_CONTEXT) {
                return Err(Reason(mq::MQRC_CONTEXT_HANDLE_ERROR));
            }
            let saved = source.context.clone().ok_or(Reason(mq::MQRC_CONTEXT_NOT_AVAILABLE))?;
            let passes_all = options & mq::MQPMO_PASS_ALL_CONTEXT != 0;
            (descriptor.identity, descriptor.origin) = (saved.0, if passes_all { saved.1 } else { origin });
        } else if options & mq::MQPMO_SET_IDENTITY_CONTEXT != 0 {
            descriptor.origin = origin;
        } else if options & mq::MQPMO_SET_ALL_CONTEXT == 0 {
            (descriptor.identity, descriptor.origin) = (identity, origin);
        }
        Ok(())
    }
}

fn context_reason(options: i32) -> i32 {
    if options & mq::MQPMO_PASS_IDENTITY_CONTEXT != 0 {
        mq::MQRC_NOT_OPEN_FOR_PASS_IDENT
    } else if options & mq::MQPMO_PASS_ALL_CONTEXT != 0 {
        mq::MQRC_NOT_OPEN_FOR_PASS_ALL
    } else if options & mq::MQPMO_SET_IDENTITY_CONTEXT != 0 {
        mq::MQRC_NOT_OPEN_FOR_SET_IDENT
    } else {
        mq::MQRC_NOT_OPEN_FOR_SET_ALL
    }
}

fn check_options(options: i32) -> Result<(), Reason> {
    let contexts = PASSES | SETS | mq::MQPMO_DEFAULT_CONTEXT | mq::MQPMO_NO_CONTEXT;
    let both_units = mq::MQPMO_SYNCPOINT | mq::MQPMO_NO_SYNCPOINT;
    if options & both_units == both_units || (options & contexts).count_ones() > 1 {
        return Err(Reason(mq::MQRC_OPTIONS_ERROR));
    }
    if options & ELSEWHERE != 0 {
        return Err(Reason(mq::MQRC_OPTION_ENVIRONMENT_ERROR));
    }
    Ok(())
}

/// Whether there is a report option that is not known, which some bits may be and others not. Those
/// of MQRO_ACCEPT_UNSUP_IF_XMIT_MASK may be on the way to another queue manager only.
fn check_report(report: i32) -> Result<bool, Reason> {
    let unknown = report & !REPORTS;
    if unknown & !mq::MQRO_ACCEPT_UNSUP_MASK != 0 {
        return Err(Reason(mq::MQRC_REPORT_OPTIONS_ERROR));
    }
    Ok(unknown != 0)
}

fn check_descriptor(descriptor: &Descriptor) -> Result<(), Reason> {
    let persistence = descriptor.persistence;
    let known = [mq::MQPER_NOT_PERSISTENT, mq::MQPER_PERSISTENT, mq::MQPER_PERSISTENCE_AS_Q_DEF];
    if !known.contains(&persistence) {
        return Err(Reason(mq::MQRC_PERSISTENCE_ERROR));
    }
    if descriptor.priority < mq::MQPRI_PRIORITY_AS_Q_DEF {
        return Err(Reason(mq::MQRC_PRIORITY_ERROR));
    }
    if descriptor.expiry <= 0 && descriptor.expiry != mq::MQEI_UNLIMITED {
        return Err(Reason(mq::MQRC_EXPIRY_ERROR));
    }
    let types = [mq::MQMT_DATAGRAM, mq::MQMT_REQUEST, mq::MQMT_REPLY, mq::MQMT_REPORT];
    let by_application = (mq::MQMT_APPL_FIRST..=mq::MQMT_APPL_LAST).contains(&descriptor.message_type);
    let by_system = (mq::MQMT_SYSTEM_FIRST..=mq::MQMT_SYSTEM_LAST).contains(&descriptor.message_type);
    if !types.contains(&descriptor.message_type) && !by_application && !by_system {
        return Err(Reason(mq::MQRC_MSG_TYPE_ERROR));
    }
    if descriptor.sequence < 1 {
        return Err(Reason(mq::MQRC_MSG_SEQ_NUMBER_ERROR));
    }
    if descriptor.offset < 0 {
        return Err(Reason(mq::MQRC_OFFSET_ERROR));
    }
    Ok(())
}

/// When a message with this expiry, in tenths of a second, is discarded.
pub(crate) fn expires(expiry: i32) -> Option<u64> {
    let tenths = u64::try_from(expiry).ok().filter(|tenths| *tenths > 0)?;
    Some(crate::clock::now() + tenths * 100)
}

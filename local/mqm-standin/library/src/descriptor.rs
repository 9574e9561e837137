//! Between MQMD and the descriptor that goes to the queue manager.

use libmqm_sys as mq;
use mqm_standin::protocol::{Chars, Descriptor, IdentityContext, OriginContext};

use crate::structures::{bytes, field};

pub(crate) fn from_caller(md: &mq::MQMD, version: i32) -> Descriptor {
    let chars = |field: &[u8]| Chars::from_field(field);
    let first = Descriptor {
        report: md.Report,
        message_type: md.MsgType,
        expiry: md.Expiry,
        feedback: md.Feedback,
        encoding: md.Encoding,
        ccsid: md.CodedCharSetId,
        format: chars(&bytes(&md.Format)),
        priority: md.Priority,
        persistence: md.Persistence,
        message_id: md.MsgId,
        correlation_id: md.CorrelId,
        backout_count: md.BackoutCount,
        reply_to_queue: chars(&bytes(&md.ReplyToQ)),
        reply_to_manager: chars(&bytes(&md.ReplyToQMgr)),
        identity: IdentityContext {
            user: chars(&bytes(&md.UserIdentifier)),
            accounting_token: md.AccountingToken,
            data: chars(&bytes(&md.ApplIdentityData)),
        },
        origin: OriginContext {
            application_type: md.PutApplType,
            application: chars(&bytes(&md.PutApplName)),
            put_date: chars(&bytes(&md.PutDate)),
            put_time: chars(&bytes(&md.PutTime)),
            data: chars(&bytes(&md.ApplOriginData)),
        },
        ..Descriptor::default()
    };
    if version < mq::MQMD_VERSION_2 {
        return first;
    }
    Descriptor {
        group_id: md.GroupId,
        sequence: md.MsgSeqNumber,
        offset: md.Offset,
        flags: md.MsgFlags,
        original_length: md.OriginalLength,
        ..first
    }
}

pub(crate) fn to_caller(descriptor: &Descriptor, md: &mut mq::MQMD) {
    md.Report = descriptor.report;
    md.MsgType = descriptor.message_type;
    md.Expiry = descriptor.expiry;
    md.Feedback = descriptor.feedback;
    md.Encoding = descriptor.encoding;
    md.CodedCharSetId = descriptor.ccsid;
    md.Format = field(&descriptor.format);
    md.Priority = descriptor.priority;
    md.Persistence = descriptor.persistence;
    md.MsgId = descriptor.message_id;
    md.CorrelId = descriptor.correlation_id;
    md.BackoutCount = descriptor.backout_count;
    md.ReplyToQ = field(&descriptor.reply_to_queue);
    md.ReplyToQMgr = field(&descriptor.reply_to_manager);
    md.UserIdentifier = field(&descriptor.identity.user);
    md.AccountingToken = descriptor.identity.accounting_token;
    md.ApplIdentityData = field(&descriptor.identity.data);
    md.PutApplType = descriptor.origin.application_type;
    md.PutApplName = field(&descriptor.origin.application);
    md.PutDate = field(&descriptor.origin.put_date);
    md.PutTime = field(&descriptor.origin.put_time);
    md.ApplOriginData = field(&descriptor.origin.data);
    md.GroupId = descriptor.group_id;
    md.MsgSeqNumber = descriptor.sequence;
    md.Offset = descriptor.offset;
    md.MsgFlags = descriptor.flags;
    md.OriginalLength = descriptor.original_length;
}

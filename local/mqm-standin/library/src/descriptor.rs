//! Conversion between the caller's MQMD and the descriptor that the queue manager gets.

use libmqm_sys as mq;
use mqm_standin::protocol::{Context, Descriptor};

use crate::structures::{Borrowed, chars, field};

/// Generates the conversions between MQMD and [`Descriptor`] in both directions, from a list of the
/// fields with numbers or bytes and a list of the fields with text.
macro_rules! conversions {
    (
        descriptor: $($member:ident = $theirs:ident),*; $($text:ident = $their_text:ident),*;
        context: $($of_context:ident = $theirs_of_context:ident),*; $($text_of_context:ident = $their_text_of_context:ident),*;
    ) => {
        pub(crate) fn from_caller(md: &Borrowed<mq::MQMD>) -> Descriptor {
            let context = Context {
                $($of_context: md.value.$theirs_of_context,)*
                $($text_of_context: chars(&md.value.$their_text_of_context),)*
            };
            let mut descriptor = Descriptor {
                $($member: md.value.$theirs,)*
                $($text: chars(&md.value.$their_text),)*
                context,
            };
            // Older structures lack these two, whose defaults are not zero.
            if md.version < mq::MQMD_VERSION_2 {
                (descriptor.sequence, descriptor.original_length) = (1, mq::MQOL_UNDEFINED);
            }
            descriptor
        }

        pub(crate) fn to_caller(descriptor: &Descriptor, md: &mut mq::MQMD) {
            $(md.$theirs = descriptor.$member;)*
            $(md.$their_text = field(&descriptor.$text);)*
            $(md.$theirs_of_context = descriptor.context.$of_context;)*
            $(md.$their_text_of_context = field(&descriptor.context.$text_of_context);)*
        }
    };
}

conversions! {
    descriptor:
        report = Report, message_type = MsgType, expiry = Expiry, feedback = Feedback,
        encoding = Encoding, ccsid = CodedCharSetId, priority = Priority, persistence = Persistence,
        message_id = MsgId, correlation_id = CorrelId, backout_count = BackoutCount,
        group_id = GroupId, sequence = MsgSeqNumber, offset = Offset, flags = MsgFlags,
        original_length = OriginalLength;
        format = Format, reply_to_queue = ReplyToQ, reply_to_manager = ReplyToQMgr;
    context:
        accounting_token = AccountingToken, application_type = PutApplType;
        user = UserIdentifier, identity_data = ApplIdentityData, application = PutApplName,
        put_date = PutDate, put_time = PutTime, origin_data = ApplOriginData;
}

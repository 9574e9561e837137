//! MQGET.

use libmqm_sys as mq;
use mqm_standin::protocol::{Answer, Get, Got, Match, Reason, Request};

use super::{Ended, answer, fill, set};
use crate::connection;
use crate::structures::{Borrowed, field};
use crate::{descriptor, handle};

/// # Safety
///
/// As the MQI says: descriptor and options are an MQMD and an MQGMO, `buffer` has room for `length`
/// bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MQGET(
    connection: mq::MQHCONN,
    object: mq::MQHOBJ,
    descriptor: mq::PMQVOID,
    options: *mut mq::MQGMO,
    length: mq::MQLONG,
    buffer: mq::PMQVOID,
    data_length: *mut mq::MQLONG,
    completion: *mut mq::MQLONG,
    reason: *mut mq::MQLONG,
) {
    // SAFETY: the caller keeps to the MQI.
    unsafe {
        answer(completion, reason, || {
            let room = u32::try_from(length).map_err(|_| Reason(mq::MQRC_BUFFER_LENGTH_ERROR))?;
            if room > 0 && buffer.is_null() {
                return Err(Reason(mq::MQRC_BUFFER_ERROR));
            }
            get(connection, object, descriptor, options, (room, buffer), data_length)
        });
    }
}

/// # Safety
///
/// As for [`MQGET`].
pub(super) unsafe fn get(
    number: mq::MQHCONN,
    object: mq::MQHOBJ,
    md: mq::PMQVOID,
    gmo: *mut mq::MQGMO,
    (room, buffer): (u32, mq::PMQVOID),
    data_length: *mut mq::MQLONG,
) -> Ended {
    let connection = connection::find(number)?;
    // SAFETY: the caller says so.
    let (mut md, mut gmo) = unsafe { (Borrowed::read(md.cast::<mq::MQMD>())?, Borrowed::read(gmo)?) };
    let message_handle = message_handle(&gmo);
    if let Some(message_handle) = message_handle {
        handle::with(number, message_handle, |_| Ok(()))?;
    }
    let request = Request::Get(Get {
        handle: object,
        options: gmo.value.Options,
        wait: gmo.value.WaitInterval,
        match_by: match_by(&md, &gmo),
        ccsid: md.value.CodedCharSetId,
        encoding: md.value.Encoding,
        buffer_length: room,
        takes_properties: message_handle.is_some(),
    });
    let reply = connection.call(&request)?;
    let Answer::Got(got) = reply.answer else { return Ok(reply.reason) };
    let Got { message, full_length, token, resolved_queue } = *got;
    descriptor::to_caller(&message.descriptor, &mut md.value);
    gmo.value.ResolvedQName = field(&resolved_queue);
    gmo.value.MsgToken = token;
    gmo.value.ReturnedLength = i32::try_from(message.body.len()).unwrap_or(i32::MAX);
    status(message.descriptor.flags, &mut gmo.value);
    if let Some(message_handle) = message_handle {
        handle::with(number, message_handle, |handle| {
            *handle = handle::MessageHandle { properties: message.properties, cursor: None };
            Ok(())
        })?;
    }
    // SAFETY: the caller says so.
    unsafe {
        set(data_length, i32::try_from(full_length).unwrap_or(i32::MAX));
        fill(buffer, usize::try_from(room).unwrap_or_default(), &message.body);
        md.give_back();
        gmo.give_back();
    }
    Ok(reply.reason)
}

fn message_handle(gmo: &Borrowed<mq::MQGMO>) -> Option<mq::MQHMSG> {
    let handle = gmo.value.MsgHandle;
    let is_set = handle != mq::MQHM_NONE && handle != mq::MQHM_UNUSABLE_HMSG;
    (gmo.version >= mq::MQGMO_VERSION_4 && is_set).then_some(handle)
}

/// What the caller wants the message to have. Ids of zeros match any, and so do older structures by
/// what they lack.
fn match_by(md: &Borrowed<mq::MQMD>, gmo: &Borrowed<mq::MQGMO>) -> Match {
    let by = if gmo.version >= mq::MQGMO_VERSION_2 {
        gmo.value.MatchOptions
    } else {
        mq::MQMO_MATCH_MSG_ID | mq::MQMO_MATCH_CORREL_ID
    };
    let id = |option: i32, id: [u8; 24]| Some(id).filter(|id| by & option != 0 && *id != [0; 24]);
    let second = md.version >= mq::MQMD_VERSION_2;
    let number = |option: i32, number: i32| Some(number).filter(|_| by & option != 0 && second);
    let by_token = by & mq::MQMO_MATCH_MSG_TOKEN != 0 && gmo.version >= mq::MQGMO_VERSION_3;
    Match {
        message_id: id(mq::MQMO_MATCH_MSG_ID, md.value.MsgId),
        correlation_id: id(mq::MQMO_MATCH_CORREL_ID, md.value.CorrelId),
        group_id: id(mq::MQMO_MATCH_GROUP_ID, md.value.GroupId).filter(|_| second),
        sequence: number(mq::MQMO_MATCH_MSG_SEQ_NUMBER, md.value.MsgSeqNumber),
        offset: number(mq::MQMO_MATCH_OFFSET, md.value.Offset),
        token: by_token.then_some(gmo.value.MsgToken),
    }
}

/// Tells by the flags of a message where it stands in its group.
fn status(flags: i32, gmo: &mut mq::MQGMO) {
    let letter = |letter: u8| mq::MQCHAR::from_ne_bytes([letter]);
    gmo.GroupStatus = letter(if flags & mq::MQMF_LAST_MSG_IN_GROUP != 0 {
        mq::MQGS_LAST_MSG_IN_GROUP
    } else if flags & mq::MQMF_MSG_IN_GROUP != 0 {
        mq::MQGS_MSG_IN_GROUP
    } else {
        mq::MQGS_NOT_IN_GROUP
    });
    gmo.SegmentStatus = letter(if flags & mq::MQMF_LAST_SEGMENT != 0 {
        mq::MQSS_LAST_SEGMENT
    } else if flags & mq::MQMF_SEGMENT != 0 {
        mq::MQSS_SEGMENT
    } else {
        mq::MQSS_NOT_A_SEGMENT
    });
    gmo.Segmentation = letter(mq::MQSEG_INHIBITED);
}

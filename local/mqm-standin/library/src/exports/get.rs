//! MQGET, which gets or browses a message.

use libmqm_sys as mq;
use mqm_standin::protocol::{Answer, Get, Match, Reason, Request};

use super::{fill, set, verbs};
use crate::structures::Borrowed;
use crate::{connection, descriptor, handle};

verbs! {
    /// Gets or browses a message.
    fn MQGET(
        connection: mq::MQHCONN,
        object: mq::MQHOBJ,
        descriptor: mq::PMQVOID,
        options: *mut mq::MQGMO,
        length: mq::MQLONG,
        buffer: mq::PMQVOID,
        data_length: *mut mq::MQLONG,
    ) {
        let room = u32::try_from(length).map_err(|_| Reason(mq::MQRC_BUFFER_LENGTH_ERROR))?;
        if room > 0 && buffer.is_null() {
            return Err(Reason(mq::MQRC_BUFFER_ERROR));
        }
        let found = connection::find(connection)?;
        let (mut md, mut gmo) = (Borrowed::read(descriptor.cast::<mq::MQMD>())?, Borrowed::read(options)?);
        let given = Some(gmo.value.MsgHandle).filter(|_| gmo.version >= mq::MQGMO_VERSION_4);
        let message_handle = given.filter(|handle| handle::is_set(*handle));
        if let Some(message_handle) = message_handle {
            handle::with(connection, message_handle, |_| Ok(()))?;
        }
        let wants_properties = gmo.value.Options & mq::MQGMO_NO_PROPERTIES == 0;
        let (answer, warning) = found.call(&Request::Get(Get {
            handle: object,
            options: gmo.value.Options,
            wait: gmo.value.WaitInterval,
            match_by: match_by(&md, &gmo),
            ccsid: md.value.CodedCharSetId,
            buffer_length: room,
            takes_properties: message_handle.is_some() && wants_properties,
        }))?;
        let Answer::Got(got) = answer else { return Ok(warning) };
        descriptor::to_caller(&got.message.descriptor, &mut md.value);
        gmo.value.ReturnedLength = super::length(&got.message.body);
        if let Some(message_handle) = message_handle {
            let properties = got.message.properties;
            handle::with(connection, message_handle, |handle| {
                *handle = handle::MessageHandle { properties, cursor: None };
                Ok(())
            })?;
        }
        set(data_length, i32::try_from(got.full_length).unwrap_or(i32::MAX));
        fill(buffer, usize::try_from(room).unwrap_or_default(), &got.message.body);
        md.give_back();
        gmo.give_back();
        Ok(warning)
    }
}

/// Returns the ids that the message must have, by the options of an MQGET. An id of zeros matches
/// every message. Version 1 of MQGMO always matches by both ids.
fn match_by(md: &Borrowed<mq::MQMD>, gmo: &Borrowed<mq::MQGMO>) -> Match {
    let by = if gmo.version >= mq::MQGMO_VERSION_2 {
        gmo.value.MatchOptions
    } else {
        mq::MQMO_MATCH_MSG_ID | mq::MQMO_MATCH_CORREL_ID
    };
    let id = |option: i32, id: [u8; 24]| Some(id).filter(|id| by & option != 0 && *id != [0; 24]);
    Match {
        message_id: id(mq::MQMO_MATCH_MSG_ID, md.value.MsgId),
        correlation_id: id(mq::MQMO_MATCH_CORREL_ID, md.value.CorrelId),
    }
}

//! MQPUT.

use libmqm_sys as mq;
use mqm_standin::protocol::{Answer, Message, Put, Request};

use super::{Ended, data, verbs};
use crate::structures::Borrowed;
use crate::{connection, descriptor, handle};

verbs! {
    /// Puts a message on an open queue.
    fn MQPUT(
        connection: mq::MQHCONN,
        object: mq::MQHOBJ,
        descriptor: mq::PMQVOID,
        options: *mut mq::MQPMO,
        length: mq::MQLONG,
        buffer: mq::PMQVOID,
    ) {
        put(connection, object, descriptor, options, data(buffer, length)?)
    }
}

/// # Safety
///
/// Descriptor and options are an MQMD and an MQPMO.
pub(crate) unsafe fn put(
    number: mq::MQHCONN,
    object: mq::MQHOBJ,
    md: mq::PMQVOID,
    pmo: *mut mq::MQPMO,
    body: Vec<u8>,
) -> Ended {
    let connection = connection::find(number)?;
    // SAFETY: the caller says so.
    let (mut md, pmo) = unsafe { (Borrowed::read(md.cast::<mq::MQMD>())?, Borrowed::read(pmo)?) };
    // The properties are those of the new handle if there is one.
    let handles = [pmo.value.NewMsgHandle, pmo.value.OriginalMsgHandle];
    let properties = match handles.into_iter().find(|handle| handle::is_set(*handle)) {
        Some(handle) if pmo.version >= mq::MQPMO_VERSION_3 => {
            handle::with(number, handle, |handle| Ok(handle.properties.clone()))?
        }
        _ => Vec::new(),
    };
    let message = Message { descriptor: descriptor::from_caller(&md), properties, body };
    let (options, context) = (pmo.value.Options, pmo.value.Context);
    let put = Put { handle: object, options, context, message };
    let (answer, warning) = connection.call(&Request::Put(Box::new(put)))?;
    if let Answer::Put(descriptor) = answer {
        descriptor::to_caller(&descriptor, &mut md.value);
        // SAFETY: the caller says so.
        unsafe { md.give_back() };
    }
    Ok(warning)
}

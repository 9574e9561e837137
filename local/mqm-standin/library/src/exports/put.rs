//! MQPUT, which puts a message on an open queue.

use libmqm_sys as mq;
use mqm_standin::protocol::{Answer, Message, Put, Request};

use super::{data, verbs};
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
        let body = data(buffer, length)?;
        let found = connection::find(connection)?;
        let (mut md, pmo) = (Borrowed::read(descriptor.cast::<mq::MQMD>())?, Borrowed::read(options)?);
        // The properties are those of the new handle if there is one.
        let handles = [pmo.value.NewMsgHandle, pmo.value.OriginalMsgHandle];
        let properties = match handles.into_iter().find(|handle| handle::is_set(*handle)) {
            Some(handle) if pmo.version >= mq::MQPMO_VERSION_3 => {
                handle::with(connection, handle, |handle| Ok(handle.properties.clone()))?
            }
            _ => Vec::new(),
        };
        let message = Message { descriptor: descriptor::from_caller(&md), properties, body };
        let (options, context) = (pmo.value.Options, pmo.value.Context);
        let put = Put { handle: object, options, context, message };
        let (answer, warning) = found.call(&Request::Put(Box::new(put)))?;
        if let Answer::Put(descriptor) = answer {
            descriptor::to_caller(&descriptor, &mut md.value);
            md.give_back();
        }
        Ok(warning)
    }
}

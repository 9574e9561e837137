//! Where the properties of a message go when it is got: into a message handle, into a header,
//! nowhere.

use libmqm_sys as mq;

use crate::protocol::{Get, Message, Reason};
use crate::rfh2;

enum Way {
    Handle,
    Header,
    /// The data as they were put, and no other properties.
    AsPut,
    None,
}

pub(crate) fn arrange(message: Message, get: &Get, control: i32) -> Result<Message, Reason> {
    let way = way(get, control)?;
    let has_header = || rfh2::split(&message);
    Ok(match way {
        Way::AsPut => Message { properties: Vec::new(), ..message },
        Way::Handle => match has_header() {
            Some((mut properties, data)) => {
                properties.extend(message.properties);
                Message { properties, ..data }
            }
            None => message,
        },
        Way::None => match has_header() {
            Some((_, data)) => data,
            None => Message { properties: Vec::new(), ..message },
        },
        Way::Header if message.properties.is_empty() => message,
        Way::Header => {
            let (mut properties, data) = has_header().unwrap_or_else(|| (Vec::new(), message.clone()));
            properties.extend(message.properties);
            rfh2::join(&properties, data)
        }
    })
}

fn way(get: &Get, control: i32) -> Result<Way, Reason> {
    const CHOICES: i32 = mq::MQGMO_PROPERTIES_IN_HANDLE
        | mq::MQGMO_PROPERTIES_FORCE_MQRFH2
        | mq::MQGMO_PROPERTIES_COMPATIBILITY
        | mq::MQGMO_NO_PROPERTIES;
    Ok(match get.options & CHOICES {
        mq::MQGMO_PROPERTIES_AS_Q_DEF => match control {
            mq::MQPROP_FORCE_MQRFH2 => Way::Header,
            _ if get.takes_properties => Way::Handle,
            mq::MQPROP_NONE => Way::None,
            mq::MQPROP_V6COMPAT => Way::AsPut,
            _ => Way::Header,
        },
        mq::MQGMO_PROPERTIES_IN_HANDLE if get.takes_properties => Way::Handle,
        mq::MQGMO_PROPERTIES_IN_HANDLE => return Err(Reason(mq::MQRC_HMSG_ERROR)),
        mq::MQGMO_PROPERTIES_FORCE_MQRFH2 | mq::MQGMO_PROPERTIES_COMPATIBILITY => Way::Header,
        mq::MQGMO_NO_PROPERTIES => Way::None,
        _ => return Err(Reason(mq::MQRC_OPTIONS_ERROR)),
    })
}

//! The rest of the MQI, which only the suites with IBM's clients need: callbacks, MQCONN, MQPUT1,
//! MQSET and others.
#![allow(unsafe_code)]
// C finds the verbs by their names, not by their paths.
#![allow(unreachable_pub)]

mod callback;
mod calls;
mod consumption;
mod value;

use libmqm_sys as mq;
use mqm_standin::protocol::{Answer, Chars, Connect, ConnectionName, Reason, Request};

use crate::connection::{self, Route};
use crate::exports::{absent, application, data, get_or, given, numbers, open, put, set, verbs};
use crate::structures::{Borrowed, chars, versioned};
use crate::{ccdt, handle};

pub(crate) use self::callback::Callbacks;
pub(crate) use self::value::convert;

versioned! {
    MQDMPO, MQDMPO_STRUC_ID, MQRC_DMPO_ERROR: [];
    MQCBD, MQCBD_STRUC_ID, MQRC_CBD_ERROR: [];
}

// No suite calls these.
absent! { MQBUFMH MQMHBUF MQSTAT MQSUB MQSUBRQ MQXCNVC }

verbs! {
    /// Connects as the environment says.
    fn MQCONN(name: *const mq::MQCHAR48, handle: *mut mq::MQHCONN) {
        set(handle, mq::MQHC_UNUSABLE_HCONN);
        let queue_manager = chars(&get_or(name, [0; mq::MQ_Q_MGR_NAME_LENGTH]));
        let route = route_from_environment(&queue_manager)?;
        let request = Connect {
            queue_manager,
            channel: Chars::default(),
            credentials: None,
            application: application(Chars::default()),
            options: mq::MQCNO_NONE,
        };
        let (number, connection_id) = connection::open(&request, &route)?;
        set(handle, number);
        Ok(if connection_id.is_some() { mq::MQRC_NONE } else { mq::MQRC_ALREADY_CONNECTED })
    }

    /// Refused, as for every client: a queue manager coordinates other stores for its local
    /// programs only.
    fn MQBEGIN(connection: mq::MQHCONN, _options: *mut mq::MQBO) {
        connection::find(connection)?;
        Err(Reason(mq::MQRC_ENVIRONMENT_ERROR))
    }

    /// Opens a queue, puts a message and closes the queue, with a call of its own for each.
    fn MQPUT1(
        connection: mq::MQHCONN,
        object: *mut mq::MQOD,
        descriptor: mq::PMQVOID,
        options: *mut mq::MQPMO,
        length: mq::MQLONG,
        buffer: mq::PMQVOID,
    ) {
        let found = connection::find(connection)?;
        let od = Borrowed::read(object)?;
        let put_options = Borrowed::read(options)?.value.Options;
        let mut open_options = mq::MQOO_OUTPUT;
        for (given, needed) in [
            (mq::MQPMO_FAIL_IF_QUIESCING, mq::MQOO_FAIL_IF_QUIESCING),
            (mq::MQPMO_PASS_ALL_CONTEXT, mq::MQOO_PASS_ALL_CONTEXT),
            (mq::MQPMO_SET_ALL_CONTEXT, mq::MQOO_SET_ALL_CONTEXT),
        ] {
            open_options |= if put_options & given != 0 { needed } else { 0 };
        }
        let (answer, _) = found.call(&Request::Open(open(&od, open_options)?))?;
        let Answer::Opened { handle, .. } = answer else { return Err(Reason(mq::MQRC_UNEXPECTED_ERROR)) };
        let ended = put(connection, handle, descriptor, options, data(buffer, length)?);
        let _ = found.call(&Request::Close { handle, options: mq::MQCO_NONE });
        ended
    }

    /// Sets attributes of a queue, which are numbers.
    fn MQSET(
        connection: mq::MQHCONN,
        object: mq::MQHOBJ,
        selector_count: mq::MQLONG,
        selector_array: mq::PMQLONG,
        number_count: mq::MQLONG,
        number_array: mq::PMQLONG,
        _text_length: mq::MQLONG,
        _text_array: mq::PMQCHAR,
    ) {
        let selectors = numbers(selector_count, selector_array)?;
        let values = numbers(number_count, number_array)?;
        if values.len() != selectors.len() {
            return Err(Reason(mq::MQRC_INT_ATTR_COUNT_ERROR));
        }
        let attributes = selectors.into_iter().zip(values).collect();
        let set = Request::Set { handle: object, attributes };
        connection::find(connection)?.call(&set).map(|(_, warning)| warning)
    }

    /// Deletes a property of a message handle.
    fn MQDLTMP(
        connection: mq::MQHCONN,
        message: mq::MQHMSG,
        options: *mut mq::MQDMPO,
        name: *mut mq::MQCHARV,
    ) {
        if Borrowed::read(options)?.value.Options != mq::MQDMPO_DEL_FIRST {
            return Err(Reason(mq::MQRC_OPTIONS_ERROR));
        }
        let name = given(name)?;
        handle::with(connection, message, |handle| {
            let at = handle.properties.iter().position(|property| property.name == name);
            handle.properties.remove(at.ok_or(Reason(mq::MQRC_PROPERTY_NOT_AVAILABLE))?);
            handle.cursor = None;
            Ok(mq::MQRC_NONE)
        })
    }
}

/// The route that `MQSERVER` names by a channel, a transport and a connection name, with slashes
/// between them, or else that of the table in `MQCCDTURL`.
pub(crate) fn route_from_environment(queue_manager: &Chars) -> Result<Route, Reason> {
    let no_definition = Reason(mq::MQRC_Q_MGR_NAME_ERROR);
    let Ok(server) = std::env::var("MQSERVER") else {
        let url = std::env::var("MQCCDTURL").map_err(|_| no_definition)?;
        return ccdt::find(&url, queue_manager);
    };
    let mut parts = server.splitn(3, '/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(channel), Some(transport), Some(name)) if transport.eq_ignore_ascii_case("TCP") => {
            Ok(ConnectionName::route(&Chars::from(channel), name))
        }
        _ => Err(no_definition),
    }
}

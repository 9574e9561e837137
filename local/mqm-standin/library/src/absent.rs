//! The build without `full-mqi`: the verbs that the gateway calls, and no callbacks.
#![allow(unsafe_code)]

use libmqm_sys as mq;
use mqm_standin::protocol::{Chars, Property, Reason};

use crate::connection::Route;
use crate::exports::absent;

absent! {
    MQBEGIN MQBUFMH MQCB MQCONN MQCTL MQDLTMP MQMHBUF MQPUT1 MQSET MQSTAT MQSUB MQSUBRQ MQXCNVC
}

/// The callbacks of a connection: none.
#[derive(Debug, Default)]
pub(crate) struct Callbacks {}

impl Callbacks {
    pub(crate) fn admit(&self) -> Result<(), Reason> {
        Ok(())
    }

    pub(crate) fn is_caller(&self) -> bool {
        false
    }

    pub(crate) fn stop(&self) {}

    pub(crate) fn opened(&self, _object: i32, _options: i32) {}

    pub(crate) fn closed(&self, _connection: i32, _object: i32) {}
}

/// The environment leads nowhere.
pub(crate) fn route_from_environment(_queue_manager: &Chars) -> Result<Route, Reason> {
    Err(Reason(mq::MQRC_Q_MGR_NAME_ERROR))
}

/// A property keeps its type.
pub(crate) fn convert(_property: &mut Property, _kind: i32) -> Result<(), Reason> {
    Err(Reason(mq::MQRC_PROP_CONV_NOT_SUPPORTED))
}

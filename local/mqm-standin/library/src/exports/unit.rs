//! MQCMIT and MQBACK.

use libmqm_sys as mq;
use mqm_standin::protocol::Request;

use super::verbs;
use crate::connection;

verbs! {
    /// Commits the unit of work.
    fn MQCMIT(connection: mq::MQHCONN) {
        connection::find(connection)?.call(&Request::Commit).map(|(_, warning)| warning)
    }

    /// Backs the unit of work out.
    fn MQBACK(connection: mq::MQHCONN) {
        connection::find(connection)?.call(&Request::Back).map(|(_, warning)| warning)
    }
}

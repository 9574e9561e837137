//! Connections and their units of work: MQCONNX, MQDISC, MQCMIT, MQBACK.

use std::path::Path;

use libmqm_sys as mq;
use mqm_standin::protocol::{Chars, Connect, ConnectionName, Password, Reason, Request};

use super::{get_or, set, verbs};
use crate::ccdt;
use crate::connection::{self, Route};
use crate::structures::{Borrowed, channel, chars};

verbs! {
    /// Connects to a queue manager.
    fn MQCONNX(name: *const mq::MQCHAR48, options: *mut mq::MQCNO, handle: *mut mq::MQHCONN) {
        set(handle, mq::MQHC_UNUSABLE_HCONN);
        let mut cno = Borrowed::read(options)?;
        let queue_manager = chars(&get_or(name, [0; mq::MQ_Q_MGR_NAME_LENGTH]));
        let route = route(&cno, &queue_manager)?;
        let request = Connect {
            queue_manager,
            channel: Chars::default(),
            credentials: credentials(&cno)?,
            application: chars(&cno.value.ApplName),
            options: cno.value.Options,
        };
        let (number, connection_id) = connection::open(&request, &route)?;
        set(handle, number);
        let Some(id) = connection_id else { return Ok(mq::MQRC_ALREADY_CONNECTED) };
        cno.value.ConnectionId = id;
        cno.give_back();
        Ok(mq::MQRC_NONE)
    }

    /// Ends a connection, and commits its uncommitted work.
    fn MQDISC(handle: *mut mq::MQHCONN) {
        let number = get_or(handle, mq::MQHC_UNUSABLE_HCONN);
        let closed = connection::close(number);
        if closed != Err(Reason(mq::MQRC_HCONN_ERROR)) {
            crate::handle::delete_all(number);
            set(handle, mq::MQHC_UNUSABLE_HCONN);
        }
        closed
    }

    /// Commits the unit of work.
    fn MQCMIT(connection: mq::MQHCONN) {
        connection::find(connection)?.call(&Request::Commit).map(|(_, warning)| warning)
    }

    /// Backs the unit of work out.
    fn MQBACK(connection: mq::MQHCONN) {
        connection::find(connection)?.call(&Request::Back).map(|(_, warning)| warning)
    }
}

/// Returns the channels and addresses to try for the queue manager: from the channel definition in
/// MQCNO, or else from the channel table that MQCNO names.
///
/// # Safety
///
/// Pointers and offsets in `cno` are unset, or refer to memory that can be read.
unsafe fn route(cno: &Borrowed<mq::MQCNO>, queue_manager: &Chars) -> Result<Route, Reason> {
    let value = &cno.value;
    // SAFETY: the caller says so.
    unsafe {
        let Some(at) = cno.locate(value.ClientConnPtr, value.ClientConnOffset) else {
            let url = cno.referred(value.CCDTUrlPtr, value.CCDTUrlOffset, value.CCDTUrlLength);
            return match url.filter(|url| !url.is_empty()) {
                Some(url) => ccdt::find(&String::from_utf8_lossy(&url), queue_manager),
                None => Err(Reason(mq::MQRC_Q_MGR_NAME_ERROR)),
            };
        };
        let cd = channel(at.cast()).ok_or(Reason(mq::MQRC_CD_ERROR))?;
        if cd.ChannelType != mq::MQCHT_CLNTCONN || cd.TransportType != mq::MQXPT_TCP {
            return Err(Reason(mq::MQRC_CD_ERROR));
        }
        if !chars(&cd.SSLCipherSpec).is_blank() {
            // There is no TLS here, and a connection without must not look like one with it.
            return Err(refused_tls(cno));
        }
        let (long, short) = (chars(&cd.ConnectionName), chars(&cd.ShortConnectionName));
        let name = if long.is_blank() { short } else { long };
        Ok(ConnectionName::route(&chars(&cd.ChannelName), &name.to_string()))
    }
}

/// Returns the reason code for a connection with TLS, which the stand-in does not support: that the
/// key repository cannot be opened, or else that TLS cannot be initialized. The content of the
/// repository is not read.
///
/// # Safety
///
/// Pointers and offsets in `cno` are unset, or refer to memory that can be read.
unsafe fn refused_tls(cno: &Borrowed<mq::MQCNO>) -> Reason {
    let no_tls = Reason(mq::MQRC_SSL_INITIALIZATION_ERROR);
    // SAFETY: the caller says so.
    let sco = unsafe {
        let Some(at) = cno.locate(cno.value.SSLConfigPtr, cno.value.SSLConfigOffset) else { return no_tls };
        match Borrowed::read(at.cast_mut().cast::<mq::MQSCO>()) {
            Ok(sco) => sco.value,
            Err(reason) => return reason,
        }
    };
    let repository = chars(&sco.KeyRepository).to_string();
    let file = Path::new(&repository);
    // The name of a CMS key database may go without its `.kdb`.
    let is_there = file.is_file() || file.with_extension("kdb").is_file();
    let is_open = sco.KeyRepoPasswordLength > 0 || file.with_extension("sth").is_file();
    if is_there && is_open { no_tls } else { Reason(mq::MQRC_KEY_REPOSITORY_ERROR) }
}

/// Returns the user and the password in MQCSP; `None` if MQCNO has no MQCSP, or it asks for no
/// authentication.
///
/// # Safety
///
/// Pointers and offsets in `cno` are unset, or refer to memory that can be read.
unsafe fn credentials(cno: &Borrowed<mq::MQCNO>) -> Result<Option<(String, Password)>, Reason> {
    let refused = Reason(mq::MQRC_NOT_AUTHORIZED);
    // SAFETY: the caller says so.
    let (kind, user, password) = unsafe {
        let at = cno.locate(cno.value.SecurityParmsPtr, cno.value.SecurityParmsOffset);
        let Some(at) = at else { return Ok(None) };
        let csp = Borrowed::read(at.cast_mut().cast::<mq::MQCSP>())?;
        let value = &csp.value;
        let user = csp.referred(value.CSPUserIdPtr, value.CSPUserIdOffset, value.CSPUserIdLength);
        let password = csp.referred(value.CSPPasswordPtr, value.CSPPasswordOffset, value.CSPPasswordLength);
        (value.AuthenticationType, user.unwrap_or_default(), password.unwrap_or_default())
    };
    match kind {
        mq::MQCSP_AUTH_NONE => Ok(None),
        mq::MQCSP_AUTH_USER_ID_AND_PWD => {
            let text = |bytes| String::from_utf8(bytes).map_err(|_| refused);
            Ok(Some((text(user)?, Password(text(password)?))))
        }
        _ => Err(refused),
    }
}

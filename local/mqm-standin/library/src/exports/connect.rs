//! MQCONN, MQCONNX, MQDISC.

use std::path::Path;

use libmqm_sys as mq;
use mqm_standin::protocol::{Chars, Connect, ConnectionName, Reason};

use super::{Ended, answer, get_or, set};
use crate::ccdt;
use crate::connection::{self, Opened};
use crate::structures::{Borrowed, bytes, channel, locate, referred};

/// Where a client connects to: channels and their addresses, in the order in which they are tried.
type Route = Vec<(Chars, ConnectionName)>;

/// # Safety
///
/// As the MQI says: `name` has 48 characters, the other pointers may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MQCONN(
    name: *const mq::MQCHAR48,
    handle: *mut mq::MQHCONN,
    completion: *mut mq::MQLONG,
    reason: *mut mq::MQLONG,
) {
    // SAFETY: the caller keeps to the MQI.
    unsafe {
        answer(completion, reason, || {
            let queue_manager = queue_manager(name);
            let route = from_environment(&queue_manager)?;
            let request = Connect {
                queue_manager,
                channel: Chars::default(),
                user: None,
                password: None,
                application: application(&Chars::default()),
                options: mq::MQCNO_NONE,
            };
            connect(&request, &route, handle).map(|(_, reason)| reason)
        });
    }
}

/// # Safety
///
/// As for [`MQCONN`]; `options` is null or an MQCNO with what it refers to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MQCONNX(
    name: *const mq::MQCHAR48,
    options: *mut mq::MQCNO,
    handle: *mut mq::MQHCONN,
    completion: *mut mq::MQLONG,
    reason: *mut mq::MQLONG,
) {
    if options.is_null() {
        // SAFETY: the caller keeps to the MQI.
        return unsafe { MQCONN(name, handle, completion, reason) };
    }
    // SAFETY: the caller keeps to the MQI.
    unsafe { answer(completion, reason, || with_options(name, options, handle)) };
}

/// # Safety
///
/// As for [`MQCONNX`].
unsafe fn with_options(
    name: *const mq::MQCHAR48,
    options: *mut mq::MQCNO,
    handle: *mut mq::MQHCONN,
) -> Ended {
    // SAFETY: the caller keeps to the MQI.
    let mut cno = unsafe { Borrowed::read(options) }?;
    // SAFETY: as above.
    let queue_manager = unsafe { queue_manager(name) };
    // SAFETY: as above.
    let (route, credentials) = unsafe { (route(&cno, &queue_manager)?, credentials(&cno)?) };
    let (user, password) = credentials.unzip();
    let request = Connect {
        queue_manager,
        channel: Chars::default(),
        user,
        password,
        application: application(&Chars::from_field(&bytes(&cno.value.ApplName))),
        options: cno.value.Options,
    };
    // SAFETY: as above.
    let (opened, reason) = unsafe { connect(&request, &route, handle) }?;
    if let Opened::New(_, connected) = opened {
        cno.value.ConnectionId = connected.connection_id;
        // SAFETY: as above.
        unsafe { cno.give_back() };
    }
    Ok(reason)
}

/// # Safety
///
/// `handle` may be written.
unsafe fn connect(
    request: &Connect,
    route: &Route,
    handle: *mut mq::MQHCONN,
) -> Result<(Opened, i32), Reason> {
    let opened = connection::open(request, route);
    let number = match &opened {
        Ok(Opened::New(number, _) | Opened::Already(number)) => *number,
        Err(_) => mq::MQHC_UNUSABLE_HCONN,
    };
    // SAFETY: the caller says so.
    unsafe { set(handle, number) };
    let opened = opened?;
    let reason = match &opened {
        Opened::New(..) => mq::MQRC_NONE,
        Opened::Already(_) => mq::MQRC_ALREADY_CONNECTED,
    };
    Ok((opened, reason))
}

/// # Safety
///
/// `name` is null or has 48 characters.
unsafe fn queue_manager(name: *const mq::MQCHAR48) -> Chars {
    // SAFETY: the caller says so.
    Chars::from_field(&bytes(&unsafe { get_or(name, [0; mq::MQ_Q_MGR_NAME_LENGTH]) }))
}

/// The name that administrators see: the caller's, or else the program's.
fn application(given: &Chars) -> Chars {
    if !given.is_blank() {
        return given.clone();
    }
    let program = std::env::current_exe().ok();
    let name = program.as_deref().and_then(std::path::Path::file_name).unwrap_or_default();
    Chars::from(name.to_string_lossy().as_ref()).cut(mq::MQ_APPL_NAME_LENGTH)
}

/// Where MQCNO leads to: its channel definition, or else its table, or else the environment.
///
/// # Safety
///
/// What `cno` refers to is there.
unsafe fn route(cno: &Borrowed<mq::MQCNO>, queue_manager: &Chars) -> Result<Route, Reason> {
    let pointer = cno.value.ClientConnPtr.cast_const().cast();
    // SAFETY: the caller says so.
    let Some(at) = (unsafe { locate(pointer, cno.value.ClientConnOffset, cno.start()) }) else {
        let (pointer, offset) = (cno.value.CCDTUrlPtr.cast_const().cast(), cno.value.CCDTUrlOffset);
        // SAFETY: as above.
        let url = unsafe { referred(pointer, offset, cno.value.CCDTUrlLength, cno.start()) };
        return match url.filter(|url| !url.is_empty()) {
            Some(url) => ccdt::find(&String::from_utf8_lossy(&url), queue_manager),
            None => from_environment(queue_manager),
        };
    };
    // SAFETY: as above.
    let (cd, version) = unsafe { channel(at.cast()) }.ok_or(Reason(mq::MQRC_CD_ERROR))?;
    if cd.ChannelType != mq::MQCHT_CLNTCONN || cd.TransportType != mq::MQXPT_TCP {
        return Err(Reason(mq::MQRC_CD_ERROR));
    }
    if version >= mq::MQCD_VERSION_7 && !Chars::from_field(&bytes(&cd.SSLCipherSpec)).is_blank() {
        // There is no TLS here, and a connection without must not look like one with it.
        // SAFETY: as above.
        return Err(unsafe { refused_tls(cno) });
    }
    let long = Chars::from_field(&bytes(&cd.ConnectionName));
    let short = Chars::from_field(&bytes(&cd.ShortConnectionName));
    let name = if long.is_blank() { short } else { long };
    Ok(by(&Chars::from_field(&bytes(&cd.ChannelName)), &name.to_string()))
}

/// A channel to the addresses of a connection name.
fn by(channel: &Chars, name: &str) -> Route {
    ConnectionName::list(name).into_iter().map(|address| (channel.clone(), address)).collect()
}

/// Why there is no TLS connection: the key repository cannot be opened, or only that there is no
/// TLS here. Its content is not read.
///
/// # Safety
///
/// What `cno` refers to is there.
unsafe fn refused_tls(cno: &Borrowed<mq::MQCNO>) -> Reason {
    let no_tls = Reason(mq::MQRC_SSL_INITIALIZATION_ERROR);
    let pointer = cno.value.SSLConfigPtr.cast_const().cast();
    // SAFETY: the caller says so.
    let Some(at) = (unsafe { locate(pointer, cno.value.SSLConfigOffset, cno.start()) }) else {
        return no_tls;
    };
    // SAFETY: as above.
    let sco = match unsafe { Borrowed::read(at.cast_mut().cast::<mq::MQSCO>()) } {
        Ok(sco) => sco.value,
        Err(reason) => return reason,
    };
    let repository = Chars::from_field(&bytes(&sco.KeyRepository)).to_string();
    let file = Path::new(&repository);
    // The name of a CMS key database may go without its `.kdb`.
    let is_there = file.is_file() || file.with_extension("kdb").is_file();
    let is_open = sco.KeyRepoPasswordLength > 0 || file.with_extension("sth").is_file();
    match is_there && is_open {
        true => no_tls,
        false => Reason(mq::MQRC_KEY_REPOSITORY_ERROR),
    }
}

/// `MQSERVER`: channel, transport and connection name, with slashes between them. Without it,
/// `MQCCDTURL`: a table.
fn from_environment(queue_manager: &Chars) -> Result<Route, Reason> {
    let no_definition = Reason(mq::MQRC_Q_MGR_NAME_ERROR);
    let Ok(server) = std::env::var("MQSERVER") else {
        let url = std::env::var("MQCCDTURL").map_err(|_| no_definition)?;
        return ccdt::find(&url, queue_manager);
    };
    let mut parts = server.splitn(3, '/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(channel), Some(transport), Some(name)) if transport.eq_ignore_ascii_case("TCP") => {
            Ok(by(&Chars::from(channel), name))
        }
        _ => Err(no_definition),
    }
}

/// User and password of MQCSP, if there is one that has them.
///
/// # Safety
///
/// What `cno` refers to is there.
unsafe fn credentials(cno: &Borrowed<mq::MQCNO>) -> Result<Option<(String, String)>, Reason> {
    let pointer = cno.value.SecurityParmsPtr.cast_const().cast();
    // SAFETY: the caller says so.
    let Some(at) = (unsafe { locate(pointer, cno.value.SecurityParmsOffset, cno.start()) }) else {
        return Ok(None);
    };
    // SAFETY: as above.
    let csp = unsafe { Borrowed::read(at.cast_mut().cast::<mq::MQCSP>()) }?;
    match csp.value.AuthenticationType {
        mq::MQCSP_AUTH_NONE => return Ok(None),
        mq::MQCSP_AUTH_USER_ID_AND_PWD => {}
        _ => return Err(Reason(mq::MQRC_NOT_AUTHORIZED)),
    }
    let start = csp.start();
    let text = |pointer: mq::MQPTR, offset, length| {
        // SAFETY: as above.
        let bytes = unsafe { referred(pointer.cast_const().cast(), offset, length, start) };
        String::from_utf8(bytes.unwrap_or_default()).map_err(|_| Reason(mq::MQRC_NOT_AUTHORIZED))
    };
    let csp = &csp.value;
    let user = text(csp.CSPUserIdPtr, csp.CSPUserIdOffset, csp.CSPUserIdLength)?;
    let password = text(csp.CSPPasswordPtr, csp.CSPPasswordOffset, csp.CSPPasswordLength)?;
    Ok(Some((user, password)))
}

/// # Safety
///
/// As the MQI says: the pointers may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MQDISC(
    handle: *mut mq::MQHCONN,
    completion: *mut mq::MQLONG,
    reason: *mut mq::MQLONG,
) {
    // SAFETY: the caller keeps to the MQI.
    unsafe {
        answer(completion, reason, || {
            let number = get_or(handle, mq::MQHC_UNUSABLE_HCONN);
            let closed = connection::close(number);
            if closed != Err(Reason(mq::MQRC_HCONN_ERROR)) {
                crate::handle::delete_all(number);
                set(handle, mq::MQHC_UNUSABLE_HCONN);
            }
            closed.map(|()| mq::MQRC_NONE)
        });
    }
}

//! Calls of the MQI, made on the thread that connects. In each call, handles come from the same
//! connection, structures carry their versions, and buffers are passed with their own lengths and
//! outlive the call.
#![allow(unsafe_code)]

use libmqm_sys::dlopen2::{MqWrapper, MqmContainer};
use libmqm_sys::{self as mq, MQLONG};

use crate::structures::{self, fill};
use crate::{Error, length_of, variable};

pub(crate) struct Connection {
    library: MqmContainer,
    handle: mq::MQHCONN,
}

/// Property of a message that was got, copied out of the call's buffers.
pub(crate) struct Property {
    pub(crate) name: String,
    pub(crate) kind: MQLONG,
    pub(crate) value: Vec<u8>,
}

/// Completion code and reason code of a call.
struct Codes(MQLONG, MQLONG);

impl Codes {
    const UNSET: Self = Self(mq::MQCC_UNKNOWN, mq::MQRC_UNEXPECTED_ERROR);

    fn check(self, verb: &'static str) -> Result<(), Error> {
        if self.0 == mq::MQCC_OK {
            Ok(())
        } else {
            Err(format!("{verb} ended with reason {}", self.1).into())
        }
    }
}

/// Calls a function of IBM MQ's client library with the connection's handle and these arguments,
/// and returns its codes. Every value that an argument points to must outlive the call.
macro_rules! call {
    ($connection:ident.$verb:ident($($argument:expr),*)) => {{
        let (connection, mut codes) = (&$connection, Codes::UNSET);
        let library: &MqWrapper = &connection.library;
        // SAFETY: as for all calls here.
        unsafe { library.$verb(connection.handle, $($argument,)* &mut codes.0, &mut codes.1) };
        codes
    }};
}

impl Connection {
    /// Connects to the queue manager that the environment variables name.
    pub(crate) fn open() -> Result<Self, Error> {
        let library = variable("IBM_MQ_LIBRARY")?;
        // SAFETY: the path is that of IBM's client library, or of one with its functions.
        let library = unsafe { MqmContainer::load(library) }?;
        let mut definition = structures::channel();
        fill(&mut definition.ChannelName, &variable("CHANNEL")?);
        fill(&mut definition.ConnectionName, &variable("CONN_NAME")?);
        let (user, password) = (variable("MQ_USER")?, variable("MQ_PASSWORD")?);
        let mut security = structures::security();
        security.CSPUserIdPtr = user.as_ptr().cast_mut().cast();
        security.CSPUserIdLength = length_of(user.as_bytes());
        security.CSPPasswordPtr = password.as_ptr().cast_mut().cast();
        security.CSPPasswordLength = length_of(password.as_bytes());
        let mut options = structures::connect_options();
        options.Options = mq::MQCNO_CLIENT_BINDING | mq::MQCNO_HANDLE_SHARE_NONE;
        options.ClientConnPtr = std::ptr::from_mut(&mut definition).cast();
        options.SecurityParmsPtr = std::ptr::from_mut(&mut security);
        let mut name = [0; 48];
        fill(&mut name, &variable("QUEUE_MANAGER")?);
        let (mut handle, mut codes) = (mq::MQHC_UNUSABLE_HCONN, Codes::UNSET);
        // SAFETY: the structures and what they point to outlive the call.
        unsafe { library.MQCONNX(&name, &mut options, &mut handle, &mut codes.0, &mut codes.1) };
        codes.check("MQCONNX")?;
        Ok(Self { library, handle })
    }

    pub(crate) fn open_queue(&self, name: &str, options: MQLONG) -> Result<mq::MQHOBJ, Error> {
        let mut od = structures::object(mq::MQOT_Q);
        fill(&mut od.ObjectName, name);
        let (mut queue, options) = (mq::MQHO_UNUSABLE_HOBJ, options | mq::MQOO_FAIL_IF_QUIESCING);
        call!(self.MQOPEN(&mut od, options, &mut queue)).check("MQOPEN").map(|()| queue)
    }

    pub(crate) fn close_queue(&self, mut queue: mq::MQHOBJ) -> Result<(), Error> {
        call!(self.MQCLOSE(&mut queue, mq::MQCO_NONE)).check("MQCLOSE")
    }

    pub(crate) fn message_handle(&self) -> Result<mq::MQHMSG, Error> {
        let options = structures::create_message_handle();
        let mut message = mq::MQHM_UNUSABLE_HMSG;
        call!(self.MQCRTMH(&options, &mut message)).check("MQCRTMH").map(|()| message)
    }

    pub(crate) fn set_property(
        &self,
        message: mq::MQHMSG,
        name: &str,
        kind: MQLONG,
        value: &[u8],
    ) -> Result<(), Error> {
        let (options, name) = (structures::set_property(), structures::name(name));
        let mut descriptor = structures::property_descriptor();
        // Name and value are only read.
        let (length, value) = (length_of(value), value.as_ptr().cast_mut().cast());
        call!(self.MQSETMP(message, &options, &name, &mut descriptor, kind, length, value)).check("MQSETMP")
    }

    pub(crate) fn put(
        &self,
        queue: mq::MQHOBJ,
        message: mq::MQHMSG,
        md: &mut mq::MQMD,
        body: &[u8],
    ) -> Result<(), Error> {
        let mut options = structures::put_options();
        options.Options = mq::MQPMO_SYNCPOINT | mq::MQPMO_FAIL_IF_QUIESCING;
        options.OriginalMsgHandle = message;
        let md = std::ptr::from_mut(md).cast();
        // The body is only read.
        let (length, body) = (length_of(body), body.as_ptr().cast_mut().cast());
        call!(self.MQPUT(queue, md, &mut options, length, body)).check("MQPUT")
    }

    /// Gets the next message into the descriptor, the message handle and the buffer, and returns
    /// the body's length in bytes.
    pub(crate) fn get(
        &self,
        queue: mq::MQHOBJ,
        message: mq::MQHMSG,
        md: &mut mq::MQMD,
        body: &mut [u8],
    ) -> Result<usize, Error> {
        let mut options = structures::get_options();
        options.Options = mq::MQGMO_SYNCPOINT | mq::MQGMO_FAIL_IF_QUIESCING | mq::MQGMO_PROPERTIES_IN_HANDLE;
        options.MsgHandle = message;
        let (md, size, body) = (std::ptr::from_mut(md).cast(), length_of(body), body.as_mut_ptr().cast());
        let mut length = 0;
        let codes = call!(self.MQGET(queue, md, &mut options, size, body, &mut length));
        codes.check("MQGET").map(|()| usize::try_from(length).unwrap_or_default())
    }

    /// Returns all properties of the message that the handle holds.
    pub(crate) fn properties(&self, message: mq::MQHMSG) -> Result<Vec<Property>, Error> {
        let (mut name, mut value) = ([0_u8; mq::MQ_MAX_PROPERTY_NAME_LENGTH + 1], [0_u8; 1024]);
        let mut which = mq::MQIMPO_INQ_FIRST;
        let mut all = Vec::new();
        loop {
            let mut options = structures::inquire_property();
            options.Options = which | mq::MQIMPO_CONVERT_VALUE;
            options.ReturnedName.VSPtr = name.as_mut_ptr().cast();
            options.ReturnedName.VSBufSize = length_of(&name);
            let any = structures::name("%");
            let mut descriptor = structures::property_descriptor();
            let (mut kind, mut length) = (mq::MQTYPE_AS_SET, 0);
            let (size, buffer) = (length_of(&value), value.as_mut_ptr().cast());
            let codes = call!(self.MQINQMP(
                message,
                &mut options,
                &any,
                &mut descriptor,
                &mut kind,
                size,
                buffer,
                &mut length
            ));
            if codes.1 == mq::MQRC_PROPERTY_NOT_AVAILABLE {
                return Ok(all);
            }
            codes.check("MQINQMP")?;
            let name = String::from_utf8_lossy(first(&name, options.ReturnedName.VSLength)).into_owned();
            all.push(Property { name, kind, value: first(&value, length).to_vec() });
            which = mq::MQIMPO_INQ_NEXT;
        }
    }

    pub(crate) fn commit(&self) -> Result<(), Error> {
        call!(self.MQCMIT()).check("MQCMIT")
    }
}

/// Returns the first `length` bytes of a buffer; none if the length is negative or too large.
fn first(buffer: &[u8], length: MQLONG) -> &[u8] {
    buffer.get(..usize::try_from(length).unwrap_or_default()).unwrap_or_default()
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut codes = Codes::UNSET;
        // SAFETY: as for all calls here; nobody uses the handle afterwards.
        unsafe { self.library.MQDISC(&mut self.handle, &mut codes.0, &mut codes.1) };
    }
}

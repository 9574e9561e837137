//! MQPUT and MQPUT1.

use libmqm_sys as mq;
use mqm_standin::protocol::{Answer, Descriptor, Message, Property, Put, Reason, Receipt, Request, Target};

use super::{answer, data, object};
use crate::connection::{self, Connection};
use crate::structures::{Borrowed, field};
use crate::{descriptor, handle};

/// # Safety
///
/// As the MQI says: descriptor and options are an MQMD and an MQPMO, `buffer` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MQPUT(
    connection: mq::MQHCONN,
    object: mq::MQHOBJ,
    descriptor: mq::PMQVOID,
    options: *mut mq::MQPMO,
    length: mq::MQLONG,
    buffer: mq::PMQVOID,
    completion: *mut mq::MQLONG,
    reason: *mut mq::MQLONG,
) {
    // SAFETY: the caller keeps to the MQI.
    unsafe {
        answer(completion, reason, || {
            put(connection, Target::Handle(object), descriptor, options, data(buffer, length)?)
                .map(|(reason, _)| reason)
        });
    }
}

/// # Safety
///
/// As for [`MQPUT`]; `object` is an MQOD.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MQPUT1(
    connection: mq::MQHCONN,
    object: *mut mq::MQOD,
    descriptor: mq::PMQVOID,
    options: *mut mq::MQPMO,
    length: mq::MQLONG,
    buffer: mq::PMQVOID,
    completion: *mut mq::MQLONG,
    reason: *mut mq::MQLONG,
) {
    // SAFETY: the caller keeps to the MQI.
    unsafe {
        answer(completion, reason, || {
            let mut od = Borrowed::read(object)?;
            let target = Target::Object(object::open(&od, 0)?);
            let (reason, receipt) = put(connection, target, descriptor, options, data(buffer, length)?)?;
            if let Some(receipt) = receipt {
                object::resolved(&mut od.value, &receipt.resolved_queue, &receipt.resolved_manager);
                od.give_back();
            }
            Ok(reason)
        });
    }
}

/// # Safety
///
/// Descriptor and options are an MQMD and an MQPMO.
unsafe fn put(
    number: mq::MQHCONN,
    target: Target,
    md: mq::PMQVOID,
    pmo: *mut mq::MQPMO,
    body: Vec<u8>,
) -> Result<(i32, Option<Receipt>), Reason> {
    let connection = connection::find(number)?;
    // SAFETY: the caller says so.
    let (mut md, mut pmo) = unsafe { (Borrowed::read(md.cast::<mq::MQMD>())?, Borrowed::read(pmo)?) };
    let options = pmo.value.Options;
    let is_output = options & mq::MQPMO_MD_FOR_OUTPUT_ONLY != 0;
    let descriptor =
        if is_output { Descriptor::default() } else { descriptor::from_caller(&md.value, md.version) };
    let message = Message { descriptor, properties: properties(number, &pmo)?, body };
    let request = Request::Put(Box::new(Put { target, options, context: pmo.value.Context, message }));
    let result = connection.call(&request);
    if options & mq::MQPMO_ASYNC_RESPONSE != 0 {
        return asynchronous(&connection, result.map(|reply| (reply.completion, reply.reason)));
    }
    let reply = result?;
    let Answer::Put(receipt) = reply.answer else { return Ok((reply.reason, None)) };
    descriptor::to_caller(&receipt.descriptor, &mut md.value);
    pmo.value.ResolvedQName = field(&receipt.resolved_queue);
    pmo.value.ResolvedQMgrName = field(&receipt.resolved_manager);
    pmo.value.KnownDestCount = 1;
    (pmo.value.UnknownDestCount, pmo.value.InvalidDestCount) = (0, 0);
    // SAFETY: the caller says so.
    unsafe {
        md.give_back();
        pmo.give_back();
    }
    Ok((reply.reason, Some(*receipt)))
}

/// An asynchronous put ends well; MQSTAT tells what came of it.
fn asynchronous(
    connection: &Connection,
    result: Result<(i32, i32), Reason>,
) -> Result<(i32, Option<Receipt>), Reason> {
    match result {
        Err(Reason(mq::MQRC_CONNECTION_BROKEN)) => Err(Reason(mq::MQRC_CONNECTION_BROKEN)),
        Err(Reason(reason)) => {
            connection.count(mq::MQCC_FAILED, reason);
            Ok((mq::MQRC_NONE, None))
        }
        Ok((completion, reason)) => {
            connection.count(completion, reason);
            Ok((mq::MQRC_NONE, None))
        }
    }
}

/// The properties of the handle that the options name: the new one if there is one.
fn properties(connection: mq::MQHCONN, pmo: &Borrowed<mq::MQPMO>) -> Result<Vec<Property>, Reason> {
    let is_set = |handle: mq::MQHMSG| handle != mq::MQHM_NONE && handle != mq::MQHM_UNUSABLE_HMSG;
    let handles = [pmo.value.NewMsgHandle, pmo.value.OriginalMsgHandle];
    match handles.into_iter().find(|handle| is_set(*handle)) {
        Some(number) if pmo.version >= mq::MQPMO_VERSION_3 => {
            handle::with(connection, number, |handle| Ok(handle.properties.clone()))
        }
        _ => Ok(Vec::new()),
    }
}

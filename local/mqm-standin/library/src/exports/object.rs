//! MQOPEN, MQCLOSE, MQINQ.

use libmqm_sys as mq;
use mqm_standin::protocol::{Answer, Attribute, Open, Reason, Request};

use super::{data, fill, get_or, set, verbs};
use crate::connection;
use crate::structures::{Borrowed, chars, field, text};

/// Maximum number of selectors, which are attributes to inquire, in one MQINQ.
const MAX_SELECTORS: i32 = 256;

verbs! {
    /// Opens a queue or the queue manager.
    fn MQOPEN(
        connection: mq::MQHCONN,
        descriptor: *mut mq::MQOD,
        options: mq::MQLONG,
        object: *mut mq::MQHOBJ,
    ) {
        set(object, mq::MQHO_UNUSABLE_HOBJ);
        let connection = connection::find(connection)?;
        let mut od = Borrowed::read(descriptor)?;
        let (answer, warning) = connection.call(&Request::Open(open(&od, options)?))?;
        if let Answer::Opened { handle, name } = answer {
            set(object, handle);
            od.value.ObjectName = field(&name);
            od.give_back();
        }
        Ok(warning)
    }

    /// Closes a queue or the queue manager.
    fn MQCLOSE(connection: mq::MQHCONN, object: *mut mq::MQHOBJ, options: mq::MQLONG) {
        let handle = get_or(object, mq::MQHO_UNUSABLE_HOBJ);
        let (_, warning) = connection::find(connection)?.call(&Request::Close { handle, options })?;
        set(object, mq::MQHO_UNUSABLE_HOBJ);
        Ok(warning)
    }

    /// Inquires attributes of an open queue or queue manager.
    fn MQINQ(
        connection: mq::MQHCONN,
        object: mq::MQHOBJ,
        selector_count: mq::MQLONG,
        selector_array: mq::PMQLONG,
        number_count: mq::MQLONG,
        number_array: mq::PMQLONG,
        text_length: mq::MQLONG,
        text_array: mq::PMQCHAR,
    ) {
        let connection = connection::find(connection)?;
        let selectors = numbers(selector_count, selector_array)?;
        let number_room = usize::try_from(number_count).map_err(|_| Reason(mq::MQRC_INT_ATTR_COUNT_ERROR))? * 4;
        let text_room = usize::try_from(text_length).map_err(|_| Reason(mq::MQRC_CHAR_ATTR_LENGTH_ERROR))?;
        let (answer, warning) = connection.call(&Request::Inquire { handle: object, selectors })?;
        let Answer::Inquired(values) = answer else { return Ok(warning) };
        let (mut numbers, mut texts) = (Vec::new(), Vec::new());
        for value in values {
            match value {
                Attribute::Number(number) => numbers.extend(number.to_ne_bytes()),
                Attribute::Text(text) => texts.extend(text),
            }
        }
        fill(number_array.cast(), number_room, &numbers);
        fill(text_array.cast(), text_room, &texts);
        Ok(if numbers.len() > number_room {
            mq::MQRC_INT_ATTR_COUNT_TOO_SMALL
        } else if texts.len() > text_room {
            mq::MQRC_CHAR_ATTRS_TOO_SHORT
        } else {
            warning
        })
    }
}

/// Reads the object that an MQOD names, together with the options of MQOPEN.
///
/// # Safety
///
/// Pointers and offsets in `od` are unset, or refer to memory that can be read.
unsafe fn open(od: &Borrowed<mq::MQOD>, options: i32) -> Result<Open, Reason> {
    if od.value.RecsPresent > 0 {
        // Distribution lists are an option of queue managers, which this one has not.
        return Err(Reason(mq::MQRC_RECS_PRESENT_ERROR));
    }
    let selection = if od.version >= mq::MQOD_VERSION_4 {
        // SAFETY: the caller says so.
        unsafe { text(&od.value.SelectionString, od.start()) }
            .map_err(|_| Reason(mq::MQRC_SELECTION_STRING_ERROR))?
    } else {
        None
    };
    Ok(Open {
        object_type: od.value.ObjectType,
        name: chars(&od.value.ObjectName),
        queue_manager: chars(&od.value.ObjectQMgrName),
        dynamic_name: chars(&od.value.DynamicQName),
        selection,
        options,
    })
}

/// Reads an array of numbers, such as the selectors of an MQINQ, from the caller's memory.
///
/// # Safety
///
/// `from` is null or has `count` numbers.
unsafe fn numbers(count: mq::MQLONG, from: mq::PMQLONG) -> Result<Vec<i32>, Reason> {
    if count < 0 {
        return Err(Reason(mq::MQRC_SELECTOR_COUNT_ERROR));
    }
    if count > MAX_SELECTORS {
        return Err(Reason(mq::MQRC_SELECTOR_LIMIT_EXCEEDED));
    }
    // SAFETY: the caller says so.
    let bytes = unsafe { data(from.cast(), count * 4) }.map_err(|_| Reason(mq::MQRC_SELECTOR_ERROR))?;
    let (numbers, _) = bytes.as_chunks::<4>();
    Ok(numbers.iter().map(|number| i32::from_ne_bytes(*number)).collect())
}

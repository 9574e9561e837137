//! MQOPEN, MQCLOSE, MQINQ, MQSET.

use libmqm_sys as mq;
use mqm_standin::protocol::{Answer, Attribute, Chars, Open, Reason, Request};

use super::{answer, callback, data, fill, get_or, set};
use crate::connection;
use crate::structures::{Borrowed, bytes, field, text};

/// More selectors in a call are refused.
const MAX_SELECTORS: i32 = 256;

/// # Safety
///
/// As the MQI says: `descriptor` is an MQOD, the other pointers may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MQOPEN(
    connection: mq::MQHCONN,
    descriptor: *mut mq::MQOD,
    options: mq::MQLONG,
    object: *mut mq::MQHOBJ,
    completion: *mut mq::MQLONG,
    reason: *mut mq::MQLONG,
) {
    // SAFETY: the caller keeps to the MQI.
    unsafe {
        answer(completion, reason, || {
            set(object, mq::MQHO_UNUSABLE_HOBJ);
            let connection = connection::find(connection)?;
            let mut od = Borrowed::read(descriptor)?;
            let reply = connection.call(&Request::Open(open(&od, options)?))?;
            if let Answer::Opened(opened) = reply.answer {
                connection.consumption.opened(opened.handle, options);
                set(object, opened.handle);
                od.value.ObjectName = field(&opened.name);
                resolved(&mut od.value, &opened.resolved_queue, &opened.resolved_manager);
                od.give_back();
            }
            Ok(reply.reason)
        });
    }
}

pub(super) fn resolved(od: &mut mq::MQOD, queue: &Chars, manager: &Chars) {
    od.ResolvedQName = field(queue);
    od.ResolvedQMgrName = field(manager);
    od.ResolvedType = mq::MQOT_Q;
}

/// # Safety
///
/// What `od` refers to is there.
pub(super) unsafe fn open(od: &Borrowed<mq::MQOD>, options: i32) -> Result<Open, Reason> {
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
        name: Chars::from_field(&bytes(&od.value.ObjectName)),
        queue_manager: Chars::from_field(&bytes(&od.value.ObjectQMgrName)),
        dynamic_name: Chars::from_field(&bytes(&od.value.DynamicQName)),
        alternate_user: Chars::from_field(&bytes(&od.value.AlternateUserId)),
        selection,
        options,
    })
}

/// # Safety
///
/// As the MQI says: the pointers may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MQCLOSE(
    connection: mq::MQHCONN,
    object: *mut mq::MQHOBJ,
    options: mq::MQLONG,
    completion: *mut mq::MQLONG,
    reason: *mut mq::MQLONG,
) {
    // SAFETY: the caller keeps to the MQI.
    unsafe {
        answer(completion, reason, || {
            let handle = get_or(object, mq::MQHO_UNUSABLE_HOBJ);
            let number = connection;
            let connection = connection::find(number)?;
            let reply = connection.call(&Request::Close { handle, options })?;
            callback::closed(number, &connection, handle);
            set(object, mq::MQHO_UNUSABLE_HOBJ);
            Ok(reply.reason)
        });
    }
}

/// # Safety
///
/// `selectors` has `count` numbers.
unsafe fn selectors(count: mq::MQLONG, selectors: mq::PMQLONG) -> Result<Vec<i32>, Reason> {
    if count < 0 {
        return Err(Reason(mq::MQRC_SELECTOR_COUNT_ERROR));
    }
    if count > MAX_SELECTORS {
        return Err(Reason(mq::MQRC_SELECTOR_LIMIT_EXCEEDED));
    }
    // SAFETY: the caller says so.
    unsafe { numbers(count, selectors) }.ok_or(Reason(mq::MQRC_SELECTOR_ERROR))
}

/// # Safety
///
/// `from` is null or has `count` numbers.
unsafe fn numbers(count: mq::MQLONG, from: mq::PMQLONG) -> Option<Vec<i32>> {
    // SAFETY: the caller says so.
    let bytes = unsafe { data(from.cast(), count.checked_mul(4)?) }.ok()?;
    let (numbers, _) = bytes.as_chunks::<4>();
    Some(numbers.iter().map(|number| i32::from_ne_bytes(*number)).collect())
}

fn is_number(selector: i32) -> bool {
    (mq::MQIA_FIRST..=mq::MQIA_LAST).contains(&selector)
}

fn is_text(selector: i32) -> bool {
    (mq::MQCA_FIRST..=mq::MQCA_LAST).contains(&selector)
}

/// # Safety
///
/// As the MQI says: the arrays have as many members as their counts say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MQINQ(
    connection: mq::MQHCONN,
    object: mq::MQHOBJ,
    selector_count: mq::MQLONG,
    selector_array: mq::PMQLONG,
    number_count: mq::MQLONG,
    number_array: mq::PMQLONG,
    text_length: mq::MQLONG,
    text_array: mq::PMQCHAR,
    completion: *mut mq::MQLONG,
    reason: *mut mq::MQLONG,
) {
    // SAFETY: the caller keeps to the MQI.
    unsafe {
        answer(completion, reason, || {
            let connection = connection::find(connection)?;
            let selectors = selectors(selector_count, selector_array)?;
            let room = (usize::try_from(number_count), usize::try_from(text_length));
            let numbers_fit = room.0.map_err(|_| Reason(mq::MQRC_INT_ATTR_COUNT_ERROR))?;
            let texts_fit = room.1.map_err(|_| Reason(mq::MQRC_CHAR_ATTR_LENGTH_ERROR))?;
            let request = Request::Inquire { handle: object, selectors: selectors.clone() };
            let reply = connection.call(&request)?;
            let Answer::Inquired(values) = reply.answer else { return Ok(reply.reason) };
            let (numbers, texts) = arrange(&selectors, values);
            fill(number_array.cast(), numbers_fit * 4, &numbers);
            fill(text_array.cast(), texts_fit, &texts);
            Ok(if numbers.len() > numbers_fit * 4 {
                mq::MQRC_INT_ATTR_COUNT_TOO_SMALL
            } else if texts.len() > texts_fit {
                mq::MQRC_CHAR_ATTRS_TOO_SHORT
            } else {
                reply.reason
            })
        });
    }
}

/// The bytes of the two arrays. What the object's type lacks is MQIAV_NOT_APPLICABLE, or asterisks.
fn arrange(selectors: &[i32], values: Vec<Option<Attribute>>) -> (Vec<u8>, Vec<u8>) {
    let (mut numbers, mut texts) = (Vec::new(), Vec::new());
    for (selector, value) in selectors.iter().zip(values) {
        match value {
            Some(Attribute::Number(number)) => numbers.extend(number.to_ne_bytes()),
            Some(Attribute::Text(text)) => texts.extend(text),
            None if is_number(*selector) => numbers.extend(mq::MQIAV_NOT_APPLICABLE.to_ne_bytes()),
            None => texts.extend([b'*'; mq::MQ_Q_NAME_LENGTH]),
        }
    }
    (numbers, texts)
}

/// # Safety
///
/// As for [`MQINQ`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MQSET(
    connection: mq::MQHCONN,
    object: mq::MQHOBJ,
    selector_count: mq::MQLONG,
    selector_array: mq::PMQLONG,
    number_count: mq::MQLONG,
    number_array: mq::PMQLONG,
    text_length: mq::MQLONG,
    text_array: mq::PMQCHAR,
    completion: *mut mq::MQLONG,
    reason: *mut mq::MQLONG,
) {
    // SAFETY: the caller keeps to the MQI.
    unsafe {
        answer(completion, reason, || {
            let connection = connection::find(connection)?;
            let selectors = selectors(selector_count, selector_array)?;
            let few = Reason(mq::MQRC_INT_ATTR_COUNT_ERROR);
            let mut numbers = numbers(number_count, number_array).ok_or(few)?.into_iter();
            let texts = data(text_array.cast(), text_length)?;
            let mut attributes = Vec::new();
            for selector in selectors {
                let value = if is_number(selector) {
                    Attribute::Number(numbers.next().ok_or(few)?)
                } else if is_text(selector) {
                    // The trigger data is the only text that can be set.
                    Attribute::Text(texts.clone())
                } else {
                    return Err(Reason(mq::MQRC_SELECTOR_ERROR));
                };
                attributes.push((selector, value));
            }
            Ok(connection.call(&Request::Set { handle: object, attributes })?.reason)
        });
    }
}

#[cfg(test)]
mod tests {
    use libmqm_sys as mq;
    use mqm_standin::protocol::Attribute;

    use super::arrange;

    #[test]
    fn an_attribute_that_the_type_lacks_takes_its_place_all_the_same() {
        let selectors = [mq::MQIA_CURRENT_Q_DEPTH, mq::MQIA_Q_TYPE];
        let (numbers, texts) = arrange(&selectors, vec![None, Some(Attribute::Number(3))]);
        assert_eq!(numbers, [mq::MQIAV_NOT_APPLICABLE.to_ne_bytes(), 3_i32.to_ne_bytes()].concat());
        assert!(texts.is_empty());
    }
}

//! Message handles, which hold properties for a message to put or of a message that was got.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libmqm_sys as mq;
use mqm_standin::protocol::{Property, Reason};

#[derive(Debug, Default)]
pub(crate) struct MessageHandle {
    pub(crate) properties: Vec<Property>,
    /// Index of the property that the last inquiry returned; `None` before the first one.
    pub(crate) cursor: Option<usize>,
}

struct Handles {
    last: i64,
    by_number: BTreeMap<i64, (i32, MessageHandle)>,
}

static HANDLES: Mutex<Handles> = Mutex::new(Handles { last: 0, by_number: BTreeMap::new() });

fn handles() -> MutexGuard<'static, Handles> {
    HANDLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true if the field of a caller's structure holds a message handle.
pub(crate) fn is_set(handle: i64) -> bool {
    handle != mq::MQHM_NONE && handle != mq::MQHM_UNUSABLE_HMSG
}

/// Creates a message handle for a connection.
pub(crate) fn create(connection: i32) -> Result<i64, Reason> {
    crate::connection::find(connection)?;
    let mut handles = handles();
    handles.last += 1;
    let number = handles.last;
    handles.by_number.insert(number, (connection, MessageHandle::default()));
    Ok(number)
}

pub(crate) fn delete(connection: i32, number: i64) -> Result<(), Reason> {
    with(connection, number, |_| Ok(()))?;
    handles().by_number.remove(&number);
    Ok(())
}

/// Deletes the handles of a connection that ends.
pub(crate) fn delete_all(connection: i32) {
    handles().by_number.retain(|_, (owner, _)| *owner != connection);
}

/// Calls a function with a message handle of a connection.
pub(crate) fn with<T>(
    connection: i32,
    number: i64,
    work: impl FnOnce(&mut MessageHandle) -> Result<T, Reason>,
) -> Result<T, Reason> {
    let mut handles = handles();
    let found = handles.by_number.get_mut(&number).filter(|(owner, _)| *owner == connection);
    let (_, handle) = found.ok_or(Reason(mq::MQRC_HMSG_ERROR))?;
    work(handle)
}

impl MessageHandle {
    /// Sets a property, in place of one with the same name.
    pub(crate) fn set(&mut self, property: Property) {
        match self.properties.iter_mut().find(|there| there.name == property.name) {
            Some(there) => *there = property,
            None => self.properties.push(property),
        }
    }

    /// Returns the property with this name, or with any name if it is `%`, and moves the cursor to
    /// it. `options` says where the search begins, as for MQINQMP.
    pub(crate) fn look(&mut self, name: &str, options: i32) -> Result<Property, Reason> {
        let is_under_cursor = options & mq::MQIMPO_INQ_PROP_UNDER_CURSOR != 0;
        let from = match self.cursor {
            Some(at) if is_under_cursor => at,
            Some(at) if options & mq::MQIMPO_INQ_NEXT != 0 => at + 1,
            _ => 0,
        };
        let mut fitting = self.properties.iter().enumerate().skip(from);
        let found = fitting.find(|(_, property)| is_under_cursor || name == "%" || name == property.name);
        let (at, property) = found.ok_or(Reason(mq::MQRC_PROPERTY_NOT_AVAILABLE))?;
        self.cursor = Some(at);
        Ok(property.clone())
    }
}

/// Checks a property's name by the rules of IBM MQ, and returns it without trailing blanks.
pub(crate) fn name(text: &str) -> Result<String, Reason> {
    let name = text.trim_end();
    let is_start = |letter: char| letter.is_alphabetic() || matches!(letter, '_' | '$');
    let is_part = |letter: char| is_start(letter) || letter.is_numeric() || letter == '%';
    let is_word = |word: &str| word.starts_with(is_start) && word.chars().all(is_part);
    let keywords = ["NOT", "AND", "OR", "BETWEEN", "LIKE", "IN", "IS", "NULL", "TRUE", "FALSE", "ESCAPE"];
    let reserved = ["mq", "sib", "wmq", "Root", "Body", "Properties"];
    let folder = name.split_once('.').map(|(folder, _)| folder);
    if name.len() > mq::MQ_MAX_PROPERTY_NAME_LENGTH {
        Err(Reason(mq::MQRC_PROPERTY_NAME_LENGTH_ERR))
    } else if !name.split('.').all(is_word)
        || keywords.iter().any(|keyword| name.eq_ignore_ascii_case(keyword))
        || folder.is_some_and(|folder| reserved.contains(&folder))
        || name.starts_with("JMS")
    {
        Err(Reason(mq::MQRC_PROPERTY_NAME_ERROR))
    } else {
        Ok(name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn a_name_is_one_that_a_selector_could_use() {
        assert_eq!(name("colour").unwrap(), "colour");
        for text in ["", "1st", "a b", "a-b", "mq.x", "JMSType", "not", "a..b", "x."] {
            assert!(name(text).is_err(), "{text}");
        }
    }
}

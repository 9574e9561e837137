//! Message handles: properties that belong to no message yet, or came with one.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libmqm_sys as mq;
use mqm_standin::protocol::{Property, Reason};

#[derive(Debug, Default)]
pub(crate) struct MessageHandle {
    pub(crate) properties: Vec<Property>,
    /// Where the inquiry before ended.
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

/// Makes a handle of a connection, or of none.
pub(crate) fn create(connection: i32) -> Result<i64, Reason> {
    if connection != mq::MQHC_UNASSOCIATED_HCONN {
        crate::connection::find(connection)?;
    }
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

/// Works with a handle. One that belongs to no connection may be used with any.
pub(crate) fn with<T>(
    connection: i32,
    number: i64,
    work: impl FnOnce(&mut MessageHandle) -> Result<T, Reason>,
) -> Result<T, Reason> {
    let mut handles = handles();
    let (owner, handle) = handles.by_number.get_mut(&number).ok_or(Reason(mq::MQRC_HMSG_ERROR))?;
    if *owner != connection && *owner != mq::MQHC_UNASSOCIATED_HCONN {
        return Err(Reason(mq::MQRC_HMSG_ERROR));
    }
    work(handle)
}

impl MessageHandle {
    /// The index of the property of this name.
    fn find(&self, name: &str) -> Option<usize> {
        self.properties.iter().position(|property| property.name == name)
    }

    pub(crate) fn set(&mut self, property: Property, options: i32) -> Result<(), Reason> {
        let not_available = Reason(mq::MQRC_PROPERTY_NOT_AVAILABLE);
        let under_cursor = || self.cursor.filter(|at| *at < self.properties.len()).ok_or(not_available);
        match options {
            mq::MQSMPO_SET_FIRST => {
                match self.find(&property.name).and_then(|at| self.properties.get_mut(at)) {
                    Some(there) => *there = property,
                    None => self.properties.push(property),
                }
            }
            mq::MQSMPO_SET_PROP_UNDER_CURSOR => {
                let at = under_cursor()?;
                let there = self.properties.get_mut(at).filter(|there| there.name == property.name);
                *there.ok_or(not_available)? = property;
            }
            mq::MQSMPO_SET_PROP_AFTER_CURSOR => {
                let at = under_cursor()? + 1;
                self.properties.insert(at, property);
            }
            mq::MQSMPO_SET_PROP_BEFORE_CURSOR => {
                let at = under_cursor()?;
                self.properties.insert(at, property);
                self.cursor = Some(at + 1);
            }
            mq::MQSMPO_APPEND_PROPERTY => self.properties.push(property),
            _ => return Err(Reason(mq::MQRC_OPTIONS_ERROR)),
        }
        Ok(())
    }

    pub(crate) fn delete(&mut self, name: &str, options: i32) -> Result<(), Reason> {
        let at = match options {
            mq::MQDMPO_DEL_FIRST => self.find(name),
            mq::MQDMPO_DEL_PROP_UNDER_CURSOR => self.cursor.filter(|at| *at < self.properties.len()),
            _ => return Err(Reason(mq::MQRC_OPTIONS_ERROR)),
        };
        let at = at.ok_or(Reason(mq::MQRC_PROPERTY_NOT_AVAILABLE))?;
        self.properties.remove(at);
        // What the cursor was on is gone; the next inquiry goes on behind it.
        self.cursor = match self.cursor {
            Some(cursor) if cursor >= at => cursor.checked_sub(1),
            cursor => cursor,
        };
        Ok(())
    }

    /// The property that an inquiry is about, which the cursor is put on.
    pub(crate) fn look(&mut self, name: &str, options: i32) -> Result<Property, Reason> {
        let from = if options & mq::MQIMPO_INQ_PROP_UNDER_CURSOR != 0 {
            let under = self.cursor.and_then(|at| self.properties.get(at));
            return under.cloned().ok_or(Reason(mq::MQRC_PROPERTY_NOT_AVAILABLE));
        } else if options & mq::MQIMPO_INQ_NEXT != 0 {
            self.cursor.map_or(0, |at| at + 1)
        } else {
            0
        };
        let mut fitting = self.properties.iter().enumerate().skip(from);
        let found = fitting.find(|(_, property)| fits(name, &property.name));
        let (at, property) = found.ok_or(Reason(mq::MQRC_PROPERTY_NOT_AVAILABLE))?;
        self.cursor = Some(at);
        Ok(property.clone())
    }
}

/// Whether a property has this name, or one of the names that a `%` at its end stands for.
pub(crate) fn fits(wanted: &str, name: &str) -> bool {
    let in_folder = |folder: &str| match folder {
        "" | "usr" => !name.contains('.'),
        _ => name.strip_prefix(folder).is_some_and(|rest| rest.starts_with('.')),
    };
    match wanted.strip_suffix('%') {
        Some("") => true,
        Some(folder) => folder.strip_suffix('.').is_some_and(in_folder),
        None => wanted == name,
    }
}

/// A name as it is stored, if MQ accepts it: without the folder `usr`.
pub(crate) fn name(text: &str) -> Result<String, Reason> {
    let text = text.trim_end();
    let name = text.strip_prefix("usr.").unwrap_or(text);
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
    use libmqm_sys as mq;
    use mqm_standin::protocol::{Property, Value};

    use super::{MessageHandle, fits, name};

    fn handle() -> MessageHandle {
        let mut handle = MessageHandle::default();
        for (name, number) in [("one", 1), ("shop.two", 2), ("three", 3)] {
            handle.set(Property::new(name, Value::Int32(number)), mq::MQSMPO_SET_FIRST).unwrap();
        }
        handle
    }

    #[test]
    fn an_inquiry_goes_through_all_properties_in_their_order() {
        let mut handle = handle();
        let mut next = || handle.look("%", mq::MQIMPO_INQ_NEXT).map(|property| property.name);
        assert_eq!([next().unwrap(), next().unwrap(), next().unwrap()], ["one", "shop.two", "three"]);
        assert!(next().is_err());
    }

    #[test]
    fn deleting_under_the_cursor_does_not_skip_a_property() {
        let mut handle = handle();
        handle.look("%", mq::MQIMPO_INQ_FIRST).unwrap();
        handle.delete("%", mq::MQDMPO_DEL_PROP_UNDER_CURSOR).unwrap();
        assert_eq!(handle.look("%", mq::MQIMPO_INQ_NEXT).unwrap().name, "shop.two");
    }

    #[test]
    fn a_wildcard_stands_for_all_properties_of_a_folder() {
        assert!(fits("shop.%", "shop.two") && !fits("shop.%", "shopping.x") && !fits("shop.%", "one"));
        assert!(fits("usr.%", "one") && !fits("usr.%", "shop.two"));
    }

    #[test]
    fn a_name_is_one_that_a_selector_could_use() {
        assert_eq!(name("usr.colour").unwrap(), "colour");
        for text in ["", "1st", "a b", "a-b", "mq.x", "JMSType", "not", "a..b", "x."] {
            assert!(name(text).is_err(), "{text}");
        }
    }
}

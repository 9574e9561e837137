//! Reply queues to which a queue manager of IBM MQ sends reports about a message. A report is a
//! message too, and can contain the whole body of the message that it is about. So a caller that
//! requests reports puts messages on the reply queue.

use crate::properties::{OwnProps, Properties};
use crate::property_values::{PropertyText, ReplyQueueManager};

/// MQRO report options that request no report message: MQRO_PASS_MSG_ID, MQRO_PASS_CORREL_ID,
/// MQRO_DISCARD_MSG and MQRO_PASS_DISCARD_AND_EXPIRY. These only set the ids of other reports, and
/// the treatment of a message that cannot be delivered.
const WITHOUT_A_MESSAGE: i32 = 128 | 64 | 0x0800_0000 | 16_384;

/// Reply queue to which IBM MQ sends the reports that a message requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReportPlace {
    /// Name of the reply queue, as the message gives it.
    pub queue: PropertyText,
    /// Queue manager of the reply queue; `None` for the queue manager to which the message is put.
    pub queue_manager: Option<ReplyQueueManager>,
}

impl ReportPlace {
    /// Returns the reply queue for reports about a message. `all` are the properties of every
    /// message, and `own` those that the message sets itself. `None` if the message requests no
    /// report or names no reply queue; a queue manager refuses reports without one.
    #[must_use]
    pub fn of(all: &Properties, own: Option<&OwnProps>) -> Option<Self> {
        let own = own.map(|own| &own.properties);
        let report = own.and_then(|own| own.report).or(all.report)?;
        if report.get() & !WITHOUT_A_MESSAGE == 0 {
            return None;
        }
        let queue = own.and_then(|own| own.reply_to.as_ref()).or(all.reply_to.as_ref())?;
        let manager = own.and_then(|own| own.reply_to_queue_manager.as_ref());
        let manager = manager.or(all.reply_to_queue_manager.as_ref());
        (!queue.is_empty()).then(|| Self {
            queue: queue.clone(),
            queue_manager: manager.filter(|manager| !manager.is_empty()).cloned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Parses properties from the short names of their members: report `o`, reply queue `r`, its
    /// queue manager `rm`.
    fn properties(members: Value) -> Properties {
        serde_json::from_value(members).unwrap()
    }

    fn place(all: Value, own: Value) -> Option<(String, Option<String>)> {
        let own = OwnProps { properties: properties(own), ..OwnProps::default() };
        let place = ReportPlace::of(&properties(all), Some(&own))?;
        Some((place.queue.into(), place.queue_manager.map(String::from)))
    }

    #[test]
    fn a_message_with_an_option_that_makes_reports_sends_them_to_its_reply_queue() {
        // Arrival, delivery, exception, expiry, both of an application, activity; some with data.
        for option in [256, 1792, 2048, 14_336, 16_777_216, 117_440_512, 2_097_152, 1, 2, 4, 256 | 64, -1] {
            let all = json!({"o": option, "r": "REPLIES"});
            assert_eq!(place(all, json!({})), Some(("REPLIES".to_owned(), None)), "{option}");
        }
        for silent in [0, 64, 128, 134_217_728, 16_384, 64 | 128] {
            assert_eq!(place(json!({"o": silent, "r": "REPLIES"}), json!({})), None, "{silent}");
        }
        for nowhere in [json!({"o": 256}), json!({"o": 256, "r": ""}), json!({"r": "REPLIES"})] {
            assert_eq!(place(nowhere.clone(), json!({})), None, "{nowhere}");
        }
    }

    #[test]
    fn a_message_s_own_properties_take_precedence() {
        let all = json!({"o": 256, "r": "REPLIES", "rm": "QM1"});
        assert_eq!(place(all.clone(), json!({"o": 0})), None);
        let others = Some(("OTHERS".to_owned(), Some("QM2".to_owned())));
        assert_eq!(place(all.clone(), json!({"r": "OTHERS", "rm": "QM2"})), others);
        assert_eq!(place(json!({"r": "OTHERS", "rm": "QM2"}), json!({"o": 2048})), others);
        assert_eq!(place(all, json!({"rm": ""})), Some(("REPLIES".to_owned(), None)));
    }
}

//! RabbitMQ's form of each property, in messages to be put and in those that were got.
//! `docs/messages.md` has the mapping.

use std::collections::BTreeMap;

use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use mq::{
    Base64Bytes, Carrier, Carriers, Group, GroupId, GroupSequence, HeaderValue, Member, MessageType,
    PropertyText, Time,
};

use crate::header_value::short;

/// Properties of an outgoing message: AMQP's own, and headers for properties that AMQP lacks.
pub(crate) struct PutProperties {
    pub(crate) amqp: BasicProperties,
    pub(crate) headers: FieldTable,
}

/// Properties of a received message: AMQP's own, and its headers.
pub(crate) struct GotProperties {
    pub(crate) amqp: BasicProperties,
    pub(crate) headers: BTreeMap<String, HeaderValue>,
}

// Headers for properties that AMQP 0-9-1 does not have. They have the names and types under which
// JMS knows them, as IBM MQ's and RabbitMQ's own JMS clients use them. `docs/messages.md` has the
// rule, also for a property that JMS does not know.
const GROUP_ID: &str = "JMSXGroupID";
const GROUP_SEQUENCE: &str = "JMSXGroupSeq";
const LAST_IN_GROUP: &str = "JMS_IBM_Last_Msg_In_Group";
const MESSAGE_TYPE: &str = "JMS_IBM_MsgType";

/// Name of RabbitMQ's pseudo-queue for direct replies. RabbitMQ accepts it only from a channel that
/// consumes from it.
const DIRECT_REPLY_TO: &str = "amq.rabbitmq.reply-to";

/// Builds the `Carrier` of a property that only IBM MQ has: writing fails, and reading finds
/// nothing.
macro_rules! none {
    ($member:ident) => {
        Carrier {
            write: |_, _| Err(format!("RabbitMQ has no property `{}`", Member::$member.name())),
            read: |_| None,
        }
    };
}

/// Functions that write each property of the gateway to AMQP's properties and headers, and read it
/// from them. A received header that the gateway would not write in this form stays a plain header.
pub(crate) static CARRIERS: Carriers<PutProperties, GotProperties> = Carriers {
    reply_to: Carrier {
        write: |queue, put| match queue.as_str() {
            DIRECT_REPLY_TO => {
                Err(format!("replies to {DIRECT_REPLY_TO} would reach no consumer of the gateway's"))
            }
            queue => put.text(queue, BasicProperties::with_reply_to),
        },
        read: |got| text(got.amqp.reply_to()),
    },
    reply_to_queue_manager: none!(ReplyToQueueManager),
    message_type: Carrier {
        write: |message_type, put| put.header(MESSAGE_TYPE, AMQPValue::LongInt(message_type.as_number())),
        read: |got| match got.headers.get(MESSAGE_TYPE)? {
            HeaderValue::Int32(number) => MessageType::from_number(*number),
            _ => None,
        },
    },
    content_type: Carrier {
        write: |text, put| put.text(text, BasicProperties::with_content_type),
        read: |got| text(got.amqp.content_type()),
    },
    content_encoding: Carrier {
        write: |text, put| put.text(text, BasicProperties::with_content_encoding),
        read: |got| text(got.amqp.content_encoding()),
    },
    kind: Carrier {
        write: |text, put| put.text(text, BasicProperties::with_type),
        read: |got| text(got.amqp.kind()),
    },
    app_id: Carrier {
        write: |text, put| put.text(text, BasicProperties::with_app_id),
        read: |got| text(got.amqp.app_id()),
    },
    group: Carrier { write: write_group, read: |got| read_group(&got.headers) },
    timestamp: Carrier {
        write: |at, put| {
            put.amqp = std::mem::take(&mut put.amqp).with_timestamp(at.as_seconds());
            Ok(())
        },
        read: |got| got.amqp.timestamp().map(Time::from_seconds),
    },
    report: none!(Report),
    feedback: none!(Feedback),
};

impl PutProperties {
    fn text(
        &mut self,
        text: &str,
        with: fn(BasicProperties, ShortString) -> BasicProperties,
    ) -> Result<(), String> {
        self.amqp = with(std::mem::take(&mut self.amqp), short(text)?);
        Ok(())
    }

    fn header(&mut self, name: &str, value: AMQPValue) -> Result<(), String> {
        self.headers.insert(name.into(), value);
        Ok(())
    }
}

fn text(text: &Option<ShortString>) -> Option<PropertyText> {
    PropertyText::try_from(text.as_ref()?.to_string()).ok()
}

fn write_group(group: &Group, put: &mut PutProperties) -> Result<(), String> {
    let id = match &group.id {
        GroupId::Text(text) => AMQPValue::LongString(text.as_str().into()),
        GroupId::Bytes(bytes) => AMQPValue::ByteArray(bytes.0.as_slice().into()),
    };
    put.header(GROUP_ID, id)?;
    if let Some(sequence) = group.sequence.and_then(|sequence| i32::try_from(sequence.get()).ok()) {
        put.header(GROUP_SEQUENCE, AMQPValue::LongInt(sequence))?;
    }
    if group.last {
        put.header(LAST_IN_GROUP, AMQPValue::Boolean(true))?;
    }
    Ok(())
}

fn read_group(headers: &BTreeMap<String, HeaderValue>) -> Option<Group> {
    let id = match headers.get(GROUP_ID)? {
        HeaderValue::Text(text) => GroupId::Text(PropertyText::try_from(text.clone()).ok()?),
        HeaderValue::Bytes(bytes) if bytes.len() <= PropertyText::MAX_BYTES => {
            GroupId::Bytes(Base64Bytes(bytes.clone()))
        }
        _ => return None,
    };
    let sequence = match headers.get(GROUP_SEQUENCE) {
        Some(HeaderValue::Int32(sequence)) => GroupSequence::try_from(i64::from(*sequence)).ok(),
        _ => None,
    };
    let last = headers.get(LAST_IN_GROUP) == Some(&HeaderValue::Boolean(true));
    Some(Group { id, sequence, last })
}

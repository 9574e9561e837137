//! Converts messages between the gateway's form and AMQP's. `docs/messages.md` has the mapping.

use std::collections::BTreeMap;

use jiff::Timestamp;
use lapin::BasicProperties;
use lapin::message::Delivery;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use mq::{
    Base64Bytes, CorrelId, Group, GroupId, GroupSequence, HeaderValue, MessageBody, MessageId, MessageType,
    Outgoing, OutgoingMessage, Persistence, Properties, PropertyText, ReceivedMessage, Time, Unreadable,
};

use crate::content_header;
use crate::deaths::deaths;
use crate::header_value::{from_amqp, short, to_amqp};
use crate::misfit::Misfit;

const TRANSIENT: u8 = 1;
const PERSISTENT: u8 = 2;

/// Header with the count that a quorum queue compares with its delivery limit: the number of
/// returns, and from RabbitMQ 4.3 on the number of failures.
const DELIVERY_COUNT: &str = "x-delivery-count";
/// Header with the number of times a quorum queue's message was returned, from RabbitMQ 4.3 on.
const ACQUIRED_COUNT: &str = "x-acquired-count";

/// Headers for properties that AMQP 0-9-1 does not have. They have the names and types under which
/// JMS knows them, as IBM MQ's and RabbitMQ's own JMS clients use them.
const GROUP_ID: &str = "JMSXGroupID";
const GROUP_SEQUENCE: &str = "JMSXGroupSeq";
const LAST_IN_GROUP: &str = "JMS_IBM_Last_Msg_In_Group";
const MESSAGE_TYPE: &str = "JMS_IBM_MsgType";

/// Headers by which RabbitMQ routes a message to further queues, for which no permission was
/// checked.
const ROUTING_HEADERS: [&str; 2] = ["CC", "BCC"];

/// RabbitMQ's pseudo-queue for direct replies, which exists as long as its consumer's channel.
/// RabbitMQ refuses it from a channel without such a consumer.
const DIRECT_REPLY_TO: &str = "amq.rabbitmq.reply-to";

/// Test of whether a message has a property.
type IsSet = fn(&Properties) -> bool;

/// Request members for properties that only IBM MQ has.
const OF_IBM_MQ: [(&str, IsSet); 3] = [
    ("replyToQueueManager", |properties| properties.reply_to_queue_manager.is_some()),
    ("report", |properties| properties.report.is_some()),
    ("feedback", |properties| properties.feedback.is_some()),
];

/// Converts a correlation id to AMQP.
///
/// # Errors
/// If it is not UTF-8, or longer than a short string (255 bytes).
pub(crate) fn correlation_id(id: MessageId, correl_id: &CorrelId) -> Result<Option<ShortString>, String> {
    let text = match correl_id {
        CorrelId::None => return Ok(None),
        CorrelId::EchoMsgId => id.to_hex(),
        CorrelId::Bytes(bytes) => String::from_utf8(bytes.clone())
            .map_err(|_| "RabbitMQ carries correlation ids that are UTF-8 only".to_owned())?,
    };
    ShortString::try_new(text)
        .map(Some)
        .map_err(|_| "RabbitMQ carries correlation ids of at most 255 bytes".to_owned())
}

/// Returns an error if the message at `index` has a member that RabbitMQ cannot carry.
pub(crate) fn check(outgoing: &Outgoing, index: u64) -> Result<(), Misfit> {
    let at = (outgoing, index);
    correlation_id(outgoing.message_id(index), &outgoing.correl_id(index))
        .map_err(|detail| Misfit::correl_id(at, detail))?;
    let props = outgoing.props_of(index);
    for (name, is_set) in OF_IBM_MQ {
        if is_set(&props.properties) {
            let detail = format!("RabbitMQ has no property `{name}`");
            return Err(Misfit::property(at, name, |own| is_set(&own.properties), detail));
        }
    }
    if props.properties.reply_to.as_deref() == Some(DIRECT_REPLY_TO) {
        let detail = format!("replies to {DIRECT_REPLY_TO} would reach no consumer of the gateway's");
        return Err(Misfit::property(at, "replyTo", |own| own.properties.reply_to.is_some(), detail));
    }
    if let Some(name) = ROUTING_HEADERS.into_iter().find(|name| outgoing.has_header(index, name)) {
        let detail = format!("the header `{name}` would send the message to further queues on RabbitMQ");
        return Err(Misfit::header(at, name, detail));
    }
    if let Some(name) = outgoing
        .headers(index)
        .iter()
        .map(|(name, _)| name)
        .find(|name| content_header::is_reserved(name.as_bytes()))
    {
        let detail = "names that begin with NUL and `integrahub:` are the gateway's own on RabbitMQ";
        return Err(Misfit::header(at, name, detail));
    }
    Ok(())
}

/// AMQP properties of an outgoing message.
pub(crate) fn properties(outgoing: &Outgoing, message: &OutgoingMessage) -> Result<BasicProperties, Misfit> {
    let at = (outgoing, message.sequence);
    let text = |text: &str, member, is_set: IsSet| {
        short(text).map_err(|detail| Misfit::property(at, member, |own| is_set(&own.properties), detail))
    };
    let props = outgoing.props_of(message.sequence);
    let own = &*props.properties;
    let content_type = own.content_type.as_deref().unwrap_or(message.content_type);
    let mut properties = BasicProperties::default()
        .with_message_id(message.id.to_hex().into())
        .with_content_type(text(content_type, "contentType", |own| own.content_type.is_some())?)
        .with_delivery_mode(match props.persistence {
            Persistence::Persistent => PERSISTENT,
            Persistence::Nonpersistent => TRANSIENT,
        })
        .with_headers(headers(outgoing, message.sequence, own)?);
    if props.priority.get() > 0 {
        properties = properties.with_priority(props.priority.get());
    }
    if let Some(expiry) = props.expiry_ms.filter(|expiry| expiry.get() > 0) {
        properties = properties.with_expiration(expiry.get().to_string().into());
    }
    let created_at = || u64::try_from(outgoing.created_at().as_second()).ok();
    if let Some(seconds) = own.timestamp.map(Time::as_seconds).or_else(created_at) {
        properties = properties.with_timestamp(seconds);
    }
    let correl_id = correlation_id(message.id, &message.correl_id);
    if let Some(id) = correl_id.map_err(|detail| Misfit::correl_id(at, detail))? {
        properties = properties.with_correlation_id(id);
    }
    if let Some(queue) = &own.reply_to {
        properties = properties.with_reply_to(text(queue, "replyTo", |own| own.reply_to.is_some())?);
    }
    if let Some(encoding) = &own.content_encoding {
        let encoding = text(encoding, "contentEncoding", |own| own.content_encoding.is_some())?;
        properties = properties.with_content_encoding(encoding);
    }
    if let Some(kind) = &own.kind {
        properties = properties.with_type(text(kind, "type", |own| own.kind.is_some())?);
    }
    if let Some(app_id) = &own.app_id {
        properties = properties.with_app_id(text(app_id, "appId", |own| own.app_id.is_some())?);
    }
    Ok(properties)
}

/// Headers of an outgoing message: the caller's, then those for properties that AMQP does not have,
/// then the gateway's own.
fn headers(outgoing: &Outgoing, sequence: u64, own: &Properties) -> Result<FieldTable, Misfit> {
    let mut headers = FieldTable::default();
    for (name, value) in outgoing.headers(sequence).iter() {
        let refused = |detail| Misfit::header((outgoing, sequence), name, detail);
        headers.insert(short(name).map_err(refused)?, to_amqp(value).map_err(refused)?);
    }
    if let Some(message_type) = own.message_type {
        headers.insert(MESSAGE_TYPE.into(), AMQPValue::LongInt(message_type.as_number()));
    }
    if let Some(group) = &own.group {
        let id = match &group.id {
            GroupId::Text(text) => AMQPValue::LongString(text.as_str().into()),
            GroupId::Bytes(bytes) => AMQPValue::ByteArray(bytes.0.as_slice().into()),
        };
        headers.insert(GROUP_ID.into(), id);
        if let Some(sequence) = group.sequence.and_then(|sequence| i32::try_from(sequence.get()).ok()) {
            headers.insert(GROUP_SEQUENCE.into(), AMQPValue::LongInt(sequence));
        }
        if group.last {
            headers.insert(LAST_IN_GROUP.into(), AMQPValue::Boolean(true));
        }
    }
    headers.insert("idempotencyKey".into(), AMQPValue::LongString(outgoing.idempotency_key().into()));
    let sequence = i64::try_from(sequence).unwrap_or(i64::MAX);
    headers.insert("sequence".into(), AMQPValue::LongLongInt(sequence));
    Ok(headers)
}

/// Converts a delivery from any publisher to the gateway's form.
pub(crate) fn received(delivery: Delivery) -> ReceivedMessage {
    let counted = times_back(&delivery);
    let own = &delivery.properties;
    let (headers, mut unreadable) = own.headers().as_ref().map(shown).unwrap_or_default();
    let mut id = |text: &Option<ShortString>, name| match text {
        Some(text) => Some(text.as_str().as_bytes().to_vec()),
        None => unreadable.remove(name),
    };
    let msg_id = id(own.message_id(), content_header::MESSAGE_ID);
    let correl_id = id(own.correlation_id(), content_header::CORRELATION_ID);
    let unread_type = unreadable.get(content_header::CONTENT_TYPE);
    let format = own.content_type().as_ref().map(ShortString::to_string);
    ReceivedMessage {
        msg_id,
        correl_id,
        persistence: match own.delivery_mode() {
            Some(PERSISTENT) => Persistence::Persistent,
            _ => Persistence::Nonpersistent,
        },
        priority: own.priority().unwrap_or_default(),
        expiry_ms: own.expiration().as_ref().and_then(|text| text.as_str().parse().ok()),
        backout_count: counted.unwrap_or(u64::from(delivery.redelivered)),
        put_at: own.timestamp().and_then(timestamp),
        format: format.or_else(|| unread_type.map(|bytes| String::from_utf8_lossy(bytes).into_owned())),
        exchange: (!unreadable.contains_key(content_header::EXCHANGE)).then(|| delivery.exchange.to_string()),
        routing_key: (!unreadable.contains_key(content_header::ROUTING_KEY))
            .then(|| delivery.routing_key.to_string()),
        redelivered: delivery.redelivered,
        delivery_count: counted,
        user_id: own.user_id().as_ref().map(ShortString::to_string),
        cluster_id: own.cluster_id().as_ref().map(ShortString::to_string),
        properties: Properties {
            reply_to: property(own.reply_to()),
            message_type: message_type(&headers),
            content_type: property(own.content_type()),
            content_encoding: property(own.content_encoding()),
            kind: property(own.kind()),
            app_id: property(own.app_id()),
            group: group(&headers),
            timestamp: own.timestamp().map(Time::from_seconds),
            ..Properties::default()
        },
        deaths: deaths(&headers),
        unreadable: shown_names(unreadable),
        headers,
        body: MessageBody(delivery.data),
        ..ReceivedMessage::default()
    }
}

/// The headers, and the unreadable properties that the frame filter moved into the headers.
fn shown(table: &FieldTable) -> (BTreeMap<String, HeaderValue>, BTreeMap<&'static str, Vec<u8>>) {
    let (mut headers, mut unreadable) = (BTreeMap::new(), BTreeMap::new());
    for (name, value) in table.inner() {
        match (content_header::moved(name.as_str()), value) {
            (Some(property), AMQPValue::ByteArray(bytes)) => {
                unreadable.insert(property, bytes.as_slice().to_vec());
            }
            _ => {
                let name = content_header::as_published(name.as_str()).unwrap_or(name.as_str());
                headers.insert(name.to_owned(), from_amqp(value));
            }
        }
    }
    (headers, unreadable)
}

/// Renames AMQP's property names to the names that responses use.
fn shown_names(unreadable: BTreeMap<&'static str, Vec<u8>>) -> Unreadable {
    let name = |name: &'static str| match name {
        "content_type" => "contentType",
        "content_encoding" => "contentEncoding",
        "reply_to" => "replyTo",
        "expiration" => "expiryMs",
        "user_id" => "userId",
        "app_id" => "appId",
        "cluster_id" => "clusterId",
        "routing_key" => "routingKey",
        name => name,
    };
    Unreadable(unreadable.into_iter().map(|(property, bytes)| (name(property), bytes)).collect())
}

fn property(text: &Option<ShortString>) -> Option<PropertyText> {
    PropertyText::try_from(text.as_ref()?.to_string()).ok()
}

/// Reads the message type that [`headers`] writes. Any other value remains a plain header.
fn message_type(headers: &BTreeMap<String, HeaderValue>) -> Option<MessageType> {
    match headers.get(MESSAGE_TYPE)? {
        HeaderValue::Int32(number) => MessageType::from_number(*number),
        _ => None,
    }
}

/// Reads the group that [`headers`] writes. Any other value remains a plain header.
fn group(headers: &BTreeMap<String, HeaderValue>) -> Option<Group> {
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

/// Number of times a message was returned in a way that counts towards a delivery limit, or `None`
/// if its queue does not count. Only quorum queues count; from RabbitMQ 4.0 on, only messages that
/// were returned have the header. On any other message the header comes from its publisher, so the
/// result is never more than the number of returns.
pub(crate) fn counted_returns(delivery: &Delivery) -> Option<u64> {
    let counted = count(delivery, DELIVERY_COUNT)?;
    Some(count(delivery, ACQUIRED_COUNT).map_or(counted, |times| counted.min(times)))
}

/// Number of times a message was returned in any way, or `None` if its queue does not count that.
/// Other queues leave the publisher's value in the header.
pub(crate) fn times_back(delivery: &Delivery) -> Option<u64> {
    count(delivery, ACQUIRED_COUNT).or_else(|| counted_returns(delivery))
}

/// Value of a count header, or `None` if it contradicts the `redelivered` flag: a message that was
/// never returned has no count, and one that was returned does not have the count 0. Otherwise the
/// value is its publisher's.
fn count(delivery: &Delivery, header: &str) -> Option<u64> {
    let count = delivery.properties.headers().as_ref()?.inner().get(header).and_then(integer);
    count.filter(|count| delivery.redelivered == (*count > 0))
}

fn timestamp(seconds: u64) -> Option<Timestamp> {
    Timestamp::from_second(i64::try_from(seconds).ok()?).ok()
}

pub(crate) fn integer(value: &AMQPValue) -> Option<u64> {
    match value {
        AMQPValue::ShortShortInt(value) => u64::try_from(*value).ok(),
        AMQPValue::ShortShortUInt(value) => Some((*value).into()),
        AMQPValue::ShortInt(value) => u64::try_from(*value).ok(),
        AMQPValue::ShortUInt(value) => Some((*value).into()),
        AMQPValue::LongInt(value) => u64::try_from(*value).ok(),
        AMQPValue::LongUInt(value) => Some((*value).into()),
        AMQPValue::LongLongInt(value) => u64::try_from(*value).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_publisher_counts_no_returns() {
        let counted = |redelivered, headers: &[(&str, i64)]| {
            let mut table = FieldTable::default();
            for (name, count) in headers {
                table.insert((*name).into(), AMQPValue::LongLongInt(*count));
            }
            let mut delivery = Delivery::mock(1, "".into(), "q".into(), redelivered, Vec::new());
            delivery.properties = BasicProperties::default().with_headers(table);
            (counted_returns(&delivery), times_back(&delivery))
        };
        assert_eq!(counted(false, &[(DELIVERY_COUNT, 50)]), (None, None));
        assert_eq!(counted(false, &[(DELIVERY_COUNT, 0)]), (Some(0), Some(0)));
        assert_eq!(counted(true, &[(DELIVERY_COUNT, 0)]), (None, None));
        assert_eq!(counted(true, &[(DELIVERY_COUNT, 2)]), (Some(2), Some(2)));
        assert_eq!(counted(true, &[(DELIVERY_COUNT, 50), (ACQUIRED_COUNT, 3)]), (Some(3), Some(3)));
        assert_eq!(counted(true, &[(DELIVERY_COUNT, 1), (ACQUIRED_COUNT, 3)]), (Some(1), Some(3)));
        assert_eq!(counted(true, &[(DELIVERY_COUNT, -1)]), (None, None));
    }

    #[test]
    fn correlation_ids_are_what_amqp_carries() {
        let id = MessageId([7; 24]);
        let check = |correl_id: &CorrelId| correlation_id(id, correl_id).map(|id| id.map(String::from));
        assert_eq!(check(&CorrelId::None), Ok(None));
        assert_eq!(check(&CorrelId::EchoMsgId), Ok(Some("07".repeat(24))));
        assert_eq!(check(&CorrelId::Bytes(b"abc".to_vec())), Ok(Some("abc".to_owned())));
        assert!(check(&CorrelId::Bytes(vec![b'a'; 255])).is_ok());
        assert!(check(&CorrelId::Bytes(vec![b'a'; 256])).is_err());
        assert!(check(&CorrelId::Bytes(vec![0xff])).is_err());
    }
}

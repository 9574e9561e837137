//! Converts messages between the gateway's form and AMQP's. `docs/messages.md` has the mapping.

use std::collections::BTreeMap;

use jiff::Timestamp;
use lapin::BasicProperties;
use lapin::message::Delivery;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use mq::{
    BrokerError, CorrelId, HeaderValue, MessageBody, MessageId, Outgoing, OutgoingMessage, Persistence,
    ReceivedMessage, Uncarried, Unreadable,
};

use crate::content_header;
use crate::deaths::deaths;
use crate::header_value::{from_amqp, short, to_amqp};
use crate::properties::{CARRIERS, GotProperties, PutProperties};

const TRANSIENT: u8 = 1;
const PERSISTENT: u8 = 2;

/// Header with the count that a quorum queue compares with its delivery limit: a message's returns,
/// or from RabbitMQ 4.3 on only its failures.
const DELIVERY_COUNT: &str = "x-delivery-count";
/// Header in which a quorum queue counts all returns of a message, from RabbitMQ 4.3 on.
const ACQUIRED_COUNT: &str = "x-acquired-count";

/// Headers by which RabbitMQ routes a message to further queues, for which the gateway has not
/// checked the caller's permission.
const ROUTING_HEADERS: [&str; 2] = ["CC", "BCC"];

/// Converts a correlation id to AMQP; `None` if the message has none.
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

/// Checks the message at `index`. Returns the size of the frame with its properties; `None` if the
/// client library cannot write them.
///
/// # Errors
/// If the message has a property or header that RabbitMQ cannot carry.
pub(crate) fn check(outgoing: &Outgoing, index: u64) -> Result<Option<usize>, BrokerError> {
    let refused = |name: &str, detail: String| {
        Err(BrokerError::unsupported_member(outgoing.header_pointer(index, name), detail))
    };
    let properties = properties(outgoing, &outgoing.without_body(index))?;
    if let Some(name) = ROUTING_HEADERS.into_iter().find(|name| outgoing.has_header(index, name)) {
        let detail = format!("the header `{name}` would send the message to further queues on RabbitMQ");
        return refused(name, detail);
    }
    if let Some(name) = outgoing
        .headers(index)
        .iter()
        .map(|(name, _)| name)
        .find(|name| content_header::is_reserved(name.as_bytes()))
    {
        let detail = "names that begin with NUL and `integrahub:` are the gateway's own on RabbitMQ";
        return refused(name, detail.to_owned());
    }
    Ok(content_header::frame_size(properties))
}

/// Checks all messages of a produce. Returns the size of the largest frame with properties.
///
/// # Errors
/// If a message has a property or header that RabbitMQ cannot carry.
pub(crate) fn check_all(outgoing: &Outgoing) -> Result<usize, BrokerError> {
    let mut largest = 0;
    for index in 0..outgoing.count() {
        largest = largest.max(check(outgoing, index)?.unwrap_or_default());
        if !outgoing.differs_by_message() {
            break;
        }
    }
    Ok(largest)
}

/// Builds the AMQP properties of an outgoing message. The caller's properties take precedence over
/// the gateway's defaults, and over headers of the same name.
pub(crate) fn properties(
    outgoing: &Outgoing,
    message: &OutgoingMessage,
) -> Result<BasicProperties, BrokerError> {
    let PutProperties { amqp, headers } = put_properties(outgoing, message)?;
    Ok(amqp.with_headers(headers))
}

/// Builds the AMQP properties of an outgoing message, with its headers separate so that more can be
/// added.
pub(crate) fn put_properties(
    outgoing: &Outgoing,
    message: &OutgoingMessage,
) -> Result<PutProperties, BrokerError> {
    let props = outgoing.props_of(message.sequence);
    let mut amqp = BasicProperties::default()
        .with_message_id(message.id.to_hex().into())
        .with_content_type(message.content_type.into())
        .with_delivery_mode(match props.persistence {
            Persistence::Persistent => PERSISTENT,
            Persistence::Nonpersistent => TRANSIENT,
        });
    if props.priority.get() > 0 {
        amqp = amqp.with_priority(props.priority.get());
    }
    if let Some(expiry) = props.expiry_ms.filter(|expiry| expiry.get() > 0) {
        amqp = amqp.with_expiration(expiry.get().to_string().into());
    }
    if let Ok(seconds) = u64::try_from(outgoing.created_at().as_second()) {
        amqp = amqp.with_timestamp(seconds);
    }
    let correl_id = correlation_id(message.id, &message.correl_id).map_err(|detail| {
        BrokerError::unsupported_member(outgoing.correl_id_pointer(message.sequence), detail)
    })?;
    if let Some(id) = correl_id {
        amqp = amqp.with_correlation_id(id);
    }
    let mut put = PutProperties { amqp, headers: headers(outgoing, message.sequence)? };
    CARRIERS.write(&props.properties, &mut put).map_err(|Uncarried { member, detail }| {
        BrokerError::unsupported_member(outgoing.pointer(message.sequence, member, None), detail)
    })?;
    let key = AMQPValue::LongString(outgoing.idempotency_key().into());
    put.headers.insert("idempotencyKey".into(), key);
    put.headers.insert("sequence".into(), AMQPValue::LongLongInt(signed(message.sequence)));
    Ok(put)
}

/// Converts an unsigned number to a signed 64-bit integer, since AMQP tables have no unsigned one.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts the caller's headers of a message to an AMQP table.
fn headers(outgoing: &Outgoing, sequence: u64) -> Result<FieldTable, BrokerError> {
    let mut headers = FieldTable::default();
    for (name, value) in outgoing.headers(sequence).iter() {
        let refused =
            |detail: String| BrokerError::unsupported_member(outgoing.header_pointer(sequence, name), detail);
        headers.insert(short(name).map_err(refused)?, to_amqp(value).map_err(refused)?);
    }
    Ok(headers)
}

/// Converts a delivery, which any client may have published, to the gateway's form.
pub(crate) fn received(delivery: Delivery) -> ReceivedMessage {
    let counted = times_back(&delivery);
    let (headers, mut unreadable) = delivery.properties.headers().as_ref().map(shown).unwrap_or_default();
    let mut got = GotProperties { amqp: delivery.properties, headers };
    let properties = CARRIERS.read(&mut got);
    let GotProperties { amqp: own, headers } = got;
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
        properties,
        deaths: deaths(&headers),
        unreadable: shown_names(unreadable),
        headers,
        body: MessageBody(delivery.data),
        ..ReceivedMessage::default()
    }
}

/// Splits a header table into the publisher's headers by name, and the properties that the frame
/// filter moved into headers because they are unreadable. Returns these as bytes, by AMQP's names.
fn shown(table: &FieldTable) -> (BTreeMap<String, HeaderValue>, BTreeMap<&'static str, Vec<u8>>) {
    let (mut headers, mut unreadable) = (BTreeMap::new(), BTreeMap::new());
    for (name, value) in table.inner() {
        match (content_header::property_moved_to(name.as_str()), value) {
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

/// Renames unreadable properties from AMQP's names to the names in responses.
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

/// Returns the count of a message that its queue compares with the delivery limit: its returns, or
/// from RabbitMQ 4.3 on only its failures. `None` if the queue does not count. The publisher may
/// have written the header if the queue is not a quorum queue or (from RabbitMQ 4.0 on) has never
/// returned the message. If the message also has a count of all its returns, the result is at most
/// that.
pub(crate) fn counted_returns(delivery: &Delivery) -> Option<u64> {
    let counted = count(delivery, DELIVERY_COUNT)?;
    Some(count(delivery, ACQUIRED_COUNT).map_or(counted, |times| counted.min(times)))
}

/// Returns the number of all returns of a message; `None` if its queue does not count them. On
/// other than quorum queues, the header is the publisher's.
pub(crate) fn times_back(delivery: &Delivery) -> Option<u64> {
    count(delivery, ACQUIRED_COUNT).or_else(|| counted_returns(delivery))
}

/// Returns the value of a count header. `None` if it contradicts the `redelivered` flag, because
/// the publisher wrote it: a count above 0 without a redelivery, or 0 with one.
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
pub(crate) mod tests {
    use mq::{
        Base64Bytes, ContentSeed, CorrelIdMode, ExplicitMessage, HeaderName, Headers, MqLong, MqProps,
        OwnProps, ProduceCommand, ProduceSource, Properties, Transaction,
    };

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

    /// Builds a request of two messages, of which the first sets no properties itself. `change` can
    /// alter the request and the second message.
    pub(crate) fn two(change: impl FnOnce(&mut ProduceCommand, &mut ExplicitMessage)) -> Outgoing {
        let mut second = ExplicitMessage::of_text("b");
        let mut command = ProduceCommand {
            source: ProduceSource::Explicit { messages: Vec::new() },
            rate_limit_per_sec: None,
            transaction: Transaction::default(),
            props: MqProps::default(),
            headers: Headers::default(),
            warnings: Vec::new(),
        };
        change(&mut command, &mut second);
        command.source = ProduceSource::Explicit { messages: vec![ExplicitMessage::of_text("a"), second] };
        let at = Timestamp::from_second(1_790_000_000).unwrap();
        Outgoing::new(&command, ContentSeed::new("tenant", "key", "fingerprint", at))
    }

    /// Returns the JSON Pointer to the member for which the message at `index` of the request
    /// [`two`] is refused.
    fn refused(change: impl FnOnce(&mut ProduceCommand, &mut ExplicitMessage), index: u64) -> String {
        match check(&two(change), index).unwrap_err() {
            BrokerError::Unsupported { pointer: Some(pointer), .. } => pointer,
            error => panic!("{error:?}"),
        }
    }

    fn header(name: &str) -> Headers {
        let name = HeaderName::try_from(name.to_owned()).unwrap();
        Headers::try_from(BTreeMap::from([(name, HeaderValue::from("value"))])).unwrap()
    }

    #[test]
    fn a_property_is_refused_where_the_request_has_it() {
        let number = Some(MqLong::try_from(1).unwrap());
        let text = |text: &str| Some(text.to_owned().try_into().unwrap());
        let cases = [
            (Properties { report: number, ..Properties::default() }, "report"),
            (Properties { feedback: number, ..Properties::default() }, "feedback"),
            (
                Properties {
                    reply_to_queue_manager: Some("QM1".to_owned().try_into().unwrap()),
                    ..Properties::default()
                },
                "replyToQueueManager",
            ),
            (Properties { reply_to: text("amq.rabbitmq.reply-to"), ..Properties::default() }, "replyTo"),
        ];
        for (properties, member) in cases {
            let of_all = properties.clone();
            let pointer = refused(|command, _| *command.props.properties = of_all, 0);
            assert_eq!(pointer, format!("/mqProps/{member}"));
            let own = OwnProps { properties, ..OwnProps::default() };
            let pointer = refused(|_, second| second.own = own.boxed(), 1);
            assert_eq!(pointer, format!("/messages/1/{member}"));
        }
    }

    #[test]
    fn a_header_and_a_correlation_id_are_refused_where_the_request_has_them() {
        let of_all = refused(|command, _| command.headers = header("CC"), 0);
        assert_eq!(of_all, "/headers/CC");
        let own = refused(|_, second| second.headers = header("BCC"), 1);
        assert_eq!(own, "/messages/1/headers/BCC");
        let fixed = refused(
            |command, _| {
                command.props.correl_id_mode = CorrelIdMode::Fixed;
                command.props.fixed_correl_id_base64 = Some(Base64Bytes(vec![b'x'; 256]));
            },
            0,
        );
        assert_eq!(fixed, "/mqProps/fixedCorrelIdBase64");
        let own = refused(|_, second| second.correl_id = Some(Base64Bytes(vec![0xff])), 1);
        assert_eq!(own, "/messages/1/correlIdBase64");
    }
}

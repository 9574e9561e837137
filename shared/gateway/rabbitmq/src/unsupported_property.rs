//! Error for a member of a request that RabbitMQ cannot carry.

use mq::{BrokerError, Member, Outgoing, Uncarried};

/// Description of the problem, and a JSON pointer to the member in the request. The pointer is
/// missing only if the value may come from a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnsupportedProperty {
    pointer: Option<String>,
    detail: String,
}

impl UnsupportedProperty {
    /// Error about a property of the message at `index`.
    pub(crate) fn property(
        (outgoing, index): (&Outgoing, u64),
        Uncarried { member, detail }: Uncarried,
    ) -> Self {
        Self { pointer: Some(outgoing.pointer(index, member, None)), detail }
    }

    /// Error about the correlation id of the message at `index`.
    pub(crate) fn correl_id((outgoing, index): (&Outgoing, u64), detail: impl Into<String>) -> Self {
        Self { pointer: Some(outgoing.correl_id_pointer(index)), detail: detail.into() }
    }

    /// Error about the header `name` of the message at `index`.
    pub(crate) fn header((outgoing, index): (&Outgoing, u64), name: &str, detail: impl Into<String>) -> Self {
        Self { pointer: Some(outgoing.header_pointer(index, name)), detail: detail.into() }
    }

    /// Error about the routing key of the message at `index`. If the key is the target's, it may
    /// come from a profile, so the error has no pointer.
    pub(crate) fn routing_key((outgoing, index): (&Outgoing, u64), detail: impl Into<String>) -> Self {
        let key = Member::RoutingKey;
        let pointer = outgoing.has_own(index, key).then(|| outgoing.pointer(index, key, None));
        Self { pointer, detail: detail.into() }
    }
}

impl From<UnsupportedProperty> for BrokerError {
    fn from(UnsupportedProperty { pointer, detail }: UnsupportedProperty) -> Self {
        match pointer {
            Some(pointer) => Self::unsupported_member(pointer, detail),
            None => Self::unsupported(detail),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;
    use mq::{
        Base64Bytes, ContentSeed, CorrelIdMode, ExplicitMessage, HeaderName, Headers, MqLong, MqProps,
        OwnProps, ProduceCommand, ProduceSource, Properties, Transaction,
    };

    use super::*;
    use crate::message::check;

    /// Unsupported property of the message at `index` in a request of two messages, of which the
    /// first sets nothing itself.
    fn refused(
        change: impl FnOnce(&mut ProduceCommand, &mut ExplicitMessage),
        index: u64,
    ) -> UnsupportedProperty {
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
        let outgoing = Outgoing::new(&command, ContentSeed::new("tenant", "key", "fingerprint", at));
        check(&outgoing, index).unwrap_err()
    }

    fn header(name: &str) -> Headers {
        let name = HeaderName::try_from(name.to_owned()).unwrap();
        Headers::try_from(BTreeMap::from([(name, "value".to_owned())])).unwrap()
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
            let unsupported = refused(|command, _| *command.props.properties = of_all, 0);
            assert_eq!(unsupported.pointer, Some(format!("/mqProps/{member}")));
            let own = OwnProps { properties, ..OwnProps::default() };
            let unsupported = refused(|_, second| second.own = own.boxed(), 1);
            assert_eq!(unsupported.pointer, Some(format!("/messages/1/{member}")));
        }
    }

    #[test]
    fn a_header_and_a_correlation_id_are_refused_where_the_request_has_them() {
        let of_all = refused(|command, _| command.headers = header("CC"), 0);
        assert_eq!(of_all.pointer.as_deref(), Some("/headers/CC"));
        let own = refused(|_, second| second.headers = header("BCC"), 1);
        assert_eq!(own.pointer.as_deref(), Some("/messages/1/headers/BCC"));
        let fixed = refused(
            |command, _| {
                command.props.correl_id_mode = CorrelIdMode::Fixed;
                command.props.fixed_correl_id_base64 = Some(Base64Bytes(vec![b'x'; 256]));
            },
            0,
        );
        assert_eq!(fixed.pointer.as_deref(), Some("/mqProps/fixedCorrelIdBase64"));
        let own = refused(|_, second| second.correl_id = Some(Base64Bytes(vec![0xff])), 1);
        assert_eq!(own.pointer.as_deref(), Some("/messages/1/correlIdBase64"));
        let error = BrokerError::from(own);
        assert!(
            matches!(&error, BrokerError::Unsupported { pointer: Some(pointer), .. } if pointer == "/messages/1/correlIdBase64"),
            "{error:?}"
        );
    }

    #[test]
    fn a_routing_key_is_pointed_to_only_in_a_message() {
        let key = || Some("k".to_owned().try_into().unwrap());
        let mut second = ExplicitMessage::of_text("b");
        second.own = OwnProps { routing_key: key(), ..OwnProps::default() }.boxed();
        let command = ProduceCommand {
            source: ProduceSource::Explicit { messages: vec![ExplicitMessage::of_text("a"), second] },
            rate_limit_per_sec: None,
            transaction: Transaction::default(),
            props: MqProps::default(),
            headers: Headers::default(),
            warnings: Vec::new(),
        };
        let at = Timestamp::from_second(1_790_000_000).unwrap();
        let outgoing = Outgoing::new(&command, ContentSeed::new("tenant", "key", "fingerprint", at));
        let own = UnsupportedProperty::routing_key((&outgoing, 1), "too long");
        assert_eq!(own.pointer.as_deref(), Some("/messages/1/routingKey"));
        // The key may come from a profile, and then the request does not name it.
        assert_eq!(UnsupportedProperty::routing_key((&outgoing, 0), "too long").pointer, None);
    }
}

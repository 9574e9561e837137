//! Properties of a message apart from its body, its ids and its headers, under names that both
//! brokers share. One table in this file lists them.
//!
//! From this table follow the members of a request, the form in orders (requests on the way to
//! `mq-access`), the members of a response, and the [`Carriers`], each broker's functions that
//! write and read the properties. `docs/messages.md` maps each property to AMQP 0-9-1 and to IBM
//! MQ.
//!
//! To add a property, add a line to the table. The compiler then asks for its two functions in each
//! broker, and tests ask for the property in `openapi.yaml`.

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize};

use crate::command::{ExpiryMs, Persistence, Priority};
use crate::exchange::RoutingKey;
use crate::property_values::{Group, MessageType, MqLong, PropertyText, ReplyQueueManager, Value};
use crate::time::Time;

/// Passes the table of message properties to the macro `$make`, after the tokens `$with`. A line
/// has the property's [`Member`], its field in [`Properties`], its type, its name in requests and
/// responses, and its short name in orders (requests on the way to `mq-access`). A short name is
/// never reused for another property.
#[macro_export]
macro_rules! properties {
    ($make:ident! {$($with:tt)*}) => {
        $make! {
            {$($with)*}
            ReplyTo reply_to: PropertyText, "replyTo" "r";
            ReplyToQueueManager reply_to_queue_manager: ReplyQueueManager, "replyToQueueManager" "rm";
            MessageType message_type: MessageType, "messageType" "m";
            ContentType content_type: PropertyText, "contentType" "c";
            ContentEncoding content_encoding: PropertyText, "contentEncoding" "ce";
            Type kind: PropertyText, "type" "k";
            AppId app_id: PropertyText, "appId" "a";
            Group group: Group, "group" "g";
            Timestamp timestamp: Time, "timestamp" "t";
            Report report: MqLong, "report" "o";
            Feedback feedback: MqLong, "feedback" "f";
        }
    };
}

/// Declares [`Member`] from one line for each property: the variant, the name in requests, and the
/// field in [`OwnProps`].
macro_rules! members {
    ($($variant:ident $name:literal $($field:ident).+;)*) => {
        /// Request member that sets a property of one message; most are also allowed in `mqProps`,
        /// for all messages.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "docs/messages.md describes each member")]
        pub enum Member {
            $($variant,)*
        }

        impl Member {
            /// Returns the name of the member in requests.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// True if `own`, the properties that a message sets for itself, has this member.
            pub(crate) const fn is_in(self, own: &OwnProps) -> bool {
                match self { $(Self::$variant => own.$($field).+.is_some(),)* }
            }
        }
    };
}

/// Declares [`Properties`], [`Member`] and [`Carriers`] from the table of properties.
macro_rules! declare {
    ({} $($variant:ident $property:ident: $type:ident, $name:literal $short:literal;)*) => {
        /// Properties of a message, such as `replyTo`. A property that is not set is `None`.
        ///
        /// The serialized form has short member names, so that it takes no more bytes than the
        /// request's JSON.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Properties {
            $(
                #[doc = concat!("The property `", $name, "`.")]
                #[serde(rename = $short, skip_serializing_if = "Option::is_none")]
                pub $property: Option<$type>,
            )*
        }

        impl Properties {
            /// Returns these properties, with those that are set in `more` taking precedence.
            #[must_use]
            pub fn overlaid_with(&self, more: &Self) -> Self {
                Self { $($property: more.$property.as_ref().or(self.$property.as_ref()).cloned(),)* }
            }

            /// Writes each property to the JSON of a response, as `null` if it is not set.
            pub(crate) fn show<M: SerializeMap>(&self, json: &mut M) -> Result<(), M::Error> {
                $(json.serialize_entry($name, &self.$property.as_ref().map(Value::shown))?;)*
                Ok(())
            }

            /// Returns the length in bytes of all text values together.
            pub(crate) fn text_len(&self) -> usize {
                [$(self.$property.as_ref().map_or(0, Value::text_len)),*].into_iter().sum()
            }

            /// Returns a value of this type in which each property takes the maximum number of
            /// bytes in a response.
            #[cfg(test)]
            pub(crate) fn longest() -> Self {
                Self { $($property: Some(crate::property_values::longest()),)* }
            }
        }

        members! {
            Persistence "persistence" persistence;
            Priority "priority" priority;
            ExpiryMs "expiryMs" expiry_ms;
            RoutingKey "routingKey" routing_key;
            $($variant $name properties.$property;)*
        }

        /// Functions of one broker that write and read each message property.
        #[derive(Debug)]
        pub struct Carriers<Put, Got> {
            $(
                #[doc = concat!("The carrier of `", $name, "`.")]
                pub $property: Carrier<$type, Put, Got>,
            )*
        }

        impl<Put, Got> Carriers<Put, Got> {
            /// Writes `properties` to an outgoing message.
            ///
            /// # Errors
            /// If the broker cannot carry a property. The error names the first such property.
            pub fn write(&self, properties: &Properties, put: &mut Put) -> Result<(), Uncarried> {
                $(
                    if let Some(value) = &properties.$property {
                        let uncarried = |detail| Uncarried { member: Member::$variant, detail };
                        (self.$property.write)(value, put).map_err(uncarried)?;
                    }
                )*
                Ok(())
            }

            /// Reads the properties of a received message.
            pub fn read(&self, got: &mut Got) -> Properties {
                Properties { $($property: (self.$property.read)(got),)* }
            }
        }
    };
}

properties!(declare! {});

/// Functions that set a property in a broker's outgoing message (`Put`), and read it from a
/// received message (`Got`).
#[derive(Debug)]
pub struct Carrier<T, Put, Got> {
    /// Writes the property, or returns the reason why the broker cannot carry this value.
    pub write: fn(&T, &mut Put) -> Result<(), String>,
    /// Reads the property from a received message; `None` if the message lacks it or has it in
    /// another form.
    pub read: fn(&mut Got) -> Option<T>,
}

/// Error about a message property that a broker cannot carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uncarried {
    /// Request member that sets the property.
    pub member: Member,
    /// Reason why the broker cannot carry the property, for the caller.
    pub detail: String,
}

impl Properties {
    /// True if no property is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the number of bytes that all properties take in a request's JSON.
    pub(crate) fn bytes(&self) -> usize {
        serde_json::to_vec(self).map_or(0, |text| text.len().saturating_sub("{}".len()))
    }
}

/// Properties that an explicit message sets for itself. They take precedence over the request's
/// `mqProps`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "docs/messages.md describes each property")]
pub struct OwnProps {
    pub persistence: Option<Persistence>,
    pub priority: Option<Priority>,
    pub expiry_ms: Option<ExpiryMs>,
    pub properties: Properties,
    pub routing_key: Option<RoutingKey>,
}

impl OwnProps {
    /// Returns the properties in a box; `None` if nothing is set.
    #[must_use]
    pub fn boxed(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_carry_every_property_and_a_message_s_own_replaces_that_of_all() {
        let all = Properties::longest();
        let sent = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<Properties>(&sent).unwrap(), all, "{sent}");
        assert_eq!(Properties::default().overlaid_with(&all), all);
        assert_eq!(all.overlaid_with(&Properties::default()), all);
    }
}

//! Properties of messages in a request: those of all messages in `mqProps`, and those of each in
//! `messages`.

use api::Problem;
use mq::{
    Base64Bytes, BodyRef, BodyText, CorrelIdMember, CorrelIdMode, ExpiryMs, ExplicitMessage, Headers,
    IdBytes, MqProps, OwnProps, Persistence, Priority, Properties, RoutingKey, or_default,
};
use serde::Deserialize;

/// Declares a form with members of its own, and one for each property.
macro_rules! form {
    (
        {$(#[$doc:meta])* $form:ident { $($(#[$own_meta:meta])* $own:ident: $own_type:ty,)* }}
        $($member:ident $property:ident: $type:ident, $name:literal $short:literal;)*
    ) => {
        $(#[$doc])*
        #[derive(Debug, Default, Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub(crate) struct $form {
            $($(#[$own_meta])* $own: $own_type,)*
            $(#[serde(rename = $name)] $property: Option<mq::$type>,)*
        }

        impl $form {
            fn take_properties(&mut self) -> Properties {
                Properties { $($property: self.$property.take(),)* }
            }
        }
    };
}

mq::properties!(form! {
    /// Member `mqProps`: properties of every message that does not set its own.
    PropsSpec {
        #[serde(default, deserialize_with = "or_default")]
        persistence: Persistence,
        #[serde(default, deserialize_with = "or_default")]
        priority: Priority,
        expiry_ms: Option<ExpiryMs>,
        #[serde(default, deserialize_with = "or_default")]
        correl_id_mode: CorrelIdMode,
        fixed_correl_id_base64: Option<IdBytes>,
        correl_id_base64: Option<IdBytes>,
    }
});

mq::properties!(form! {
    /// A message that the request writes out.
    MessageSpec {
        body_base64: Option<Base64Bytes>,
        body_text: Option<BodyText>,
        body_ref: Option<BodyRef>,
        #[serde(default, deserialize_with = "or_default")]
        headers: Headers,
        persistence: Option<Persistence>,
        priority: Option<Priority>,
        expiry_ms: Option<ExpiryMs>,
        correl_id_base64: Option<IdBytes>,
        routing_key: Option<RoutingKey>,
    }
});

impl PropsSpec {
    /// Converts the form to the properties of all messages.
    ///
    /// # Errors
    /// `SCHEMA_VIOLATION` if the correlation id is given in two ways.
    pub(crate) fn into_props(mut self) -> Result<MqProps, Problem> {
        let properties = Box::new(self.take_properties());
        let member = match self.correl_id_base64 {
            Some(_) => CorrelIdMember::CorrelIdBase64,
            None => CorrelIdMember::default(),
        };
        let (mode, fixed) = match (self.correl_id_base64, self.correl_id_mode, self.fixed_correl_id_base64) {
            (None, mode, fixed) => (mode, fixed),
            (own @ Some(_), CorrelIdMode::None, None) => (CorrelIdMode::Fixed, own),
            (Some(_), _, _) => {
                let detail = "cannot be used together with correlIdMode or fixedCorrelIdBase64";
                return Err(Problem::violation("/mqProps/correlIdBase64", detail));
            }
        };
        Ok(MqProps {
            persistence: self.persistence,
            priority: self.priority,
            expiry_ms: self.expiry_ms,
            correl_id_mode: mode,
            fixed_correl_id_base64: fixed,
            correl_id_member: member,
            properties,
        })
    }
}

impl MessageSpec {
    /// Checks the form of the message at `index`, and converts it.
    ///
    /// # Errors
    /// `SCHEMA_VIOLATION` if the message has no body, or several.
    pub(crate) fn checked(mut self, index: usize) -> Result<ExplicitMessage, Problem> {
        let properties = self.take_properties();
        let (body, is_text) = match (self.body_base64, self.body_text, self.body_ref) {
            (Some(body), None, None) => (body, false),
            (None, Some(text), None) => (Base64Bytes(String::from(text).into_bytes()), true),
            (None, None, Some(_)) => (Base64Bytes::default(), false),
            _ => {
                let detail = "takes one of bodyBase64, bodyText and bodyRef";
                return Err(Problem::violation(format!("/messages/{index}"), detail));
            }
        };
        let own = OwnProps {
            persistence: self.persistence,
            priority: self.priority,
            expiry_ms: self.expiry_ms,
            properties,
            routing_key: self.routing_key,
        };
        Ok(ExplicitMessage {
            body,
            is_text,
            body_ref: self.body_ref.map(Box::new),
            headers: self.headers,
            correl_id: self.correl_id_base64,
            own: own.boxed(),
        })
    }
}

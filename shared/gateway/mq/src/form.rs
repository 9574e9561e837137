//! Parts of requests that describe messages, with the members as callers write them: `mqProps`,
//! `payload`, and an item of `messages`.

use serde::Deserialize;

use crate::base64_bytes::{Base64Bytes, IdBytes};
use crate::body_ref::BodyRef;
use crate::command::{
    CorrelIdMember, CorrelIdMode, ExpiryMs, MessageSize, MqProps, Payload, Persistence, Priority,
};
use crate::exchange::RoutingKey;
use crate::explicit::ExplicitMessage;
use crate::headers::Headers;
use crate::names::BodyText;
use crate::optional::or_default;
use crate::properties::{OwnProps, Properties};
use crate::template::Template;

/// Error of a JSON object in the request, such as `mqProps`, whose members contradict each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// JSON Pointer (RFC 6901) from that JSON object to the member at fault; empty for the object
    /// itself.
    pub pointer: &'static str,
    /// Description of the error, for the caller.
    pub detail: &'static str,
}

/// Declares a struct that is deserialized from a JSON object of a request, with the given members
/// and one optional member for each message property.
macro_rules! form {
    (
        {$(#[$doc:meta])* $form:ident { $($(#[$own_meta:meta])* $own:ident: $own_type:ty,)* }}
        $($member:ident $property:ident: $type:ident, $name:literal $short:literal;)*
    ) => {
        $(#[$doc])*
        #[derive(Debug, Default, Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub struct $form {
            $($(#[$own_meta])* $own: $own_type,)*
            $(#[serde(rename = $name)] $property: Option<crate::$type>,)*
        }

        impl $form {
            fn take_properties(&mut self) -> Properties {
                Properties { $($property: self.$property.take(),)* }
            }
        }
    };
}

crate::properties!(form! {
    /// Member `mqProps` of a request: properties of every message that does not set its own.
    PropsForm {
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

crate::properties!(form! {
    /// Element of the member `messages` of a request, as it is written in JSON.
    MessageForm {
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

/// Member `payload` of a request: the rule for the bodies of generated messages.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PayloadForm {
    #[serde(default, deserialize_with = "or_default")]
    mode: PayloadMode,
    fixed_base64: Option<Base64Bytes>,
    template: Option<Template>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum PayloadMode {
    #[default]
    Random,
    Fixed,
    Template,
}

impl PropsForm {
    /// Converts the JSON form to the properties of all messages.
    ///
    /// # Errors
    /// If the correlation id is given in two ways, or its mode contradicts its value.
    pub fn into_props(mut self) -> Result<MqProps, Misfit> {
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
                return Err(Misfit { pointer: "/correlIdBase64", detail });
            }
        };
        let misfit = |detail| Err(Misfit { pointer: "/fixedCorrelIdBase64", detail });
        match (mode, &fixed) {
            (CorrelIdMode::Fixed, None) => return misfit("is required with correlIdMode \"fixed\""),
            (CorrelIdMode::None | CorrelIdMode::EchoMsgId, Some(_)) => {
                return misfit("goes with correlIdMode \"fixed\" only");
            }
            _ => {}
        }
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

impl PayloadForm {
    /// True if the bodies are random bytes, so that the request has to give their size.
    #[must_use]
    pub fn is_random(&self) -> bool {
        self.mode == PayloadMode::Random
    }

    /// Converts the JSON form to the rule for generated bodies. `size` is the size of random
    /// bodies.
    ///
    /// # Errors
    /// If the mode requires a member that is missing, or does not allow one that is given.
    pub fn into_payload(self, size: MessageSize) -> Result<Payload, Misfit> {
        let Self { mode, fixed_base64, template } = self;
        let misfit = |pointer, detail| Err(Misfit { pointer, detail });
        if mode != PayloadMode::Fixed && fixed_base64.is_some() {
            return misfit("/fixedBase64", "goes with mode \"fixed\" only");
        }
        if mode != PayloadMode::Template && template.is_some() {
            return misfit("/template", "goes with mode \"template\" only");
        }
        match (mode, fixed_base64, template) {
            (PayloadMode::Random, _, _) => Ok(Payload::Random { size }),
            (PayloadMode::Fixed, Some(body), _) => Ok(Payload::Fixed { body }),
            (PayloadMode::Template, _, Some(template)) => Ok(Payload::Template { template }),
            (PayloadMode::Fixed, None, _) => misfit("/fixedBase64", "is required in this mode"),
            (PayloadMode::Template, _, None) => misfit("/template", "is required in this mode"),
        }
    }
}

impl MessageForm {
    /// Converts the JSON form to the message to put.
    ///
    /// # Errors
    /// If the message has no body, or several.
    pub fn into_message(mut self) -> Result<ExplicitMessage, Misfit> {
        let properties = self.take_properties();
        let (body, is_text) = match (self.body_base64, self.body_text, self.body_ref.is_some()) {
            (Some(body), None, false) => (body, false),
            (None, Some(text), false) => (Base64Bytes(String::from(text).into_bytes()), true),
            (None, None, true) => (Base64Bytes::default(), false),
            _ => return Err(Misfit { pointer: "", detail: "takes one of bodyBase64, bodyText and bodyRef" }),
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

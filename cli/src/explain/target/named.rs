//! Target of the request that `integrahub explain` checks, from the options of the command.

use mq::TargetSpec;
use serde_json::{Map, Value, json};

use crate::args::Explain;
use crate::exit::Failure;
use crate::input;

/// JSON members that describe a target.
type Members = Map<String, Value>;

/// Target that the options of `integrahub explain` name: a profile, members of an inline target, or
/// both.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::explain) struct Named {
    /// Name of the target profile; `None` if the options name none.
    pub(in crate::explain) profile: Option<String>,
    /// Inline target that the request would contain; `None` if the options name only a profile.
    pub(in crate::explain) inline: Option<TargetSpec>,
}

impl Named {
    /// Reads the target from the options of the command.
    ///
    /// # Errors
    /// If the target cannot be parsed, or two options name a profile.
    pub(in crate::explain) async fn of(args: &Explain) -> Result<Self, Failure> {
        let mut members = match &args.target_file {
            Some(path) => input::document::<Members>(path).await?,
            None => Members::new(),
        };
        let mut profile = args.target_ref.clone();
        match args.target.as_deref() {
            Some(text) if text.contains("://") => members.extend(members_of(text)?),
            Some(_) if profile.is_some() => {
                return Err(Failure::usage("--target-ref and --target both name a profile"));
            }
            Some(name) => profile = Some(name.to_owned()),
            None => {}
        }
        if let Some(queue) = &args.queue {
            members.insert("queue".to_owned(), json!(queue));
        }
        let inline = (!members.is_empty()).then(|| {
            attempt::malformed::from_value(Value::Object(members))
                .map_err(|error| Failure::usage("the target cannot be used").why(error.to_string()))
        });
        Ok(Self { profile, inline: inline.transpose()? })
    }
}

/// Parses a target written as `broker://host:port/queue?option=value&…`.
pub(super) fn members_of(text: &str) -> Result<Members, Failure> {
    let wrong = |why: &str| {
        Failure::usage(format!("`{text}` is no target")).why(why).next(
            "write broker://host:port/queue?option=value&…; the options are vhost, queueManager, channel, tls, user, \
             password, keyStore, trustStore, exchange and routingKey",
        )
    };
    let (broker, rest) = text.split_once("://").ok_or_else(|| wrong("the broker is missing"))?;
    let (place, options) = rest.split_once('?').unwrap_or((rest, ""));
    let (hosts, queue) = place.split_once('/').unwrap_or((place, ""));
    let mut target = Members::new();
    let (mut ssl, mut auth) = (Members::new(), Members::new());
    target.insert("broker".to_owned(), json!(broker));
    target.insert("connName".to_owned(), json!(hosts));
    if !queue.is_empty() {
        target.insert("queue".to_owned(), json!(queue));
    }
    for option in options.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').ok_or_else(|| wrong("an option is name=value"))?;
        let (object, member) = match name {
            "vhost" | "queueManager" => (&mut target, "queueManager"),
            "channel" | "exchange" | "routingKey" => (&mut target, name),
            "user" => (&mut auth, "user"),
            "password" => (&mut auth, "passwordRef"),
            "keyStore" => (&mut ssl, "keyStoreRef"),
            "trustStore" => (&mut ssl, "trustStoreRef"),
            "tls" => (&mut ssl, "enabled"),
            _ => return Err(wrong("it has an option that is not known")),
        };
        let value = match (name, value) {
            ("tls", "on") => json!(true),
            ("tls", "off") => json!(false),
            ("tls", _) => return Err(wrong("tls is on or off")),
            _ => json!(value),
        };
        object.insert(member.to_owned(), value);
    }
    for (name, object) in [("ssl", ssl), ("auth", auth)] {
        if !object.is_empty() {
            target.insert(name.to_owned(), Value::Object(object));
        }
    }
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_no_target_is_refused() {
        for wrong in [
            "mq.example.com",
            "rabbitmq://h:1/Q?chanel=x",
            "rabbitmq://h:1/Q?tls=maybe",
            "rabbitmq://h:1/Q?x",
        ] {
            assert!(members_of(wrong).is_err(), "{wrong}");
        }
    }
}

//! Vocabulary of the message gateway, the same for every broker: requests of a caller about a
//! queue, and results of a broker. This crate does not depend on HTTP, on Lambda, or on AMQP.
//!
//! A request contains a [`TargetSpec`]. Merged over its profile and checked against the rules, it
//! becomes a [`Target`]. With the values of its secrets, this becomes an [`Access`], which has all
//! that a broker needs for a connection.

mod address;
mod allowed_queues;
mod authorization;
mod base64_bytes;
mod body_ref;
mod bounded;
mod command;
mod connection;
mod content;
mod error;
mod exchange;
mod explicit;
mod form;
mod header_value;
mod headers;
mod host_pattern;
mod inline;
mod key_repository;
mod message;
mod moving;
mod names;
mod optional;
mod origin;
mod profile;
mod properties;
mod property_values;
mod queue_identity;
mod report;
mod report_place;
mod rules;
mod secret_ref;
mod shown;
mod special_address;
mod store_ref;
mod tags;
mod target;
mod template;
mod time;
mod warnings;

pub use address::{Address, ConnName};
pub use allowed_queues::AllowedQueues;
pub use base64_bytes::{Base64Bytes, IdBytes};
pub use body_ref::{BodyRef, UploadSize};
pub use bounded::List;
pub use command::{
    Ack, AckMode, BackoutRule, Batch, BatchCount, ConsumeCommand, CorrelIdMember, CorrelIdMode, ExpiryMs,
    ExplicitMessage, MaxMessages, MessageSize, MqProps, OversizedBodies, Payload, Persistence, Priority,
    ProduceCommand, ProduceSource, RateLimit, Selector, Transaction, TxSize, WaitSeconds,
};
pub use connection::{
    Access, ConnectSeconds, ConnectionLimits, Credentials, HeartbeatSeconds, IdleRule, KeyFiles, PoolSeconds,
    RetrySeconds,
};
pub use content::{ContentSeed, CorrelId, Outgoing, OutgoingMessage};
pub use error::{BrokerError, BrokerReply, Cause, MoveFailure, ProduceFailure};
pub use exchange::{Exchange, ExchangeName, RoutingKey};
pub use form::{MessageForm, Misfit, PayloadForm, PropsForm};
pub use header_value::{Decimal, Float32, Float64, HeaderValue};
pub use headers::{HeaderName, Headers};
pub use inline::{AllowedTargets, InlineTargets, InlineTargetsError};
pub use key_repository::KeyRepositoryAccess;
pub use message::{BodyAsText, Death, MessageBody, MessageId, ReceivedMessage, StoredBody, Unreadable};
pub use moving::{Destination, KeptReason, MaxMoves, MoveCommand, MoveOutcome, MoveReport};
pub use names::{
    BodyText, CcdtUrl, CertificateLabel, ChannelName, CipherSpec, ProfileName, QueueManagerName, QueueName,
    SelectorExpression, UserName, is_of_an_ibm_name,
};
pub use optional::or_default;
pub use origin::PasswordOrigin;
pub use profile::Profile;
pub use properties::{Carrier, Carriers, Member, OwnProps, Properties, Uncarried};
pub use property_values::{
    Group, GroupId, GroupSequence, MessageType, MqLong, PropertyText, ReplyQueueManager,
};
pub use report::{ConnectionCounts, Consumed, DepthReport, Latency, ProduceReport, TestReport, TestStep};
pub use report_place::ReportPlace;
pub use rules::{EntryPart, Judgement, TargetRule};
pub use secret_ref::SecretRef;
pub use shown::ShownMessage;
pub use special_address::SpecialAddresses;
pub use store_ref::{ObjectRef, StoreRef};
pub use tags::{Tag, TagOrigin, Tags};
pub use target::{AuthSpec, BrokerKind, Endpoint, SslSpec, Target, TargetError, TargetSpec, Tls};
pub use template::{Template, TemplateError};
pub use time::Time;
pub use warnings::Warnings;

//! Types of the names and texts in requests and profiles, each with a limit of its length.

use crate::bounded::{not_control, text};

text! {
    /// Name of a queue, within AMQP's limit for a short string (AMQP 0-9-1, section 4.2.5.3). IBM
    /// MQ's own limit (48) is checked where the broker is known.
    QueueName, 1..=255, not_control, "must not contain control characters";
    /// Name of a queue manager, or of RabbitMQ's virtual host, at most 255 bytes. An empty name
    /// means any queue manager to which the channel leads, or the virtual host `/`.
    QueueManagerName, 0..=255, not_control, "must not contain control characters";
    /// Name of a channel of IBM MQ (MQ_CHANNEL_NAME_LENGTH).
    ChannelName, 1..=20, is_of_an_ibm_name, "must consist of letters, digits and ./_%";
    /// Name of a cipher specification of IBM MQ (MQ_SSL_CIPHER_SPEC_LENGTH).
    CipherSpec, 1..=32, is_of_a_cipher_spec, "must consist of letters, digits and _";
    /// Label of a certificate in a key repository of IBM MQ (MQ_CERT_LABEL_LENGTH).
    CertificateLabel, 1..=64, not_control, "must not contain control characters";
    /// URL of IBM MQ's client channel definition table, which only profiles may set.
    CcdtUrl, 1..=2048, not_control, "must not contain control characters";
    /// User name for a broker. It has no control characters, since SASL PLAIN separates user and
    /// password by NUL (RFC 4616, section 2).
    UserName, 1..=255, not_control, "must not contain control characters";
    /// Name of a target profile. The name is part of a DynamoDB key, and such a key has at most
    /// 2,048 bytes.
    ProfileName, 1..=255, not_control, "must not contain control characters";
    /// Condition on the properties of messages, in the syntax of JMS selectors. IBM MQ allows
    /// longer ones (MQ_SELECTOR_LENGTH). With this limit, the body of a consume request stays below
    /// 64 KiB even if every character is escaped.
    SelectorExpression, 1..=2_048, not_control, "must not contain control characters";
    /// Message body as text. The request's limit of 4 MB applies to the body and all other members
    /// together.
    BodyText, 0..=4_194_304, |_| true, "any text";
}

/// True for a character that names of IBM MQ's objects may hold (IBM MQ, "Rules for naming IBM MQ
/// objects").
#[must_use]
pub fn is_of_an_ibm_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || "./_%".contains(character)
}

fn is_of_a_cipher_spec(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

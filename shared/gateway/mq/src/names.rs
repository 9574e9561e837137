//! Names and texts that callers give.

use crate::bounded::{not_control, text};

text! {
    /// Name of a queue, within AMQP's limit for a short string (AMQP 0-9-1, section 4.2.5.3). IBM
    /// MQ's own limit (48) is checked where the broker is known.
    QueueName, 1..=255, not_control, "must not contain control characters";
    /// Name of a queue manager, or of RabbitMQ's virtual host, which is a short string; empty means
    /// the default.
    QueueManagerName, 0..=255, not_control, "must not contain control characters";
    /// Name of a channel of IBM MQ (MQ_CHANNEL_NAME_LENGTH).
    ChannelName, 1..=20, is_of_an_ibm_name, "must consist of letters, digits and ./_%";
    /// A cipher specification of IBM MQ (MQ_SSL_CIPHER_SPEC_LENGTH).
    CipherSpec, 1..=32, is_of_a_cipher_spec, "must consist of letters, digits and _";
    /// Label of a certificate in a key repository of IBM MQ (MQ_CERT_LABEL_LENGTH).
    CertificateLabel, 1..=64, not_control, "must not contain control characters";
    /// URL of a client channel definition table; in profiles only.
    CcdtUrl, 1..=2048, not_control, "must not contain control characters";
    /// User of a broker. SASL PLAIN separates user and password by NUL (RFC 4616, section 2).
    UserName, 1..=255, not_control, "must not contain control characters";
    /// Name of a target profile. It is part of an item's key, which DynamoDB limits to 2,048 bytes.
    ProfileName, 1..=255, not_control, "must not contain control characters";
    /// A condition on the properties of messages, in the syntax of JMS selectors. IBM MQ's limit
    /// (MQ_SELECTOR_LENGTH) is beyond what a request without messages may have.
    SelectorExpression, 1..=2_048, not_control, "must not contain control characters";
    /// Body of a message as text. It shares the 4 MB of a request with all other members.
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

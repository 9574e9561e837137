//! Settings of a Kafka cluster: its brokers, topic and login.

use std::fmt;
use std::str::FromStr;

use runtime::Environment;

/// Default value of `KAFKA_CHUNKS_TOPIC`, the topic with an event for each chunk to be loaded.
const CHUNKS: &str = "chunks.ready";
/// Default value of `KAFKA_FAILURES_TOPIC`, the topic of chunks that finally failed.
const FAILURES: &str = "chunks.failed";

/// Maximum characters of a topic's name in Kafka.
const LONGEST_TOPIC: usize = 249;

/// Kafka cluster and topic that records are published to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Brokers to which a client connects first, to fetch the list of all brokers.
    pub servers: BootstrapServers,
    /// Kafka topic that the records are written to.
    pub topic: TopicName,
    /// Login method. Connections are encrypted except for [`Authentication::None`].
    pub authentication: Authentication,
}

/// Topics in one Kafka cluster: for chunks that finally failed, and for all other events. Both may
/// be the same topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventTopics {
    /// Kafka topic of chunks that finally failed.
    pub failures: Settings,
    /// Kafka topic of all events except those sent to `failures`.
    pub events: Settings,
}

/// Login method of the Kafka cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// The cluster needs no login, and uses no TLS.
    None,
    /// Login by the function's IAM role, on Amazon MSK.
    Iam,
    /// Login by user name and password (SASL/SCRAM-SHA-512).
    Scram {
        /// ARN of the Secrets Manager secret with the members `username` and `password`, and with
        /// `ca` (PEM) if a private authority certifies the brokers.
        secret_arn: String,
    },
    /// Login by a client certificate.
    Mtls {
        /// ARN of the Secrets Manager secret with the members `certificate` and `privateKey`, and
        /// with `ca` (PEM) if a private authority certifies the brokers.
        secret_arn: String,
    },
}

/// Addresses of Kafka brokers, each as `host:port`; at least one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BootstrapServers(String);

/// Topic name that Kafka allows: 1 to 249 letters, digits, `.`, `_` and `-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicName(String);

impl Settings {
    /// Reads the settings of the Kafka topic for `chunk.ready` events: `KAFKA_BOOTSTRAP_SERVERS`,
    /// `KAFKA_CHUNKS_TOPIC` (`chunks.ready` by default), `KAFKA_AUTHENTICATION` (`none`, `iam`,
    /// `scram` or `mtls`) and `KAFKA_SECRET_ARN`, which `scram` and `mtls` need.
    pub fn read<F: Fn(&str) -> Option<String>>(environment: &mut Environment<F>) -> Self {
        let topic = environment.optional("KAFKA_CHUNKS_TOPIC", TopicName(CHUNKS.to_owned()));
        Self::of_topic(topic, environment)
    }

    fn of_topic<F: Fn(&str) -> Option<String>>(topic: TopicName, environment: &mut Environment<F>) -> Self {
        Self {
            servers: environment.required("KAFKA_BOOTSTRAP_SERVERS"),
            topic,
            authentication: Authentication::read(environment),
        }
    }
}

impl EventTopics {
    /// Reads `KAFKA_EVENTS_TOPIC` and `KAFKA_FAILURES_TOPIC` (`chunks.failed` by default). Returns
    /// `None`, and reads no further variable, if `KAFKA_EVENTS_TOPIC` is missing.
    pub fn read<F: Fn(&str) -> Option<String>>(environment: &mut Environment<F>) -> Option<Self> {
        let events = environment.given("KAFKA_EVENTS_TOPIC")?;
        let events = Settings::of_topic(events, environment);
        let topic = environment.optional("KAFKA_FAILURES_TOPIC", TopicName(FAILURES.to_owned()));
        Some(Self { failures: Settings { topic, ..events.clone() }, events })
    }
}

impl Authentication {
    fn read<F: Fn(&str) -> Option<String>>(environment: &mut Environment<F>) -> Self {
        let kind: Kind = environment.required("KAFKA_AUTHENTICATION");
        match kind {
            Kind::None => Self::None,
            Kind::Iam => Self::Iam,
            Kind::Scram => Self::Scram { secret_arn: environment.required("KAFKA_SECRET_ARN") },
            Kind::Mtls => Self::Mtls { secret_arn: environment.required("KAFKA_SECRET_ARN") },
        }
    }
}

#[derive(Clone, Copy, Default)]
enum Kind {
    #[default]
    None,
    Iam,
    Scram,
    Mtls,
}

impl FromStr for Kind {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "none" => Ok(Self::None),
            "iam" => Ok(Self::Iam),
            "scram" => Ok(Self::Scram),
            "mtls" => Ok(Self::Mtls),
            _ => Err("must be none, iam, scram or mtls"),
        }
    }
}

impl BootstrapServers {
    /// Returns the bootstrap servers as `host:port,host:port`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for BootstrapServers {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let servers: Vec<&str> = text.split(',').map(str::trim).collect();
        let is_server = |server: &&str| {
            server.rsplit_once(':').is_some_and(|(host, port)| {
                !host.is_empty()
                    && !host.contains(|c: char| c.is_whitespace() || c == '/')
                    && port.parse::<u16>().is_ok_and(|port| port > 0)
            })
        };
        let fault = "must be a list host:port,host:port with ports from 1 to 65535";
        servers.iter().all(is_server).then(|| Self(servers.join(","))).ok_or(fault)
    }
}

impl fmt::Display for BootstrapServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TopicName {
    /// Returns the name of the Kafka topic.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for TopicName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let is_name = (1..=LONGEST_TOPIC).contains(&text.len())
            && text.chars().all(is_allowed)
            && !matches!(text, "." | "..");
        let fault = "must be 1 to 249 letters, digits, '.', '_' and '-', and neither '.' nor '..'";
        is_name.then(|| Self(text.to_owned())).ok_or(fault)
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> (Settings, Result<(), String>) {
        let lookup =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let mut environment = Environment::of(lookup);
        let settings = Settings::read(&mut environment);
        (settings, environment.check().map_err(|error| error.to_string()))
    }

    #[test]
    fn a_cluster_needs_servers_and_a_login() {
        let (settings, checked) = read(&[
            ("KAFKA_BOOTSTRAP_SERVERS", "b-1.example:9098, b-2.example:9098"),
            ("KAFKA_AUTHENTICATION", "iam"),
        ]);
        checked.unwrap();
        assert_eq!(settings.servers.as_str(), "b-1.example:9098,b-2.example:9098");
        assert_eq!(settings.topic.as_str(), "chunks.ready");
        assert_eq!(settings.authentication, Authentication::Iam);
    }

    #[test]
    fn topics_of_events_are_there_if_the_first_is_named() {
        let read = |variables: &[(&str, &str)]| {
            let find = |name: &str| {
                variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            };
            let mut environment = Environment::of(find);
            let topics = EventTopics::read(&mut environment);
            environment.check().map(|()| topics).map_err(|error| error.to_string())
        };
        let cluster = [("KAFKA_BOOTSTRAP_SERVERS", "b-1.example:9092"), ("KAFKA_AUTHENTICATION", "none")];
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&cluster), Ok(None));
        let [servers, login] = cluster;
        let events = ("KAFKA_EVENTS_TOPIC", "batches.received");
        let topics = read(&[servers, login, events]).unwrap().unwrap();
        assert_eq!(topics.events.topic.as_str(), "batches.received");
        assert_eq!(topics.events.servers.as_str(), "b-1.example:9092");
        assert_eq!(topics.failures.topic.as_str(), "chunks.failed");
        let failures = ("KAFKA_FAILURES_TOPIC", "batches.received");
        let topics = read(&[servers, login, events, failures]).unwrap().unwrap();
        assert_eq!(topics.failures, topics.events);
        assert_eq!(read(&[servers, login, failures]), Ok(None));
        let wrong = read(&[("KAFKA_EVENTS_TOPIC", "batches.received")]).unwrap_err();
        assert!(
            wrong.contains("KAFKA_BOOTSTRAP_SERVERS") && wrong.contains("KAFKA_AUTHENTICATION"),
            "{wrong}"
        );
        let wrong = read(&[("KAFKA_EVENTS_TOPIC", "batches received")]).unwrap_err();
        assert!(wrong.contains("KAFKA_EVENTS_TOPIC: must be"), "{wrong}");
    }

    #[test]
    fn everything_wrong_is_reported_together() {
        let (_, checked) = read(&[
            ("KAFKA_BOOTSTRAP_SERVERS", "b-1.example"),
            ("KAFKA_CHUNKS_TOPIC", "chunks ready"),
            ("KAFKA_AUTHENTICATION", "scram"),
        ]);
        let wrong = checked.unwrap_err();
        for part in ["KAFKA_BOOTSTRAP_SERVERS: must be", "KAFKA_CHUNKS_TOPIC: must be", "KAFKA_SECRET_ARN is"]
        {
            assert!(wrong.contains(part), "{part}: {wrong}");
        }
        let wrong = read(&[("KAFKA_AUTHENTICATION", "kerberos")]).1.unwrap_err();
        assert!(wrong.contains("KAFKA_BOOTSTRAP_SERVERS is missing"), "{wrong}");
        assert!(wrong.contains("KAFKA_AUTHENTICATION: must be none, iam, scram or mtls"), "{wrong}");
    }

    #[test]
    fn servers_have_a_host_and_a_port() {
        for text in ["", ",", ":9092", "a:0", "a:65536", "a:9092,", "http://a:9092", "a b:1"] {
            assert!(text.parse::<BootstrapServers>().is_err(), "{text}");
        }
        assert!("[::1]:9092".parse::<BootstrapServers>().is_ok());
    }

    #[test]
    fn topics_have_the_names_that_kafka_allows() {
        let long = "t".repeat(LONGEST_TOPIC + 1);
        for text in [".", "..", "a/b", "é", &long] {
            assert!(text.parse::<TopicName>().is_err(), "{text}");
        }
        assert!("Chunks.ready_2-x".parse::<TopicName>().is_ok());
    }
}

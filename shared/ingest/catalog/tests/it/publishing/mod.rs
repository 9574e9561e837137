//! Publishing the events of the outbox, with a real PostgreSQL, which is the one that
//! `DATABASE_URL` names or one of the test's own, and stand-ins for EventBridge, SNS and Kafka.

mod at_once;
mod kafka_topic;
mod left;
mod stand;

//! Tests of publishing the events of the outbox. The PostgreSQL is a real one, which `DATABASE_URL`
//! names or the tests start; EventBridge, SNS and Kafka are stand-ins.

mod at_once;
mod kafka_topic;
mod left;
mod stand;

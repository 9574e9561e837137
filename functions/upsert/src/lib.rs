//! Writes chunks to the database: from SQS and from Kafka by the same code.

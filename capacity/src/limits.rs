//! Documented limits of AWS and of the deployment, with their sources. One limit is left out,
//! because triggers of queues never reach it: Lambda adds at most 1,000 environments in ten seconds
//! to each function (AWS Lambda Developer Guide, "Lambda scaling behavior").

/// Number of invocations that an SQS trigger runs at once before it scales. `POLLERS_PER_SECOND` is
/// the number that it adds each second, and `MOST_POLLERS` the maximum (AWS Lambda Developer Guide,
/// "Configuring scaling behavior for SQS event source mappings": 5, 300 a minute, 1,250; until 2023
/// it was 60 a minute).
pub(crate) const FIRST_POLLERS: f64 = 5.0;
pub(crate) const POLLERS_PER_SECOND: f64 = 5.0;
pub(crate) const MOST_POLLERS: f64 = 1250.0;

/// MB of memory with which a function has one vCPU (AWS Lambda Developer Guide, "Configure Lambda
/// function memory").
pub(crate) const MB_OF_VCPU: f64 = 1769.0;
/// Memory in MB of `product-ingest`, which accepts catalogues. `CHUNKER_MB` and `DISPATCH_MB` are
/// those of `chunker` and `dispatch` (deploy/template/ingest.yaml and stack.yaml). The memory of
/// `upsert` is a flag of the command line.
pub(crate) const ACCEPT_MB: f64 = 1769.0;
pub(crate) const CHUNKER_MB: f64 = 3008.0;
pub(crate) const DISPATCH_MB: f64 = 256.0;

/// Maximum number of messages in one invocation of `dispatch` (deploy/template/ingest.yaml).
pub(crate) const DISPATCHED_TOGETHER: u32 = 10;

/// Number of requests that API Gateway admits in one burst (deploy/template/api.yaml).
pub(crate) const API_BURST: f64 = 1000.0;
/// Maximum size in bytes of a catalogue in a request body (docs/ingest.md). A larger one is
/// uploaded to S3.
pub(crate) const MOST_BODY: f64 = 4_500_000.0;
/// Number of bytes of a request's body that API Gateway charges as one request (Amazon API Gateway
/// pricing).
pub(crate) const API_BYTES: f64 = 524_288.0;

/// Number of puts per second that S3 takes for one prefix (Amazon S3 User Guide, "Optimizing Amazon
/// S3 performance": at least 3,500). S3 splits busier prefixes by itself, but only after a while.
pub(crate) const PUTS_PER_SECOND: f64 = 3500.0;
/// Number of writes per second that a new table takes (Amazon DynamoDB Developer Guide, "DynamoDB
/// on-demand capacity mode": 4,000, later twice the previous peak; a partition has 1,000).
/// `TABLE_WRITES` is the number of table writes for each batch (docs/costs.md).
pub(crate) const TABLE_WRITES_PER_SECOND: f64 = 4000.0;
pub(crate) const TABLE_WRITES: f64 = 3.0;

/// Number of chunks that the chunker puts into S3 at once (`MAX_STORING` in
/// functions/ingest/chunker). `TAGS_AT_ONCE` is the number of objects that the end of a batch tags
/// at once (`AT_ONCE` in shared/platform/objects).
pub(crate) const PUTS_AT_ONCE: f64 = 4.0;
pub(crate) const TAGS_AT_ONCE: f64 = 16.0;
/// Maximum number of messages in one `SendMessageBatch` call (Amazon SQS Developer Guide).
pub(crate) const MESSAGES_OF_CALL: f64 = 10.0;

/// Seconds that `upsert` waits for a lock before it sends the chunk's message again, as a new one
/// (docs/ingest-internals.md).
pub(crate) const LOCK_SECONDS: f64 = 15.0;
/// Largest capacity in ACUs of one Aurora Serverless v2 database (Amazon Aurora User Guide).
pub(crate) const MOST_ACUS: f64 = 256.0;
/// Bytes of a page of PostgreSQL, and bytes of write-ahead log that Aurora charges as one write.
pub(crate) const PAGE_BYTES: f64 = 8192.0;
pub(crate) const LOG_WRITE_BYTES: f64 = 4096.0;

pub(crate) const MB_OF_GB: f64 = 1024.0;
pub(crate) const HOURS_OF_MONTH: f64 = 730.0;
/// Memory in MB of the gateway's API functions (deploy/template/gateway.yaml). `MQ_ACCESS_MB` is
/// that of `mq-access` (brokers.yaml).
pub(crate) const GATEWAY_MB: f64 = 512.0;
pub(crate) const MQ_ACCESS_MB: f64 = 1152.0;

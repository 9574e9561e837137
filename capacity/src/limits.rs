//! Documented limits, with their sources. Lambda also adds at most 1,000 environments in ten
//! seconds to each function (AWS Lambda Developer Guide, "Lambda scaling behavior"), which triggers
//! of queues never reach.

/// Messages that a trigger processes at once before it adds pollers, how many it adds a second, and
/// how many it has at most (AWS Lambda Developer Guide, "Configuring scaling behavior for SQS event
/// source mappings": 5, 300 a minute, 1,250; until 2023 it was 60 a minute).
pub(crate) const FIRST_POLLERS: f64 = 5.0;
pub(crate) const POLLERS_PER_SECOND: f64 = 5.0;
pub(crate) const MOST_POLLERS: f64 = 1250.0;

/// MB of memory with which a function has one vCPU (AWS Lambda Developer Guide, "Configure Lambda
/// function memory").
pub(crate) const MB_OF_VCPU: f64 = 1769.0;
/// Memory of functions in MB (deploy/template/ingest.yaml). That of `upsert` is asked for.
pub(crate) const ACCEPT_MB: f64 = 1769.0;
pub(crate) const CHUNKER_MB: f64 = 3008.0;
pub(crate) const DISPATCH_MB: f64 = 256.0;

/// Messages of an invocation of `dispatch` (deploy/template/ingest.yaml).
pub(crate) const DISPATCHED_TOGETHER: u32 = 10;

/// Requests that the API lets through at once (deploy/template/api.yaml).
pub(crate) const API_BURST: f64 = 1000.0;
/// Bytes of the largest request (docs/ingest.md). A larger catalogue is uploaded.
pub(crate) const MOST_BODY: f64 = 4_500_000.0;
/// Bytes of a request that are charged as one (Amazon API Gateway pricing).
pub(crate) const API_BYTES: f64 = 524_288.0;

/// Puts a second of a prefix that S3 has not split yet (Amazon S3 User Guide, "Optimizing Amazon S3
/// performance": at least 3,500). It splits busy prefixes by itself, which takes a while.
pub(crate) const PUTS_PER_SECOND: f64 = 3500.0;
/// Writes a second of a new table (Amazon DynamoDB Developer Guide, "DynamoDB on-demand capacity
/// mode": 4,000, later twice the peak before; a partition has 1,000), and writes of a batch
/// (docs/costs.md).
pub(crate) const TABLE_WRITES_PER_SECOND: f64 = 4000.0;
pub(crate) const TABLE_WRITES: f64 = 3.0;

/// Puts of the chunker at the same time (`MAX_STORING` in functions/ingest/chunker), and tags at
/// the end of a batch (`AT_ONCE` in shared/platform/objects).
pub(crate) const PUTS_AT_ONCE: f64 = 4.0;
pub(crate) const TAGS_AT_ONCE: f64 = 16.0;
/// Messages of a call (Amazon SQS Developer Guide).
pub(crate) const MESSAGES_OF_CALL: f64 = 10.0;

/// Longest wait for a lock, after which a chunk is sent again (docs/ingest-internals.md).
pub(crate) const LOCK_SECONDS: f64 = 15.0;
/// Largest capacity of a database of Aurora Serverless v2 (Amazon Aurora User Guide).
pub(crate) const MOST_ACUS: f64 = 256.0;
/// Bytes of a page of PostgreSQL, and of log that Aurora charges as one write.
pub(crate) const PAGE_BYTES: f64 = 8192.0;
pub(crate) const LOG_WRITE_BYTES: f64 = 4096.0;

pub(crate) const MB_OF_GB: f64 = 1024.0;
pub(crate) const HOURS_OF_MONTH: f64 = 730.0;
/// Memory of a function of the gateway and of `mq-access` in MB (deploy/template/gateway.yaml).
pub(crate) const GATEWAY_MB: f64 = 512.0;
pub(crate) const MQ_ACCESS_MB: f64 = 1152.0;

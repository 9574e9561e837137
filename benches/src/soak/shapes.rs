//! Requests that hostile callers send, and the answers that they are to get.

use std::io::Write as _;
use std::sync::LazyLock;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use product_ingest::PRODUCTS;
use serde_json::{Value, json};

use crate::callers::BATCHES;
use crate::callers::messages::{CONSUME, PRODUCE, request};
use crate::http_client::Call;

/// API key of a hostile caller: tenant A's with all scopes. The well-behaved callers belong to
/// another tenant.
const ALL_SCOPES: &str = "local-dev-key-a";
/// API key of a hostile caller: tenant A's that may only read.
const READS_ONLY: &str = "local-readonly-key";
/// API key of a hostile caller: the pharmacy's, for the products of its own establishments.
const PHARMACY: &str = "local-pharmacy-key";

const DEPTH: &str = "/queue/depth";
const CONNECTION_TEST: &str = "/connections/test";

const EMPTY: &str = "soak.hostile.empty";
const REUSED: &str = "soak.hostile.reused";
const LARGE: &str = "soak.hostile.large";
/// Queues of the hostile callers, which exist while the soak runs.
pub(super) const QUEUES: [&str; 3] = [EMPTY, REUSED, LARGE];

const MB: usize = 1_000_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) name: &'static str,
    pub(super) expected: &'static [u16],
    pub(super) call: fn(&Turn) -> Call,
}

/// Values that differ from one hostile request to the next.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) key: String,
    pub(super) number: u64,
    /// Id of a batch of a tenant whose API key no hostile caller has.
    pub(super) foreign_batch: String,
}

/// Hostile request that browses an empty queue for the maximum wait of 20 seconds.
pub(super) const LONG_BROWSE: Shape = shape("long browse", &[200], |_| {
    request(CONSUME, READS_ONLY, EMPTY, json!({"browseOnly": true, "waitSeconds": 20}))
});

const fn shape(name: &'static str, expected: &'static [u16], call: fn(&Turn) -> Call) -> Shape {
    Shape { name, expected, call }
}

pub(super) const SHAPES: [Shape; 25] = [
    shape("long name over a long array", &[400], |turn| keyed(turn, PRODUCE, gzip(&NAME_OVER_ARRAY))),
    shape("name of 3.5 MB", &[400], |turn| keyed(turn, PRODUCE, gzip(&LONG_NAME))),
    shape("name of slashes", &[400], |turn| keyed(turn, PRODUCE, gzip(&SLASHES))),
    shape("deep nesting", &[400], |turn| keyed(turn, PRODUCE, gzip("[".repeat(100_000).as_bytes()))),
    shape("no UTF-8", &[400], |_| depth(b"{\"targetRef\":\"\xff\"}")),
    shape("member twice", &[400], |_| depth(br#"{"targetRef":"local-rabbit","targetRef":"local-rabbit"}"#)),
    shape("long targetRef", &[400], |_| depth(json!({"targetRef": "r".repeat(5000)}).to_string().as_bytes())),
    shape("gzip bomb", &[413], |_| depth_as_sent(BOMB.clone())),
    shape("corrupt gzip", &[400], |_| {
        depth_as_sent(Bytes::from_static(b"\x1f\x8b\x08\0\0\0\0\0\0\x03garbage"))
    }),
    shape("array of 250,000 messages", &[400], |turn| keyed(turn, PRODUCE, gzip(&MANY_MESSAGES))),
    shape("flood of addresses", &[413], |_| connection_test(&json!(MANY_ADDRESSES.as_str()), "/")),
    shape("sixteen closed ports", &[200], |_| connection_test(&json!(closed_ports()), "/")),
    shape("long queue manager", &[413], |_| connection_test(&json!("127.0.0.1:5672"), &"q".repeat(MB))),
    shape("host that is not allowed", &[403], |_| connection_test(&json!("192.0.2.1:5672"), "/")),
    shape("secret that is not granted", &[403], |_| {
        let auth = json!({"user": "u", "passwordRef": "secret://other/one"});
        let target = json!({"broker": "rabbitmq", "connName": "127.0.0.1:5672", "queue": "Q", "auth": auth});
        Call::post(CONNECTION_TEST, READS_ONLY, json!({"target": target}).to_string())
    }),
    shape("reused key", &[201, 409], |turn| {
        // Eight bodies for each key.
        let key = format!("00000000-0000-4000-8000-{:012x}", turn.number / 8);
        let messages = json!({"messages": [{"bodyText": turn.number.to_string()}]});
        request(PRODUCE, ALL_SCOPES, REUSED, messages).with("idempotency-key", &key)
    }),
    shape("large messages", &[201], |turn| {
        let batch = json!({"batch": {"count": 2, "messageSizeBytes": 4_194_304}});
        request(PRODUCE, ALL_SCOPES, LARGE, batch).with("idempotency-key", &turn.key)
    }),
    shape("large messages, got", &[200, 422], |turn| {
        let consume = json!({"maxMessages": 100, "waitSeconds": 0, "ack": "none"});
        request(CONSUME, ALL_SCOPES, LARGE, consume).with("idempotency-key", &turn.key)
    }),
    shape("write with a key that reads", &[403], |turn| {
        Call::post(PRODUCE, READS_ONLY, "{}").with("idempotency-key", &turn.key)
    }),
    shape("guessed API keys", &[401], |turn| Call::get(BATCHES, &turn.key)),
    shape("headers of 64 KB", &[200, 400, 431], |_| {
        let value = "h".repeat(8000);
        let names = ["a1", "a2", "a3", "a4", "a5", "a6", "a7", "x-trace-id"];
        names.into_iter().fold(Call::get("/health/live", READS_ONLY), |call, name| call.with(name, &value))
    }),
    shape("another tenant's batch", &[404], |turn| {
        Call::get(format!("{BATCHES}/{}/errors", turn.foreign_batch), ALL_SCOPES)
    }),
    shape("replay of another tenant's batch", &[404], |turn| {
        let path = format!("{BATCHES}/{}/replay", turn.foreign_batch);
        let replay = r#"{"scope":"all","confirm_deactivation":true}"#;
        Call::post(path, ALL_SCOPES, replay).with("idempotency-key", &turn.key)
    }),
    shape("long cursor", &[400], |_| Call::get(format!("{BATCHES}?cursor={}", "c".repeat(7000)), READS_ONLY)),
    shape("catalogue of others' and broken items", &[202], |turn| {
        let broken = r#"{"CNPJ":"11222333000182","SHOPID":1,"PRODUCTID":1},"#.repeat(1000);
        let others = r#"{"CNPJ":"00000000000191","SHOPID":1,"PRODUCTID":1},"#.repeat(1000);
        let catalogue = format!("[{broken}{others}{}]", turn.number);
        Call::post(PRODUCTS.path, PHARMACY, gzip(catalogue.as_bytes()))
            .with("content-encoding", "gzip")
            .with("x-inova-load-type", "full")
            .with("idempotency-key", &turn.key)
    }),
];

static NAME_OVER_ARRAY: LazyLock<Vec<u8>> =
    LazyLock::new(|| format!("{{\"{}\":[0{}]}}", "a".repeat(2 * MB), ",0".repeat(MB - 10)).into_bytes());
static LONG_NAME: LazyLock<Vec<u8>> =
    LazyLock::new(|| format!("{{\"{}\":1}}", "a".repeat(7 * MB / 2)).into_bytes());
static SLASHES: LazyLock<Vec<u8>> =
    LazyLock::new(|| format!("{{\"{}\":1}}", "/".repeat(2 * MB)).into_bytes());
/// Gzip bomb: 64 KB that decompress to 64 MB.
static BOMB: LazyLock<Bytes> = LazyLock::new(|| gzip(&vec![b' '; 64 * MB]));
static MANY_MESSAGES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let messages = r#",{"bodyText":""}"#.repeat(249_000);
    format!(r#"{{"targetRef":"local-rabbit","messages":[{{"bodyText":""}}{messages}]}}"#).into_bytes()
});
static MANY_ADDRESSES: LazyLock<String> =
    LazyLock::new(|| format!("127.0.0.1:1{}", ",127.0.0.1:1".repeat(100_000)));

fn closed_ports() -> String {
    let addresses: Vec<_> = (1..=16).map(|port| format!("127.0.0.1:{port}")).collect();
    addresses.join(",")
}

fn depth(body: &[u8]) -> Call {
    depth_as_sent(gzip(body))
}

fn depth_as_sent(body: Bytes) -> Call {
    Call::post(DEPTH, READS_ONLY, body).with("content-encoding", "gzip")
}

fn keyed(turn: &Turn, path: &str, body: Bytes) -> Call {
    Call::post(path, ALL_SCOPES, body).with("content-encoding", "gzip").with("idempotency-key", &turn.key)
}

fn connection_test(addresses: &Value, queue_manager: &str) -> Call {
    let target = json!({
        "broker": "rabbitmq", "connName": addresses, "queueManager": queue_manager, "queue": "Q"
    });
    let body = gzip(json!({"target": target}).to_string().as_bytes());
    Call::post(CONNECTION_TEST, READS_ONLY, body).with("content-encoding", "gzip")
}

fn gzip(content: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing into memory does not fail.
    let _ = encoder.write_all(content);
    encoder.finish().unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_for_its_shape_is_not_refused_for_its_size() {
        for body in [&*NAME_OVER_ARRAY, &*LONG_NAME, &*SLASHES, &*MANY_MESSAGES] {
            assert!(body.len() < 4 * 1024 * 1024 && gzip(body).len() < 64 * 1024, "{}", body.len());
        }
    }
}

//! Pharmacies of the storm test, which send catalogues and repeat each request until it is
//! accepted.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use end_to_end::{gzip, variable};
use ingestion::Cnpj;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

use crate::crash::stand::function::Function;
use crate::crash::stand::{answer, http_event};

const PATH: &str = "/v1/inovafarma/products";
/// Number of different products that an establishment may have.
const PRODUCTS: u32 = 400;
/// Maximum number of attempts to send one catalogue.
const TRIES: u32 = 200;

/// Item of a catalogue that was sent, as the model needs it.
#[derive(Clone, Debug)]
pub(crate) enum SentItem {
    Good {
        key: Key,
        title: String,
        updated_at: Option<Timestamp>,
    },
    /// Item that must be reported as an error, with the product's key, or `None` if the key cannot
    /// be read.
    Bad(Option<Key>),
}

/// Key of a product in the storm test: CNPJ of the establishment, and product id.
pub(crate) type Key = (String, String);

/// Batch that the ingest accepted, with the items that were sent.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) batch_id: Uuid,
    pub(crate) tenant_id: Uuid,
    pub(crate) api_key: String,
    pub(crate) is_full: bool,
    pub(crate) received_at: Timestamp,
    pub(crate) items: Vec<SentItem>,
}

#[derive(Clone, Debug)]
pub(crate) struct Tenant {
    pub(super) id: Uuid,
    pub(super) api_key: String,
    cnpjs: [String; 2],
    ingest: Function,
    records: aws_sdk_dynamodb::Client,
}

impl Tenant {
    /// Creates a tenant with two establishments. All tenants send products of the first one, which
    /// belongs to the tenant that loads it first. The second one is the tenant's own.
    pub(crate) fn new(
        id: Uuid,
        api_key: String,
        index: u32,
        ingest: Function,
        records: aws_sdk_dynamodb::Client,
    ) -> Self {
        let cnpj = |root: u32| Cnpj::from_base(&format!("{root:08}0001")).unwrap().to_string();
        Self { id, api_key, cnpjs: [cnpj(10_000_000), cnpj(20_000_000 + index)], ingest, records }
    }

    /// Sends random catalogues for the time `lasts`, and returns their batches.
    pub(crate) async fn send_for(self, lasts: Duration, mut random: fastrand::Rng) -> Vec<Sent> {
        let until = Instant::now() + lasts;
        let mut sent = Vec::new();
        while Instant::now() < until {
            sent.push(self.send_one(&mut random).await);
            tokio::time::sleep(Duration::from_millis(random.u64(50..800))).await;
        }
        sent
    }

    /// Sends one random catalogue under one idempotency key until it is accepted, and returns its
    /// batch.
    pub(crate) async fn send_one(&self, random: &mut fastrand::Rng) -> Sent {
        let is_full = random.f64() < 0.4;
        let (members, items) = self.catalogue(random);
        let body = gzip(Value::Array(members).to_string().as_bytes(), 1);
        let key = Uuid::new_v4();
        let headers = json!({
            "content-type": "application/json",
            "content-encoding": "gzip",
            "idempotency-key": key.to_string(),
            "x-inova-api-key": self.api_key,
            "x-inova-load-type": if is_full { "full" } else { "delta" },
        });
        let event = http_event("POST", PATH, headers, &body);
        for _ in 0..TRIES {
            let taken = answer(&event, &self.ingest.invoke(event.to_string().into()).await);
            match taken.status {
                202 => {
                    let batch = taken.json();
                    let text = |name: &str| batch[name].as_str().unwrap().to_owned();
                    return Sent {
                        batch_id: text("batch_id").parse().unwrap(),
                        tenant_id: self.id,
                        api_key: self.api_key.clone(),
                        is_full,
                        received_at: text("received_at").parse().unwrap(),
                        items,
                    };
                }
                409 => self.age("INGEST", &key.to_string()).await,
                500 | 503 => tokio::time::sleep(Duration::from_millis(100)).await,
                _ => panic!("{}: {}", taken.status, String::from_utf8_lossy(&taken.bytes)),
            }
        }
        panic!("{key} was never taken");
    }

    /// Ends the lease of an execution that was killed, as if its time were over. Changes nothing if
    /// the execution has finished.
    pub(super) async fn age(&self, operation: &str, key: &str) {
        let update = self.records.update_item().table_name(variable("IDEMPOTENCY_TABLE"));
        let aged = update
            .key("pk", AttributeValue::S(format!("{operation}#{}#{key}", self.id)))
            .update_expression("SET leaseExpiresAt = :over")
            .condition_expression("#status = :under_way")
            .expression_attribute_names("#status", "status")
            .expression_attribute_values(":over", AttributeValue::N("1".to_owned()))
            .expression_attribute_values(":under_way", AttributeValue::S("IN_PROGRESS".to_owned()))
            .send()
            .await;
        if let Err(error) = aged {
            let error = error.into_service_error();
            assert!(error.is_conditional_check_failed_exception(), "{error:?}");
        }
    }

    pub(super) fn catalogue(&self, random: &mut fastrand::Rng) -> (Vec<Value>, Vec<SentItem>) {
        let unreadable = random.f64() < 0.2;
        let one = |random: &mut fastrand::Rng| {
            let key = (self.cnpjs[random.usize(0..2)].clone(), format!("p{}", random.u32(0..PRODUCTS)));
            let title = format!("Dipirona {}", random.u32(0..5));
            let mut item =
                json!({"CNPJ": key.0, "SHOPID": 1, "PRODUCTID": key.1, "TITLE": title, "PRICE": "12.90"});
            if random.f64() < 0.01 {
                item["PRICE"] = json!("12,90");
                return (item, SentItem::Bad(Some(key)));
            }
            if unreadable && random.f64() < 0.01 {
                item["CNPJ"] = json!("11222333000182");
                return (item, SentItem::Bad(None));
            }
            // No time, one long ago, or one of a clock that is far ahead.
            let updated_at = match random.u32(0..10) {
                0..4 => None,
                4..9 => Some(format!("2026-01-{:02} {:02}:00:00", random.u32(1..29), random.u32(0..24))),
                _ => Some("2099-01-01 00:00:00".to_owned()),
            };
            if let Some(local) = &updated_at {
                item["DATAATUALIZACAOPRODUTO"] = json!(local);
            }
            let updated_at = updated_at.map(|local| format!("{local}-03:00").parse().unwrap());
            (item, SentItem::Good { key, title, updated_at })
        };
        (0..random.u32(600..1600)).map(|_| one(random)).unzip()
    }
}

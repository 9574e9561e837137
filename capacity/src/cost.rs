use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::value::Datetime;

use crate::answer::Answer;
use crate::limits::{
    API_BYTES, GATEWAY_MB, HOURS_OF_MONTH, LOG_WRITE_BYTES, MB_OF_GB, MESSAGES_OF_CALL, MQ_ACCESS_MB,
    TABLE_WRITES,
};
use crate::question::Question;
use crate::service_times::ServiceTimes;

/// Price lists of AWS by region, as in `prices.toml`, which also names the source of each price.
#[derive(Debug, Deserialize)]
pub(crate) struct PriceLists(BTreeMap<String, Prices>);

/// Prices of AWS in one region, in USD. A field's name is the unit that its price is for.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Prices {
    /// Day on which the prices were valid.
    as_of: Datetime,
    unverified: Vec<String>,
    lambda_arm64_gb_second: f64,
    lambda_x86_gb_second: f64,
    lambda_million_requests: f64,
    http_api_million_requests: f64,
    sqs_million_requests: f64,
    s3_thousand_puts: f64,
    s3_thousand_gets: f64,
    s3_gb_month: f64,
    s3_ten_thousand_tags_month: f64,
    dynamodb_million_writes: f64,
    aurora_acu_hour: f64,
    aurora_gb_month: f64,
    aurora_million_ios: f64,
    rds_vcpu_hour: f64,
    rds_gb_month: f64,
    logs_gb: f64,
    machine_hour: f64,
    ebs_gb_month: f64,
}

/// Line of the bill in USD: the cost of one peak, and of a month with 30 such peaks and no other
/// load.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) peak: f64,
    pub(crate) month: f64,
}

impl PriceLists {
    pub(crate) fn of(&self, region: &str) -> Option<&Prices> {
        self.0.get(region)
    }
}

impl Prices {
    pub(crate) fn add_to(&self, answer: &mut Answer, question: &Question, times: &ServiceTimes) {
        let (prices, sizes) = (self, times.sizes);
        let (payloads, chunks, items) = (answer.payloads, answer.chunks, answer.items);
        // An upload goes to S3, and a short request announces it.
        let requests = if question.is_uploaded(sizes) {
            payloads
        } else {
            payloads * (f64::from(question.products) * sizes.gzip / API_BYTES).ceil()
        };
        let invocations: f64 = answer.functions.iter().map(|function| function.invocations).sum();
        let gb_seconds: f64 = answer.functions.iter().map(|function| function.gb_seconds).sum();
        // A notification, the same with a group, and the chunks: each sent, received and deleted.
        let messages = payloads * 6.0 + chunks * (2.0 + 1.0 / MESSAGES_OF_CALL);
        let objects = payloads + chunks;
        let stored = items * (sizes.gzip + sizes.chunk) / 1e9;
        let kept = stored * prices.s3_gb_month + objects * prices.s3_ten_thousand_tags_month / 1e4;
        answer.cost = [
            ("API Gateway", requests * prices.http_api_million_requests / 1e6),
            ("Lambda, GB-s", gb_seconds * prices.lambda_arm64_gb_second),
            ("Lambda, requests", invocations * prices.lambda_million_requests / 1e6),
            ("SQS", messages * prices.sqs_million_requests / 1e6),
            ("S3, puts and tags", 2.0 * objects * prices.s3_thousand_puts / 1e3),
            ("S3, gets", objects * prices.s3_thousand_gets / 1e3),
            ("S3, storage for 30 days", kept),
            ("DynamoDB", payloads * TABLE_WRITES * prices.dynamodb_million_writes / 1e6),
            ("logs", invocations * sizes.log / 1e6 * prices.logs_gb),
        ]
        .map(|(name, peak)| Line { name, peak, month: peak * 30.0 })
        .into();
        answer.cost.extend(self.database(answer, question));
        let peak = answer.cost.iter().map(|line| line.peak).sum();
        let month = answer.cost.iter().map(|line| line.month).sum();
        answer.cost.push(Line { name: "together", peak, month });
        answer.gateway_million = self.gateway_million(times);
        let functions = times.functions;
        let row = question.mean(functions.write_us_per_row)
            + functions.cut_us_per_item
            + functions.accept_us_per_item;
        answer.machines = (items * row * 1e-6 / answer.all_within / 2.0).ceil();
        let disk = stored * 30.0 * prices.ebs_gb_month;
        answer.machines_month = answer.machines * prices.machine_hour * HOURS_OF_MONTH + disk;
        answer.prices_as_of = prices.as_of.to_string();
        answer.unverified.clone_from(&prices.unverified);
    }

    fn database(&self, answer: &Answer, question: &Question) -> [Line; 3] {
        let (prices, database) = (self, &question.database);
        let hours = answer.all_within / 3600.0;
        // A smaller volume of RDS has fewer reads a second than the model gives it.
        let least_gb = if database.is_serverless { 0.0 } else { 400.0 };
        let gb = (answer.products_gb + answer.history_gb).max(least_gb);
        let (capacity, idle, gb_month, ios) = if database.is_serverless {
            let idle = database.idle_acus() * prices.aurora_acu_hour;
            let ios = answer.pages_read + answer.log_gb * 1e9 / LOG_WRITE_BYTES;
            let ios = ios * prices.aurora_million_ios / 1e6;
            (database.acus() * prices.aurora_acu_hour, idle, prices.aurora_gb_month, ios)
        } else {
            let instance = database.vcpus * prices.rds_vcpu_hour;
            (instance, instance, prices.rds_gb_month, 0.0)
        };
        let month = 30.0 * hours * capacity + (HOURS_OF_MONTH - 30.0 * hours).max(0.0) * idle;
        [
            Line { name: "database, capacity", peak: hours * capacity, month },
            Line { name: "database, storage", peak: gb * gb_month / 30.0, month: gb * gb_month },
            Line { name: "database, reads and writes", peak: ios, month: ios * 30.0 },
        ]
    }

    /// Returns the cost in USD of a million produces of 1 KB. Each has one API request, two
    /// function invocations at the same time, two table writes and a log line.
    fn gateway_million(&self, times: &ServiceTimes) -> f64 {
        let second = GATEWAY_MB * self.lambda_arm64_gb_second + MQ_ACCESS_MB * self.lambda_x86_gb_second;
        self.http_api_million_requests
            + 2.0 * self.lambda_million_requests
            + second / MB_OF_GB * times.waits.gateway_request * 1e3
            + 2.0 * self.dynamodb_million_writes
            + times.sizes.log * self.logs_gb
    }
}

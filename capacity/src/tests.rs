use clap::Parser;

use crate::answer::Answer;
use crate::cost::Line;
use crate::service_times::ServiceTimes;
use crate::{Cli, PRICES, PlanError, Question, SERVICE_TIMES};

fn question(flags: &str) -> Question {
    Cli::try_parse_from(std::iter::once("plan").chain(flags.split_whitespace())).unwrap().question
}

fn times() -> ServiceTimes {
    toml::from_str(SERVICE_TIMES).unwrap()
}

fn plan(flags: &str, times: &ServiceTimes, prices: &str) -> Result<Answer, PlanError> {
    crate::plan(&question(flags), times, &toml::from_str(prices).unwrap())
}

fn answer(flags: &str) -> Answer {
    plan(flags, &times(), PRICES).unwrap()
}

const PEAKS: [&str; 7] = [
    "--pharmacies 60 --window 1",
    "--pharmacies 60 --window 0 --new 1 --changed 0 --upsert-concurrency 20",
    "--pharmacies 60 --window 0 --changed 0 --delta --upsert-concurrency 20",
    "--pharmacies 60 --products 20500 --window 1 --database db.r7g.large --region sa-east-1",
    "--pharmacies 20 --window 1 --flood 10 --upsert-concurrency 50 --chunker-concurrency 5",
    "--pharmacies 20 --window 1 --flood 10 --without-groups --account-concurrency 10",
    "--pharmacies 8 --window 0 --local-cores 2 --upsert-concurrency 8",
];

#[test]
fn every_chunk_is_written_once_and_every_batch_ends() {
    for flags in PEAKS {
        let (answer, question) = (answer(flags), question(flags));
        assert_eq!(answer.open, 0, "{flags}");
        let invocations: Vec<_> = answer.functions.iter().map(|function| function.invocations).collect();
        let payloads = answer.payloads;
        let dispatched = if question.without_groups { 0.0 } else { payloads };
        assert_eq!(invocations, [payloads, dispatched, payloads, answer.chunks], "{flags}");
        assert!(answer.to_final.p50 > 0.0 && answer.to_final.p50 <= answer.to_final.last, "{flags}");
    }
}

#[test]
fn the_same_question_has_the_same_answer() {
    for flags in PEAKS {
        let [one, other] =
            [answer(flags), answer(flags)].map(|answer| serde_json::to_string(&answer).unwrap());
        assert_eq!(one, other);
    }
}

#[test]
fn more_concurrency_is_never_later() {
    let last = |concurrency| {
        answer(&format!("--pharmacies 300 --window 1 --upsert-concurrency {concurrency}")).all_within
    };
    let times = [2, 4, 8, 16, 32, 64].map(last);
    assert!(times.is_sorted_by(|less, more| more <= &(less * 1.02)), "{times:?}");
}

#[test]
fn more_catalogues_and_more_changes_are_never_earlier() {
    let last = |flags: &str| answer(&format!("{flags} --window 1 --upsert-concurrency 8")).all_within;
    let is_sorted = |times: [f64; 4]| times.is_sorted_by(|less, more| *less <= more + 1e-6);
    let times = [75, 150, 300, 600].map(|pharmacies| last(&format!("--pharmacies {pharmacies}")));
    assert!(is_sorted(times), "{times:?}");
    let times =
        ["0", "0.1", "0.5", "1"].map(|changed| last(&format!("--pharmacies 300 --changed {changed}")));
    assert!(is_sorted(times), "{times:?}");
}

/// Checks that a database which is always busy needs its total work divided by its number of vCPUs.
#[test]
fn a_full_database_takes_as_long_as_its_work() {
    let answer =
        answer("--pharmacies 100 --window 0 --new 1 --changed 0 --database 2acu --upsert-concurrency 50");
    let closed_form = answer.database_cpu / answer.vcpus;
    assert!((answer.all_within / closed_form - 1.0).abs() < 0.1, "{} {closed_form}", answer.all_within);
    assert_eq!(answer.resources[0].name, "CPU of the database");
}

#[test]
fn a_flood_delays_others_for_five_minutes_only_without_groups() {
    for concurrency in [8, 64] {
        let p95 = |flags: &str| {
            let load = "--pharmacies 200 --window 5 --database 64acu --upsert-concurrency";
            answer(&format!("{load} {concurrency} {flags}")).to_final.p95
        };
        let [alone, fair, unfair] = ["", "--flood 10", "--flood 10 --without-groups"].map(p95);
        assert!(fair < 2.0 * alone, "{concurrency}: {fair} beside {alone}");
        assert!(unfair > 2.0 * alone, "{concurrency}: {unfair} beside {alone}");
    }
}

#[test]
fn a_flood_that_takes_longer_delays_others_once_its_tenant_counts_as_quiet() {
    let flags = "--pharmacies 200 --window 10 --database 64acu --upsert-concurrency 8";
    let mut times = times();
    let mut p95 = |flood: &str, quiet_after: f64| {
        times.queues.quiet_after = quiet_after;
        plan(&format!("{flags} {flood}"), &times, PRICES).unwrap().to_final.p95
    };
    let alone = p95("", 300.0);
    assert!(p95("--flood 10", f64::INFINITY) < 2.0 * alone);
    assert!(p95("--flood 10", 300.0) > 50.0 * alone);
}

#[test]
fn each_line_of_cost_is_positive_or_nothing() {
    for flags in PEAKS {
        let answer = answer(flags);
        let (lines, together) = answer.cost.split_at(answer.cost.len() - 1);
        assert!(lines.iter().all(|line| line.peak >= 0.0 && line.month >= 0.0), "{lines:?}");
        let sum: f64 = lines.iter().map(|line| line.month).sum();
        assert!((sum - together[0].month).abs() < 1e-9 && sum > 0.0);
    }
}

/// Price list in which every price is one dollar, so that the amount of a bill's line is the number
/// of units that it charges.
const A_DOLLAR: &str = "
[us-east-1]
as-of = 2026-01-31
unverified = []
lambda-arm64-gb-second = 1.0
lambda-x86-gb-second = 1.0
lambda-million-requests = 1.0
http-api-million-requests = 1.0
sqs-million-requests = 1.0
s3-thousand-puts = 1.0
s3-thousand-gets = 1.0
s3-gb-month = 1.0
s3-ten-thousand-tags-month = 1.0
dynamodb-million-writes = 1.0
aurora-acu-hour = 1.0
aurora-gb-month = 1.0
aurora-million-ios = 1.0
rds-vcpu-hour = 1.0
rds-gb-month = 1.0
logs-gb = 1.0
machine-hour = 1.0
ebs-gb-month = 1.0
";

fn bill(flags: &str) -> Vec<Line> {
    plan(flags, &times(), A_DOLLAR).unwrap().cost
}

/// Checks the two amounts of a line of the bill, for one peak and for a month, to six digits.
fn assert_amounts(line: &Line, peak: f64, month: f64) {
    let is_near = |amount: f64, expected: f64| (amount - expected).abs() <= 1e-6 * expected;
    assert!(is_near(line.peak, peak) && is_near(line.month, month), "{line:?}, not {peak}, {month}");
}

/// Compares the bill with amounts that were calculated by hand, from the files with times and
/// sizes.
#[test]
fn each_line_of_cost_has_the_amount_of_what_it_counts() {
    // One catalogue of 20,000 items in 20 chunks, of which none changed.
    let lines = bill("--pharmacies 1 --window 0 --changed 0 --delta");
    let expected = [
        // 2.14 MB are five steps of 512 KB.
        ("API Gateway", 5e-6),
        // 0.341826 s with 1,769 MB, 0.28 s with 256, 0.459545 s with 3,008 and 1.534400 s with 512.
        ("Lambda, GB-s", 2.777_632_242),
        // One of each function, and twenty of `upsert`.
        ("Lambda, requests", 23e-6),
        // Two notifications and twenty chunks, which are sent ten at a time.
        ("SQS", 48e-6),
        ("S3, puts and tags", 0.042),
        ("S3, gets", 0.021),
        // 319 bytes of an item, and 21 tags.
        ("S3, storage for 30 days", 0.006_38 + 0.002_1),
        ("DynamoDB", 3e-6),
        ("logs", 69e-6),
    ];
    for (line, (name, amount)) in lines.iter().zip(expected) {
        assert_eq!(line.name, name);
        assert_amounts(line, amount, 30.0 * amount);
    }
    let [capacity, storage, ios, together] = &lines[expected.len()..] else { panic!("{lines:?}") };
    // 8 ACU for 3.018571 s, and half of one for the rest of 730 hours.
    assert_amounts(capacity, 0.006_707_936_4, 365.188_660_710);
    // 830 bytes of a product, and 13 for each of 90 days.
    assert_amounts(storage, 0.04 / 30.0, 0.04);
    // 15 bytes of log for each row.
    assert_amounts(ios, 73.242_187_5e-6, 30.0 * 73.242_187_5e-6);
    assert_eq!(together.name, "together");
}

#[test]
fn a_line_of_cost_follows_what_is_asked() {
    let line = |flags: &str, name: &str| {
        let lines = bill(flags);
        lines.into_iter().find(|line| line.name == name).unwrap()
    };
    // No request carries 5.35 MB, so a short one announces them.
    let upload = line("--pharmacies 10 --window 0 --products 50000", "API Gateway");
    assert_amounts(&upload, 10e-6, 300e-6);
    // 2 million rows do not fit into the memory of half an ACU: 202,637 pages are read. Of the
    // rows, 5 % changed: 106.2 MB of log.
    let ios = line("--pharmacies 100 --window 1", "database, reads and writes");
    assert_amounts(&ios, 0.228_564_453, 30.0 * 0.228_564_453);
    // An instance runs all month, and has 400 GB at least.
    let instance = "--pharmacies 1 --window 0 --changed 0 --delta --database db.r7g.large";
    let capacity = line(instance, "database, capacity");
    assert!((capacity.month - 2.0 * 730.0).abs() < 1e-6, "{capacity:?}");
    assert_amounts(&line(instance, "database, storage"), 400.0 / 30.0, 400.0);
    assert!(line(instance, "database, reads and writes").month.abs() < 1e-9);
}

/// Rows of the cost table in docs/capacity.md, each with the lines of the bill that it adds up.
const ROWS: [(&str, &[&str]); 11] = [
    ("API Gateway, charged for each 512 KB of a payload", &["API Gateway"]),
    ("Lambda", &["Lambda, GB-s", "Lambda, requests"]),
    ("SQS", &["SQS"]),
    ("S3, puts, tags and gets", &["S3, puts and tags", "S3, gets"]),
    ("S3, storage for 30 days", &["S3, storage for 30 days"]),
    ("DynamoDB", &["DynamoDB"]),
    ("logs", &["logs"]),
    ("database, capacity (0.5 ACU between peaks)", &["database, capacity"]),
    ("database, reads and writes", &["database, reads and writes"]),
    ("database, storage of 200 GB", &["database, storage"]),
    ("together", &["together"]),
];

#[test]
fn the_pages_have_the_bill_of_the_same_question() {
    let answer = answer("--pharmacies 5000 --upsert-concurrency 16");
    let page = include_str!("../../docs/capacity.md").replace('*', "");
    for (row, lines) in ROWS {
        let sum = |amount: fn(&Line) -> f64| -> f64 {
            answer.cost.iter().filter(|line| lines.contains(&line.name)).map(amount).sum()
        };
        // A peak has 100 million products.
        let (million, month) = (sum(|line| line.peak) / 100.0, sum(|line| line.month));
        let row = format!("| {row} | {million:.4} | {month:.2} |");
        assert!(page.contains(&row), "{row}");
    }
    let (as_of, together) = (&answer.prices_as_of, answer.cost.last().unwrap().month);
    assert!(page.contains(as_of), "{as_of}");
    let (gateway, machines) = (answer.gateway_million, answer.machines_month);
    for sum in [format!("cost {gateway:.2} USD"), format!("So {machines:.0} USD")] {
        assert!(page.contains(&sum), "docs/capacity.md lacks {sum}");
    }
    let page = include_str!("../../docs/costs.md");
    for sum in [format!("{together:.2} USD"), format!("which are {gateway:.2} together"), as_of.clone()] {
        assert!(page.contains(&sum), "docs/costs.md lacks {sum}");
    }
    assert!(answer.to_string().contains(&format!("USD, prices of {as_of}")));
}

#[test]
fn prices_without_a_date_are_refused() {
    let undated = A_DOLLAR.replace("as-of = 2026-01-31\n", "");
    let error = toml::from_str::<crate::cost::PriceLists>(&undated).unwrap_err().to_string();
    assert!(error.contains("as-of"), "{error}");
}

#[test]
fn a_catalogue_that_the_deployment_would_refuse_is_refused() {
    let refusal = |flags: &str| match plan(flags, &times(), PRICES) {
        Err(PlanError::Question(wrong)) => Some(wrong),
        Ok(_) => None,
        Err(error) => panic!("{error}"),
    };
    // 815 bytes each, and 200 MB in all.
    assert_eq!(refusal("--pharmacies 1 --products 245398"), None);
    let wrong = refusal("--pharmacies 1 --products 245399").unwrap();
    for part in ["245399 products", "200000185 bytes", "200000000", "--max-payload-bytes"] {
        assert!(wrong.contains(part), "{wrong}");
    }
    assert_eq!(refusal("--pharmacies 1 --products 245399 --max-payload-bytes 300000000"), None);
    let chunks = refusal("--pharmacies 500000 --products 20000").unwrap();
    assert!(chunks.contains("10000000 chunks"), "{chunks}");
}

#[test]
fn sizes_of_databases_are_read() {
    for (text, vcpus) in [("8acu", 2.0), ("0.5", 0.5), ("db.r7g.large", 2.0), ("db.r8g.48xlarge", 192.0)] {
        assert!((question(&format!("--database {text}")).database.vcpus - vcpus).abs() < 1e-9);
    }
    for wrong in ["db.t4g.micro", "acu", "-1", "NaN", "db.r7g.small"] {
        assert!(Cli::try_parse_from(["plan", "--database", wrong]).is_err(), "{wrong}");
    }
}

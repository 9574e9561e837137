use clap::Parser;

use crate::answer::Answer;
use crate::{PRICES, Question, SERVICE_TIMES};

#[derive(Debug, Parser)]
struct Flags {
    #[command(flatten)]
    question: Question,
}

fn question(flags: &str) -> Question {
    Flags::try_parse_from(std::iter::once("plan").chain(flags.split_whitespace())).unwrap().question
}

fn answer(flags: &str) -> Answer {
    let (times, prices) = (toml::from_str(SERVICE_TIMES).unwrap(), toml::from_str(PRICES).unwrap());
    crate::plan(&question(flags), &times, &prices).unwrap()
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

/// A database that is always busy takes its work divided by its processors.
#[test]
fn a_full_database_takes_as_long_as_its_work() {
    let answer =
        answer("--pharmacies 100 --window 0 --new 1 --changed 0 --database 2acu --upsert-concurrency 50");
    let closed_form = answer.database_cpu / answer.vcpus;
    assert!((answer.all_within / closed_form - 1.0).abs() < 0.1, "{} {closed_form}", answer.all_within);
    assert_eq!(answer.resources[0].name, "CPU of the database");
}

#[test]
fn a_flood_delays_others_only_without_groups() {
    for concurrency in [8, 64] {
        let p95 = |flags: &str| {
            let load = "--pharmacies 200 --window 10 --database 64acu --upsert-concurrency";
            answer(&format!("{load} {concurrency} {flags}")).to_final.p95
        };
        let [alone, fair, unfair] = ["", "--flood 10", "--flood 10 --without-groups"].map(p95);
        assert!(fair < 2.0 * alone, "{concurrency}: {fair} beside {alone}");
        assert!(unfair > 2.0 * alone, "{concurrency}: {unfair} beside {alone}");
    }
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

#[test]
fn sizes_of_databases_are_read() {
    for (text, vcpus) in [("8acu", 2.0), ("0.5", 0.5), ("db.r7g.large", 2.0), ("db.r8g.48xlarge", 192.0)] {
        assert!((question(&format!("--database {text}")).database.vcpus - vcpus).abs() < 1e-9);
    }
    for wrong in ["db.t4g.micro", "acu", "-1", "NaN", "db.r7g.small"] {
        assert!(Flags::try_parse_from(["plan", "--database", wrong]).is_err(), "{wrong}");
    }
}

//! Tests of properties that all functions and queues of the template must have, including future
//! ones.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_norway::Value;

static TEMPLATE: LazyLock<Value> =
    LazyLock::new(|| serde_norway::from_str(include_str!("../template.yaml")).unwrap());
/// Minimum ratio of a queue's visibility timeout to the time-out of its function, as Lambda
/// recommends.
const VISIBILITY_FACTOR: u64 = 6;
const FOURTEEN_DAYS: u64 = 14 * 24 * 60 * 60;

/// Returns the template's resources of one type, by logical id.
pub(crate) fn resources(kind: &str) -> BTreeMap<String, Value> {
    let resources = TEMPLATE["Resources"].as_mapping().unwrap();
    resources
        .iter()
        .filter(|(_, resource)| resource["Type"] == kind)
        .map(|(name, resource)| (name.as_str().unwrap().to_owned(), resource.clone()))
        .collect()
}

/// Returns the logical id of the resource that a `!Ref` or `!GetAtt` names.
fn named(value: &Value) -> String {
    let Value::Tagged(tagged) = value else { panic!("{value:?} names no resource") };
    tagged.value.as_str().unwrap().split('.').next().unwrap().to_owned()
}

/// Returns the SQS triggers of all functions: logical id of the queue, logical id of the function,
/// and the trigger's properties.
fn read_queues() -> Vec<(String, String, Value)> {
    let mut read = Vec::new();
    for (name, function) in resources("AWS::Serverless::Function") {
        let Some(events) = function["Properties"].get("Events") else { continue };
        for event in events.as_mapping().unwrap().values().filter(|event| event["Type"] == "SQS") {
            read.push((named(&event["Properties"]["Queue"]), name.clone(), event["Properties"].clone()));
        }
    }
    assert!(!read.is_empty());
    read
}

/// Returns the metric in an entry of an alarm's `Metrics`. Returns null for the entry that sums the
/// others.
fn summed(entry: &Value) -> &Value {
    // `!If [Condition, entry, nothing]` where the function has a condition.
    let entry = match entry {
        Value::Tagged(tagged) => &tagged.value[1],
        plain => plain,
    };
    &entry["MetricStat"]["Metric"]
}

/// Returns all metrics that an alarm watches.
pub(crate) fn watched(alarm: &Value) -> Vec<&Value> {
    let properties = &alarm["Properties"];
    match properties["Metrics"].as_sequence() {
        Some(entries) => entries.iter().map(summed).filter(|metric| !metric.is_null()).collect(),
        None => vec![properties],
    }
}

/// Returns true if any alarm watches this metric of the resource with this logical id.
fn is_watched(metric: &str, resource: &str) -> bool {
    resources("AWS::CloudWatch::Alarm").values().flat_map(watched).any(|watched| {
        watched["MetricName"] == metric && named(&watched["Dimensions"][0]["Value"]) == resource
    })
}

#[test]
fn a_message_stays_hidden_for_as_long_as_its_function_may_need() {
    let (functions, queues) = (resources("AWS::Serverless::Function"), resources("AWS::SQS::Queue"));
    for (queue, function, mapping) in read_queues() {
        let time_out = functions[&function]["Properties"].get("Timeout");
        let time_out = time_out.unwrap_or(&TEMPLATE["Globals"]["Function"]["Timeout"]).as_u64().unwrap();
        let hidden = queues[&queue]["Properties"]["VisibilityTimeout"].as_u64().unwrap();
        assert!(hidden >= VISIBILITY_FACTOR * time_out, "{queue}: {hidden} s for {time_out} s of {function}");
        // A message is all the work that an invocation has time and memory for, where it is not
        // only passed on.
        let most = if function == "DispatchFunction" { 10 } else { 1 };
        assert_eq!(mapping["BatchSize"], most, "{function}");
        assert_eq!(mapping["FunctionResponseTypes"][0], "ReportBatchItemFailures", "{function}");
        assert!(mapping["ScalingConfig"].get("MaximumConcurrency").is_some(), "{function}");
    }
}

#[test]
fn what_fails_again_and_again_is_kept_for_fourteen_days() {
    let queues = resources("AWS::SQS::Queue");
    for (queue, ..) in read_queues() {
        let failed = named(&queues[&queue]["Properties"]["RedrivePolicy"]["deadLetterTargetArn"]);
        assert_eq!(queues[&failed]["Properties"]["MessageRetentionPeriod"], FOURTEEN_DAYS, "{failed}");
        assert!(is_watched("ApproximateNumberOfMessagesVisible", &failed), "{failed} has no alarm");
        // The age does not count messages that were received several times, as those are that a
        // dead-letter queue keeps.
        let is_watched = ["ApproximateAgeOfOldestMessage", "ApproximateNumberOfMessagesNotVisible"]
            .into_iter()
            .any(|metric| is_watched(metric, &queue));
        assert!(is_watched, "{queue} has no alarm");
    }
}

#[test]
fn mq_access_is_cut_off_at_the_time_that_its_callers_know() {
    let functions = resources("AWS::Serverless::Function");
    let time_out = functions["MqAccessFunction"]["Properties"]["Timeout"].as_u64().unwrap();
    assert_eq!(time_out, front::MqAccess::TIME_OUT.as_secs());
    assert!(front::MqAccess::TIME_OUT < front::MqAccess::RESPONSE_TIMEOUT);
}

#[test]
fn a_schedule_that_stops_is_noticed() {
    let mut scheduled = 0;
    for (name, function) in resources("AWS::Serverless::Function") {
        let Some(events) = function["Properties"].get("Events") else { continue };
        if events.as_mapping().unwrap().values().any(|event| event["Type"] == "Schedule") {
            assert!(is_watched("Invocations", &name), "{name}");
            scheduled += 1;
        }
    }
    assert!(scheduled > 0);
}

#[test]
fn nothing_uses_the_database_before_it_is_migrated() {
    for (name, function) in resources("AWS::Serverless::Function") {
        let variables = &function["Properties"]["Environment"]["Variables"];
        if variables.get("DATABASE_SECRET_ARN").is_some() && name != "MigrateFunction" {
            assert_eq!(function["DependsOn"], "Migration", "{name}");
        }
    }
}

#[test]
fn who_has_no_key_cannot_take_the_database_s_connections() {
    let apis = resources("AWS::Serverless::HttpApi");
    let api = apis.values().next().unwrap();
    let route = &api["Properties"]["RouteSettings"]["GET /health/ready"];
    for limit in ["ThrottlingRateLimit", "ThrottlingBurstLimit"] {
        assert!(route[limit].as_u64().is_some_and(|limit| limit <= 10), "{limit}");
    }
}

/// Returns true if the template's rules whose names begin with `start` accept these parameter
/// values.
fn rules_accept(start: &str, parameters: &[(&str, u64)]) -> bool {
    let of = |reference: &Value| {
        let Value::Tagged(tagged) = reference else { panic!("{reference:?} is no reference") };
        let name = tagged.value.as_str().unwrap();
        let found = parameters.iter().find(|(parameter, _)| *parameter == name);
        found.unwrap_or_else(|| panic!("{name}")).1.to_string()
    };
    let untagged = |value: &Value| {
        let Value::Tagged(tagged) = value else { panic!("{value:?} is no function") };
        tagged.value.clone()
    };
    let rules = TEMPLATE["Rules"].as_mapping().unwrap().iter();
    let about_them = rules.filter(|(name, _)| name.as_str().unwrap().starts_with(start));
    let holds = |rule: &Value| {
        let condition = untagged(&rule["RuleCondition"]);
        of(&condition[0]) != condition[1].as_str().unwrap()
            || rule["Assertions"].as_sequence().unwrap().iter().all(|assertion| {
                let contains = untagged(&assertion["Assert"]);
                let values = contains[0].as_sequence().unwrap();
                values.iter().any(|value| value.as_str() == Some(&of(&contains[1])))
            })
    };
    about_them.map(|(_, rule)| rule).all(holds)
}

/// Returns the allowed values of a parameter of the template.
fn allowed(name: &str) -> Vec<u64> {
    let values = TEMPLATE["Parameters"][name]["AllowedValues"].as_sequence().unwrap();
    values.iter().map(|value| value.as_u64().unwrap()).collect()
}

/// Checks that `reconcile` starts with every value of `HistoryDays` that the template allows.
#[test]
fn a_history_that_what_leans_on_it_outlives_is_not_deployed() {
    for history in allowed("HistoryDays") {
        let mut environment =
            runtime::Environment::of(|name| (name == "HISTORY_DAYS").then(|| history.to_string()));
        reconcile::Settings::read(&mut environment);
        assert!(environment.check().is_ok(), "{history}");
    }
}

/// Checks that the buckets' lifecycle rules keep objects as long as the functions assume.
#[test]
fn objects_expire_when_the_functions_say() {
    let days = |bucket: &str, rule: &str| {
        let lifecycle = &TEMPLATE["Resources"][bucket]["Properties"]["LifecycleConfiguration"];
        let mut rules = lifecycle["Rules"].as_sequence().unwrap().iter();
        rules.find(|found| found["Id"] == rule).unwrap()["ExpirationInDays"].as_u64()
    };
    for rule in ["final-ones-go", "results-go", "errors-go"] {
        assert_eq!(days("PayloadBucket", rule), Some(u64::from(reconcile::PAYLOAD_DAYS)), "{rule}");
    }
    assert_eq!(days("ResultsBucket", "tests-gone"), Some(load_test::store::RETENTION.as_secs() / 86_400));
}

#[test]
fn bounds_of_expiry_that_contradict_themselves_are_not_deployed() {
    for default in allowed("IdempotencyExpiryDefaultSeconds") {
        assert!(default >= idempotency::ExpiryBounds::MIN.as_secs(), "{default}");
        for max in allowed("IdempotencyExpiryMaxSeconds") {
            let parameters =
                [("IdempotencyExpiryDefaultSeconds", default), ("IdempotencyExpiryMaxSeconds", max)];
            assert_eq!(rules_accept("ExpiryBounds", &parameters), default <= max, "{default} {max}");
        }
    }
}

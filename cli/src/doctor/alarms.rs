//! Checks of the stack's CloudWatch alarms, and of the SNS topics of alarms and events.

use super::kinds::{ALARM_TOPIC, EVENT_TOPIC, IN_ALARM};
use super::report::{Check, Kind, Known, Unknown};
use super::stack::Resource;
use crate::aws_query::{AwsError, AwsQuery, Node};

/// Maximum number of alarms in the response to one CloudWatch call.
const A_CALL: usize = 100;
/// Maximum number of pages of a topic's subscriptions, of 100 each.
const MOST_PAGES: usize = 100;
/// Maximum number of characters of an alarm's reason that the report shows.
const SHOWN: usize = 160;

/// CloudWatch alarm in the state ALARM, or without data although its metric should always have
/// some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Raised {
    name: String,
    reason: String,
    is_silent: bool,
}

/// SNS topic of alarms or events, with the numbers of its subscriptions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Topic {
    confirmed: usize,
    pending: usize,
    /// Id or alias of the KMS key that encrypts the SNS topic; empty if there is none.
    key: String,
}

/// Requests the alarms of a stack. Returns the number of all alarms, and those that are raised or
/// lack data that they always should have.
pub(crate) async fn raised(
    client: &AwsQuery,
    resources: &Known<Vec<Resource>>,
) -> Known<(usize, Vec<Raised>)> {
    let resources = resources.as_ref().map_err(Clone::clone)?;
    let alarms = resources.iter().filter(|resource| resource.kind == "AWS::CloudWatch::Alarm");
    let names: Vec<&str> = alarms.map(|alarm| alarm.id.as_str()).collect();
    let mut found = Vec::new();
    for part in names.chunks(A_CALL) {
        let members: Vec<String> =
            (1..=part.len()).map(|number| format!("AlarmNames.member.{number}")).collect();
        let mut params = vec![("MaxRecords", "100")];
        params.extend(members.iter().map(String::as_str).zip(part.iter().copied()));
        let answer = client.query("monitoring", "DescribeAlarms", &params).await?;
        found.extend(answer.list("MetricAlarms").filter_map(raised_of));
    }
    Ok((names.len(), found))
}

/// Converts a CloudWatch alarm that is raised, or has no data and treats missing data as missing.
/// Returns `None` for any other alarm.
fn raised_of(alarm: &Node) -> Option<Raised> {
    let state = alarm.text_of("StateValue");
    let is_silent = state == "INSUFFICIENT_DATA" && alarm.text_of("TreatMissingData") == "missing";
    (state == "ALARM" || is_silent).then(|| Raised {
        name: alarm.text_of("AlarmName").to_owned(),
        reason: alarm.text_of("StateReason").chars().take(SHOWN).collect(),
        is_silent,
    })
}

/// Returns a check for each alarm that is raised or lacks data. If there is no such alarm, or the
/// alarms are unknown, returns a single check.
pub(crate) fn state(found: &Known<(usize, Vec<Raised>)>) -> Vec<Check> {
    match found {
        Err(unknown) => vec![IN_ALARM.skip(unknown)],
        Ok((0, _)) => vec![IN_ALARM.skip(&Unknown::NotAsked("the stack has no alarms".to_owned()))],
        Ok((all, raised)) if raised.is_empty() => {
            vec![IN_ALARM.ok(format!("none of {all} alarms is raised"))]
        }
        Ok((_, raised)) => raised
            .iter()
            .map(|alarm| {
                let check = if alarm.is_silent {
                    IN_ALARM.warn(
                        "it has no data, which means in an hour's time that what it watches does not run",
                        "look again an hour after the deployment; the page says what the alarm means",
                    )
                } else {
                    let fix = "the page lists what each alarm means and what to do";
                    IN_ALARM.fail(format!("it is raised: {}", alarm.reason), fix)
                };
                check.about(alarm.name.clone())
            })
            .collect(),
    }
}

/// Requests the subscriptions and the key of an SNS topic; `None` if the topic does not exist.
async fn look(client: &AwsQuery, arn: &str) -> Known<Option<Topic>> {
    let missing = |code: &str| ["NotFound", "NotFoundException"].contains(&code);
    let (action, topic) = ("ListSubscriptionsByTopic", [("TopicArn", arn)]);
    let subscriptions = match client.pages("sns", action, &topic, "Subscriptions", MOST_PAGES).await {
        Ok((subscriptions, _)) => subscriptions,
        Err(AwsError { code, .. }) if missing(&code) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let attributes = client.query("sns", "GetTopicAttributes", &topic).await?;
    let arns = || subscriptions.iter().map(|found| found.text_of("SubscriptionArn"));
    let confirmed = arns().filter(|arn| arn.starts_with("arn:")).count();
    // A subscription that was deleted is listed for some days.
    let pending = arns().filter(|arn| *arn == "PendingConfirmation").count();
    let mut entries = attributes.list("Attributes");
    let key = entries.find(|entry| entry.text_of("key") == "KmsMasterKeyId");
    let key = key.map(|entry| entry.text_of("value").to_owned()).unwrap_or_default();
    Ok(Some(Topic { confirmed, pending, key }))
}

/// Checks the SNS topics of a deployment. `alarms` and `events` are the ARNs of the topics for
/// alarms and for events; empty if the deployment has none.
pub(crate) async fn topics(client: &AwsQuery, alarms: &str, events: &str) -> Vec<Check> {
    let of_alarms = match alarms {
        "" => {
            ALARM_TOPIC.warn("AlarmTopicArn is empty: alarms notify nobody", "give the ARN of a topic of SNS")
        }
        arn if is_elsewhere(arn, client.region()) => ALARM_TOPIC.fail(
            format!("{arn} is not in {}: alarms notify topics of their own region alone", client.region()),
            "give the ARN of a topic in the stack's region",
        ),
        arn => topic(&ALARM_TOPIC, &look(client, arn).await, arn),
    };
    let of_events = match events {
        "" => EVENT_TOPIC.ok("EventTopicArn is empty: events go to no topic"),
        arn => topic(&EVENT_TOPIC, &look(client, arn).await, arn),
    };
    vec![of_alarms, of_events]
}

fn is_elsewhere(arn: &str, region: &str) -> bool {
    arn.split(':').nth(3).is_some_and(|of_topic| of_topic != region)
}

fn topic(kind: &Kind, found: &Known<Option<Topic>>, arn: &str) -> Check {
    let Topic { confirmed, pending, key } = match found {
        Err(unknown) => {
            let check = kind.skip(unknown);
            // The topic may be of another account, whose policy has to admit this one.
            let or_policy = match unknown {
                Unknown::Denied(_) => format!(", or the policy of the topic {arn} refuses it"),
                Unknown::Failed(_) | Unknown::NotAsked(_) => String::new(),
            };
            return Check { detail: format!("{}{or_policy}", check.detail), ..check };
        }
        Ok(None) => {
            return kind.fail(
                format!("there is no topic {arn}"),
                "give the ARN of a topic in the stack's region, or make one: aws sns create-topic",
            );
        }
        Ok(Some(topic)) => topic,
    };
    if *kind == ALARM_TOPIC && key.ends_with("alias/aws/sns") {
        return kind.fail(
            format!("{arn} is encrypted with AWS's own key, which CloudWatch may not use: no alarm arrives"),
            "encrypt it with a key of yours whose policy admits cloudwatch.amazonaws.com, or not at all",
        );
    }
    if *confirmed > 0 {
        return kind.ok(format!("{confirmed} confirmed subscriptions"));
    }
    let waiting = if *pending > 0 { format!(", and {pending} wait for confirmation") } else { String::new() };
    let (detail, fix) = (
        format!("{arn} has no confirmed subscription{waiting}: nobody hears of anything"),
        "subscribe somebody (aws sns subscribe), who confirms it by the link in the message",
    );
    // Alarms that nobody hears are a fault. Events may be for later.
    if *kind == ALARM_TOPIC { kind.fail(detail, fix) } else { kind.warn(detail, fix) }
}

#[cfg(test)]
mod tests {
    use test_support::http_server::{self, Server};

    use super::super::report::Status;
    use super::*;
    use crate::aws_query::examples;

    #[test]
    fn each_alarm_that_is_raised_fails() {
        let alarm =
            Raised { name: "dev-BatchesStuck".into(), reason: "1 datapoint".into(), is_silent: false };
        let checks = state(&Ok((30, vec![alarm])));
        assert_eq!((checks.len(), checks[0].status), (1, Status::Fail));
        assert_eq!(checks[0].about.as_deref(), Some("dev-BatchesStuck"));
        assert_eq!(state(&Ok((30, Vec::new())))[0].status, Status::Ok);
        assert_eq!(state(&Ok((0, Vec::new())))[0].status, Status::Skip);
        assert_eq!(state(&Err(Unknown::Denied("a:B".into())))[0].status, Status::Skip);
    }

    #[test]
    fn an_alarm_that_always_should_have_data_is_a_warning_without_it() {
        let read = |state: &str, missing: &str| {
            let text = format!(
                "<member><AlarmName>a</AlarmName><StateValue>{state}</StateValue>\
<TreatMissingData>{missing}</TreatMissingData></member>"
            );
            raised_of(&Node::parse(&text).unwrap())
        };
        assert_eq!(read("OK", "missing"), None);
        assert_eq!(read("INSUFFICIENT_DATA", "notBreaching"), None);
        assert!(!read("ALARM", "missing").unwrap().is_silent);
        let silent = read("INSUFFICIENT_DATA", "missing").unwrap();
        assert_eq!(state(&Ok((30, vec![silent])))[0].status, Status::Warn);
    }

    #[test]
    fn a_silent_topic_of_alarms_fails_and_one_of_events_is_a_warning() {
        let silent = Ok(Some(Topic { pending: 1, ..Topic::default() }));
        let check = topic(&ALARM_TOPIC, &silent, "arn");
        assert!(check.status == Status::Fail && check.detail.contains("1 wait for confirmation"));
        assert_eq!(topic(&EVENT_TOPIC, &silent, "arn").status, Status::Warn);
        let heard = Ok(Some(Topic { confirmed: 1, ..Topic::default() }));
        assert_eq!(topic(&ALARM_TOPIC, &heard, "arn").status, Status::Ok);
        assert_eq!(topic(&EVENT_TOPIC, &Ok(None), "arn").status, Status::Fail);
        let denied = topic(&EVENT_TOPIC, &Err(Unknown::Denied("sns:GetTopicAttributes".into())), "arn");
        assert_eq!(denied.status, Status::Skip);
        assert!(denied.detail.ends_with("the policy of the topic arn refuses it"), "{}", denied.detail);
    }

    #[tokio::test]
    async fn the_subscriptions_of_all_pages_count() {
        let server = Server::start(|request| async move {
            let asked = String::from_utf8_lossy(request.body());
            let page = if asked.contains("GetTopicAttributes") {
                "<R><Attributes></Attributes></R>"
            } else if asked.contains("&NextToken=2") {
                "<R><Subscriptions><member><SubscriptionArn>arn:aws:sns:a</SubscriptionArn></member></Subscriptions></R>"
            } else {
                "<R><Subscriptions><member><SubscriptionArn>PendingConfirmation</SubscriptionArn></member></Subscriptions>\
<NextToken>2</NextToken></R>"
            };
            Some(http_server::response(200, page))
        })
        .await;
        let topic = look(&examples::client(&server), "arn").await.unwrap();
        assert_eq!(topic, Some(Topic { confirmed: 1, pending: 1, key: String::new() }));
    }

    #[test]
    fn a_topic_of_alarms_is_in_the_region_of_the_stack() {
        let arn = "arn:aws:sns:sa-east-1:111122223333:alarms";
        assert!(!is_elsewhere(arn, "sa-east-1") && is_elsewhere(arn, "us-east-1"));
    }

    #[test]
    fn a_topic_that_cloudwatch_cannot_publish_to_fails() {
        let encrypted = Ok(Some(Topic { confirmed: 1, pending: 0, key: "alias/aws/sns".into() }));
        assert_eq!(topic(&ALARM_TOPIC, &encrypted, "arn").status, Status::Fail);
        assert_eq!(topic(&EVENT_TOPIC, &encrypted, "arn").status, Status::Ok, "functions may use it");
    }
}

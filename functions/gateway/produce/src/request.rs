//! JSON body of a produce request, and its conversion to the command that `mq-access` executes.

use api::Problem;
use mq::{
    Batch, BodyRef, ExplicitMessage, Headers, List, MessageForm, Misfit, Payload, PayloadForm,
    ProduceCommand, ProduceSource, ProfileName, PropsForm, Tags, TargetSpec, or_default,
};
use serde::Deserialize;

/// Body of a request to produce messages, as JSON.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProduceRequest {
    target: Option<TargetSpec>,
    target_ref: Option<ProfileName>,
    #[serde(default, deserialize_with = "or_default")]
    batch: Batch,
    payload: Option<PayloadForm>,
    messages: Option<Messages>,
    #[serde(default, deserialize_with = "or_default")]
    mq_props: PropsForm,
    #[serde(default, deserialize_with = "or_default")]
    headers: Headers,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) tags: Tags,
}

/// Member `messages` of a produce request: 1 to 100,000 messages, as many as `batch.count` may
/// generate.
type Messages = List<MessageForm, 1, 100_000>;

impl ProduceRequest {
    /// Checks the members of the request against each other, and converts them to the profile name,
    /// the target that the request itself sets, and the command.
    pub(crate) fn into_parts(
        self,
    ) -> Result<(Option<ProfileName>, Option<TargetSpec>, ProduceCommand), Problem> {
        let props = self.mq_props.into_props().map_err(|misfit| violation("/mqProps", misfit))?;
        let mut warnings = Vec::new();
        let source = match self.messages {
            Some(messages) => explicit(messages, self.payload.as_ref(), &self.batch)?,
            None => generated(self.payload.unwrap_or_default(), &self.batch)?,
        };
        let random = matches!(source, ProduceSource::Generated { payload: Payload::Random { .. }, .. });
        if self.batch.message_size_bytes.is_some() && !random {
            warnings.push("batch.messageSizeBytes has no effect: it is the size of random bodies".to_owned());
        }
        let command = ProduceCommand {
            source,
            rate_limit_per_sec: self.batch.rate_limit_per_sec,
            transaction: self.batch.transaction,
            props,
            headers: self.headers,
            warnings,
        };
        Ok((self.target_ref, self.target, command))
    }
}

/// Builds the problem response for an object of the request whose members contradict each other.
/// `part` is the JSON Pointer to the object.
fn violation(part: &str, misfit: Misfit) -> Problem {
    Problem::violation(format!("{part}{}", misfit.pointer), misfit.detail)
}

fn explicit(
    messages: Messages,
    payload: Option<&PayloadForm>,
    batch: &Batch,
) -> Result<ProduceSource, Problem> {
    if payload.is_some() {
        return Err(Problem::violation("/payload", "cannot be used together with messages"));
    }
    if batch.count.is_some() {
        return Err(Problem::violation("/batch/count", "cannot be used together with messages"));
    }
    let messages = messages.into_vec().into_iter().enumerate().map(|(index, message)| {
        message.into_message().map_err(|misfit| violation(&format!("/messages/{index}"), misfit))
    });
    let messages: Vec<ExplicitMessage> = messages.collect::<Result<_, _>>()?;
    if messages.iter().filter(|message| message.body_ref.is_some()).count() > BodyRef::MOST {
        let detail = format!("may have a bodyRef {} times", BodyRef::MOST);
        return Err(Problem::violation("/messages", detail));
    }
    Ok(ProduceSource::Explicit { messages })
}

fn generated(payload: PayloadForm, batch: &Batch) -> Result<ProduceSource, Problem> {
    let payload = payload.into_payload(batch.message_size_bytes.unwrap_or_default());
    let payload = payload.map_err(|misfit| violation("/payload", misfit))?;
    Ok(ProduceSource::Generated { count: batch.count.unwrap_or_default(), payload })
}

#[cfg(test)]
mod tests {
    use api::Reason;
    use front::Operation as _;
    use serde_json::{Value, json};

    use super::*;

    fn command(body: Value) -> Result<ProduceCommand, Problem> {
        api::json::read::<ProduceRequest>(body)?.into_parts().map(|(_, _, command)| command)
    }

    fn pointer(body: Value) -> String {
        command(body).unwrap_err().faults[0].pointer.clone()
    }

    #[test]
    fn null_is_the_same_as_absent() {
        let read = |body: Value| format!("{:?}", command(body).unwrap());
        let none = json!({"count": null, "messageSizeBytes": null, "rateLimitPerSec": null,
                          "transaction": {"enabled": null, "txSize": null, "atomic": null}});
        let props = json!({"persistence": null, "priority": null, "expiryMs": null, "correlIdMode": null,
                           "fixedCorrelIdBase64": null, "replyTo": null, "group": null, "timestamp": null});
        let payload = json!({"mode": null, "fixedBase64": null, "template": null});
        let nulls =
            json!({"target": null, "batch": none, "mqProps": props, "headers": null, "payload": payload});
        assert_eq!(read(nulls), read(json!({})));
        let nulls =
            json!({"target": null, "batch": null, "mqProps": null, "payload": null, "messages": null});
        assert_eq!(read(nulls), read(json!({})));
        let nulls =
            json!({"bodyText": "x", "bodyBase64": null, "headers": null, "priority": null, "group": null});
        assert_eq!(read(json!({"messages": [nulls]})), read(json!({"messages": [{"bodyText": "x"}]})));
        let group = |group: Value| read(json!({"mqProps": {"group": group}}));
        assert_eq!(group(json!({"id": "a", "sequence": null, "last": null})), group(json!({"id": "a"})));
    }

    #[test]
    fn an_empty_request_is_one_random_message_of_a_kibibyte() {
        let command = command(json!({"targetRef": "local"})).unwrap();
        let ProduceSource::Generated { count, payload: Payload::Random { size } } = command.source else {
            panic!("random messages")
        };
        assert_eq!((count.get(), size.get()), (1, 1024));
        assert_eq!(command.transaction.tx_size.get(), 100);
    }

    #[test]
    fn the_request_of_the_specification_is_understood() {
        let command = command(json!({
            "target": {"queueManager": "QM1", "queue": "DEV.QUEUE.1", "channel": "DEV.APP.SVRCONN", "connName": "mq.host:1414",
                       "ccdtUrl": null, "ssl": {"enabled": false}, "auth": {"user": "app", "passwordRef": "secret://mq/app"}},
            "batch": {"count": 1000, "messageSizeBytes": 2048, "rateLimitPerSec": null, "transaction": {"enabled": true, "txSize": 100}},
            "payload": {"mode": "random"},
            "mqProps": {"persistence": "persistent", "priority": 0, "expiryMs": 0, "correlIdMode": "none"},
            "headers": {"k1": "v1"}
        }))
        .unwrap();
        assert_eq!(command.source.count(), 1000);
        assert!(command.transaction.enabled && command.warnings.is_empty());
    }

    #[test]
    fn members_that_contradict_each_other_are_named() {
        let messages = json!([{"bodyText": "a"}]);
        for (body, expected) in [
            (json!({"messages": messages, "payload": {}}), "/payload"),
            (json!({"messages": messages, "batch": {"count": 1}}), "/batch/count"),
            (json!({"messages": []}), "/messages"),
            (
                json!({"messages": [{"bodyText": "a"}, {"bodyText": "a", "bodyBase64": "YQ=="}]}),
                "/messages/1",
            ),
            (json!({"messages": [{}]}), "/messages/0"),
            (json!({"messages": [{"bodyText": "a", "bodyRef": "0a".repeat(32)}]}), "/messages/0"),
            (json!({"messages": vec![json!({"bodyRef": "0a".repeat(32)}); 101]}), "/messages"),
            (json!({"payload": {"mode": "fixed"}}), "/payload/fixedBase64"),
            (json!({"payload": {"mode": "template"}}), "/payload/template"),
            (json!({"payload": {"template": "{{seq}}"}}), "/payload/template"),
            (json!({"payload": {"fixedBase64": "YQ=="}}), "/payload/fixedBase64"),
            (json!({"mqProps": {"correlIdMode": "fixed"}}), "/mqProps/fixedCorrelIdBase64"),
            (json!({"mqProps": {"fixedCorrelIdBase64": "YQ=="}}), "/mqProps/fixedCorrelIdBase64"),
            (
                json!({"mqProps": {"correlIdBase64": "YQ==", "correlIdMode": "echoMsgId"}}),
                "/mqProps/correlIdBase64",
            ),
            (
                json!({"mqProps": {"correlIdBase64": "YQ==", "fixedCorrelIdBase64": "YQ=="}}),
                "/mqProps/correlIdBase64",
            ),
        ] {
            assert_eq!(pointer(body.clone()), expected, "{body}");
        }
    }

    #[test]
    fn headers_that_tags_set_are_refused_with_tags() {
        let planned = |body: Value| api::json::read::<ProduceRequest>(body).and_then(ProduceRequest::plan);
        let own = json!({"traceId": "mine"});
        let messages = json!([{"bodyText": "a"}, {"bodyText": "b", "headers": own}]);
        assert!(planned(json!({"targetRef": "t", "headers": own})).is_ok());
        for (body, pointer) in [
            (json!({"targetRef": "t", "tags": ["a"], "headers": own}), "/headers/traceId"),
            (json!({"targetRef": "t", "tags": ["a"], "messages": messages}), "/messages/1/headers/traceId"),
        ] {
            assert_eq!(planned(body.clone()).unwrap_err().faults[0].pointer, pointer, "{body}");
        }
    }

    #[test]
    fn values_of_another_form_are_named() {
        for (body, expected) in [
            (json!({"batch": {"count": 1.5}}), "/batch/count"),
            (json!({"payload": {"mode": "fixed", "fixedBase64": "a"}}), "/payload/fixedBase64"),
            (json!({"payload": {"mode": "template", "template": "{{nope}}"}}), "/payload/template"),
            (json!({"headers": {"sequence": "1"}}), "/headers"),
            (json!({"headers": {"k": 1.5}}), "/headers/k"),
            (json!({"headers": {"k": {"int8": "128"}}}), "/headers/k"),
            (json!({"headers": {"k": {"base64": 1}}}), "/headers/k"),
            (
                json!({"messages": [{"bodyText": "", "headers": {"k": {"time": "noon"}}}]}),
                "/messages/0/headers/k",
            ),
            (json!({"mqProps": {"timestamp": "1969-12-31T23:59:59Z"}}), "/mqProps/timestamp"),
            (json!({"messages": [{"bodyText": "", "group": {}}]}), "/messages/0/group"),
            (
                json!({"messages": [{"bodyText": "", "group": {"id": {"base64": "?"}}}]}),
                "/messages/0/group/id/base64",
            ),
            (json!({"messages": [{"bodyRef": "0A".repeat(32)}]}), "/messages/0/bodyRef"),
            (json!({"messages": [{"bodyRef": "0a"}]}), "/messages/0/bodyRef"),
        ] {
            let found = pointer(body.clone());
            assert!(found == expected || found.starts_with(&format!("{expected}/")), "{body}: {found}");
        }
    }

    #[test]
    fn the_bytes_of_a_request_are_those_of_all_bodies_and_headers() {
        let bytes = |body: Value| {
            let plan = api::json::read::<ProduceRequest>(body).unwrap().plan().unwrap();
            let front::Action::Change(_, change) = plan.action else { panic!() };
            change.bytes()
        };
        assert_eq!(
            bytes(json!({"targetRef": "a", "batch": {"count": 1000, "messageSizeBytes": 2048}})),
            2_048_000
        );
        let headers = json!({"name": "v".repeat(30_000)});
        let most = json!({"targetRef": "a", "batch": {"count": 100_000, "messageSizeBytes": 4_194_304}, "headers": headers});
        assert_eq!(bytes(most), 100_000 * (4_194_304 + 30_004));
        let fixed = json!({"targetRef": "a", "batch": {"count": 7}, "payload": {"mode": "fixed", "fixedBase64": "YWJj"}});
        assert_eq!(bytes(fixed), 21);
        let template = json!({"mode": "template", "template": "{{random(1000)}}{{uuid}}"});
        assert_eq!(bytes(json!({"targetRef": "a", "batch": {"count": 10}, "payload": template})), 10_360);
        let messages = json!([{"bodyText": "abc"}, {"bodyText": "", "headers": {"a": true}}]);
        assert_eq!(
            bytes(json!({"targetRef": "a", "messages": messages, "headers": {"bc": "d"}})),
            3 + 2 + 2 * 3
        );
    }

    #[test]
    fn a_message_that_asks_for_reports_names_where_they_go() {
        let reports = |body: Value| {
            let plan = api::json::read::<ProduceRequest>(body).unwrap().plan().unwrap();
            let named = |reports: front::Reports| (reports.pointer, String::from(reports.place.queue));
            plan.reports.into_iter().map(named).collect::<Vec<_>>()
        };
        let all = json!({"report": 1792, "replyTo": "REPLIES"});
        let of_all = ("/mqProps".to_owned(), "REPLIES".to_owned());
        assert_eq!(reports(json!({"targetRef": "a", "mqProps": all})), std::slice::from_ref(&of_all));
        assert_eq!(reports(json!({"targetRef": "a", "mqProps": {"replyTo": "REPLIES"}})), []);
        let messages = json!([
            {"bodyText": "first"},
            {"bodyText": "the same"},
            {"bodyText": "another", "replyTo": "OTHERS"},
            {"bodyText": "none", "replyTo": "NOWHERE", "report": 0},
        ]);
        let body = json!({"targetRef": "a", "messages": messages, "mqProps": all});
        assert_eq!(reports(body), [of_all, ("/messages/2".to_owned(), "OTHERS".to_owned())]);
        let body = json!({"targetRef": "a", "messages": messages});
        assert_eq!(reports(body), [], "none of them has both");
    }

    #[test]
    fn a_pace_beyond_the_time_budget_is_refused_before_anything_runs() {
        let plan = |count: u32| {
            let body = json!({"targetRef": "local", "batch": {"count": count, "rateLimitPerSec": 10}});
            api::json::read::<ProduceRequest>(body).unwrap().plan()
        };
        assert!(plan(200).is_ok());
        assert_eq!(plan(201).unwrap_err().reason, Reason::ExceedsTimeBudget);
    }
}

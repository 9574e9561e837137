//! Rules between several members of a request to start a load test.

use super::{LoadTestRequest, RequestError};
use crate::bounds::Prefetch;
use crate::definition::{Foreign, LoadTest, Mode};
use crate::metric::Metric;

/// Checks that the members of a request do not contradict each other. The error is the first
/// contradiction.
pub(super) fn check(request: &LoadTestRequest) -> Result<(), RequestError> {
    check_workers(request)?;
    check_producers(request)?;
    check_consumers(request)?;
    check_search(request)?;
    check_expect(request)
}

/// Returns the error `detail` for the member at the JSON Pointer `pointer` if the condition
/// `holds`.
fn refuse_if(holds: bool, pointer: &str, detail: &str) -> Result<(), RequestError> {
    if holds { Err(RequestError::contradiction(pointer, detail)) } else { Ok(()) }
}

fn check_workers(request: &LoadTestRequest) -> Result<(), RequestError> {
    let (producers, consumers) = (&request.producers, &request.consumers);
    refuse_if(producers.is_none() && consumers.is_none(), "", "takes producers, consumers or both")?;
    let queues = request.queues.count();
    let too_few = |count: Option<u32>| count.is_some_and(|count| count < queues);
    refuse_if(
        too_few(producers.as_ref().map(|producers| producers.count.get())),
        "/producers/count",
        "must be at least the number of queues, because a producer uses one queue",
    )?;
    refuse_if(
        too_few(consumers.as_ref().map(|consumers| consumers.count.get())),
        "/consumers/count",
        "must be at least the number of queues, because a consumer uses one queue",
    )
}

fn check_producers(request: &LoadTestRequest) -> Result<(), RequestError> {
    let Some(producers) = &request.producers else {
        let detail = "goes with producers only";
        refuse_if(request.stages.is_some(), "/stages", detail)?;
        return refuse_if(request.backlog.is_some(), "/backlog", detail);
    };
    refuse_if(
        request.stages.is_some() && producers.rate_per_sec.is_some(),
        "/producers/ratePerSec",
        "cannot be used together with stages, which have rates of their own",
    )?;
    refuse_if(
        request
            .stages
            .as_ref()
            .is_some_and(|stages| stages.as_slice().iter().all(|stage| stage.rate_per_sec.get() == 0)),
        "/stages",
        "must have a stage whose ratePerSec is not 0",
    )?;
    refuse_if(
        producers.message_size_bytes.is_some()
            && producers.payload.as_ref().is_some_and(|form| !form.is_random()),
        "/producers/messageSizeBytes",
        "is the size of random bodies, and payload.mode is not random",
    )?;
    refuse_if(
        producers.transaction.enabled && producers.confirms_in_flight.is_some(),
        "/producers/confirmsInFlight",
        "cannot be used together with transactions, whose commit confirms their messages",
    )
}

fn check_consumers(request: &LoadTestRequest) -> Result<(), RequestError> {
    let Some(consumers) = &request.consumers else {
        let detail = "goes with consumers only";
        refuse_if(request.backlog.is_some(), "/backlog", detail)?;
        refuse_if(request.stop_when.is_some(), "/stopWhen", detail)?;
        return refuse_if(request.foreign.is_some(), "/foreign", detail);
    };
    refuse_if(
        request.producers.is_none() && request.foreign != Some(Foreign::Take),
        "/foreign",
        "must be take without producers: every message on the queue is then one of others",
    )?;
    let transaction = consumers.transaction;
    refuse_if(
        transaction.enabled && consumers.ack_every.is_some(),
        "/consumers/ackEvery",
        "cannot be used together with transactions, which acknowledge txSize messages",
    )?;
    let pointer = if transaction.enabled { "/consumers/transaction/txSize" } else { "/consumers/ackEvery" };
    let most = consumers.prefetch.map_or(Prefetch::MAX, Prefetch::get);
    let detail = format!(
        "must not exceed prefetch, at most {}: the broker delivers no more before an acknowledgement",
        Prefetch::MAX
    );
    refuse_if(consumers.acknowledged_together() > most, pointer, &detail)
}

fn check_search(request: &LoadTestRequest) -> Result<(), RequestError> {
    if request.mode == Mode::Run {
        return Ok(());
    }
    refuse_if(request.producers.is_none(), "/mode", "may be search with producers only")?;
    for (is_there, pointer) in [
        (request.stages.is_some(), "/stages"),
        (request.messages.is_some(), "/messages"),
        (request.backlog.is_some(), "/backlog"),
        (request.stop_when.is_some(), "/stopWhen"),
    ] {
        let detail = "cannot be used together with mode search, which runs each probe for durationSeconds";
        refuse_if(is_there, pointer, detail)?;
    }
    Ok(())
}

fn check_expect(request: &LoadTestRequest) -> Result<(), RequestError> {
    for criterion in request.expect.criteria() {
        let (needs_producers, needs_consumers) = match criterion.metric {
            Metric::Throughput | Metric::Retained => (false, false),
            Metric::PutLatency(_)
            | Metric::Lateness(_)
            | Metric::InDoubt
            | Metric::Refused
            | Metric::NotSent => (true, false),
            Metric::EndToEndLatency(_) | Metric::Lost | Metric::Doubled | Metric::OutOfOrder => (true, true),
        };
        let pointer = format!("/expect/{}", criterion.metric.to_string().replace('.', "/"));
        refuse_if(
            needs_producers && request.producers.is_none(),
            &pointer,
            "cannot be measured without producers",
        )?;
        refuse_if(
            needs_consumers && request.consumers.is_none(),
            &pointer,
            "cannot be measured without consumers",
        )?;
        refuse_if(
            criterion.metric == Metric::Retained
                && request.mode == Mode::Search
                && request.consumers.is_none(),
            &pointer,
            "cannot be used in a search without consumers, because each probe adds to what the probes before left",
        )?;
    }
    Ok(())
}

/// Checks that the warm-up is shorter than the test, and that the backlog does not exceed the
/// number of the test's messages.
pub(super) fn check_length(test: &LoadTest) -> Result<(), RequestError> {
    refuse_if(
        test.measured_from() >= test.longest(),
        "/warmUpSeconds",
        "must be shorter than the test, of which it is the first part",
    )?;
    let Some(backlog) = test.backlog else { return Ok(()) };
    refuse_if(
        test.named_messages().is_some_and(|puts| puts < backlog.get()),
        "/backlog/messages",
        "must not exceed the messages of the test",
    )
}

//! Tests of the preparation of runs, and of the reasons that keep a run from beginning.

use std::net::Ipv4Addr;

use load_test::TestStatus;
use serde_json::json;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Stand, uri};

#[tokio::test]
async fn a_queue_with_messages_of_others_is_left_alone() {
    let stand = Stand::open().await;
    stand.put_foreign(3).await;
    let body = json!({"producers": {"ratePerSec": 50}, "consumers": {}, "durationSeconds": 5});
    let of = stand.accepted(body.clone()).await;
    assert_eq!(stand.prepare(&of).await.lanes, []);
    let report = stand.closed_as(&of, TestStatus::Failed).await;
    let reason = report.failure.as_deref().unwrap();
    assert!(reason.contains(&stand.name) && reason.contains("3 messages"), "{reason}");
    assert!(report.summary.contains(reason), "{}", report.summary);
    assert_eq!((report.accounting.due, report.accounting.holes.len()), (0, 0));
    assert_eq!(stand.prepare(&of).await.lanes, [], "the test is over");
    // Those who may be taken, or whom nobody takes, are no obstacle.
    let mut taking = body;
    taking["foreign"] = json!("take");
    let producing = json!({"producers": {"ratePerSec": 50}, "durationSeconds": 5});
    for body in [taking, producing] {
        let of = stand.accepted(body).await;
        assert!(!stand.prepare(&of).await.lanes.is_empty());
    }
    assert_eq!(stand.ready(3).await, 3);
    stand.remove().await;
}

#[tokio::test]
async fn a_test_that_was_stopped_before_it_began_runs_nothing() {
    let stand = Stand::open().await;
    let of = stand.accepted(json!({"producers": {"ratePerSec": 50}, "durationSeconds": 5})).await;
    stand.stop(&of).await;
    assert_eq!(stand.prepare(&of).await.lanes, []);
    let report = stand.closed_as(&of, TestStatus::Stopped).await;
    assert_eq!((report.accounting.due, report.duration_seconds), (0, 0.0));
    assert_eq!(stand.ready(0).await, 0);
    stand.remove().await;
}

#[tokio::test]
async fn a_test_that_is_stopped_and_closed_during_the_look_at_its_queue_runs_nothing() {
    let stand = Stand::open().await;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let body = json!({"producers": {"ratePerSec": 50}, "consumers": {}, "durationSeconds": 5});
    let of = stand.accepted_at(stand.target(Some(port)), body).await;
    // The broker answers once the test is closed.
    let broker = async {
        let (mut client, _) = listener.accept().await.unwrap();
        stand.stop(&of).await;
        assert!(!stand.close_alone(&of).await.more);
        let broker = uri().authority;
        let mut server = TcpStream::connect((broker.host, broker.port)).await.unwrap();
        let _ = copy_bidirectional(&mut client, &mut server).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        lanes = stand.prepare(&of) => assert_eq!(lanes.lanes, []),
        () = broker => {}
    }
    let record = stand.record(&of).await;
    assert_eq!((record.status, record.runs.len()), (TestStatus::Stopped, 0));
    stand.remove().await;
}

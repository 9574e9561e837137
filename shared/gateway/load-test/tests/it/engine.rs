//! Test of the engine of load tests, which is a Step Functions state machine.

use std::time::Duration;

use load_test::store::{Engine, ExecutionStart};
use serde_json::json;
use uuid::Uuid;

use crate::support::TENANT;

#[tokio::test]
async fn an_execution_runs_once_by_its_name_until_it_is_stopped() {
    let sdk = runtime::Sdk::from_environment().await.single_attempt(Duration::from_secs(30));
    let client = aws_sdk_sfn::Client::new(&sdk);
    let waits = json!({
        "StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 300, "End": true}}
    });
    let create = client
        .create_state_machine()
        .name(format!("load-tests-{}", Uuid::new_v4()))
        .definition(waits.to_string())
        .role_arn("arn:aws:iam::000000000000:role/load-tests");
    let machine = create.send().await.unwrap().state_machine_arn;
    let engine = Engine::new(client.clone(), machine.clone());
    let test_id = Uuid::now_v7();
    assert!(engine.is_gone(test_id).await.unwrap());
    engine.stop(test_id).await.unwrap();
    for _ in 0..2 {
        engine.start(&ExecutionStart::of(TENANT, test_id)).await.unwrap();
        assert!(!engine.is_gone(test_id).await.unwrap());
    }
    for _ in 0..2 {
        engine.stop(test_id).await.unwrap();
        assert!(engine.is_gone(test_id).await.unwrap());
    }
    // It was there, so it is not started again.
    engine.start(&ExecutionStart::of(TENANT, test_id)).await.unwrap();
    assert!(engine.is_gone(test_id).await.unwrap());
    client.delete_state_machine().state_machine_arn(&machine).send().await.unwrap();
    let nowhere = Engine::new(client, machine);
    nowhere.start(&ExecutionStart::of(TENANT, Uuid::now_v7())).await.unwrap_err();
}

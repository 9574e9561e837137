use super::*;

fn consumption() -> Consumption<&'static str> {
    let consumption = Consumption::default();
    for (handle, callback) in [(2, "two"), (5, "five")] {
        consumption.opened(handle, mq::MQOO_INPUT_SHARED);
        consumption.register(handle, callback).unwrap();
    }
    consumption
}

fn turn(consumption: &Consumption<&'static str>, outcome: Outcome) -> &'static str {
    let turn = consumption.next().unwrap();
    consumption.end(&turn, turn.progress, outcome);
    turn.callback
}

#[test]
fn consumers_take_turns() {
    let consumption = consumption();
    assert_eq!(consumption.start(), Ok(true));
    consumption.enter();
    let turns = [Outcome::Delivered; 3].map(|outcome| turn(&consumption, outcome));
    assert_eq!(turns, ["two", "five", "two"]);
    assert_eq!(turn(&consumption, Outcome::Suspend), "five");
    assert_eq!([Outcome::Nothing; 2].map(|outcome| turn(&consumption, outcome)), ["two"; 2]);
}

#[test]
fn operations_that_do_not_fit_the_state_are_refused() {
    let refused = Err(Reason(mq::MQRC_OPERATION_NOT_ALLOWED));
    let consumption = consumption();
    assert_eq!((consumption.suspend(), consumption.resume()), (refused, refused));
    consumption.start().unwrap();
    consumption.suspend().unwrap();
    assert_eq!(consumption.start(), Err(Reason(mq::MQRC_OPERATION_NOT_ALLOWED)));
    consumption.resume().unwrap();
    assert_eq!(consumption.start(), Ok(false));
}

#[test]
fn a_started_connection_is_closed_to_other_threads() {
    let consumption = consumption();
    consumption.start().unwrap();
    assert_eq!(consumption.admit(), Err(Reason(mq::MQRC_HCONN_ASYNC_ACTIVE)));
    consumption.enter();
    assert_eq!(consumption.admit(), Ok(()));
}

#[test]
fn only_objects_that_are_open_for_getting_have_consumers() {
    let consumption = consumption();
    assert_eq!(consumption.register(9, "nine"), Err(Reason(mq::MQRC_HOBJ_ERROR)));
    consumption.opened(9, mq::MQOO_OUTPUT);
    let refused = consumption.register(9, "nine");
    assert_eq!(refused, Err(Reason(mq::MQRC_NOT_OPEN_FOR_INPUT)));
    assert_eq!(consumption.forget(5), Some("five"));
    assert_eq!(consumption.deregister(5), Err(Reason(mq::MQRC_CALLBACK_NOT_REGISTERED)));
}

#[test]
fn a_stop_waits_for_the_call_that_is_going_on() {
    let consumption = std::sync::Arc::new(consumption());
    consumption.start().unwrap();
    let (told, tell) = std::sync::mpsc::channel();
    let calling = {
        let consumption = consumption.clone();
        std::thread::spawn(move || {
            consumption.enter();
            let turn = consumption.next().unwrap();
            told.send("called").unwrap();
            std::thread::park_timeout(Duration::from_millis(50));
            told.send("returned").unwrap();
            consumption.end(&turn, turn.progress, Outcome::Delivered);
            assert!(consumption.next().is_none() && consumption.leave());
        })
    };
    assert_eq!(tell.recv(), Ok("called"));
    consumption.stop();
    assert_eq!(tell.try_recv(), Ok("returned"));
    calling.join().unwrap();
}

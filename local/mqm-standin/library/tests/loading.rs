//! Test that `libmqm-sys` can load the library: every function must be there, also unused ones.
#![cfg(test)]
#![allow(unsafe_code)]

use libmqm_sys::dlopen2::MqmContainer;
use test_support::built::{self, MQ_LIBRARY};

#[test]
fn every_function_of_the_mqi_is_there() {
    let library = built::find(MQ_LIBRARY).unwrap();
    // SAFETY: the library runs no code when it is loaded, and has the functions of the MQI.
    unsafe { MqmContainer::load(library) }.unwrap();
}

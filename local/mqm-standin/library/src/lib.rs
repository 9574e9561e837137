//! `libmqm_r.so` for tests: the MQI, in front of the queue manager of `mqm-standin`. It is not IBM
//! MQ.

mod ccdt;
mod connection;
mod descriptor;
mod exports;
#[cfg(feature = "full-mqi")]
mod full;
#[cfg(not(feature = "full-mqi"))]
#[path = "absent.rs"]
mod full;
mod handle;
mod structures;

//! `libmqm_r.so` for tests: the MQI, in front of the queue manager of `mqm-standin`. It is not IBM
//! MQ.

mod ccdt;
mod connection;
mod descriptor;
mod exports;
mod handle;
mod structures;

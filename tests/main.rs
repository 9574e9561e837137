//! The gateway from outside: HTTP in, and what an independent client finds at the broker.

mod bad_input;
mod consume;
mod contract;
mod events;
mod front;
mod idempotency;
mod produce;
mod queues;
mod targets;

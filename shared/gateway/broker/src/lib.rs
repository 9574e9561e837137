//! The operations of a broker ([`Broker`]), and the parts that all brokers share: the bound on open
//! connections, the rate of a produce, and the latencies of its messages.

mod cap;
mod latencies;
mod operations;
mod pacer;

pub use cap::{Admitted, ClosingHandle, ConnectionCap, IdleConnections, Permit};
// Every operation takes a deadline.
pub use clock::Deadline;
pub use latencies::{Latencies, milliseconds};
pub use operations::{
    Broker, EarlierAttempts, PutMessages, ReadyToPut, Relocation, SettledMessages, UnitOfWork,
};
pub use pacer::Pacer;

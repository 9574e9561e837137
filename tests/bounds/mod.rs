//! Everything that a request can carry has a bound. The contract shows it, and the code holds it: a
//! member, a parameter or a header without one fails here, and so does a bound that only one of the
//! two knows.

mod contract;
mod headers;
mod operations;
mod order;
mod values;

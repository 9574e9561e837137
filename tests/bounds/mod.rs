//! Tests that everything in a request has a bound. They fail for a member, a parameter or a header
//! without a bound in the contract, and for a bound that only the contract or only the code has.

mod contract;
mod headers;
mod operations;
mod order;
mod values;

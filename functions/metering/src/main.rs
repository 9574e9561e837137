//! Counts each tenant's usage.

fn main() {}

/// Error of a benchmark. No benchmark distinguishes kinds of errors.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

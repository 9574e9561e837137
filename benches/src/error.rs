/// Error of a measurement, which no benchmark tells from others.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

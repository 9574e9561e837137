//! The frame filter as a function, for fuzzing.

use std::io;
use std::sync::Arc;

use super::{FrameFilter, Noticed};

/// Part of the broker's bytes that is passed on to the client library.
#[derive(Debug)]
pub struct Passed {
    /// Bytes of the frames that passed.
    pub bytes: Vec<u8>,
    /// True if a delivery exceeded the intake: it has no body, and no delivery follows it.
    pub is_exceeded: bool,
    /// Error after which nothing can be read.
    pub result: io::Result<()>,
}

/// Passes a broker's bytes through a new filter, window by window. With `intake`, it admits
/// deliveries of that many bytes altogether, otherwise all of them.
pub fn passed<'w>(windows: impl IntoIterator<Item = &'w [u8]>, intake: Option<usize>) -> Passed {
    let noticed = Arc::new(Noticed::default());
    if let Some(bytes) = intake {
        noticed.intake().bind(bytes);
    }
    let mut filter = FrameFilter::new(Arc::clone(&noticed));
    let (mut bytes, mut buf) = (Vec::new(), vec![0; 16 * 1024]);
    let result = windows.into_iter().try_for_each(|window| {
        let pushed = filter.push(window);
        loop {
            match filter.take(&mut buf) {
                0 => return pushed,
                length => bytes.extend_from_slice(buf.get(..length).unwrap_or_default()),
            }
        }
    });
    Passed { bytes, is_exceeded: noticed.intake().is_exceeded(), result }
}

//! Histograms of the latencies of a load test's messages.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer as Decoder, Serializer as _, V2DeflateSerializer};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::metric::Percentile;
use crate::micros::Micros;

/// Histogram of latencies in microseconds, to three significant digits. A latency runs from the
/// time at which a message was due until it was sent, confirmed or received.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Latencies {
    histogram: Counts,
    /// Number of messages whose event (send, confirm or receipt) seems to precede the time at which
    /// they were due, because the clocks of two machines differ. Their latency counts as one
    /// microsecond.
    pub(crate) earlier: u64,
    /// Number of latencies beyond two minutes, which count as two minutes.
    pub(crate) beyond: u64,
}

/// Histogram of latencies that is created when the first latency is recorded, because it takes 150
/// KB; `None` before.
#[derive(Clone, Debug, Default, PartialEq)]
struct Counts(Option<Histogram<u64>>);

/// Longest latency that the histograms distinguish, in microseconds: two minutes.
const LONGEST: u64 = 120 * Micros::A_SECOND;
const DIGITS: u8 = 3;

impl Latencies {
    /// Records the latency of a message that was due at `due` and was sent, confirmed or received
    /// at `at`.
    pub(crate) fn record(&mut self, due: Micros, at: Micros) {
        let latency = at.since(due).get();
        self.earlier = self.earlier.saturating_add(u64::from(at < due));
        self.beyond = self.beyond.saturating_add(u64::from(latency > LONGEST));
        if let Some(histogram) = self.histogram.get() {
            histogram.saturating_record(latency.clamp(1, LONGEST));
        }
    }

    /// Adds the latencies of another histogram to this one.
    pub(crate) fn add(&mut self, other: &Self) {
        self.earlier = self.earlier.saturating_add(other.earlier);
        self.beyond = self.beyond.saturating_add(other.beyond);
        if let Some(more) = &other.histogram.0
            && let Some(histogram) = self.histogram.get()
        {
            // Fails only if the bounds differ, and all histograms have the same.
            let _ = histogram.add(more);
        }
    }

    /// Returns the number of latencies that were recorded.
    pub(crate) fn count(&self) -> u64 {
        self.histogram.0.as_ref().map_or(0, Histogram::len)
    }

    /// Returns a percentile in microseconds; `None` if nothing was recorded.
    pub(crate) fn percentile(&self, percentile: Percentile) -> Option<u64> {
        let histogram = self.histogram.0.as_ref().filter(|histogram| !histogram.is_empty())?;
        Some(histogram.value_at_quantile(percentile.quantile()).min(LONGEST))
    }
}

impl Counts {
    fn get(&mut self) -> Option<&mut Histogram<u64>> {
        if self.0.is_none() {
            // Fails only for bounds that the library refuses, and it takes these.
            self.0 = Histogram::new_with_bounds(1, LONGEST, DIGITS).ok();
        }
        self.0.as_mut()
    }
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes: Vec<u8> = Vec::new();
        if let Some(histogram) = &self.0 {
            V2DeflateSerializer::new().serialize(histogram, &mut bytes).map_err(S::Error::custom)?;
        }
        serializer.serialize_bytes(&bytes)
    }
}

impl<'de> Deserialize<'de> for Counts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes: Vec<u8> = Deserialize::deserialize(deserializer)?;
        if bytes.is_empty() {
            return Ok(Self(None));
        }
        let decoded: Histogram<u64> =
            Decoder::new().deserialize(&mut bytes.as_slice()).map_err(D::Error::custom)?;
        if (decoded.low(), decoded.high(), decoded.sigfig()) != (1, LONGEST, DIGITS) {
            return Err(D::Error::custom("the histogram has other bounds"));
        }
        Ok(Self(Some(decoded)))
    }
}

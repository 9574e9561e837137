//! AMQP frames as bytes.

/// Length in bytes of a frame's header: type, channel and payload size.
pub(super) const HEADER: usize = 7;
const END: u8 = 0xCE;

/// Returns the length of the frame at the start of `bytes`, including its end octet; `None` if
/// `bytes` is shorter than a header.
pub(super) fn length(bytes: &[u8]) -> Option<usize> {
    let [_, _, _, size @ ..] = bytes.first_chunk::<HEADER>()?;
    usize::try_from(u32::from_be_bytes(*size)).ok()?.checked_add(HEADER + 1)
}

pub(super) fn channel(frame: &[u8]) -> u16 {
    match frame {
        [_, high, low, ..] => u16::from_be_bytes([*high, *low]),
        _ => 0,
    }
}

pub(super) fn payload(frame: &[u8]) -> Option<&[u8]> {
    frame.get(HEADER..frame.len().checked_sub(1)?)
}

pub(super) fn payload_mut(frame: &mut [u8]) -> Option<&mut [u8]> {
    let end = frame.len().checked_sub(1)?;
    frame.get_mut(HEADER..end)
}

/// Writes a frame with this payload, and with the type and channel of `frame`.
pub(super) fn write(out: &mut Vec<u8>, frame: &[u8], payload: &[u8]) {
    out.extend_from_slice(frame.get(..3).unwrap_or_default());
    out.extend(u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(payload);
    out.push(END);
}

//! Fixed-width little-endian numbers and length-prefixed texts, of which chunk files consist.

use bytes::BytesMut;

/// Buffer to which values are appended in binary form, integers little-endian.
#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) BytesMut);

/// Error for bytes that do not contain the value that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl Writer {
    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Appends the length of `bytes`, and then the bytes.
    pub(crate) fn sized(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.raw(bytes);
    }

    /// Appends the length of the value that follows, in four bytes. Items are limited to far less
    /// than 4 GiB.
    pub(crate) fn length(&mut self, bytes: usize) {
        self.raw(&u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes());
    }
}

/// Reader that takes binary values from the start of a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn raw(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_le_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_le_bytes)
    }

    pub(crate) fn sized(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.u32()?).map_err(|_| Malformed)?;
        self.raw(length)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        simdutf8::basic::from_utf8(self.sized()?).map_err(|_| Malformed)
    }

    pub(crate) const fn end(&self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

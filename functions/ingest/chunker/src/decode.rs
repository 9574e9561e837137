use std::io::Write as _;

use flate2::write::MultiGzDecoder;

/// First bytes of every gzip stream (RFC 1952), by which it is recognized.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Maximum number of bytes that one call of `Decoder::step` appends to content that is not
/// compressed. For gzip, the decoder appends at most half as many.
const WINDOW: usize = 64 * 1024;

/// Decodes a payload's bytes. Gzip is recognized by its first bytes and inflated, member after
/// member; any other bytes are content as they are.
#[derive(Debug)]
pub(crate) struct Decoder {
    form: Form,
}

#[derive(Debug)]
enum Form {
    /// Encoding that is not known yet. All bytes of the payload so far match the first bytes of
    /// gzip. The value is the number of these bytes, which are not appended to the content yet.
    Unknown(usize),
    Plain,
    /// Inflater of a gzip stream, boxed because it is large.
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
}

/// Failure of a payload that begins as gzip, but is damaged, ends too early, or has other bytes
/// after its end.
#[derive(Debug, thiserror::Error)]
#[error("the gzip stream is damaged, breaks off, or has other bytes behind its end")]
pub(crate) struct Corrupt(#[from] std::io::Error);

impl Decoder {
    pub(crate) const fn new() -> Self {
        Self { form: Form::Unknown(0) }
    }

    /// Decodes some bytes of `input`, appends at most `WINDOW` bytes to `content`, and returns the
    /// number of input bytes consumed. A return of 0 means that the payload was found not to be
    /// gzip; call it again then.
    pub(crate) fn step(&mut self, input: &[u8], content: &mut Vec<u8>) -> Result<usize, Corrupt> {
        match &mut self.form {
            Form::Unknown(seen) => {
                let held = *seen;
                let expected = GZIP.get(held..).unwrap_or_default();
                let same = expected.iter().zip(input).take_while(|(gzip, byte)| gzip == byte).count();
                if same == expected.len() {
                    let mut gzip = MultiGzDecoder::new(Vec::new());
                    gzip.write_all(&GZIP)?;
                    self.form = Form::Gzip(Box::new(gzip));
                    return Ok(same);
                }
                if same == input.len() {
                    *seen = held + same;
                    return Ok(same);
                }
                self.form = Form::Plain;
                content.extend_from_slice(GZIP.get(..held).unwrap_or_default());
                Ok(0)
            }
            Form::Plain => {
                let window = input.get(..WINDOW).unwrap_or(input);
                content.extend_from_slice(window);
                Ok(window.len())
            }
            Form::Gzip(gzip) => {
                // The decoder writes only to a buffer that it owns.
                std::mem::swap(gzip.get_mut(), content);
                let taken = gzip.write(input);
                std::mem::swap(gzip.get_mut(), content);
                Ok(taken?)
            }
        }
    }

    /// Ends the payload, and appends the content that was held back or not inflated yet.
    pub(crate) fn finish(self, content: &mut Vec<u8>) -> Result<(), Corrupt> {
        match self.form {
            Form::Unknown(held) => content.extend_from_slice(GZIP.get(..held).unwrap_or_default()),
            Form::Plain => {}
            Form::Gzip(gzip) => content.extend_from_slice(&gzip.finish()?),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;

    use super::*;

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    /// Decodes `bytes` in frames of `frame` bytes each, and returns the content and the most bytes
    /// that one step appended.
    fn decoded(bytes: &[u8], frame: usize) -> Result<(Vec<u8>, usize), Corrupt> {
        let mut decoder = Decoder::new();
        let (mut all, mut largest) = (Vec::new(), 0);
        for frame in bytes.chunks(frame) {
            let mut rest = frame;
            while !rest.is_empty() {
                let before = all.len();
                let taken = decoder.step(rest, &mut all)?;
                largest = largest.max(all.len() - before);
                rest = &rest[taken..];
            }
        }
        decoder.finish(&mut all)?;
        Ok((all, largest))
    }

    #[test]
    fn plain_content_stays_as_it_is() {
        for content in [&b""[..], b"[", b"\x1f", b"\x1f\x8a[]", b"\x1fx", b"[{}]"] {
            for frame in [1, 2, 100] {
                assert_eq!(decoded(content, frame).unwrap().0, content);
            }
        }
    }

    #[test]
    fn what_breaks_off_or_goes_on_as_something_else_is_corrupt() {
        let whole = gzip(b"some content that is long enough to have a body");
        let two = [whole.clone(), whole.clone()].concat();
        for length in (2..whole.len()).chain(whole.len() + 1..two.len()) {
            assert!(decoded(&two[..length], 7).is_err(), "{length} bytes of {}", two.len());
        }
        for garbage in [&b"[]"[..], b"\0\0", b"\x1f\x8b"] {
            assert!(decoded(&[&whole, garbage].concat(), 1000).is_err(), "{garbage:?}");
        }
        for place in [10, 20, whole.len() - 8, whole.len() - 1] {
            let mut damaged = whole.clone();
            damaged[place] ^= 0x55;
            assert!(decoded(&damaged, 1000).is_err(), "byte {place}");
        }
    }

    #[test]
    fn a_bomb_comes_in_windows() {
        let bomb = gzip(&vec![b' '; 50_000_000]);
        assert!(bomb.len() < 1_000_000);
        let (content, largest) = decoded(&bomb, 1_000_000).unwrap();
        assert_eq!(content.len(), 50_000_000);
        assert!(largest <= WINDOW, "{largest}");
    }

    proptest! {
        #[test]
        fn members_are_one_content_however_they_are_cut(
            members in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..5),
            frame in 1_usize..400,
        ) {
            let bytes: Vec<u8> = members.iter().flat_map(|member| gzip(member)).collect();
            prop_assert_eq!(decoded(&bytes, frame).unwrap().0, members.concat());
        }
    }
}

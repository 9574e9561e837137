//! The LZ4 frame of a chunk's file. It takes half of gzip's time to write and a quarter of it to
//! read, at nearly the same size.

use std::io::{self, BufRead as _, Read};

use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};

/// Maximum number of bytes of a decompressed chunk: several times what the planner makes with the
/// largest item allowed.
const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Reason why a file is not one complete LZ4 frame of at most the size of a chunk.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message says what went wrong")]
pub enum FrameError {
    #[error("the chunk cannot be decompressed")]
    Decompress(#[source] io::Error),
    #[error("the chunk is larger than any that was made")]
    TooLarge,
    #[error("there is more in the file than the chunk")]
    TrailingContent,
}

/// Creates an encoder that compresses what is written to it into an LZ4 frame, in blocks of 64 KiB.
/// A checksum over the whole content shows damage.
#[must_use]
pub fn encoder() -> FrameEncoder<Vec<u8>> {
    let form =
        FrameInfo::new().block_size(BlockSize::Max64KB).block_mode(BlockMode::Linked).content_checksum(true);
    FrameEncoder::with_frame_info(form, Vec::new())
}

/// Decompresses a file that [`encoder`] made.
///
/// # Errors
/// If the file is not exactly one complete frame, or its content is larger than any chunk.
pub fn content(file: &[u8]) -> Result<Vec<u8>, FrameError> {
    let mut content = Vec::new();
    let mut frame = FrameDecoder::new(CompleteFile::of(file));
    loop {
        let part = frame.fill_buf().map_err(FrameError::Decompress)?;
        if part.is_empty() {
            break;
        }
        if content.len().saturating_add(part.len()) > MAX_BYTES {
            return Err(FrameError::TooLarge);
        }
        content.extend_from_slice(part);
        let length = part.len();
        frame.consume(length);
    }
    let file = frame.get_ref();
    if !file.is_read_to_the_checksum() {
        return Err(FrameError::Decompress(breaks_off()));
    }
    if file.rest.is_empty() { Ok(content) } else { Err(FrameError::TrailingContent) }
}

/// Reader of a file. Reading fails if the file ends before its LZ4 frame does. The decoder itself
/// accepts a file that ends between two blocks, with or without a checksum, and mistakes a block
/// without content for the end.
struct CompleteFile<'a> {
    rest: &'a [u8],
    /// Bytes that the decoder read last; `before_last` has those of its previous read.
    last: &'a [u8],
    before_last: &'a [u8],
}

impl<'a> CompleteFile<'a> {
    const fn of(file: &'a [u8]) -> Self {
        Self { rest: file, last: &[], before_last: &[] }
    }

    /// True if the decoder has read the end mark and the content's checksum, 4 bytes each (LZ4
    /// Frame Format Description 1.6, "General Structure of LZ4 Frame format").
    fn is_read_to_the_checksum(&self) -> bool {
        self.before_last == [0; 4] && self.last.len() == 4
    }
}

impl Read for CompleteFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() {
            return Err(breaks_off());
        }
        let before = self.rest;
        let length = self.rest.read(buffer)?;
        self.before_last = self.last;
        self.last = before.get(..length).unwrap_or_default();
        Ok(length)
    }
}

fn breaks_off() -> io::Error {
    io::Error::other("the frame breaks off")
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    fn frame(content: &[u8]) -> Vec<u8> {
        let mut frame = encoder();
        frame.write_all(content).unwrap();
        frame.finish().unwrap()
    }

    /// Returns content that makes three blocks, of which the last cannot be compressed.
    fn some_content() -> Vec<u8> {
        let mut content = b"some content ".repeat(100_000 / 13);
        content.resize(131_072, b'x');
        content.extend((0..200_u8).map(|byte| byte.wrapping_mul(151)));
        content
    }

    #[test]
    fn a_frame_that_breaks_off_anywhere_is_noticed() {
        for content in [Vec::new(), b"short".to_vec(), some_content()] {
            let whole = frame(&content);
            assert_eq!(super::content(&whole).unwrap(), content);
            for length in 0..whole.len() {
                let part = super::content(&whole[..length]);
                assert!(matches!(part, Err(FrameError::Decompress(_))), "{length} of {}", whole.len());
            }
        }
    }

    #[test]
    fn a_block_without_content_is_no_end() {
        for block in [b"\x01\0\0\0\0".as_slice(), b"\0\0\0\x80"] {
            let begun = &frame(&some_content())[..7];
            let refused = content(&[begun, block].concat());
            assert!(matches!(refused, Err(FrameError::Decompress(_))), "{block:?}: {refused:?}");
        }
    }

    #[test]
    fn what_follows_the_frame_is_noticed() {
        let whole = frame(&some_content());
        for more in [b"\0".as_slice(), b"more than a checksum", &whole] {
            let file = [&whole, more].concat();
            assert!(matches!(content(&file), Err(FrameError::TrailingContent)));
        }
    }

    #[test]
    fn what_is_too_large_is_not_decompressed() {
        assert_eq!(content(&frame(&vec![0; MAX_BYTES])).unwrap().len(), MAX_BYTES);
        assert!(matches!(content(&frame(&vec![0; MAX_BYTES + 1])), Err(FrameError::TooLarge)));
    }

    #[test]
    fn other_forms_are_refused() {
        for file in [b"plain text".as_slice(), b"\x1f\x8b\x08\0\0\0\0\0\0\0", b"\x04\x22\x4d\x18"] {
            assert!(matches!(content(file), Err(FrameError::Decompress(_))), "{file:?}");
        }
    }

    proptest! {
        #[test]
        fn content_survives_in_whatever_parts_it_is_written(
            parts in prop::collection::vec((any::<u8>(), 0_usize..50_000).prop_map(|(byte, length)| vec![byte; length]), 0..8),
        ) {
            let mut file = encoder();
            parts.iter().try_for_each(|part| file.write_all(part)).unwrap();
            let file = file.finish().unwrap();
            prop_assert_eq!(&file, &frame(&parts.concat()));
            prop_assert_eq!(content(&file).unwrap(), parts.concat());
        }

        #[test]
        fn one_changed_byte_is_noticed_or_changes_nothing(at in any::<prop::sample::Index>(), byte: u8) {
            let mut file = frame(&some_content());
            let at = at.index(file.len());
            file[at] = byte;
            if let Ok(read) = content(&file) {
                prop_assert_eq!(read, some_content());
            }
        }

        #[test]
        fn arbitrary_blocks_are_an_error_and_no_panic(blocks in prop::collection::vec(any::<u8>(), 0..300), sized: bool) {
            let mut file = frame(b"")[..7].to_vec();
            if sized {
                file.extend(u32::try_from(blocks.len()).unwrap().to_le_bytes());
            }
            file.extend(blocks);
            prop_assert!(content(&file).is_err());
        }
    }
}

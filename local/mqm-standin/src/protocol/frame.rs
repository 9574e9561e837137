//! Frames: a length of four bytes, and that many bytes of postcard.

use std::io::{self, Read, Write};

use serde::{Serialize, de::DeserializeOwned};

/// Maximum length of a frame on a socket, in bytes. The largest message of MQ is 100 MB; the rest
/// is for its properties and descriptor.
const MAX_FRAME: u32 = 120 * 1024 * 1024;

pub fn write<T: Serialize>(writer: &mut impl Write, value: &T) -> io::Result<()> {
    let mut frame = postcard::to_extend(value, vec![0; 4]).map_err(io::Error::other)?;
    let length = u32::try_from(frame.len().saturating_sub(4)).map_err(io::Error::other)?;
    if let Some(header) = frame.first_chunk_mut() {
        *header = length.to_le_bytes();
    }
    writer.write_all(&frame)
}

/// Reads a frame from a socket.
pub fn read<T: DeserializeOwned>(socket: &mut impl Read) -> io::Result<T> {
    read_up_to(socket, MAX_FRAME)
}

/// Reads a frame of up to `most` bytes.
pub(crate) fn read_up_to<T: DeserializeOwned>(reader: &mut impl Read, most: u32) -> io::Result<T> {
    let mut header = [0; 4];
    reader.read_exact(&mut header)?;
    let length = u32::from_le_bytes(header);
    if length > most {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut frame = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    reader.read_exact(&mut frame)?;
    postcard::from_bytes(&frame).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use super::read;

    #[test]
    fn a_length_over_the_limit_is_refused_before_memory_is_taken() {
        let mut socket: &[u8] = &u32::MAX.to_le_bytes();
        assert_eq!(read::<i32>(&mut socket).unwrap_err().kind(), ErrorKind::FileTooLarge);
    }
}

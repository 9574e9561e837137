//! Frames on the socket.

use std::io::{self, Read, Write};

use serde::{Serialize, de::DeserializeOwned};

/// The largest message of MQ is 100 MB; the rest is for its properties and descriptor.
const MAX_FRAME: u32 = 120 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("the socket failed")]
    Socket(#[from] io::Error),
    #[error("a frame of {0} bytes is over the limit")]
    TooLong(u32),
    #[error("the frame could not be read or written")]
    Codec(#[from] postcard::Error),
}

pub fn write<T: Serialize>(socket: &mut impl Write, value: &T) -> Result<(), FrameError> {
    let mut frame = postcard::to_extend(value, vec![0; 4])?;
    let length = u32::try_from(frame.len().saturating_sub(4)).unwrap_or(u32::MAX);
    if length > MAX_FRAME {
        return Err(FrameError::TooLong(length));
    }
    if let Some(header) = frame.first_chunk_mut() {
        *header = length.to_le_bytes();
    }
    Ok(socket.write_all(&frame)?)
}

pub fn read<T: DeserializeOwned>(socket: &mut impl Read) -> Result<T, FrameError> {
    let mut header = [0; 4];
    socket.read_exact(&mut header)?;
    let length = u32::from_le_bytes(header);
    if length > MAX_FRAME {
        return Err(FrameError::TooLong(length));
    }
    let mut frame = vec![0; usize::try_from(length).map_err(|_| FrameError::TooLong(length))?];
    socket.read_exact(&mut frame)?;
    Ok(postcard::from_bytes(&frame)?)
}

#[cfg(test)]
mod tests {
    use super::{FrameError, read, write};

    #[test]
    fn a_frame_comes_back_as_it_was_written() {
        let mut socket = Vec::new();
        write(&mut socket, &("MQPUT".to_owned(), 2033)).unwrap();
        assert_eq!(read::<(String, i32)>(&mut socket.as_slice()).unwrap(), ("MQPUT".to_owned(), 2033));
    }

    #[test]
    fn a_length_over_the_limit_is_refused_before_memory_is_taken() {
        let mut socket: &[u8] = &u32::MAX.to_le_bytes();
        assert!(matches!(read::<i32>(&mut socket), Err(FrameError::TooLong(u32::MAX))));
    }
}

//! Access to the caller's structures, never beyond the length that a structure's version has.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::mem::{MaybeUninit, offset_of};
use std::ptr;

use libmqm_sys as mq;
use mqm_standin::protocol::{Chars, Reason};

/// Structure of the MQI that begins with an identifier and a version. Its length depends on the
/// version.
///
/// # Safety
///
/// Any bytes, also all zero, must be a value of the type: it may consist of numbers, characters,
/// raw pointers and structures of them.
pub(crate) unsafe trait Versioned: Copy {
    const ID: &'static CStr;
    /// Reason code for a wrong identifier or version of the structure.
    const ERROR: i32;
    /// Lengths of the structure's versions 1, 2, …, in bytes.
    const LENGTHS: &'static [usize];
}

macro_rules! versioned {
    ($($type:ident, $id:ident, $error:ident: [$($next:ident),*];)*) => {$(
        // SAFETY: the bindings declare nothing but numbers, characters and raw pointers in it.
        unsafe impl Versioned for mq::$type {
            const ID: &'static CStr = mq::$id;
            const ERROR: i32 = mq::$error;
            // A version ends where the first member of the next one begins.
            const LENGTHS: &'static [usize] = &[
                $(offset_of!(mq::$type, $next),)* size_of::<mq::$type>()
            ];
        }
    )*};
}

versioned! {
    MQMD, MQMD_STRUC_ID, MQRC_MD_ERROR: [GroupId];
    MQGMO, MQGMO_STRUC_ID, MQRC_GMO_ERROR: [MatchOptions, MsgToken, Reserved2];
    MQPMO, MQPMO_STRUC_ID, MQRC_PMO_ERROR: [RecsPresent, OriginalMsgHandle];
    MQOD, MQOD_STRUC_ID, MQRC_OD_ERROR: [RecsPresent, AlternateSecurityId, ObjectString];
    MQCNO, MQCNO_STRUC_ID, MQRC_CNO_ERROR: [
        ClientConnOffset, ConnTag, SSLConfigPtr, ConnectionId, CCDTUrlPtr, ApplName, BalanceParmsPtr
    ];
    MQCSP, MQCSP_STRUC_ID, MQRC_CSP_ERROR: [Reserved3, Reserved4];
    MQSCO, MQSCO_STRUC_ID, MQRC_SCO_ERROR: [
        KeyResetCount, EncryptionPolicySuiteB, CertificateValPolicy, CertificateLabel, KeyRepoPasswordPtr,
        HTTPSCertValidation
    ];
    MQIMPO, MQIMPO_STRUC_ID, MQRC_IMPO_ERROR: [];
    MQSMPO, MQSMPO_STRUC_ID, MQRC_SMPO_ERROR: [];
    MQPD, MQPD_STRUC_ID, MQRC_PD_ERROR: [];
    MQCMHO, MQCMHO_STRUC_ID, MQRC_CMHO_ERROR: [];
    MQDMHO, MQDMHO_STRUC_ID, MQRC_DMHO_ERROR: [];
}

/// Identifier and version, with which every structure of the MQI but MQCD begins.
#[repr(C)]
#[derive(Clone, Copy)]
struct Head {
    id: [u8; 4],
    version: i32,
}

/// Copy of a caller's structure, with the location that it was copied from.
#[derive(Debug)]
pub(crate) struct Borrowed<T> {
    pub(crate) value: T,
    pub(crate) version: i32,
    pointer: *mut T,
    length: usize,
}

impl<T: Versioned> Borrowed<T> {
    /// Copies the structure that `pointer` points to. Fields that its version does not have are
    /// zero.
    ///
    /// # Safety
    ///
    /// `pointer` is null or points to a structure of as many bytes as its version has, which nobody
    /// changes during this call and until [`Self::give_back`]. It need not be aligned.
    pub(crate) unsafe fn read(pointer: *mut T) -> Result<Self, Reason> {
        let error = Reason(T::ERROR);
        if pointer.is_null() {
            return Err(error);
        }
        // SAFETY: every version has at least the identifier and the version.
        let head = unsafe { ptr::read_unaligned(pointer.cast::<Head>()) };
        let index = usize::try_from(head.version).ok().and_then(|version| version.checked_sub(1));
        let length = index.and_then(|index| T::LENGTHS.get(index)).copied().ok_or(error)?;
        if head.id != T::ID.to_bytes() {
            return Err(error);
        }
        let mut value = MaybeUninit::<T>::zeroed();
        // SAFETY: the caller has `length` bytes for this version, and no version is longer than T.
        unsafe { ptr::copy_nonoverlapping(pointer.cast::<u8>(), value.as_mut_ptr().cast::<u8>(), length) };
        // SAFETY: `Versioned` says that any bytes are a value.
        Ok(Self { value: unsafe { value.assume_init() }, version: head.version, pointer, length })
    }

    /// Writes the changed copy back to the caller's structure, only up to the end of the
    /// structure's version.
    ///
    /// # Safety
    ///
    /// As for [`Self::read`], and the structure may be written.
    pub(crate) unsafe fn give_back(&self) {
        let from = ptr::from_ref(&self.value).cast::<u8>();
        // SAFETY: `read` was given as many bytes, and checked that T has them.
        unsafe { ptr::copy_nonoverlapping(from, self.pointer.cast::<u8>(), self.length) };
    }

    /// Returns the start of the caller's structure, from which its offsets count.
    pub(crate) fn start(&self) -> *const u8 {
        self.pointer.cast_const().cast()
    }

    /// Returns the address that a field of the structure refers to, by a pointer or else by an
    /// offset from the structure's start; `None` if there is neither.
    ///
    /// # Safety
    ///
    /// `pointer` is null or points to something; if it is null and `offset` is not 0, there is
    /// something `offset` bytes behind the start of the structure.
    pub(crate) unsafe fn locate<P>(&self, pointer: *mut P, offset: mq::MQLONG) -> Option<*const u8> {
        // SAFETY: the caller says so.
        unsafe { locate(pointer.cast_const().cast(), offset, self.start()) }
    }

    /// Reads the bytes that a structure refers to; `None` if it refers to none.
    ///
    /// # Safety
    ///
    /// As for [`Self::locate`], and `length` bytes can be read from that address.
    pub(crate) unsafe fn referred<P>(
        &self,
        pointer: *mut P,
        offset: mq::MQLONG,
        length: mq::MQLONG,
    ) -> Option<Vec<u8>> {
        let length = usize::try_from(length).ok()?;
        // SAFETY: the caller says so.
        Some(unsafe { std::slice::from_raw_parts(self.locate(pointer, offset)?, length) }.to_vec())
    }
}

/// Reads the fields of version 7 from a channel definition (MQCD) of version 7 or later. MQCD has
/// no identifier, and its version follows the channel's name. Returns `None` if the version is
/// older or unknown.
///
/// # Safety
///
/// `pointer` points to a channel definition of as many bytes as its version has.
pub(crate) unsafe fn channel(pointer: *const mq::MQCD) -> Option<mq::MQCD> {
    // SAFETY: the version lies within the shortest one.
    let version = unsafe {
        let at = pointer.cast::<u8>().add(offset_of!(mq::MQCD, Version));
        ptr::read_unaligned(at.cast::<mq::MQLONG>())
    };
    if !(mq::MQCD_VERSION_7..=mq::MQCD_CURRENT_VERSION).contains(&version) {
        return None;
    }
    let mut value = MaybeUninit::<mq::MQCD>::zeroed();
    // SAFETY: the caller has that many bytes for this version, MQCD has them, and it consists of
    // numbers, characters and pointers, which may be zero.
    unsafe {
        ptr::copy_nonoverlapping(pointer.cast::<u8>(), value.as_mut_ptr().cast::<u8>(), mq::MQCD_LENGTH_7);
        Some(value.assume_init())
    }
}

/// Returns the address that a pointer or an offset of a structure refers to; `None` if there is
/// neither.
///
/// # Safety
///
/// As for [`Borrowed::locate`], of the structure that begins at `start`.
unsafe fn locate(pointer: *const u8, offset: mq::MQLONG, start: *const u8) -> Option<*const u8> {
    if !pointer.is_null() {
        return Some(pointer);
    }
    let offset = isize::try_from(offset).ok().filter(|offset| *offset != 0)?;
    // SAFETY: the caller says that the offset leads to bytes of its own.
    Some(unsafe { start.offset(offset) })
}

/// Reads a variable-length string of the MQI (MQCHARV) as UTF-8; `None` if the string is not set.
///
/// # Safety
///
/// The pointer or offset in `string` refers to memory of the caller that can be read for the length
/// in `string`. An offset counts from `start`, the start of the structure.
pub(crate) unsafe fn text(string: &mq::MQCHARV, start: *const u8) -> Result<Option<String>, Reason> {
    // SAFETY: the caller says so.
    let Some(from) = (unsafe { locate(string.VSPtr.cast_const().cast(), string.VSOffset, start) }) else {
        return Ok(None);
    };
    let bytes = if string.VSLength == mq::MQVS_NULL_TERMINATED {
        // SAFETY: a string of this length ends with a NUL.
        unsafe { CStr::from_ptr(from.cast()) }.to_bytes().to_vec()
    } else {
        let length = usize::try_from(string.VSLength).map_err(|_| Reason(mq::MQRC_STRING_LENGTH_ERROR))?;
        // SAFETY: the string has that many bytes.
        unsafe { std::slice::from_raw_parts(from, length) }.to_vec()
    };
    String::from_utf8(bytes).map(Some).map_err(|_| Reason(mq::MQRC_PROP_NAME_NOT_CONVERTED))
}

/// Converts a fixed-length text field to [`Chars`], independently of whether a C `char` is signed
/// on this platform.
pub(crate) fn chars<const N: usize>(field: &[mq::MQCHAR; N]) -> Chars {
    Chars::from_field(field.map(mq::MQCHAR::to_ne_bytes).as_flattened())
}

/// Returns a field of fixed length with this text, padded with blanks.
pub(crate) fn field<const N: usize>(text: &Chars) -> [mq::MQCHAR; N] {
    let mut padded = text.padded(N).into_iter();
    [(); N].map(|()| mq::MQCHAR::from_ne_bytes([padded.next().unwrap_or(b' ')]))
}

#[cfg(test)]
mod tests {
    use libmqm_sys as mq;

    use super::{Borrowed, field};

    fn descriptor(version: i32) -> mq::MQMD {
        // SAFETY: numbers and characters may be zero.
        let zeros: mq::MQMD = unsafe { std::mem::zeroed() };
        mq::MQMD { StrucId: field(&"MD".into()), Version: version, MsgSeqNumber: 77, ..zeros }
    }

    #[test]
    fn an_older_structure_is_neither_read_nor_written_beyond_its_end() {
        let mut caller = descriptor(mq::MQMD_VERSION_1);
        // SAFETY: the structure is there and is the caller's alone.
        let mut borrowed = unsafe { Borrowed::read(&raw mut caller) }.unwrap();
        assert_eq!(borrowed.value.MsgSeqNumber, 0);
        (borrowed.value.MsgSeqNumber, borrowed.value.Priority) = (5, 4);
        // SAFETY: as above.
        unsafe { borrowed.give_back() };
        assert_eq!((caller.MsgSeqNumber, caller.Priority), (77, 4));
    }

    #[test]
    fn a_structure_of_an_unknown_version_is_refused() {
        for version in [0, 3, -1] {
            let mut caller = descriptor(version);
            // SAFETY: the structure is there and is the caller's alone.
            assert!(unsafe { Borrowed::read(&raw mut caller) }.is_err());
        }
    }
}

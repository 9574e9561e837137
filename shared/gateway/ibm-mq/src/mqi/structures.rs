//! Structures of the MQI with IBM's initial values.
//!
//! Layouts, identifiers and constants come from the bindings (`libmqm_sys`). Fields that are zero
//! in IBM's initial values are not set, because each structure begins as zeros. Names are filled
//! with blanks.
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;

use libmqm_sys::{self as mq, MQLONG};

/// MQI structure that consists of integers, arrays of integers, and pointers, and can begin as
/// zeros.
///
/// # Safety
/// A value with all bits zero must be valid for the type.
unsafe trait Structure: Sized {}

macro_rules! structures {
    ($($name:ident),*) => {
        $(
            // SAFETY: integers, arrays of integers, and raw pointers, which may be null.
            unsafe impl Structure for mq::$name {}
        )*
    };
}

structures!(
    MQMD, MQOD, MQGMO, MQPMO, MQCNO, MQCD, MQSCO, MQCSP, MQCMHO, MQDMHO, MQSMPO, MQIMPO, MQPD, MQCHARV
);

fn zero<T: Structure>() -> T {
    // SAFETY: `Structure` promises that zero is a value.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// Creates a zeroed MQI structure with its identifier and version set.
macro_rules! initial {
    ($name:ident, $id:ident, $version:ident) => {
        mq::$name { StrucId: id(mq::$id), Version: mq::$version, ..zero() }
    };
}

/// Converts a C string to the four-character identifier at the start of a structure.
fn id(name: &CStr) -> mq::MQCHAR4 {
    let mut id = [0; 4];
    fill_with(&mut id, name.to_bytes());
    id
}

/// Writes `text` into a field of fixed length, padded with blanks. Longer text is truncated, so
/// callers check the length of texts from outside.
pub(crate) fn fill<const N: usize>(field: &mut [c_char; N], text: &str) {
    fill_with(field, text.as_bytes());
}

fn fill_with<const N: usize>(field: &mut [c_char; N], text: &[u8]) {
    // Two loops over plain slices become copies of whole words. Descriptors are mostly blanks.
    let (start, rest) = field.split_at_mut(text.len().min(N));
    for (place, byte) in start.iter_mut().zip(text) {
        *place = c_char::from_ne_bytes([*byte]);
    }
    rest.fill(c_char::from_ne_bytes([b' ']));
}

/// Returns the text of a field of fixed length without its padding. Invalid UTF-8 becomes U+FFFD.
pub(crate) fn text_in(field: &[c_char]) -> Cow<'_, str> {
    // SAFETY: a `c_char` is a byte, with a sign or without, and every byte is a value of both.
    let bytes = unsafe { std::slice::from_raw_parts(field.as_ptr().cast::<u8>(), field.len()) };
    let text = CStr::from_bytes_until_nul(bytes).map_or(bytes, CStr::to_bytes);
    let length = text.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
    lossy(text.get(..length).unwrap_or_default())
}

/// Converts bytes to text; invalid UTF-8 becomes U+FFFD. The bytes are checked for valid UTF-8
/// first, which is faster than `String::from_utf8_lossy` in the usual case.
pub(super) fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    }
}

/// Returns a message descriptor (MQMD) with IBM's default values, for a message of the type
/// datagram.
pub(crate) fn descriptor() -> mq::MQMD {
    let mut md = initial!(MQMD, MQMD_STRUC_ID, MQMD_VERSION_2);
    md.MsgType = mq::MQMT_DATAGRAM;
    md.Expiry = mq::MQEI_UNLIMITED;
    md.Encoding = mq::MQENC_NATIVE;
    md.CodedCharSetId = mq::MQCCSI_Q_MGR;
    md.Priority = mq::MQPRI_PRIORITY_AS_Q_DEF;
    md.Persistence = mq::MQPER_PERSISTENCE_AS_Q_DEF;
    md.MsgSeqNumber = 1;
    md.OriginalLength = mq::MQOL_UNDEFINED;
    for text in [&mut md.ReplyToQ, &mut md.ReplyToQMgr] {
        fill(text, "");
    }
    for text in [&mut md.Format, &mut md.PutDate, &mut md.PutTime] {
        fill(text, "");
    }
    fill(&mut md.UserIdentifier, "");
    fill(&mut md.ApplIdentityData, "");
    fill(&mut md.PutApplName, "");
    fill(&mut md.ApplOriginData, "");
    md
}

pub(super) fn object(kind: MQLONG) -> mq::MQOD {
    let mut od = initial!(MQOD, MQOD_STRUC_ID, MQOD_VERSION_4);
    od.ObjectType = kind;
    fill(&mut od.DynamicQName, "AMQ.*");
    for name in [&mut od.ObjectName, &mut od.ObjectQMgrName, &mut od.ResolvedQName, &mut od.ResolvedQMgrName]
    {
        fill(name, "");
    }
    fill(&mut od.AlternateUserId, "");
    for text in [&mut od.ObjectString, &mut od.SelectionString, &mut od.ResObjectString] {
        text.VSCCSID = mq::MQCCSI_APPL;
    }
    od
}

pub(super) fn get_options() -> mq::MQGMO {
    let mut gmo = initial!(MQGMO, MQGMO_STRUC_ID, MQGMO_VERSION_4);
    fill(&mut gmo.ResolvedQName, "");
    for status in [&mut gmo.GroupStatus, &mut gmo.SegmentStatus, &mut gmo.Segmentation, &mut gmo.Reserved1] {
        *status = c_char::from_ne_bytes([b' ']);
    }
    gmo.ReturnedLength = mq::MQRL_UNDEFINED;
    gmo
}

pub(super) fn put_options() -> mq::MQPMO {
    let mut pmo = initial!(MQPMO, MQPMO_STRUC_ID, MQPMO_VERSION_3);
    pmo.Timeout = -1;
    fill(&mut pmo.ResolvedQName, "");
    fill(&mut pmo.ResolvedQMgrName, "");
    pmo.PubLevel = 9;
    pmo
}

pub(super) fn connect_options() -> mq::MQCNO {
    // Version with an application name (MQ 9.1.2 or later).
    initial!(MQCNO, MQCNO_STRUC_ID, MQCNO_VERSION_7)
}

/// Returns the default definition of a client channel (MQCD).
pub(super) fn channel() -> mq::MQCD {
    let mut cd: mq::MQCD = zero();
    // Version with a certificate label (MQ 8 or later).
    cd.Version = mq::MQCD_VERSION_11;
    cd.StrucLength = MQLONG::try_from(mq::MQCD_LENGTH_11).unwrap_or_default();
    cd.ChannelType = mq::MQCHT_CLNTCONN;
    cd.TransportType = mq::MQXPT_TCP;
    cd.ExitNameLength = MQLONG::try_from(mq::MQ_EXIT_NAME_LENGTH).unwrap_or_default();
    cd.ExitDataLength = MQLONG::try_from(mq::MQ_EXIT_DATA_LENGTH).unwrap_or_default();
    cd.DiscInterval = 6_000;
    cd.ShortRetryCount = 10;
    cd.ShortRetryInterval = 60;
    cd.LongRetryCount = 999_999_999;
    cd.LongRetryInterval = 1_200;
    cd.SeqNumberWrap = 999_999_999;
    cd.MaxMsgLength = MAX_MESSAGE;
    cd.BatchSize = 50;
    cd.MCAType = mq::exits::MQMCAT_PROCESS;
    cd.MsgRetryCount = 10;
    cd.MsgRetryInterval = 1_000;
    cd.NonPersistentMsgSpeed = mq::exits::MQNPMS_FAST;
    cd.KeepAliveInterval = mq::exits::MQKAI_AUTO;
    cd.HdrCompList = [mq::MQCOMPRESS_NONE, mq::MQCOMPRESS_NOT_AVAILABLE];
    cd.MsgCompList = [mq::MQCOMPRESS_NOT_AVAILABLE; 16];
    if let Some(first) = cd.MsgCompList.first_mut() {
        *first = mq::MQCOMPRESS_NONE;
    }
    cd.CLWLChannelWeight = 50;
    cd.ChannelMonitoring = mq::MQMON_OFF;
    cd.ChannelStatistics = mq::MQMON_OFF;
    // With one conversation per channel instance, the cap on connections also limits the instances.
    cd.SharingConversations = 1;
    cd.PropertyControl = mq::MQPROP_COMPATIBILITY;
    cd.MaxInstances = 999_999_999;
    cd.MaxInstancesPerClient = 999_999_999;
    cd.ConnectionAffinity = mq::MQCAFTY_PREFERRED;
    cd.BatchDataLimit = 5_000;
    cd.UseDLQ = mq::MQUSEDLQ_YES;
    cd.DefReconnect = mq::exits::MQRCN_NO;
    cd
}

/// Maximum length in bytes of a message in IBM MQ (100 MB).
const MAX_MESSAGE: MQLONG = 104_857_600;

pub(super) fn security() -> mq::MQCSP {
    let mut csp = initial!(MQCSP, MQCSP_STRUC_ID, MQCSP_VERSION_1);
    csp.AuthenticationType = mq::MQCSP_AUTH_USER_ID_AND_PWD;
    csp
}

pub(super) fn tls() -> mq::MQSCO {
    // Version with a certificate label (MQ 8 or later).
    let mut sco = initial!(MQSCO, MQSCO_STRUC_ID, MQSCO_VERSION_5);
    sco.EncryptionPolicySuiteB = [mq::MQ_SUITE_B_NONE, 0, 0, 0];
    sco
}

pub(super) fn create_message_handle() -> mq::MQCMHO {
    initial!(MQCMHO, MQCMHO_STRUC_ID, MQCMHO_VERSION_1)
}

pub(super) fn delete_message_handle() -> mq::MQDMHO {
    initial!(MQDMHO, MQDMHO_STRUC_ID, MQDMHO_VERSION_1)
}

pub(super) fn set_property() -> mq::MQSMPO {
    let mut options = initial!(MQSMPO, MQSMPO_STRUC_ID, MQSMPO_VERSION_1);
    options.ValueEncoding = mq::MQENC_NATIVE;
    options.ValueCCSID = UTF_8;
    options
}

pub(super) fn inquire_property() -> mq::MQIMPO {
    let mut options = initial!(MQIMPO, MQIMPO_STRUC_ID, MQIMPO_VERSION_1);
    options.RequestedEncoding = mq::MQENC_NATIVE;
    options.RequestedCCSID = UTF_8;
    options.ReturnedEncoding = mq::MQENC_NATIVE;
    fill(&mut options.TypeString, "");
    options.ReturnedName.VSCCSID = UTF_8;
    options
}

pub(super) fn property_descriptor() -> mq::MQPD {
    let mut pd = initial!(MQPD, MQPD_STRUC_ID, MQPD_VERSION_1);
    pd.Support = mq::MQPD_SUPPORT_OPTIONAL;
    pd.CopyOptions = mq::MQCOPY_DEFAULT;
    pd
}

/// Builds an MQCHARV structure for a text in UTF-8 that an MQI call reads. `text` must outlive the
/// structure.
pub(super) fn name(text: &str) -> mq::MQCHARV {
    let mut name: mq::MQCHARV = zero();
    name.VSPtr = text.as_ptr().cast_mut().cast();
    name.VSLength = super::length_of(text.as_bytes());
    name.VSBufSize = name.VSLength;
    name.VSCCSID = UTF_8;
    name
}

/// Coded character set id (CCSID) of UTF-8.
pub(crate) const UTF_8: MQLONG = 1208;

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the sizes of the structures with the lengths that IBM's headers state for the
    /// versions that are used here.
    #[test]
    fn structures_are_as_long_as_their_versions_say() {
        let longs = |length: usize| length;
        assert_eq!(size_of::<mq::MQMD>(), longs(mq::MQMD_CURRENT_LENGTH));
        assert_eq!(size_of::<mq::MQOD>(), mq::MQOD_CURRENT_LENGTH);
        assert_eq!(size_of::<mq::MQGMO>(), mq::MQGMO_CURRENT_LENGTH);
        assert_eq!(size_of::<mq::MQPMO>(), mq::MQPMO_CURRENT_LENGTH);
        assert_eq!(size_of::<mq::MQIMPO>(), mq::MQIMPO_CURRENT_LENGTH);
        assert_eq!(size_of::<mq::MQSMPO>(), mq::MQSMPO_CURRENT_LENGTH);
        assert_eq!(size_of::<mq::MQPD>(), mq::MQPD_CURRENT_LENGTH);
        assert_eq!(size_of::<mq::MQCMHO>(), mq::MQCMHO_CURRENT_LENGTH);
        assert_eq!(size_of::<mq::MQDMHO>(), mq::MQDMHO_CURRENT_LENGTH);
        assert_eq!(std::mem::offset_of!(mq::MQCNO, BalanceParmsPtr), mq::MQCNO_LENGTH_7);
        assert_eq!(std::mem::offset_of!(mq::MQSCO, KeyRepoPasswordPtr), mq::MQSCO_LENGTH_5);
        assert_eq!(std::mem::offset_of!(mq::MQSCO, HTTPSCertValidation), mq::MQSCO_LENGTH_6);
        assert_eq!(std::mem::offset_of!(mq::MQCSP, Reserved3), mq::MQCSP_LENGTH_1);
        assert_eq!(std::mem::offset_of!(mq::MQCD, SPLProtection), mq::MQCD_LENGTH_11);
    }

    #[test]
    fn structures_begin_with_their_identifiers() {
        assert_eq!(text_in(&descriptor().StrucId), "MD");
        assert_eq!(text_in(&object(mq::MQOT_Q).StrucId), "OD");
        assert_eq!(text_in(&get_options().StrucId), "GMO");
        assert_eq!(text_in(&create_message_handle().StrucId), "CMHO");
    }

    #[test]
    fn texts_of_fixed_length_are_filled_and_read_back() {
        let mut field = [0; 8];
        for (text, read) in [("MQSTR", "MQSTR"), ("", ""), ("LONGERTHAN8", "LONGERTH"), (" A B ", " A B")] {
            fill(&mut field, text);
            assert_eq!(text_in(&field), read);
        }
        fill(&mut field, "AB\0CD");
        assert_eq!(text_in(&field), "AB");
        fill(&mut field, "A \0");
        assert_eq!(text_in(&field), "A");
        field[1] = c_char::from_ne_bytes([0xe9]);
        assert_eq!(text_in(&field), "A\u{fffd}");
    }
}

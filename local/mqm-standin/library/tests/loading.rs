//! The library as `libmqm-sys` loads it: every function is there, and those work that IBM's Python
//! client does not call.
#![cfg(test)]
#![allow(unsafe_code)]

use std::ffi::CStr;

use libmqm_sys::dlopen2::MqmContainer;
use libmqm_sys::{self as mq, Mqi as _};
use test_support::built::{self, MQ_LIBRARY};

fn load() -> MqmContainer {
    let library = built::find(MQ_LIBRARY).unwrap();
    // SAFETY: the library runs no code when it is loaded, and has the functions of the MQI.
    unsafe { MqmContainer::load(library) }.unwrap()
}

/// A structure of zeros, which callers then give an identifier and a version.
fn zeros<T>() -> T {
    // SAFETY: used for the MQI's structures of numbers, characters and pointers.
    unsafe { std::mem::zeroed() }
}

macro_rules! first_version {
    ($type:ident, $id:ident) => {
        mq::$type { StrucId: id(mq::$id), Version: 1, ..zeros() }
    };
}

fn id(text: &CStr) -> [mq::MQCHAR; 4] {
    let mut id = [0; 4];
    for (place, byte) in id.iter_mut().zip(text.to_bytes()) {
        *place = mq::MQCHAR::from_ne_bytes([*byte]);
    }
    id
}

fn name(text: &CStr) -> mq::MQCHARV {
    mq::MQCHARV {
        VSPtr: text.as_ptr().cast_mut().cast(),
        VSLength: mq::MQVS_NULL_TERMINATED,
        VSCCSID: 1208,
        ..zeros()
    }
}

/// A message handle of no connection.
fn handle(library: &MqmContainer) -> mq::MQHMSG {
    let options = first_version!(MQCMHO, MQCMHO_STRUC_ID);
    let (mut handle, mut completion, mut reason) = (mq::MQHM_NONE, -1, -1);
    // SAFETY: all structures are there.
    unsafe {
        library.MQCRTMH(mq::MQHC_UNASSOCIATED_HCONN, &options, &mut handle, &mut completion, &mut reason);
    }
    assert_eq!((completion, reason), (mq::MQCC_OK, mq::MQRC_NONE));
    handle
}

#[test]
fn every_function_of_the_mqi_is_there() {
    load();
}

#[test]
fn properties_go_from_a_handle_into_a_buffer_and_back() {
    let library = load();
    let (first, second) = (handle(&library), handle(&library));
    let options = first_version!(MQSMPO, MQSMPO_STRUC_ID);
    let mut descriptor = first_version!(MQPD, MQPD_STRUC_ID);
    let (mut completion, mut reason) = (-1, -1);
    let connection = mq::MQHC_UNASSOCIATED_HCONN;
    let mut value = 77_i32;
    // SAFETY: all structures are there, and the value has four bytes.
    unsafe {
        library.MQSETMP(
            connection,
            first,
            &options,
            &name(c"size"),
            &mut descriptor,
            mq::MQTYPE_INT32,
            4,
            (&raw mut value).cast(),
            &mut completion,
            &mut reason,
        );
    }
    assert_eq!((completion, reason), (mq::MQCC_OK, mq::MQRC_NONE));

    let mut buffer = [0_u8; 200];
    let mut length = 0;
    let mut md = first_version!(MQMD, MQMD_STRUC_ID);
    (md.Encoding, md.CodedCharSetId) = (mq::MQENC_NATIVE, 1208);
    let to_buffer = first_version!(MQMHBO, MQMHBO_STRUC_ID);
    // SAFETY: all structures are there, and the buffer has 200 bytes.
    unsafe {
        library.MQMHBUF(
            connection,
            first,
            &to_buffer,
            &name(c"%"),
            (&raw mut md).cast(),
            200,
            (&raw mut buffer).cast(),
            &mut length,
            &mut completion,
            &mut reason,
        );
    }
    assert_eq!((completion, reason), (mq::MQCC_OK, mq::MQRC_NONE));
    assert!(buffer.starts_with(b"RFH "));
    assert_eq!(md.Format, *id_of_8(mq::MQFMT_RF_HEADER_2));

    let mut from_buffer = first_version!(MQBMHO, MQBMHO_STRUC_ID);
    from_buffer.Options = mq::MQBMHO_DELETE_PROPERTIES;
    let mut left = -1;
    // SAFETY: all structures are there, and the buffer has that many bytes.
    unsafe {
        library.MQBUFMH(
            connection,
            second,
            &from_buffer,
            (&raw mut md).cast(),
            length,
            (&raw mut buffer).cast(),
            &mut left,
            &mut completion,
            &mut reason,
        );
    }
    assert_eq!((completion, reason, left), (mq::MQCC_OK, mq::MQRC_NONE, 0));

    let mut inquiry = first_version!(MQIMPO, MQIMPO_STRUC_ID);
    let (mut kind, mut found, mut found_length) = (mq::MQTYPE_AS_SET, 0_i32, 0);
    // SAFETY: all structures are there, and the value has four bytes.
    unsafe {
        library.MQINQMP(
            connection,
            second,
            &mut inquiry,
            &name(c"size"),
            &mut descriptor,
            &mut kind,
            4,
            (&raw mut found).cast(),
            &mut found_length,
            &mut completion,
            &mut reason,
        );
    }
    assert_eq!((completion, reason), (mq::MQCC_OK, mq::MQRC_NONE));
    assert_eq!((kind, found, found_length), (mq::MQTYPE_INT32, 77, 4));
}

fn id_of_8(text: &CStr) -> &[mq::MQCHAR; 8] {
    // SAFETY: names of formats have eight characters.
    unsafe { &*text.as_ptr().cast() }
}

#[test]
fn text_is_converted_between_character_sets() {
    let library = load();
    let mut source = *b"caf\xe9";
    let mut target = [0_u8; 8];
    let (mut length, mut completion, mut reason) = (0, -1, -1);
    // SAFETY: the buffers have as many bytes as the call says.
    unsafe {
        library.MQXCNVC(
            mq::MQHC_DEF_HCONN,
            mq::MQDCC_NONE,
            819,
            4,
            (&raw mut source).cast(),
            1208,
            8,
            (&raw mut target).cast(),
            &mut length,
            &mut completion,
            &mut reason,
        );
    }
    assert_eq!((completion, reason, length), (mq::MQCC_OK, mq::MQRC_NONE, 5));
    assert!(target.starts_with("café".as_bytes()));
}

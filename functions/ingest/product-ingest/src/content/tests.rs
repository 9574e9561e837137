use flate2::bufread::MultiGzDecoder;
use proptest::prelude::*;

use super::*;

const MAX: u64 = 200_000_000;

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn inflate(gzip: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    #[expect(clippy::disallowed_methods, reason = "the test made it itself")]
    MultiGzDecoder::new(gzip).read_to_end(&mut content).unwrap();
    content
}

fn refused(body: &[u8], claimed: Compression, max_payload: u64) -> Reason {
    Content::read(body, claimed, max_payload).unwrap_err().reason
}

#[test]
fn the_checksum_is_that_of_the_decoded_content() {
    let plain = Content::read(b"[]", Compression::None, MAX).unwrap();
    assert_eq!(plain.checksum, "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945");
    assert_eq!((plain.bytes, inflate(&plain.gzip)), (2, b"[]".to_vec()));
    for claimed in [Compression::None, Compression::Gzip] {
        let sent = gzip(b"[]");
        let content = Content::read(&sent, claimed, MAX).unwrap();
        assert_eq!((content.checksum, content.bytes, content.gzip), (plain.checksum.clone(), 2, sent));
    }
}

#[test]
fn what_claims_to_be_gzip_and_is_not_is_corrupt() {
    assert_eq!(refused(b"[{}]", Compression::Gzip, MAX), Reason::ContentCorrupt);
    let mangled = String::from_utf8_lossy(&gzip(b"[{}]")).into_owned();
    for claimed in [Compression::None, Compression::Gzip] {
        assert_eq!(refused(mangled.as_bytes(), claimed, MAX), Reason::ContentCorrupt);
    }
}

#[test]
fn a_gzip_is_checked_to_its_end() {
    let whole = gzip(&b"0123456789".repeat(1000));
    for cut in [2, 9, 10, 11, whole.len() - 9, whole.len() - 8, whole.len() - 1] {
        assert_eq!(refused(&whole[..cut], Compression::None, MAX), Reason::ContentCorrupt, "{cut}");
    }
    let trailers = [(whole.len() - 8, "checksum"), (whole.len() - 1, "length")];
    for (at, what) in trailers {
        let mut wrong = whole.clone();
        wrong[at] ^= 1;
        assert_eq!(refused(&wrong, Compression::Gzip, MAX), Reason::ContentCorrupt, "{what}");
    }
    for garbage in
        [b"x".as_slice(), b"\0\0\0\0", b"\x1f", b"\x1f\x8b", b"trailing garbage that is long enough"]
    {
        let body = [whole.as_slice(), garbage].concat();
        assert_eq!(refused(&body, Compression::Gzip, MAX), Reason::ContentCorrupt, "{garbage:?}");
    }
}

#[test]
fn bytes_behind_a_gzip_are_counted_and_not_called_its_break() {
    let whole = gzip(b"[]");
    let (two, length) = ([whole.as_slice(), &whole].concat(), whole.len());
    for tail in [&b"\n"[..], b"\r\n", b"text", b"\x1f", &[0; 512], b"--boundary--\r\n"] {
        for (gzip, end) in [(&whole, length), (&two, 2 * length)] {
            let body = [gzip.as_slice(), tail].concat();
            let problem = Content::read(&body, Compression::Gzip, MAX).unwrap_err();
            let expected = format!("a gzip of {end} bytes, and {} more", tail.len());
            assert!(problem.detail.contains(&expected), "{tail:?}: {}", problem.detail);
        }
    }
    let broken = Content::read(&two[..length + 5], Compression::Gzip, MAX).unwrap_err();
    assert!(broken.detail.contains("breaks off"), "{}", broken.detail);
}

#[test]
fn members_are_one_content_however_many_there_are() {
    let members: Vec<Vec<u8>> = (0..20_000_u32).map(|number| format!("{number}\n").into_bytes()).collect();
    let content = members.concat();
    let body: Vec<u8> = members.iter().flat_map(|member| gzip(member)).chain(gzip(b"")).collect();
    let read = Content::read(&body, Compression::Gzip, MAX).unwrap();
    assert_eq!(read.checksum, Content::read(&content, Compression::None, MAX).unwrap().checksum);
    assert_eq!(read.bytes, u64::try_from(content.len()).unwrap());
}

#[test]
fn nothing_is_refused_however_it_is_sent() {
    assert_eq!(refused(b"", Compression::None, MAX), Reason::MalformedJson);
    assert_eq!(refused(b"", Compression::Gzip, MAX), Reason::MalformedJson);
    assert_eq!(refused(&gzip(b""), Compression::Gzip, MAX), Reason::MalformedJson);
}

#[test]
fn the_limit_holds_for_the_decoded_content() {
    let limit = vec![b' '; 100_000];
    let beyond = vec![b' '; 100_001];
    for (body, accepted) in
        [(limit.clone(), true), (gzip(&limit), true), (beyond.clone(), false), (gzip(&beyond), false)]
    {
        let read = Content::read(&body, Compression::None, 100_000);
        assert_eq!(read.is_ok(), accepted);
        if let Err(problem) = read {
            assert_eq!(problem.reason, Reason::MaxPayloadExceeded);
        }
    }
    let bomb = gzip(&vec![0; 50_000_000]);
    assert!(bomb.len() < 100_000);
    assert_eq!(refused(&bomb, Compression::Gzip, 1_000_000), Reason::MaxPayloadExceeded);
}

#[test]
fn what_one_request_cannot_carry_is_told_the_other_way() {
    let problem = Content::read(&vec![b' '; MAX_BODY + 1], Compression::None, MAX).unwrap_err();
    assert_eq!(problem.reason, Reason::UseUpload);
    assert!(problem.detail.contains("POST /v1/inovafarma/products/uploads"), "{}", problem.detail);
    assert!(Content::read(&vec![b' '; MAX_BODY], Compression::None, MAX).is_ok());
    // An upload would not help it.
    assert_eq!(refused(&vec![b' '; MAX_BODY + 1], Compression::None, 1_000), Reason::MaxPayloadExceeded);
}

/// Checks that the largest accepted body fits into a Lambda event in base64.
#[test]
fn the_largest_body_fits_an_event() {
    let encoded = MAX_BODY.div_ceil(3) * 4;
    assert!(encoded + 64 * 1024 <= 6 * 1024 * 1024, "{encoded}");
}

/// Generates bytes that do not compress, as hashes: generating each byte at random would take
/// longer than the test itself.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut noise = Vec::new();
    for block in 0..length.div_ceil(32) {
        noise.extend_from_slice(Sha256::digest(format!("{seed} {block}")).as_slice());
    }
    noise.truncate(length);
    noise
}

proptest! {
    #[test]
    fn any_members_of_any_size_are_one_content(
        content in (any::<u64>(), 1..200_000_usize).prop_map(|(seed, length)| noise(seed, length)),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        level in 0_u32..=9,
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(content.len() + 1)).collect();
        cuts.extend([0, content.len()]);
        cuts.sort_unstable();
        let members = cuts.windows(2).map(|cut| {
            let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::new(level));
            encoder.write_all(&content[cut[0]..cut[1]]).unwrap();
            encoder.finish().unwrap()
        });
        let sent: Vec<u8> = members.collect::<Vec<_>>().concat();
        let read = Content::read(&sent, Compression::Gzip, MAX).unwrap();
        prop_assert_eq!(&read.gzip, &sent);
        prop_assert_eq!(read.bytes, content.len() as u64);
        prop_assert_eq!(read.checksum, hex::encode(Sha256::digest(&content)));
    }

    #[test]
    fn arbitrary_bytes_are_an_answer_and_no_panic(body in prop::collection::vec(any::<u8>(), 0..300), gzip: bool) {
        let body = if gzip { [&[0x1f, 0x8b, 8][..], &body].concat() } else { body };
        let _ = Content::read(&body, Compression::Gzip, MAX);
        let _ = Content::read(&body, Compression::None, MAX);
    }
}

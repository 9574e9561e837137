//! Tests that the body of an S3 object is resumed where the response broke off, as long as the
//! object is the same. No mock server breaks bodies off or denies anything, so the fake S3 server
//! here writes to its socket itself.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails where it finds itself wrong"
)]

use std::collections::BTreeMap;

use objects::{Head, ObjectError, Objects};
use runtime::Sdk;
use test_support::ports;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const CONTENT: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// Answer of the fake S3 server to one request.
#[derive(Clone, Copy)]
enum Answer {
    /// Announces the whole requested range, sends this many bytes of it, and closes the connection.
    BreakOff(usize),
    Whole,
    /// Sends the whole requested range, with a wrong checksum.
    Altered,
    /// Refuses with 412, as if the object had been replaced.
    Replaced,
    /// Refuses with 403.
    Denied,
}

/// Starts a fake S3 server with one object, which ends after these answers and returns the heads of
/// the requests.
async fn server(answers: &'static [Answer]) -> (Objects, tokio::task::JoinHandle<Vec<String>>) {
    let (listener, port) = ports::listen().await;
    let endpoint = format!("http://127.0.0.1:{port}");
    let serving = tokio::spawn(async move {
        let mut heads = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap().to_lowercase();
            let from = head
                .split("bytes=")
                .nth(1)
                .map_or(0, |range| range.split('-').next().unwrap().parse().unwrap());
            let rest = &CONTENT[from..];
            let (status, length, body) = match answer {
                Answer::BreakOff(bytes) => ("206 Partial Content", rest.len(), &rest[..*bytes]),
                Answer::Whole | Answer::Altered => ("206 Partial Content", rest.len(), rest),
                Answer::Replaced => ("412 Precondition Failed", 0, &[][..]),
                Answer::Denied => ("403 Forbidden", 0, &[][..]),
            };
            let checksum = match answer {
                Answer::Altered => "x-amz-checksum-crc32: AAAAAA==\r\n",
                Answer::BreakOff(_) | Answer::Whole | Answer::Replaced | Answer::Denied => "",
            };
            let said = format!(
                "HTTP/1.1 {status}\r\ncontent-length: {length}\r\netag: \"1\"\r\n{checksum}connection: close\r\n\r\n"
            );
            stream.write_all(said.as_bytes()).await.unwrap();
            // A client that has seen enough is gone by now.
            let _ = stream.write_all(body).await;
            let _ = stream.shutdown().await;
            heads.push(head);
        }
        heads
    });
    let sdk = Sdk::at(&endpoint, "us-east-1", "key", "secret").await;
    (Objects::new(aws_sdk_s3::Client::new(&sdk.objects()), "payloads".to_owned()), serving)
}

async fn read(objects: &Objects) -> Result<Vec<u8>, ObjectError> {
    let length = u64::try_from(CONTENT.len()).unwrap();
    let head = Head { metadata: BTreeMap::new(), etag: "\"1\"".to_owned(), length };
    let mut body = objects.body("incoming/1", &head);
    let mut all = Vec::new();
    while let Some(bytes) = body.next().await? {
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}

#[tokio::test]
async fn a_body_goes_on_where_it_broke_off() {
    let (objects, serving) =
        server(&[Answer::BreakOff(10), Answer::BreakOff(0), Answer::BreakOff(1), Answer::Whole]).await;
    assert_eq!(read(&objects).await.unwrap(), CONTENT);
    let heads = serving.await.unwrap();
    assert!(heads.iter().all(|head| head.contains("if-match: \"1\"")));
    let ranges: Vec<_> =
        heads.iter().map(|head| head.lines().find(|line| line.starts_with("range: "))).collect();
    assert_eq!(ranges, [None, Some("range: bytes=10-"), Some("range: bytes=10-"), Some("range: bytes=11-")]);
}

#[tokio::test]
async fn another_object_in_its_place_is_not_taken_for_its_rest() {
    let (objects, serving) = server(&[Answer::BreakOff(10), Answer::Replaced]).await;
    assert!(matches!(read(&objects).await, Err(ObjectError::Replaced { key }) if key == "incoming/1"));
    serving.await.unwrap();
}

#[tokio::test]
async fn a_body_that_storage_says_is_another_one_is_not_taken() {
    let (objects, serving) = server(&[Answer::Altered]).await;
    assert!(matches!(read(&objects).await, Err(ObjectError::Storage { .. })));
    serving.await.unwrap();
}

#[tokio::test]
async fn a_body_that_never_comes_is_given_up() {
    let (objects, serving) = server(&[
        Answer::BreakOff(3),
        Answer::BreakOff(0),
        Answer::BreakOff(0),
        Answer::BreakOff(0),
        Answer::BreakOff(0),
    ])
    .await;
    assert!(matches!(read(&objects).await, Err(ObjectError::Storage { .. })));
    serving.await.unwrap();
}

#[tokio::test]
async fn a_version_is_read_whole_or_said_to_be_denied_or_too_large() {
    let (objects, serving) = server(&[Answer::Whole, Answer::Whole, Answer::Denied]).await;
    let read = async |limit: usize| objects.get_version("mq/key.kdb", Some("v1"), limit).await;
    let (bytes, version) = read(CONTENT.len()).await.unwrap();
    assert_eq!((bytes.as_slice(), version.as_str()), (CONTENT, "\"1\""));
    let too_large = read(CONTENT.len() - 1).await;
    assert!(matches!(too_large, Err(ObjectError::TooLarge { .. })), "{too_large:?}");
    let denied = read(CONTENT.len()).await;
    assert!(matches!(denied, Err(ObjectError::Denied { .. })), "{denied:?}");
    let heads = serving.await.unwrap();
    assert!(heads.iter().all(|head| head.contains("versionid=v1")), "{heads:?}");
}

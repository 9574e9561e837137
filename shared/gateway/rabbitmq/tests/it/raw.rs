//! Publisher that writes AMQP frames itself, for messages that no well-behaved client can publish.

use amq_protocol::frame::{AMQPFrame, gen_frame, parsing::parse_frame};
use lapin::protocol::{AMQPClass, basic, channel, connection};
use mq::QueueName;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::uri;

/// Flag of the property `headers` in a content header frame. The properties follow in the order of
/// their flags, from the highest bit.
pub(crate) const HEADERS: u16 = 1 << 13;
pub(crate) const CORRELATION_ID: u16 = 1 << 10;
pub(crate) const MESSAGE_ID: u16 = 1 << 7;

pub(crate) fn short_string(bytes: &[u8]) -> Vec<u8> {
    [&[u8::try_from(bytes.len()).expect("a short string")], bytes].concat()
}

pub(crate) fn long_string(bytes: &[u8]) -> Vec<u8> {
    [&u32::try_from(bytes.len()).expect("a long string").to_be_bytes(), bytes].concat()
}

/// Publishes a message whose property flags and encoded properties are given as they go into the
/// frame. Panics if the broker closes the connection.
pub(crate) async fn put(queue: &QueueName, flags: u16, properties: &[u8], body: &[u8]) {
    let mut stream = RawStream::open().await;
    stream
        .method(
            1,
            AMQPClass::Basic(basic::AMQPMethod::Publish(basic::Publish {
                exchange: "".into(),
                routing_key: queue.as_str().into(),
                mandatory: false,
                immediate: false,
            })),
        )
        .await;
    let mut header = vec![0, 60, 0, 0];
    header.extend(u64::try_from(body.len()).expect("a length").to_be_bytes());
    header.extend(flags.to_be_bytes());
    header.extend(properties);
    stream.frame(2, &header).await;
    stream.frame(3, body).await;
    let close = connection::Close { reply_code: 200, reply_text: "OK".into(), class_id: 0, method_id: 0 };
    stream.method(0, AMQPClass::Connection(connection::AMQPMethod::Close(close))).await;
    match stream.answer().await {
        AMQPFrame::Method(0, AMQPClass::Connection(connection::AMQPMethod::CloseOk(_))) => {}
        other => panic!("the broker said {other:?}"),
    }
}

struct RawStream {
    stream: TcpStream,
    received: Vec<u8>,
}

impl RawStream {
    /// Connects to the broker of the tests, logs in, and opens channel 1.
    async fn open() -> Self {
        let uri = uri();
        let stream =
            TcpStream::connect((uri.authority.host.as_str(), uri.authority.port)).await.expect("connect");
        let mut this = Self { stream, received: Vec::new() };
        this.stream.write_all(b"AMQP\x00\x00\x09\x01").await.expect("write");
        this.answer().await;
        let user = &uri.authority.userinfo;
        let start_ok = connection::StartOk {
            client_properties: Default::default(),
            mechanism: "PLAIN".into(),
            response: format!("\0{}\0{}", user.username, user.password).into(),
            locale: "en_US".into(),
        };
        this.method(0, AMQPClass::Connection(connection::AMQPMethod::StartOk(start_ok))).await;
        this.answer().await;
        let tune_ok = connection::TuneOk { channel_max: 10, frame_max: 131_072, heartbeat: 0 };
        this.method(0, AMQPClass::Connection(connection::AMQPMethod::TuneOk(tune_ok))).await;
        let open = connection::Open { virtual_host: uri.vhost.as_str().into() };
        this.method(0, AMQPClass::Connection(connection::AMQPMethod::Open(open))).await;
        this.answer().await;
        this.method(1, AMQPClass::Channel(channel::AMQPMethod::Open(channel::Open {}))).await;
        this.answer().await;
        this
    }

    async fn method(&mut self, channel: u16, method: AMQPClass) {
        let frame = AMQPFrame::Method(channel, method);
        let bytes = gen_frame(&frame)(Vec::new().into()).expect("a frame").into_inner().0;
        self.stream.write_all(&bytes).await.expect("write");
    }

    async fn frame(&mut self, kind: u8, payload: &[u8]) {
        let mut bytes = vec![kind, 0, 1];
        bytes.extend(long_string(payload));
        bytes.push(0xCE);
        self.stream.write_all(&bytes).await.expect("write");
    }

    async fn answer(&mut self) -> AMQPFrame {
        loop {
            if let Ok((rest, frame)) = parse_frame(self.received.as_slice()) {
                let rest = rest.len();
                self.received.drain(..self.received.len() - rest);
                return frame;
            }
            assert!(self.stream.read_buf(&mut self.received).await.expect("read") > 0, "the broker hung up");
        }
    }
}

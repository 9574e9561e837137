//! A queue that answers as it is told.

use aws::Sdk;
use aws_sdk_sqs::Client;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

pub(crate) enum Answer {
    Taken(Value),
    /// As a server error, which the client tries again.
    Failed,
    /// The connection stays open, and nothing comes.
    Nothing,
}

#[derive(Debug)]
pub(crate) struct Call {
    /// The operation, in small letters.
    pub(crate) operation: String,
    pub(crate) body: Value,
    /// The connection of one that gets no answer.
    _silent: Option<TcpStream>,
}

pub(crate) struct Queue {
    pub(crate) client: Client,
    pub(crate) url: String,
    /// What it was sent, once each answer was given.
    pub(crate) serving: JoinHandle<Vec<Call>>,
}

impl Queue {
    /// Gives one answer to each call, in their order.
    pub(crate) async fn answering(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            let mut calls = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await.unwrap());
                }
                let head = String::from_utf8(head).unwrap().to_lowercase();
                let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).unwrap();
                let mut body = vec![0; header("content-length: ").parse().unwrap()];
                stream.read_exact(&mut body).await.unwrap();
                let operation = header("x-amz-target: amazonsqs.").to_owned();
                let body = serde_json::from_slice(&body).unwrap();
                let (status, answer) = match answer {
                    Answer::Taken(answer) => ("200 OK", answer),
                    Answer::Failed => ("500 Internal Server Error", json!({})),
                    Answer::Nothing => {
                        calls.push(Call { operation, body, _silent: Some(stream) });
                        continue;
                    }
                };
                let answer = answer.to_string();
                let said = format!(
                    "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}",
                    answer.len()
                );
                stream.write_all(said.as_bytes()).await.unwrap();
                stream.shutdown().await.unwrap();
                calls.push(Call { operation, body, _silent: None });
            }
            calls
        });
        let sdk = Sdk::at(&endpoint, "us-east-1", "key", "secret").await;
        let url = format!("{endpoint}/000000000000/queue-of-ours");
        Self { client: Client::new(sdk.standard()), url, serving }
    }
}

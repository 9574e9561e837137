//! Contender that puts or gets messages by the MQI calls of the crate `ibm-mq`, one after another
//! on one thread. `benches/src/mq` starts it, and reads what it prints. Its input is one line of
//! text: `put QUEUE UNIT` or `get QUEUE UNIT`, with `UNIT` messages to a unit of work. The queue
//! stays open, or with the argument `reopen` it is opened and closed for each unit of work, as for
//! a request.
//!
//! Around the calls, it does only what every caller of the MQI has to do: it copies each message
//! out of the call's buffers, and keeps the messages of a unit of work until the commit. Of the
//! crate it uses only the initial values of structures, and the content of messages is made
//! beforehand.

mod calls;
// The structures' initial values, which are not what is compared.
#[path = "../../../shared/gateway/ibm-mq/src/mqi/structures.rs"]
#[allow(dead_code, reason = "it has those of all structures that the crate uses")]
mod structures;

use std::time::{Duration, Instant};

use libmqm_sys::{self as mq, MQLONG};
use nix::time::ClockId;

use crate::calls::{Connection, Property};

type Error = Box<dyn std::error::Error>;

fn main() -> Result<(), Error> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let mut word = || words.next().ok_or("usage: put|get QUEUE UNIT, as a line of input");
    let (job, queue, unit) = (word()?, word()?, word()?.parse()?);
    let messages = variable("MESSAGES")?.parse()?;
    let reopens = std::env::args().nth(1).as_deref() == Some("reopen");
    let connection = &Connection::open()?;
    let (started, before) = (Instant::now(), cpu()?);
    let open = |options| {
        let handle = connection.open_queue(queue, options)?;
        Ok::<_, Error>(Queue { connection, name: queue, options, reopens, handle })
    };
    match job {
        "put" => put(&mut open(mq::MQOO_OUTPUT)?, unit, messages)?,
        "get" => get(&mut open(mq::MQOO_INPUT_SHARED | mq::MQOO_SAVE_ALL_CONTEXT)?, unit, messages)?,
        _ => return Err("the first word is put or get".into()),
    }
    let (seconds, cpu) = (started.elapsed().as_secs_f64(), (cpu()? - before).as_secs_f64());
    println!(r#"{{"seconds":{seconds},"cpu_seconds":{cpu}}}"#);
    Ok(())
}

fn variable(name: &str) -> Result<String, Error> {
    std::env::var(name).map_err(|_| format!("{name} is not set").into())
}

/// Queue that stays open, or is opened and closed for each unit of work if `reopens` is set.
struct Queue<'c> {
    connection: &'c Connection,
    name: &'c str,
    options: MQLONG,
    reopens: bool,
    handle: mq::MQHOBJ,
}

impl Queue<'_> {
    /// Commits a unit of work. With `reopens`, closes the queue before the commit, and opens it
    /// again afterwards unless this was the last unit.
    fn commit(&mut self, is_last: bool) -> Result<(), Error> {
        if !self.reopens {
            return self.connection.commit();
        }
        // Before the commit, as the gateway's get does.
        self.connection.close_queue(self.handle)?;
        self.connection.commit()?;
        if !is_last {
            self.handle = self.connection.open_queue(self.name, self.options)?;
        }
        Ok(())
    }
}

fn put(queue: &mut Queue<'_>, unit: u32, messages: u32) -> Result<(), Error> {
    let connection = queue.connection;
    let properties = connection.message_handle()?;
    connection.set_property(properties, "idempotencyKey", mq::MQTYPE_STRING, KEY.as_bytes())?;
    let body = [0xa5; BODY];
    for index in 0..messages {
        let mut md = structures::descriptor();
        md.Persistence = mq::MQPER_NOT_PERSISTENT;
        md.Priority = 0;
        for (byte, id) in md.MsgId.iter_mut().zip(index.to_be_bytes()) {
            *byte = id;
        }
        let sequence = i64::from(index).to_ne_bytes();
        connection.set_property(properties, "sequence", mq::MQTYPE_INT64, &sequence)?;
        connection.put(queue.handle, properties, &mut md, &body)?;
        let is_last = index + 1 == messages;
        if (index + 1) % unit == 0 || is_last {
            queue.commit(is_last)?;
        }
    }
    Ok(())
}

/// Message that was got, copied out of the call's buffers.
struct Kept {
    descriptor: mq::MQMD,
    body: Vec<u8>,
    properties: Vec<Property>,
}

fn get(queue: &mut Queue<'_>, unit: u32, messages: u32) -> Result<(), Error> {
    let connection = queue.connection;
    let handle = connection.message_handle()?;
    let mut buffer = vec![0; 64 * 1024];
    let mut kept = Vec::new();
    for index in 0..messages {
        let mut descriptor = structures::descriptor();
        let length = connection.get(queue.handle, handle, &mut descriptor, &mut buffer)?;
        let body = buffer.get(..length).unwrap_or_default().to_vec();
        kept.push(Kept { descriptor, body, properties: connection.properties(handle)? });
        let is_last = index + 1 == messages;
        if (index + 1) % unit == 0 || is_last {
            queue.commit(is_last)?;
            if !kept.iter().all(is_whole) {
                return Err("a message is not as it was put".into());
            }
            kept.clear();
        }
    }
    Ok(())
}

fn is_whole(message: &Kept) -> bool {
    let has = |name: &str, kind: MQLONG, length: usize| {
        let is_it =
            |known: &Property| known.name == name && known.kind == kind && known.value.len() == length;
        message.properties.iter().any(is_it)
    };
    message.body.len() == BODY
        && message.properties.len() == 2
        && has("idempotencyKey", mq::MQTYPE_STRING, KEY.len())
        && has("sequence", mq::MQTYPE_INT64, size_of::<i64>())
        && message.descriptor.PutDate != [0; 8]
}

/// Length of a message body in bytes.
const BODY: usize = 1024;
const KEY: &str = "0190b5a8-0000-7000-8000-000000000001";

/// Returns the CPU time of this process, with all its threads, in user and system mode.
fn cpu() -> Result<Duration, Error> {
    Ok(ClockId::CLOCK_PROCESS_CPUTIME_ID.now()?.into())
}

/// Returns the length of a buffer as the MQI's type `MQLONG`.
fn length_of(bytes: &[u8]) -> MQLONG {
    MQLONG::try_from(bytes.len()).unwrap_or(MQLONG::MAX)
}

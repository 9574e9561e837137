//! Control socket, through which tests send commands: a JSON object a line, and one in return.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::fault::Fault;
use crate::manager::{Phase, Queue, Session, SinceLimit, State};
use crate::protocol::{Chars, Reason};
use crate::server::Server;
use crate::shown::Shown;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Command {
    /// Adds a fault to inject into calls of clients.
    Fault(Fault),
    /// Removes all faults, and makes the queue manager run again after `quiesce` or `stop`.
    Reset,
    Quiesce,
    Stop,
    /// Sets the maximum number of a channel's connections; `null` for no limit.
    ChannelLimit {
        channel: String,
        instances: Option<usize>,
    },
    Status,
    /// Removes the committed, unlocked messages from this queue, and returns them.
    Take(String),
    /// Puts messages on this queue and commits them, even if they are longer than the queue
    /// permits.
    Put {
        queue: String,
        messages: Vec<Shown>,
    },
}

/// Maximum length of a command line in bytes. A longer line is refused. Each byte of a message
/// takes two hexadecimal digits.
const MAX_LINE: u64 = 16 * 1024 * 1024;

pub(crate) fn serve(server: &Server, socket: &UnixStream) {
    let mut reader = BufReader::new(socket);
    let mut writer = socket;
    loop {
        let mut line = String::new();
        let read = std::io::Read::take(&mut reader, MAX_LINE).read_line(&mut line);
        if !matches!(read, Ok(length) if length > 0) {
            return;
        }
        let answer = match serde_json::from_str(&line) {
            Ok(command) => carry_out(server, command),
            Err(error) => json!({ "error": error.to_string() }),
        };
        if writeln!(writer, "{answer}").is_err() {
            return;
        }
    }
}

fn carry_out(server: &Server, command: Command) -> Value {
    let mut state = server.manager.state();
    match command {
        Command::Fault(fault) => server.faults.add(fault),
        Command::Reset => {
            server.faults.clear();
            state.enter(Phase::Running);
        }
        Command::Quiesce => state.enter(Phase::Quiescing),
        Command::Stop => state.enter(Phase::Stopping),
        Command::ChannelLimit { channel, instances } => {
            let mut channels = state.configuration.channels.iter_mut();
            match channels.find(|known| known.name == channel) {
                Some(known) => known.max_instances = instances,
                None => return json!({ "error": format!("no channel {channel}") }),
            }
            state.since_limit = SinceLimit { most: state.sessions.len(), refused: 0 };
        }
        Command::Status => return status(&state, server.faults.count()),
        Command::Take(queue) => return take(&mut state, &Chars::from(queue.as_str())),
        Command::Put { queue, messages } => {
            if let Err(error) = put(&mut state, &Chars::from(queue.as_str()), messages) {
                return json!({ "error": error });
            }
        }
    }
    json!({ "ok": true })
}

fn status(state: &State, faults: usize) -> Value {
    let connection = |session: &Session| {
        json!({
            "application": session.application.to_string(),
            "channel": session.channel.to_string(),
            "user": session.user,
            "uncommitted": session.work.len(),
        })
    };
    let connections: Vec<Value> = state.sessions.values().map(connection).collect();
    let of_each_queue = |count: fn(&Queue) -> usize| -> serde_json::Map<String, Value> {
        state.queues.iter().map(|(name, queue)| (name.to_string(), count(queue).into())).collect()
    };
    let SinceLimit { most, refused } = &state.since_limit;
    json!({
        "connections": connections,
        "since_limit": { "most": most, "refused": refused },
        "faults": faults,
        "depths": of_each_queue(Queue::depth),
        "ready": of_each_queue(Queue::ready),
    })
}

fn take(state: &mut State, name: &Chars) -> Value {
    let Some(queue) = state.queues.get_mut(name) else {
        return json!({ "error": format!("no queue {name}") });
    };
    let taken = queue.clear();
    state.forget(name, &taken);
    let messages: Vec<Shown> = taken.iter().map(|(_, stored)| Shown::from(&stored.message)).collect();
    json!({ "messages": messages })
}

fn put(state: &mut State, name: &Chars, messages: Vec<Shown>) -> Result<(), String> {
    for shown in messages {
        let put = state.put_committed(name, shown.message()?);
        put.map_err(|Reason(reason)| format!("{name} refuses a message: {reason}"))?;
    }
    Ok(())
}

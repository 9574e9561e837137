//! Text form of a prediction, for people.

use std::fmt::{self, Display, Formatter};

use crate::answer::{Answer, Function, Queue, Resource, Spread};
use crate::cost::Line;

impl Display for Spread {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { p50, p95, p99, last } = self;
        write!(f, "p50 {p50:.1} s, p95 {p95:.1} s, p99 {p99:.1} s, last {last:.1} s")
    }
}

impl Display for Answer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { payloads, chunks, to_final, flood_to_final, vcpus, database_cpu, log_gb, .. } = self;
        let share = |part: f64| part * 100.0;
        writeln!(f, "{payloads} payloads, {chunks} chunks, {:.1} million items", self.items / 1e6)?;
        writeln!(f, "{:<18}{to_final}", "to final")?;
        if flood_to_final.last > 0.0 {
            writeln!(f, "{:<18}{flood_to_final}", "of the flood")?;
        }
        writeln!(f, "{:<18}{:.1} min", "all within", self.all_within / 60.0)?;
        for Queue { name, age, most_waiting } in &self.queues {
            writeln!(f, "{name:<18}{age}, {most_waiting} at most")?;
        }
        for Function { name, most_at_once, invocations, gb_seconds } in &self.functions {
            writeln!(f, "{name:<18}{most_at_once} at once, {invocations} times, {gb_seconds:.0} GB-s")?;
        }
        let (locked, lost, long) = (share(self.locked), share(self.lost), self.long_lock_waits);
        writeln!(
            f,
            "{:<18}{locked:.0} % of upsert's time, {lost:.0} % with a backlog, {long} over 15 s",
            "waits for locks"
        )?;
        let busy = share(database_cpu / (vcpus * self.all_within));
        writeln!(f, "{:<18}{vcpus} vCPUs, {busy:.0} % busy, {database_cpu:.0} CPU-s", "database")?;
        let pages = self.pages_read / 1e6;
        writeln!(f, "{:<18}{pages:.1} million pages read, {log_gb:.1} GB of log written", "its storage")?;
        let (products, history) = (self.products_gb, self.history_gb);
        writeln!(f, "{:<18}{products:.0} GB of products, {history:.0} GB of history", "its size")?;
        writeln!(f, "\n{:<28}{:>9} {:>9}  moved by", "saturates first", "offered", "busy")?;
        for Resource { name, offered, busy, moved_by } in &self.resources {
            writeln!(f, "{name:<28}{:>7.1} % {:>7.1} %  {moved_by}", share(*offered), share(*busy))?;
        }
        let heading = format!("USD, prices of {}", self.prices_as_of);
        writeln!(f, "\n{heading:<28}{:>10} {:>10}", "this peak", "30 a month")?;
        for Line { name, peak, month } in &self.cost {
            writeln!(f, "{name:<28}{peak:>10.2} {month:>10.2}")?;
        }
        writeln!(f, "a million requests of the gateway: {:.2}", self.gateway_million)?;
        let (machines, month) = (self.machines, self.machines_month);
        writeln!(f, "functions, SQS and S3 as machines of 2 vCPUs: {machines}, {month:.0} a month")?;
        if self.unverified.is_empty() {
            return Ok(());
        }
        writeln!(f, "prices that are estimates: {}", self.unverified.join(", "))
    }
}

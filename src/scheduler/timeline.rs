//! Events as a timeline in Chrome's trace format, which Perfetto opens
//! (<https://ui.perfetto.dev>).

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::core::Order;
use super::events::{EventKind, Life, TimedEvent};

const SCHEDULER: u64 = 0;
const MEM_TRACK: u64 = 1_000;
const COMPUTE_TRACK: u64 = 1_001;

/// The trace of `events`: for each device a process with a track a worker, one for `compute` and
/// a counter of the memory held; one process more for the queue and for `mem`.
pub fn chrome_trace(events: &[TimedEvent]) -> Value {
    let mut trace = Trace::default();
    for event in events {
        trace.add(event);
    }
    json!({ "traceEvents": trace.entries, "displayTimeUnit": "ms" })
}

#[derive(Default)]
struct Trace {
    entries: Vec<Value>,
    processes: BTreeMap<String, u64>,
    tracks: BTreeMap<(u64, u64), ()>,
    /// When what is open on a track started, by name.
    open: BTreeMap<(u64, u64, String), Duration>,
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

impl Trace {
    fn add(&mut self, event: &TimedEvent) {
        let pid = self.process(event.device.as_deref());
        let (worker, at) = (event.worker as u64, event.at);
        match &event.kind {
            EventKind::MemHeld { since } => {
                self.track(SCHEDULER, MEM_TRACK, "mem");
                self.span((SCHEDULER, MEM_TRACK), "mem", (*since, at), Value::Null);
            }
            EventKind::MemoryHeld { size_bytes } => self.entries.push(json!({
                "name": "device memory", "ph": "C", "pid": pid, "tid": 0, "ts": micros(at),
                "args": { "held_mib": *size_bytes as f64 / f64::from(1 << 20) },
            })),
            EventKind::Partition(ticket, life) => {
                let args = json!({ "partition": Order::from(*ticket).to_string() });
                if *life != Life::Queued {
                    self.track(pid, worker, &format!("worker {worker}"));
                }
                match life {
                    Life::ComputeStarted => {
                        self.track(pid, COMPUTE_TRACK, "compute");
                        self.start((pid, COMPUTE_TRACK), "compute", at);
                    }
                    Life::ComputeEnded => self.end((pid, COMPUTE_TRACK), "compute", at, args),
                    Life::StageStarted(name) | Life::HostStarted(name) => {
                        self.start((pid, worker), name, at);
                    }
                    Life::StageEnded(name) | Life::HostEnded(name) => {
                        self.end((pid, worker), name, at, args);
                    }
                    other => self.instant((pid, worker), other, at, args),
                }
            }
        }
    }

    fn instant(&mut self, (pid, tid): (u64, u64), life: &Life, at: Duration, mut args: Value) {
        let name = match life {
            Life::Queued => "queued",
            Life::Started => "started",
            Life::Admitted => "admitted",
            Life::Planned { .. } => "planned",
            Life::PrestageReady => "prestage ready",
            Life::PrestagePartial(_) => "prestage partial",
            Life::PrestageDeferred(_) => "prestage deferred",
            Life::Freed { .. } => "freed",
            Life::Retried { .. } => "retried",
            Life::Done => "done",
            Life::Loaded => "loaded",
            Life::Failed { .. } => "failed",
            Life::Cancelled => "cancelled",
            _ => return,
        };
        if let Value::Object(args) = &mut args {
            match life {
                Life::PrestagePartial(short) | Life::PrestageDeferred(short) => {
                    args.insert("free_mib".into(), (short.free_bytes >> 20).into());
                    args.insert("usable_mib".into(), (short.usable_bytes >> 20).into());
                    args.insert("needed_mib".into(), (short.needed_bytes >> 20).into());
                }
                Life::Planned { streamed } => {
                    args.insert("streamed".into(), streamed.join(", ").into());
                }
                Life::Freed { size_bytes } => {
                    args.insert("size_bytes".into(), (*size_bytes).into());
                }
                Life::Retried { reason } | Life::Failed { reason } => {
                    args.insert("reason".into(), reason.as_str().into());
                }
                _ => {}
            }
        }
        let (pid, tid) = if *life == Life::Queued { (SCHEDULER, 0) } else { (pid, tid) };
        self.entries.push(json!({
            "name": name, "ph": "i", "s": "t", "pid": pid, "tid": tid, "ts": micros(at),
            "args": args,
        }));
    }

    fn start(&mut self, (pid, tid): (u64, u64), name: &str, at: Duration) {
        self.open.insert((pid, tid, name.to_owned()), at);
    }

    fn end(&mut self, track: (u64, u64), name: &str, at: Duration, args: Value) {
        if let Some(since) = self.open.remove(&(track.0, track.1, name.to_owned())) {
            self.span(track, name, (since, at), args);
        }
    }

    fn span(
        &mut self,
        (pid, tid): (u64, u64),
        name: &str,
        (since, until): (Duration, Duration),
        args: Value,
    ) {
        let length = until.saturating_sub(since);
        self.entries.push(json!({
            "name": name, "ph": "X", "pid": pid, "tid": tid, "ts": micros(since),
            "dur": micros(length), "args": args,
        }));
    }

    fn process(&mut self, device: Option<&str>) -> u64 {
        let name = device.unwrap_or("scheduler");
        if let Some(pid) = self.processes.get(name) {
            return *pid;
        }
        let devices = self.processes.keys().filter(|name| *name != "scheduler").count() as u64;
        let pid = if device.is_none() { SCHEDULER } else { devices + 1 };
        self.processes.insert(name.to_owned(), pid);
        self.name("process_name", (pid, 0), name);
        pid
    }

    fn track(&mut self, pid: u64, tid: u64, name: &str) {
        if self.tracks.insert((pid, tid), ()).is_none() {
            self.name("thread_name", (pid, tid), name);
        }
    }

    fn name(&mut self, what: &str, (pid, tid): (u64, u64), name: &str) {
        let args = json!({ "name": name });
        self.entries.push(json!({ "name": what, "ph": "M", "pid": pid, "tid": tid, "args": args }));
    }
}

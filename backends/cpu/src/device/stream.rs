//! Streams: each a thread that runs what is queued, in order. Events: what they have reached.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use twinlock_api::{Error, Result};

/// A point in a stream, pending until the work before it has run or failed.
#[derive(Default)]
pub(super) struct EventState {
    outcome: Mutex<Option<Result<()>>>,
    done: Condvar,
}

impl EventState {
    fn lock(&self) -> MutexGuard<'_, Option<Result<()>>> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn complete(&self, outcome: Result<()>) {
        self.lock().get_or_insert(outcome);
        self.done.notify_all();
    }

    /// Whether the event is complete, or the failure before it.
    pub(super) fn query(&self) -> Result<bool> {
        match &*self.lock() {
            None => Ok(false),
            Some(outcome) => outcome.clone().map(|()| true),
        }
    }

    /// Waits until the event is complete.
    pub(super) fn wait(&self, what: &str, timeout: Duration) -> Result<()> {
        let deadline = Instant::now().checked_add(timeout);
        let mut outcome = self.lock();
        loop {
            if let Some(outcome) = &*outcome {
                return outcome.clone();
            }
            // A timeout past the clock's end is none.
            let left = deadline.map_or(Duration::MAX, |deadline| {
                deadline.saturating_duration_since(Instant::now())
            });
            if left.is_zero() {
                let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
                return Err(Error::Timeout { what: what.to_owned(), timeout_ms });
            }
            let waited = self.done.wait_timeout(outcome, left);
            outcome = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Completes its event even when it is dropped unrun, so that nobody waits for ever.
struct Completion(Arc<EventState>);

impl Drop for Completion {
    fn drop(&mut self) {
        let reason = "the stream's thread ended before its work".to_owned();
        self.0.complete(Err(Error::DeviceLost { reason }));
    }
}

type Work = Box<dyn FnOnce() -> Result<()> + Send>;

enum Command {
    Run(&'static str, Work),
    Record(Completion),
    Wait(Arc<EventState>),
}

/// The caller's end of a stream. Dropped, it lets the thread finish what is queued.
pub(super) struct Queue {
    commands: Sender<Command>,
}

impl Queue {
    /// A stream whose thread is called `name`.
    pub(super) fn start(name: &str) -> Result<(Self, JoinHandle<()>)> {
        let (commands, received) = channel();
        let thread = std::thread::Builder::new()
            .name(format!("cpu-{name}"))
            .spawn(move || run(&received))
            .map_err(|error| Error::OutOfMemory {
                what: format!("thread of stream {name} ({error})"),
                requested_bytes: 0,
                free_bytes: None,
            })?;
        Ok((Self { commands }, thread))
    }

    fn send(&self, command: Command) -> Result<()> {
        self.commands
            .send(command)
            .map_err(|_| Error::DeviceLost { reason: "the stream's thread has ended".to_owned() })
    }

    /// Queues work; `name` is what it is called if it panics.
    pub(super) fn run(
        &self,
        name: &'static str,
        work: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        self.send(Command::Run(name, Box::new(work)))
    }

    /// An event behind all that is queued.
    pub(super) fn record(&self) -> Result<Arc<EventState>> {
        let event = Arc::new(EventState::default());
        self.send(Command::Record(Completion(Arc::clone(&event))))?;
        Ok(event)
    }

    /// Holds what is queued later until `event` is complete.
    pub(super) fn wait(&self, event: Arc<EventState>) -> Result<()> {
        self.send(Command::Wait(event))
    }
}

/// A stream's thread: the first failure stays and what follows is skipped.
fn run(commands: &Receiver<Command>) {
    let mut outcome = Ok(());
    for command in commands {
        match command {
            Command::Run(name, work) => {
                if outcome.is_ok() {
                    outcome = guarded(name, work);
                }
            }
            Command::Record(completion) => completion.0.complete(outcome.clone()),
            Command::Wait(event) => {
                if outcome.is_ok() {
                    outcome = event.wait("another stream's event", Duration::MAX);
                }
            }
        }
    }
}

/// Runs `work`; a panic is a failure of the kernel called `name`.
fn guarded(name: &'static str, work: Work) -> Result<()> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "panicked".to_owned());
        Err(Error::KernelFailed { name, reason: text })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    const SOON: Duration = Duration::from_secs(300);

    #[test]
    fn a_panic_is_a_failed_kernel_and_poisons_its_stream_only() {
        let (queue, thread) = Queue::start("a").expect("thread");
        let (other, other_thread) = Queue::start("b").expect("thread");
        let before = queue.record().expect("record");
        queue.run("ntt", || panic!("by {}", "design")).expect("run");
        let ran = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&ran);
        queue
            .run("fill", move || {
                seen.fetch_add(1, Ordering::Relaxed);
                Ok(())
            })
            .expect("run");
        let after = queue.record().expect("record");
        assert_eq!(before.wait("before", SOON), Ok(()));
        let failed = Err(Error::KernelFailed { name: "ntt", reason: "by design".into() });
        assert_eq!(after.wait("after", SOON), failed);
        assert_eq!(ran.load(Ordering::Relaxed), 0, "work behind a failure is skipped");
        assert_eq!(other.record().expect("record").wait("other", SOON), Ok(()));
        other.wait(after).expect("wait");
        assert_eq!(other.record().expect("record").wait("other", SOON), failed);
        drop((queue, other));
        thread.join().expect("thread ends");
        other_thread.join().expect("thread ends");
    }

    #[test]
    fn a_wait_holds_later_work_and_has_a_timeout() {
        let (queue, thread) = Queue::start("a").expect("thread");
        let gate = Arc::new(EventState::default());
        queue.wait(Arc::clone(&gate)).expect("wait");
        let event = queue.record().expect("record");
        let timeout = event.wait("the gate", Duration::from_millis(20));
        assert_eq!(timeout, Err(Error::Timeout { what: "the gate".into(), timeout_ms: 20 }));
        assert_eq!(event.query(), Ok(false));
        gate.complete(Ok(()));
        assert_eq!(event.wait("the gate", SOON), Ok(()));
        assert_eq!(event.query(), Ok(true));
        drop(queue);
        thread.join().expect("thread ends");
    }
}

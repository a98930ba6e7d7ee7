//! A progress bar that only a person at a terminal sees, and only for what takes a while.

use std::io::IsTerminal;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What is done sooner shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(120);

/// Shows what is going on until it is dropped.
pub struct Progress {
    bar: ProgressBar,
    unveiler: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// A bar once [`set`](Self::set) has told a total, until then the words and the time.
    pub fn new(words: impl Into<String>) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        bar.set_style(style("{spinner} {msg} {elapsed}"));
        bar.set_message(words.into());
        let unveiler = std::io::stderr().is_terminal().then(|| {
            let (ended, wait) = mpsc::channel::<()>();
            let shown = bar.clone();
            let thread = std::thread::spawn(move || {
                if wait.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                    shown.set_draw_target(ProgressDrawTarget::stderr());
                    shown.enable_steady_tick(TICK);
                }
            });
            (ended, thread)
        });
        Self { bar, unveiler }
    }

    /// Changes the words.
    pub fn say(&self, words: impl Into<String>) {
        self.bar.set_message(words.into());
    }

    /// Says how far it is; from any thread.
    pub fn set(&self, done: u64, total: u64) {
        if self.bar.length() != Some(total) {
            self.bar.set_style(style("{spinner} {msg} [{wide_bar}] {percent}%, {eta} left"));
            self.bar.set_length(total);
        }
        // Reports of several threads may arrive out of order.
        if done > self.bar.position() {
            self.bar.set_position(done);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((ended, thread)) = self.unveiler.take() {
            drop(ended);
            // The thread cannot panic, and has nothing to say.
            let _ = thread.join();
        }
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_forward_only() {
        let progress = Progress::new("counting");
        progress.set(5, 10);
        progress.set(3, 10);
        assert_eq!((progress.bar.position(), progress.bar.length()), (5, Some(10)));
    }
}

//! Plays seeds: `seeds [--first S] [--seeds N] [--threads T] [--timeline FILE]`. A single one is
//! replayed with its events, and as a timeline (Chrome's trace format) if there is a file for it.

#![allow(clippy::print_stdout, reason = "it is a program")]

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use twinlock::scheduler::timeline::chrome_trace;
use twinlock_simulation::protocol::ours::play;
use twinlock_simulation::seeded::{Tally, run, scene};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (mut first, mut seeds, mut threads, mut timeline) = (0u64, 1_000u64, 2u64, None);
    while let Some(name) = arguments.next() {
        let Some(value) = arguments.next() else {
            println!("{name} needs a value");
            return ExitCode::from(2);
        };
        let number = value.parse();
        match (name.as_str(), number) {
            ("--first", Ok(number)) => first = number,
            ("--seeds", Ok(number)) => seeds = number,
            ("--threads", Ok(number)) => threads = number,
            ("--timeline", _) => timeline = Some(value),
            _ => {
                println!("{name} {value}: there are --first, --seeds, --threads and --timeline");
                return ExitCode::from(2);
            }
        }
    }
    let started = Instant::now();
    if seeds == 1 {
        replay(first, timeline.as_deref());
    }
    let (next, all, failed) = (AtomicU64::new(0), Mutex::new(Tally::default()), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut own = Tally::default();
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= seeds {
                        break;
                    }
                    match run(first + at) {
                        Ok(tally) => own.add(&tally),
                        Err(broken) => {
                            println!("seed {}: {broken}", first + at);
                            failed.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
                if let Ok(mut all) = all.lock() {
                    all.add(&own);
                }
            });
        }
    });
    if let Ok(all) = all.lock() {
        println!("from seed {first}: {all}; {:.1} s", started.elapsed().as_secs_f64());
    }
    match failed.into_inner() {
        0 => ExitCode::SUCCESS,
        failed => {
            println!("{failed} seeds failed");
            ExitCode::FAILURE
        }
    }
}

fn replay(seed: u64, timeline: Option<&str>) {
    let played = match play(scene(seed)) {
        Ok(played) => played,
        Err(broken) => return println!("{broken}"),
    };
    let events = played.record.events();
    for event in events {
        println!("{:>14?} {:?} {} {:?}", event.at, event.device, event.worker, event.kind);
    }
    if let Some(path) = timeline
        && let Err(error) = std::fs::write(path, chrome_trace(events).to_string())
    {
        println!("{path}: {error}");
    }
}

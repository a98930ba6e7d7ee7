//! Plays seeds: `seeds [--first S] [--seeds N] [--threads T]`. One seed is replayed with its
//! events, and as a timeline with `--timeline FILE`.

#![allow(clippy::print_stdout, reason = "it is a program")]

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use twinlock_simulation::protocol::ours::play;
use twinlock_simulation::seeded::{Tally, run, scene};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (mut first, mut seeds, mut threads) = (0u64, 1_000u64, 2u64);
    while let Some(name) = arguments.next() {
        let Some(value) = arguments.next().and_then(|value| value.parse().ok()) else {
            println!("{name} needs a number");
            return ExitCode::from(2);
        };
        match name.as_str() {
            "--first" => first = value,
            "--seeds" => seeds = value,
            "--threads" => threads = value,
            _ => {
                println!("unknown: {name}; there are --first, --seeds, --threads");
                return ExitCode::from(2);
            }
        }
    }
    let started = Instant::now();
    if seeds == 1 {
        match play(scene(first)) {
            Ok(played) => {
                for event in played.record.events() {
                    println!(
                        "{:>14?} {:?} {} {:?}",
                        event.at, event.device, event.worker, event.kind
                    );
                }
            }
            Err(broken) => println!("{broken}"),
        }
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

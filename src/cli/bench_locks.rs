//! `twinlock bench locks`

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use twinlock::bench::{self, LockPlan, LockTimes, Machine, Scalars};
use twinlock::{Result, registry};
use twinlock_api::{Device, OpenOptions};

use super::Outcome;
use super::output::{print, print_json, table};
use super::progress::Progress;
use super::size::parse_size;

/// What only the locks have.
#[derive(Debug, clap::Args)]
pub struct LockArgs {
    /// For locks: the most device memory to take, e.g. 16GiB [default: nine tenths of what is free]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
    /// For locks: partitions to prove
    #[arg(long, value_name = "N", default_value_t = 9,
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    partitions: u32,
    /// For locks: partitions at work at once
    #[arg(long, value_name = "N", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,
}

#[derive(Debug, Serialize)]
struct Results {
    bench: &'static str,
    scalars: &'static str,
    partitions: u32,
    workers: u32,
    memory_bytes: Option<u64>,
    machine: Machine,
    results: Vec<Entry>,
}

#[derive(Debug, Serialize)]
struct Entry {
    lg: u32,
    device: String,
    #[serde(flatten)]
    times: LockTimes,
}

/// Runs it on each device and size.
pub fn run(
    args: &LockArgs,
    devices: &[String],
    lgs: RangeInclusive<u32>,
    scalars: Scalars,
    timeout: Duration,
    json: bool,
) -> Result<Outcome> {
    let progress = Progress::new("measuring");
    let mut results = Vec::new();
    for name in devices {
        let device: Arc<dyn Device> = registry::open(name, &OpenOptions::default())?;
        for lg in lgs.clone() {
            let plan = LockPlan {
                lg,
                scalars,
                partitions: args.partitions as usize,
                workers: args.workers as usize,
                memory_bytes: args.memory,
                timeout,
            };
            let name = &device.info().name;
            let say = |what: &str| progress.say(format!("lg {lg}, {name}, {what}"));
            let entry = |times| Entry { lg, device: name.clone(), times };
            results.extend(bench::run_locks(&plan, &device, &say)?.into_iter().map(entry));
        }
    }
    drop(progress);
    let results = Results {
        bench: "locks",
        scalars: scalars.name(),
        partitions: args.partitions,
        workers: args.workers,
        memory_bytes: args.memory,
        machine: Machine::here(),
        results,
    };
    if json {
        print_json(&results)?
    } else {
        print(&text(&results))?
    }
    Ok(Outcome::Good)
}

fn text(results: &Results) -> String {
    let heading = [
        "lg",
        "device",
        "protocol",
        "holds",
        "median ms",
        "p99 ms",
        "longest ms",
        "staging ms",
        "overlap ms",
        "total ms",
        "breaches",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for Entry { lg, device, times } in &results.results {
        let mut row = vec![lg.to_string(), device.clone(), times.protocol.to_owned()];
        row.push(times.holds.to_string());
        let holds = [times.median_ms, times.p99_ms, times.longest_ms];
        let spans = [times.staging_ms, times.overlap_ms, times.total_ms];
        row.extend(holds.into_iter().chain(spans).map(|ms| format!("{ms:.3}")));
        row.push(times.breaches.to_string());
        rows.push(row);
    }
    let Machine { cpu_model, cores, date } = &results.machine;
    format!(
        "how long `mem` is held; {} partitions with {} scalars, {} workers; {cpu_model}, {cores} \
         cores; {date}\n{}",
        results.partitions,
        results.scalars,
        results.workers,
        table(&rows, 3)
    )
}

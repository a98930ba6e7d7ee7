//! `twinlock bench`

use std::ops::RangeInclusive;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;
use twinlock::bench::{self, Machine, Measurement, Plan, Scalars, Subject};
use twinlock::{Result, registry};
use twinlock_api::{Group, OpenOptions};

use super::Outcome;
use super::bench_locks::{self, LockArgs};
use super::output::{print, print_json, table};
use super::progress::Progress;

const TIMEOUT: Duration = Duration::from_secs(3600);

/// Measure devices: medians after a warm-up; every timed run's result is checked, outside its clock
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Sizes are base-2 logarithms; A..B includes both. With several devices the \
    ratio is each one's time over the first one's. Checked are an MSM's sum against its bases' \
    known logarithms, an NTT's output at a random point, a proof by its verifier. A wrong result \
    is an error, and nothing is printed.\n\n\
    Example: twinlock bench msm-g1 --device cpu --lg 14..16 --scalars porep"
)]
pub struct Args {
    /// What to measure
    #[arg(value_enum)]
    what: What,
    /// Devices to measure, separated by commas
    #[arg(long, value_name = "D,D", value_delimiter = ',', default_value = registry::AUTO)]
    device: Vec<String>,
    /// Sizes
    #[arg(long, value_name = "A..B", value_parser = parse_range)]
    lg: RangeInclusive<u32>,
    /// What MSM scalars are like: random, bits or porep (51% zero, 47% one, 2% full size). For
    /// prove: random takes mix's profile even, the others its profile bits
    #[arg(long, value_name = "KIND", default_value = "random", value_parser = parse_scalars)]
    scalars: Scalars,
    /// Measure each step too
    #[arg(long)]
    breakdown: bool,
    /// Tables of multiples that MSMs and proofs may use
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=128))]
    base_tables: u32,
    /// Runs that the median is of
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    iterations: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    locks: LockArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
enum What {
    /// Forward NTT over Fr, natural order in, bit-reversed out
    Ntt,
    /// MSM over G1, bases on the device, scalars from a staging buffer
    #[value(name = "msm-g1")]
    #[serde(rename = "msm-g1")]
    MsmG1,
    /// MSM over G2, bases on the device, scalars from a staging buffer
    #[value(name = "msm-g2")]
    #[serde(rename = "msm-g2")]
    MsmG2,
    /// Proof of mix after synthesis, key on the device
    Prove,
    /// How long the scheduler's lock is held while partitions of mix are proved, and the same for
    /// a lock around allocations and synchronisations of the device
    Locks,
}

#[derive(Debug, Serialize)]
struct Results {
    bench: What,
    scalars: &'static str,
    iterations: u32,
    machine: Machine,
    results: Vec<Measurement>,
}

pub fn run(args: &Args) -> Result<Outcome> {
    let subject = match args.what {
        What::Ntt => Subject::Ntt,
        What::MsmG1 => Subject::Msm(Group::G1),
        What::MsmG2 => Subject::Msm(Group::G2),
        What::Prove => Subject::Prove,
        What::Locks => {
            let Args { locks, device, lg, scalars, json, .. } = args;
            return bench_locks::run(locks, device, lg.clone(), *scalars, TIMEOUT, *json);
        }
    };
    let devices = args
        .device
        .iter()
        .map(|name| registry::open(name, &OpenOptions::default()))
        .collect::<Result<Vec<_>>>()?;
    let plan = Plan {
        subject,
        lgs: args.lg.clone().collect(),
        scalars: args.scalars,
        iterations: args.iterations as usize,
        base_tables: args.base_tables,
        steps: args.breakdown,
        timeout: TIMEOUT,
    };
    let progress = Progress::new("measuring");
    let results =
        bench::run(&plan, &devices, &|lg, device| progress.say(format!("lg {lg}, {device}")))?;
    drop(progress);
    let results = Results {
        bench: args.what,
        scalars: args.scalars.name(),
        iterations: args.iterations,
        machine: Machine::here(),
        results,
    };
    if args.json {
        print_json(&results)?;
    } else {
        print(&text(&results, devices.len() > 1))?;
    }
    Ok(Outcome::Good)
}

fn text(results: &Results, several: bool) -> String {
    let Machine { cpu_model, cores, date } = &results.machine;
    let mut heading = ["lg", "device", "median ms", "fastest ms"].map(str::to_owned).to_vec();
    if several {
        heading.push("ratio".into());
    }
    let steps = results.results.first().map_or(&[][..], |first| &first.steps[..]);
    heading.extend(steps.iter().map(|step| format!("{} ms", step.name)));
    let mut rows = vec![heading];
    for result in &results.results {
        let mut row = vec![result.lg.to_string(), result.device.clone()];
        row.push(format!("{:.3}", result.median_ms));
        row.push(format!("{:.3}", result.fastest_ms));
        if several {
            row.push(format!("{:.2}", result.ratio));
        }
        row.extend(result.steps.iter().map(|step| format!("{:.3}", step.median_ms)));
        rows.push(row);
    }
    let name = results.bench.to_possible_value().map(|value| value.get_name().to_owned());
    format!(
        "{} with {} scalars, median of {}; {cpu_model}, {cores} cores; {date}\n{}",
        name.unwrap_or_default(),
        results.scalars,
        results.iterations,
        table(&rows, 2)
    )
}

/// `14` or `14..18`, both ends included.
fn parse_range(text: &str) -> Result<RangeInclusive<u32>, String> {
    const MOST: u32 = 32;
    let number = |text: &str| match text.parse() {
        Ok(lg) if lg <= MOST => Ok(lg),
        _ => Err(format!("`{text}` is no number from 0 to {MOST}")),
    };
    let (first, last) = match text.split_once("..") {
        None => (number(text)?, number(text)?),
        Some((first, last)) => (number(first)?, number(last)?),
    };
    if first > last {
        return Err(format!("{first} is more than {last}"));
    }
    Ok(first..=last)
}

fn parse_scalars(name: &str) -> Result<Scalars, String> {
    name.parse().map_err(|error: twinlock::Error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_include_both_ends() {
        assert_eq!(parse_range("4..6"), Ok(4..=6));
        assert_eq!(parse_range("4"), Ok(4..=4));
        for bad in ["", "..", "4..", "6..4", "33", "-1", "4..=6", "a"] {
            assert!(parse_range(bad).is_err(), "{bad}");
        }
    }
}

//! Ten partitions of a 32 GiB PoRep, in virtual time, by one lock, by the naive two locks and by the
//! scheduler: a table for `benches/RESULTS.md`.

#![allow(clippy::print_stdout, reason = "it is a program")]

use std::sync::Arc;

use twinlock_simulation::measure::{Measured, one_lock, scheduler, two_locks};
use twinlock_simulation::model_inputs::ModelInputs;
use twinlock_simulation::porep::{not_ahead, of_card};
use twinlock_simulation::program::Program;

const PARTITIONS: u32 = 10;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    println!(
        "| inputs | card | plan | one lock: 1, 2, 3 workers | naive: 2, 3 | ours: 1, 2, 3 | ratio, 2 \
         workers | device computes, one lock and ours, 2 workers |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for inputs in ModelInputs::ALL {
        for gib in [16, 24, 48, 141] {
            let plans =
                [("prover's", of_card(gib, &inputs)?), ("not ahead", not_ahead(gib, &inputs)?)];
            for (plan, program) in plans {
                println!("{}", row(&inputs, gib, plan, &Arc::new(program))?);
            }
        }
    }
    Ok(())
}

fn row(
    inputs: &ModelInputs,
    gib: u64,
    plan: &str,
    program: &Arc<Program>,
) -> Result<String, Failure> {
    let lock = (1..=3)
        .map(|workers| one_lock(gib, workers, PARTITIONS, program))
        .collect::<Result<Vec<_>, _>>()?;
    let naive = (2..=3)
        .map(|workers| two_locks(gib, workers, PARTITIONS, program))
        .collect::<Result<Vec<_>, _>>()?;
    let ours = (1..=3)
        .map(|workers| scheduler(gib, workers, PARTITIONS, program))
        .collect::<Result<Vec<_>, _>>()?;
    let all = |runs: &[Measured]| runs.iter().map(seconds).collect::<Vec<_>>().join(", ");
    let (ratio, shares) = match (lock.get(1), ours.get(1)) {
        (Some(lock), Some(ours)) => (
            format!("{:.2}", ours.total.as_secs_f64() / lock.total.as_secs_f64()),
            format!("{:.1}%, {:.1}%", 100.0 * lock.utilisation(), 100.0 * ours.utilisation()),
        ),
        _ => Default::default(),
    };
    Ok(format!(
        "| {} | {gib} GiB | {plan} | {} | {} | {} | {ratio} | {shares} |",
        inputs.name,
        all(&lock),
        all(&naive),
        all(&ours)
    ))
}

fn seconds(run: &Measured) -> String {
    let total = run.total.as_secs_f64();
    match run.failed {
        0 => format!("{total:.1} s"),
        failed => format!("{total:.1} s ({failed} of {PARTITIONS} out of memory)"),
    }
}

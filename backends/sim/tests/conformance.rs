//! The suite on a simulated device whose arithmetic is the CPU's.

use std::sync::Arc;

use libtest_mimic::Arguments;
use twinlock_api::op::Fill;
use twinlock_api::{Backend, Op, OpenOptions};
use twinlock_conformance::{Candidate, run_candidates};
use twinlock_cpu::CpuBackend;
use twinlock_sim::{Arithmetic, Clock, Fault, SimBackend, SimConfig};

fn main() {
    let cpu = CpuBackend.open("cpu", &OpenOptions::default());
    let arithmetic = cpu.map(Arithmetic::Of).unwrap_or_default();
    let config = SimConfig { arithmetic, ..SimConfig::new("sim:0", 8 << 30) };
    let backend = SimBackend::new([config], &Clock::new());
    let card = Arc::clone(&backend.cards()[0]);
    let poison_card = Arc::clone(&card);
    let candidate = Candidate::new(Box::new(backend)).with_poison(move |fixture, stream| {
        let view = fixture.work("poison", 256)?;
        poison_card.inject(Fault::KernelFailed { op: poison_card.counts().ops });
        fixture.device().enqueue(stream, &Op::Fill(Fill::zero(view)))
    });
    let outcome = run_candidates(vec![candidate], &Arguments::from_args());
    for race in card.races().iter().take(5) {
        eprintln!("{race:?}");
    }
    outcome.exit();
}

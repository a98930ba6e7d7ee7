//! Tries variants of the prover's layout on a card, each as it is and sent ahead, with two workers:
//! `plans GIB`. Kernels take what the model's inputs say, however small the chunks are.

#![allow(clippy::print_stdout, reason = "it is a program")]

use std::sync::Arc;

use twinlock::groth16::prover::variant::{
    AssignmentUpload, NttBuffers, QuerySet, Variant, Windows,
};
use twinlock_simulation::measure::{Measured, scheduler};
use twinlock_simulation::model_inputs::ModelInputs;
use twinlock_simulation::porep::{GIB, of_variant};

const PARTITIONS: u32 = 4;

fn main() {
    let gib = std::env::args().nth(1).and_then(|gib| gib.parse().ok()).unwrap_or(48);
    let mut found: Vec<(Measured, Variant)> = Vec::new();
    for variant in variants() {
        found.extend(measure(gib, variant).map(|measured| (measured, variant)));
    }
    found.sort_by_key(|(measured, ..)| measured.span);
    for wanted in [true, false] {
        println!("{}", if wanted { "sent ahead" } else { "as it is" });
        let those = found.iter().filter(|(_, variant)| variant.ahead == wanted);
        for (measured, variant) in those.take(5) {
            let (span, share) = (measured.span, measured.utilisation());
            println!("  {span:?}, computes {:.1}%: {variant:?}", share * 100.0);
        }
    }
}

fn measure(gib: u64, variant: Variant) -> Option<Measured> {
    let program = of_variant(gib, variant, &ModelInputs::PEERS).ok()?;
    let residents = program.residents().map(|(_, bytes)| bytes);
    let bytes: u64 = program.layout_bytes.iter().copied().chain(residents).sum();
    if bytes + GIB / 2 > gib * GIB {
        return None;
    }
    let measured = scheduler(gib, 2, PARTITIONS, &Arc::new(program)).ok()?;
    (measured.finished == PARTITIONS as usize).then_some(measured)
}

fn variants() -> Vec<Variant> {
    let mut all = Vec::new();
    for resident in QuerySet::every() {
        for ntt_buffers in [NttBuffers::Two, NttBuffers::Three] {
            for assignment in [AssignmentUpload::Prestage, AssignmentUpload::Late] {
                for (chunk, pieces) in [(22, 4), (23, 4), (23, 16), (24, 4), (24, 16), (26, 16)] {
                    let chunk = 1 << chunk;
                    let (bases_chunk, windows) = (chunk / pieces, Windows::OfChunk);
                    all.extend([false, true].map(|ahead| Variant {
                        chunk,
                        bases_chunk,
                        windows,
                        resident,
                        tables: 1,
                        ntt_buffers,
                        assignment,
                        ahead,
                    }));
                }
            }
        }
    }
    all
}

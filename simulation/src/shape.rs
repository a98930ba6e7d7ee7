//! A memory plan of the prover as a program for simulated workers.

use std::sync::Arc;

use twinlock::groth16::params::Query;
use twinlock::groth16::prover::layout::{Buffer, Stage};
use twinlock::groth16::prover::variant::NttBuffers;
use twinlock::scheduler::admission::{BufferNeed, PoolId, Profile, ResidentKey, ResidentNeed};
use twinlock::scheduler::plan::MemoryPlan;
use twinlock_api::MemoryClass;

use crate::model_inputs::ModelInputs;
use crate::program::{Program, StageWork};

/// Memories of a card: what operations write, and bases.
pub const POOLS: [MemoryClass; 2] = [MemoryClass::Work, MemoryClass::Resident];

fn pool_of(class: MemoryClass) -> PoolId {
    match class {
        MemoryClass::Work => PoolId(0),
        MemoryClass::Resident => PoolId(1),
    }
}

/// The buffers, residents, uploads and streams of `plan` with the times of `inputs`.
///
/// # Errors
/// `Invalid` for buffers that end before they start, which a plan has not.
pub fn program(plan: &MemoryPlan, inputs: &ModelInputs) -> twinlock::Result<Program> {
    let needs = plan.buffers.iter().map(|buffer| BufferNeed {
        name: buffer.name,
        pool: pool_of(buffer.class),
        size_bytes: buffer.size_bytes,
        first: buffer.first as u8,
        last: buffer.last as u8,
    });
    let residents = plan.residents.iter().map(|(query, size_bytes)| ResidentNeed {
        key: ResidentKey(*query as u64),
        pool: pool_of(MemoryClass::Resident),
        size_bytes: *size_bytes,
    });
    let profile = Arc::new(Profile::new(needs.collect(), residents.collect())?);
    Ok(Program {
        profile,
        stages: Stage::ALL.into_iter().map(|stage| work(plan, inputs, stage)).collect(),
        offsets_bytes: plan.buffers.iter().map(|buffer| buffer.offset_bytes).collect(),
        layout_bytes: vec![plan.work_bytes, plan.bases_bytes],
        synthesis: std::time::Duration::ZERO,
        beside: inputs.beside,
        check: inputs.check,
    })
}

/// The stage that needs what is sent into a buffer.
fn sent_for(buffer: &Buffer) -> Stage {
    match buffer.name {
        _ if buffer.first == Stage::Prestage => Stage::Prestage,
        // Its first reader; it lives longer.
        "assignment" => Stage::La,
        _ => buffer.last,
    }
}

fn is_piece(buffer: &Buffer) -> bool {
    buffer.name.contains("_bases_")
}

fn work(plan: &MemoryPlan, inputs: &ModelInputs, stage: Stage) -> StageWork {
    let find = |pick: &dyn Fn(&Buffer) -> bool| -> Vec<usize> {
        let buffers = plan.buffers.iter().enumerate();
        buffers.filter(|(_, buffer)| pick(buffer)).map(|(index, _)| index).collect()
    };
    // The device counts the base map out by itself.
    let sent = |buffer: &Buffer| {
        sent_for(buffer) == stage
            && buffer.is_uploaded()
            && !is_piece(buffer)
            && !buffer.name.ends_with("_base_map")
    };
    let midway = stage == Stage::Quotient && plan.variant.ntt_buffers == NttBuffers::Two;
    StageWork {
        name: stage.name(),
        uploads: find(&sent),
        kernels: inputs.kernels(stage),
        midway: midway.then(|| find(&|buffer| buffer.name == "b").first().copied()).flatten(),
        pieces: pieces(plan, stage),
        into: find(&|buffer| is_piece(buffer) && sent_for(buffer) == stage),
        ahead: plan.variant.ahead && matches!(stage, Stage::H | Stage::La | Stage::B),
        download: (stage == Stage::Drain)
            .then(|| find(&|buffer| buffer.name.ends_with("_windows")).first().copied())
            .flatten(),
    }
}

/// The pieces of all streamed queries of a stage.
fn pieces(plan: &MemoryPlan, stage: Stage) -> Vec<u64> {
    let (queries, scalars): (&[Query], usize) = match stage {
        Stage::H => (&[Query::H], plan.shape.query_len(Query::H)),
        Stage::La => (&[Query::L, Query::A], plan.shape.variables()),
        Stage::B => (&[Query::BG1, Query::BG2], plan.shape.b),
        Stage::Prestage | Stage::Quotient | Stage::Drain => return Vec::new(),
    };
    // As the prover cuts them: equal chunks of scalars, each with equal pieces of its bases.
    let equal = |len: usize, most: usize| len.div_ceil(len.div_ceil(most.clamp(1, len)));
    let each = match scalars {
        0 => return Vec::new(),
        _ => equal(equal(scalars, plan.variant.chunk), plan.variant.bases_chunk),
    };
    let mut pieces = Vec::new();
    for query in queries.iter().filter(|query| !plan.variant.resident.contains(**query)) {
        let len = plan.shape.query_len(*query);
        let points = (0..len).step_by(each).map(|start| each.min(len - start));
        pieces.extend(points.map(|points| (points * query.point_bytes()) as u64));
    }
    pieces
}

#[cfg(test)]
mod tests {
    use twinlock::groth16::prover::variant::Variant;

    use super::*;
    use crate::porep::{best_plan, of_variant};

    /// What a program sends is what its plan says, and every piece fits its buffer.
    #[test]
    fn programs_send_what_their_plans_count() {
        for gib in [12, 16, 24, 48, 80, 141] {
            let best = best_plan(gib).unwrap();
            let of = |ahead| {
                let variant = Variant { ahead, ..best.variant };
                of_variant(gib, variant, &ModelInputs::PEERS).unwrap()
            };
            let [plain, ahead] = [of(false), of(true)];
            for program in [&plain, &ahead] {
                let sent = |stage| program.sent_bytes(stage);
                let pieces = program.stages.iter().flat_map(|work| &work.pieces);
                assert_eq!(pieces.sum::<u64>(), best.moved.bases_bytes, "{gib} GiB");
                let all: u64 = (0..program.stages.len()).map(sent).sum();
                assert_eq!(sent(0), best.moved.prestage_bytes, "{gib} GiB");
                assert_eq!(all, best.moved.total_bytes(), "{gib} GiB");
                for work in &program.stages {
                    let room = work.into.iter().filter_map(|at| program.buffer_bytes(*at)).min();
                    assert!(work.pieces.iter().all(|piece| Some(*piece) <= room), "{gib} GiB");
                }
            }
            assert_eq!(plain.kernels(), std::time::Duration::from_millis(1_680));
            let sent_ahead = |program: &Program| -> u64 {
                (0..program.stages.len()).map(|stage| program.ahead_bytes(stage)).sum()
            };
            assert_eq!(sent_ahead(&plain), 0, "{gib} GiB");
            assert!(sent_ahead(&ahead) > 0, "{gib} GiB");
        }
    }
}

//! The plan that suits a budget.

use twinlock_api::{Device, Error, MemoryClass, Result};

use super::{MemoryPlan, Rates, StageBytes, present, resident_bytes};
use crate::groth16::prover::layout::{Buffer, ProofLayout, Stage};
use crate::groth16::prover::shape::ProofShape;
use crate::groth16::prover::variant::{AssignmentUpload, NttBuffers, QuerySet, Variant, Windows};

/// Larger digit plans gain nothing.
const LARGEST_CHUNK: usize = 1 << 26;
/// Smaller chunks cost more than they free.
const SMALLEST_CHUNK: usize = 1 << 10;

/// Which queries stay on the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Residents {
    /// The plan chooses; they count against the budget.
    Choose,
    /// These are there already and count no more; the others are streamed.
    Loaded(QuerySet),
}

/// What a plan must keep to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Device memory for the plan.
    pub budget_bytes: u64,
    /// Which queries may stay.
    pub residents: Residents,
    /// Scalars of one digit plan at most; `None` for no limit.
    pub most_chunk: Option<usize>,
    /// A fixed window width; `None` to choose.
    pub window_bits: Option<u32>,
    /// What times are reckoned from.
    pub rates: Rates,
}

impl Limits {
    /// Everything may be chosen within `budget_bytes`.
    pub fn new(budget_bytes: u64) -> Self {
        Self {
            budget_bytes,
            residents: Residents::Choose,
            most_chunk: None,
            window_bits: None,
            rates: Rates::default(),
        }
    }
}

/// The plan with the shortest reckoned time that fits; of equal ones the one that moves the fewest
/// bytes, then the smallest.
///
/// # Errors
/// `ExceedsLimit` when not even the smallest plan fits, with the numbers; else what the device's
/// size queries answer.
pub fn best(device: &dyn Device, shape: ProofShape, limits: &Limits) -> Result<MemoryPlan> {
    let mut best: Option<MemoryPlan> = None;
    let rank =
        |plan: &MemoryPlan| (plan.period.as_micros(), plan.moved.total_bytes(), plan.peak_bytes());
    for resident in resident_sets(&shape, limits) {
        let kept: u64 = match limits.residents {
            Residents::Choose => {
                resident.iter().map(|query| resident_bytes(&shape, query, 1)).sum()
            }
            Residents::Loaded(_) => 0,
        };
        let Some(room) = limits.budget_bytes.checked_sub(kept) else { continue };
        for variant in variants(&shape, resident, limits) {
            // Where buffers lie and where the next partition can be staged takes long to find; first
            // with the best answer.
            let Some(groups) = possible(ProofLayout::groups(device, shape, variant))? else {
                continue;
            };
            let at_best = limits.rates.period(&shape, &variant, &groups, Some(Stage::Quotient));
            if best.as_ref().is_some_and(|best| at_best > best.period) {
                continue;
            }
            let Some(layout) = possible(ProofLayout::new(device, shape, variant))? else {
                continue;
            };
            if !fits(device, &layout, room) {
                continue;
            }
            let plan = MemoryPlan::of_layout(&layout, limits);
            if best.as_ref().is_none_or(|best| rank(&plan) < rank(best)) {
                best = Some(plan);
            }
        }
    }
    match best {
        Some(plan) => Ok(plan),
        None => Err(refusal(&smallest(device, shape, limits)?, limits)),
    }
}

/// The plan that needs the least device memory, whether it fits the budget or not.
///
/// # Errors
/// What the device's size queries answer.
pub fn smallest(device: &dyn Device, shape: ProofShape, limits: &Limits) -> Result<MemoryPlan> {
    let resident = match limits.residents {
        Residents::Choose => QuerySet::NONE,
        Residents::Loaded(loaded) => loaded,
    };
    let mut least: Option<(u64, ProofLayout)> = None;
    let mut too_large = None;
    for variant in variants(&shape, resident, limits) {
        match ProofLayout::new(device, shape, variant) {
            Ok(layout) => {
                let bytes = peak(&layout);
                if least.as_ref().is_none_or(|(least, _)| bytes < *least) {
                    least = Some((bytes, layout));
                }
            }
            Err(error) => too_large = Some(error),
        }
    }
    match (least, too_large) {
        (Some((_, layout)), _) => Ok(MemoryPlan::of_layout(&layout, limits)),
        (None, Some(error)) => Err(error),
        (None, None) => Err(Error::invalid("no variant of a proof's layout")),
    }
}

fn resident_sets(shape: &ProofShape, limits: &Limits) -> Vec<QuerySet> {
    match limits.residents {
        Residents::Loaded(loaded) => vec![loaded],
        Residents::Choose => {
            let present = present(shape);
            QuerySet::every().filter(|set| set.and(present) == *set).collect()
        }
    }
}

/// Everything worth trying with one set of residents.
fn variants(shape: &ProofShape, resident: QuerySet, limits: &Limits) -> Vec<Variant> {
    let longest = shape.domain().max(shape.variables());
    let first = longest.min(LARGEST_CHUNK).min(limits.most_chunk.unwrap_or(usize::MAX)).max(1);
    let halves = std::iter::successors(Some(first), |chunk| Some(chunk / 2));
    let windows = match limits.window_bits {
        Some(window_bits) => vec![Windows::Fixed(window_bits)],
        None => vec![Windows::OfQuery, Windows::OfChunk],
    };
    let divisors: &[usize] =
        if present(shape).and(resident) == present(shape) { &[1] } else { &[1, 4, 16] };
    let mut all = Vec::new();
    for chunk in halves.take_while(|chunk| *chunk == first || *chunk >= SMALLEST_CHUNK) {
        for windows in &windows {
            for divisor in divisors {
                for ntt_buffers in [NttBuffers::Three, NttBuffers::Two] {
                    for assignment in [AssignmentUpload::Prestage, AssignmentUpload::Late] {
                        all.extend([false, true].map(|ahead| Variant {
                            chunk,
                            bases_chunk: chunk.div_ceil(*divisor),
                            windows: *windows,
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
    }
    all
}

/// `None` for what the device can never do.
fn possible<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(Error::ExceedsLimit { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn peak(layout: &ProofLayout) -> u64 {
    layout.peak_bytes(MemoryClass::Work) + layout.peak_bytes(MemoryClass::Resident)
}

fn fits(device: &dyn Device, layout: &ProofLayout, room: u64) -> bool {
    let largest_region = device.info().max_region_bytes;
    let one_region = |class| layout.peak_bytes(class) <= largest_region;
    peak(layout) <= room && one_region(MemoryClass::Work) && one_region(MemoryClass::Resident)
}

/// Why not even `plan` can be: which stages need most, for which buffers, and what is missing.
fn refusal(plan: &MemoryPlan, limits: &Limits) -> Error {
    let part = |of: fn(&StageBytes) -> u64, class: MemoryClass| {
        let stage = plan.stages.iter().max_by_key(|stage| of(stage))?;
        let mut live: Vec<&Buffer> = (plan.buffers.iter())
            .filter(|buffer| buffer.class == class && buffer.lives_in(stage.stage))
            .collect();
        live.sort_by_key(|buffer| std::cmp::Reverse(buffer.size_bytes));
        let names: Vec<_> = (live.iter())
            .filter(|buffer| buffer.size_bytes >= of(stage) / 100)
            .map(|buffer| format!("{} {}", buffer.name, buffer.size_bytes))
            .collect();
        (!names.is_empty()).then(|| {
            format!("stage {} holds {} ({})", stage.stage.name(), of(stage), names.join(", "))
        })
    };
    let parts: Vec<_> = [
        part(|stage| stage.work_bytes, MemoryClass::Work),
        part(|stage| stage.bases_bytes, MemoryClass::Resident),
    ]
    .into_iter()
    .flatten()
    .collect();
    let short = plan.peak_bytes().saturating_sub(limits.budget_bytes);
    Error::ExceedsLimit {
        what: format!(
            "bytes of device memory for the smallest plan of a proof over 2^{} rows, {short} short: {}",
            plan.shape.lg_domain,
            parts.join("; ")
        ),
        requested: plan.peak_bytes(),
        limit: limits.budget_bytes,
    }
}

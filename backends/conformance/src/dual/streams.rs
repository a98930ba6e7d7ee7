//! Streams and events in pairs, and an operation's way through both halves.

use twinlock_api::layout::FR_BYTES;
use twinlock_api::op::Access;
use twinlock_api::{Error, Event, Op, Region, Result, Stream, View};

use super::compare::{Side, compare_bits, compare_windows, reduce};
use super::ranges::Defined;
use super::{Dual, State};

/// The oracle's and the subject's stream, and what the pair failed with.
pub(super) struct StreamState {
    pub(super) halves: [Stream; 2],
    pub(super) failure: Option<Error>,
}

/// Both events, and what the pair's stream had failed with.
pub(super) struct DualEvent {
    pub(super) failure: Option<Error>,
    pub(super) oracle: Event,
    pub(super) subject: Event,
}

impl DualEvent {
    pub(super) fn of(event: &Event) -> Result<&Self> {
        event.payload().ok_or_else(|| Error::invalid("an event of another device"))
    }

    pub(super) fn failed(&self) -> Result<()> {
        self.failure.clone().map_or(Ok(()), Err)
    }
}

/// Bytes of the elements of what an operation writes.
fn element_bytes(op: &Op, view: View) -> u64 {
    match op {
        Op::Fill(_) | Op::Copy(_) => 4,
        Op::DecodePoints(op) if view == op.target() => op.group().affine_bytes(),
        Op::FixedBase(op) if view == op.target() => op.group().affine_bytes(),
        Op::BaseTables(op) => op.group().affine_bytes(),
        _ => FR_BYTES,
    }
}

/// Whether the view holds what belongs to the backend alone.
fn opaque(op: &Op, view: View) -> bool {
    match op {
        Op::Digits(op) => view == op.plan(),
        Op::MsmAccumulate(op) => view == op.accumulator(),
        _ => false,
    }
}

impl Dual {
    /// Runs `op` on both halves, waits, and compares.
    pub(super) fn run_on_both(
        &self,
        state: &mut State,
        halves: [Stream; 2],
        op: &Op,
    ) -> Result<()> {
        let State { regions, defined, .. } = state;
        let half = |index: usize| {
            let regions = &*regions;
            move |region: Region| {
                regions
                    .get(&region)
                    .map(|halves| halves[index])
                    .ok_or_else(|| Error::invalid("a region that is not alive here"))
            }
        };
        let (of_oracle, of_subject) = (half(0), half(1));
        let sides = [
            Side { device: &self.oracle, stream: halves[0], region: &of_oracle },
            Side { device: &self.subject, stream: halves[1], region: &of_subject },
        ];
        for side in &sides {
            match op {
                Op::MsmReduce(op) => reduce(side, op)?,
                _ => {
                    let own = op.clone().map_views(|view, _| side.view(view))?;
                    side.device.enqueue(side.stream, &own)?;
                }
            }
        }
        for side in &sides {
            side.finish()?;
        }
        let pair = [&sides[0], &sides[1]];
        let views = op.views();
        let reads = |access| matches!(access, Access::Read | Access::ReadWrite);
        let inputs_defined = views
            .iter()
            .filter(|(view, access)| reads(*access) && !opaque(op, *view))
            .all(|(view, _)| defined.covers(*view));
        for (view, access) in views {
            match access {
                Access::Read => continue,
                Access::Scratch => defined.mark(view, false),
                Access::Write | Access::ReadWrite if opaque(op, view) => defined.mark(view, false),
                Access::Write | Access::ReadWrite => {
                    // A reduction reads an accumulator, whose bytes are never comparable.
                    defined.mark(view, inputs_defined);
                    let Op::MsmReduce(reduce) = op else { continue };
                    compare_windows(op.name(), pair, reduce)?;
                    defined.mark(view, true);
                    continue;
                }
            }
        }
        if !inputs_defined {
            return Ok(());
        }
        match op {
            Op::Digits(_) | Op::MsmAccumulate(_) | Op::MsmReduce(_) => Ok(()),
            Op::ToMontgomery(convert) => {
                let (target, status) = (convert.target(), convert.status());
                compare_with_status(defined, pair, op, [target, status])
            }
            Op::DecodePoints(decode) => {
                let (target, status) = (decode.target(), decode.status());
                compare_with_status(defined, pair, op, [target, status])
            }
            _ => op
                .views()
                .into_iter()
                .filter(|(_, access)| matches!(access, Access::Write | Access::ReadWrite))
                .try_for_each(|(view, _)| {
                    compare_bits(op.name(), pair, view, element_bytes(op, view))
                }),
        }
    }
}

/// Compares the status, then the elements before the first bad one; those after it may be
/// undefined.
fn compare_with_status(
    defined: &mut Defined,
    pair: [&Side<'_>; 2],
    op: &Op,
    [target, status]: [View; 2],
) -> Result<()> {
    compare_bits(op.name(), pair, status, 4)?;
    let word = pair[1].bytes(status)?;
    let first_bad = u32::from_le_bytes(word.try_into().unwrap_or([0; 4]));
    let bytes = element_bytes(op, target);
    let good = u64::from(first_bad).saturating_mul(bytes).min(target.len_bytes());
    compare_bits(op.name(), pair, target.slice(0, good)?, bytes)?;
    let rest = target.slice(good, target.len_bytes() - good)?;
    defined.mark(rest, false);
    Ok(())
}

//! What must hold at every step and at the end of a run.

use std::collections::BTreeMap;

use twinlock::scheduler::admission::{Admission, PoolId, Ticket};
use twinlock::scheduler::core::{Core, DeviceId, End};
use twinlock_sim::SimCard;

use crate::program::Program;

/// Something that must hold did not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The scene cannot be played.
    #[error("the scene cannot be set up: {0}")]
    Setup(String),
    /// More is held than there is.
    #[error(
        "{held_bytes} bytes are held in memory {pool} of card {card}, which has {budget_bytes}"
    )]
    OverBudget {
        /// Which card.
        card: usize,
        /// Which memory.
        pool: u8,
        /// Bytes held.
        held_bytes: u64,
        /// Bytes there.
        budget_bytes: u64,
    },
    /// Two holders of the same bytes, or a holder of bytes past the end.
    #[error("card {card}: {what}")]
    Overlap {
        /// Which card.
        card: usize,
        /// Who and where.
        what: String,
    },
    /// What was placed or used is not what was promised.
    #[error("partition {ticket}: {what}")]
    NotAsPromised {
        /// Which partition.
        ticket: Ticket,
        /// What is wrong.
        what: String,
    },
    /// A partition that ended twice, or never started.
    #[error("partition {ticket} ended as {end:?}, which is one end too many")]
    EndedTwice {
        /// Which.
        ticket: Ticket,
        /// How.
        end: End,
    },
    /// Two partitions with `compute`, or one that computes without.
    #[error("card {card}: {what}")]
    Compute {
        /// Which card.
        card: usize,
        /// Who.
        what: String,
    },
    /// Nothing goes on, and not all have ended.
    #[error("nothing goes on: {0}")]
    Stuck(String),
    /// A card saw a rule broken.
    #[error("{card}: {what}")]
    Card {
        /// Which.
        card: String,
        /// What it saw.
        what: String,
    },
    /// A lock or memory is held after the end.
    #[error("after the end: {0}")]
    LeftOver(String),
    /// A worker said what makes no sense, or the core asked for what can't be done.
    #[error("out of turn: {0}")]
    Nonsense(String),
}

/// The checks that need a memory.
#[derive(Debug)]
pub struct Watch {
    /// How often the core was stepped.
    pub steps: u64,
    /// How often a budget shrank.
    pub shrunk: u64,
    /// How often a resident was evicted.
    pub evicted: u64,
    ends: BTreeMap<Ticket, Option<End>>,
    computing: Vec<Option<Ticket>>,
}

impl Watch {
    /// For so many cards.
    pub fn new(cards: usize) -> Self {
        Self {
            steps: 0,
            shrunk: 0,
            evicted: 0,
            ends: BTreeMap::new(),
            computing: vec![None; cards],
        }
    }

    /// A partition comes.
    pub fn submitted(&mut self, ticket: Ticket) {
        self.ends.insert(ticket, None);
    }

    /// A partition ends.
    ///
    /// # Errors
    /// `EndedTwice`.
    pub fn ended(&mut self, ticket: Ticket, end: End) -> Result<(), Broken> {
        match self.ends.insert(ticket, Some(end)) {
            Some(None) => Ok(()),
            Some(Some(_)) | None => Err(Broken::EndedTwice { ticket, end }),
        }
    }

    /// A partition is given `compute`.
    ///
    /// # Errors
    /// `Compute` when another has it.
    pub fn granted(&mut self, card: usize, ticket: Ticket) -> Result<(), Broken> {
        let Some(slot) = self.computing.get_mut(card) else { return Ok(()) };
        match slot.replace(ticket) {
            None => Ok(()),
            Some(other) => {
                Err(Broken::Compute { card, what: format!("{other} and {ticket} have compute") })
            }
        }
    }

    /// A partition has `compute` no more, if it had.
    pub fn handed_back(&mut self, card: usize, ticket: Ticket) {
        if let Some(slot) = self.computing.get_mut(card)
            && *slot == Some(ticket)
        {
            *slot = None;
        }
    }

    /// A partition enqueues kernels.
    ///
    /// # Errors
    /// `Compute` when it has no right to.
    pub fn computes(&self, card: usize, ticket: Ticket) -> Result<(), Broken> {
        if self.computing.get(card) == Some(&Some(ticket)) {
            return Ok(());
        }
        Err(Broken::Compute { card, what: format!("{ticket} computes without compute") })
    }

    /// What partitions and residents hold on a card: within the budget, and no byte twice.
    ///
    /// # Errors
    /// `OverBudget` or `Overlap`.
    pub fn memory(&self, core: &Core, device: DeviceId) -> Result<(), Broken> {
        let Some(admission) = core.admission_of(device) else { return Ok(()) };
        let card = device.0;
        for pool in 0..2 {
            let (held_bytes, budget_bytes) =
                (admission.held_bytes(PoolId(pool)), admission.capacity(PoolId(pool)));
            if held_bytes > budget_bytes {
                return Err(Broken::OverBudget { card, pool, held_bytes, budget_bytes });
            }
        }
        let capacity = |pool| admission.capacity(pool);
        match clash(&holders(admission), capacity) {
            Some(what) => Err(Broken::Overlap { card, what }),
            None => Ok(()),
        }
    }

    /// How all ended.
    ///
    /// # Errors
    /// `Stuck` when some did not.
    pub fn ends(&self) -> Result<BTreeMap<Ticket, End>, Broken> {
        let ends = self.ends.iter().map(|(ticket, end)| {
            end.map(|end| (*ticket, end)).ok_or_else(|| Broken::Stuck(format!("{ticket} is left")))
        });
        ends.collect()
    }

    /// Whether everyone handed `compute` back.
    ///
    /// # Errors
    /// `LeftOver`.
    pub fn released(&self) -> Result<(), Broken> {
        match self.computing.iter().flatten().next() {
            None => Ok(()),
            Some(ticket) => Err(Broken::LeftOver(format!("{ticket} has compute"))),
        }
    }
}

struct Holder {
    who: String,
    /// The partition; a resident is its own owner.
    owner: (bool, u64),
    pool: PoolId,
    start: u64,
    end: u64,
}

/// Who lies past the end of a memory, or on another's bytes. Buffers of one partition may lie over
/// each other where lifetimes do not meet.
fn clash(held: &[Holder], capacity_bytes: impl Fn(PoolId) -> u64) -> Option<String> {
    for (at, a) in held.iter().enumerate() {
        let capacity_bytes = capacity_bytes(a.pool);
        if a.end > capacity_bytes {
            return Some(format!("{} ends at {} of {capacity_bytes}", a.who, a.end));
        }
        let meets = |b: &&Holder| {
            b.owner != a.owner && b.pool == a.pool && a.start < b.end && b.start < a.end
        };
        if let Some(b) = held.iter().skip(at + 1).find(meets) {
            let (a_at, b_at) = (a.start, b.start);
            return Some(format!("{} at {a_at} and {} at {b_at} share bytes", a.who, b.who));
        }
    }
    None
}

fn holders(admission: &Admission) -> Vec<Holder> {
    let mut held = Vec::new();
    for ticket in admission.tickets() {
        held.extend(admission.placements(ticket).into_iter().map(|placement| Holder {
            who: format!("{} of {ticket}", placement.name),
            owner: (true, ticket.0),
            pool: placement.pool,
            start: placement.offset_bytes,
            end: placement.offset_bytes + placement.size_bytes,
        }));
    }
    held.extend(admission.residents().map(|resident| Holder {
        who: format!("resident {}", resident.key.0),
        owner: (false, resident.key.0),
        pool: resident.pool,
        start: resident.offset_bytes,
        end: resident.offset_bytes + resident.size_bytes,
    }));
    held
}

/// Whether what a partition was given for `compute` is all that its profile promises from `stage`
/// on, no more and no less.
///
/// # Errors
/// `NotAsPromised`.
pub fn as_promised(
    ticket: Ticket,
    program: &Program,
    stage: u8,
    placed: impl Fn(usize) -> Option<(PoolId, u64)>,
) -> Result<(), Broken> {
    for (index, need) in program.profile.buffers().iter().enumerate() {
        let promised = (need.last >= stage).then_some((need.pool, need.size_bytes));
        let given = placed(index);
        if given != promised {
            let what = format!("{} is {given:?}, promised was {promised:?}", need.name);
            return Err(Broken::NotAsPromised { ticket, what });
        }
    }
    Ok(())
}

/// What a card saw: no waiting or allocating under `mem`, no bytes reused before their event, no
/// more memory taken than was meant.
///
/// # Errors
/// `Card`.
pub fn card(sim: &SimCard, promised_peak_bytes: u64) -> Result<(), Broken> {
    let broken = |what: String| Err(Broken::Card { card: sim.info().name.clone(), what });
    if let Some(violation) = sim.violations().first() {
        return broken(format!("under mem: {violation:?}"));
    }
    if let Some(race) = sim.races().first() {
        return broken(format!("no order between uses: {race:?}"));
    }
    let peak_bytes = sim.log().peak().held_bytes;
    if peak_bytes != promised_peak_bytes {
        return broken(format!(
            "held {peak_bytes} bytes at its peak, meant were {promised_peak_bytes}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(owner: u64, pool: u8, start: u64, end: u64) -> Holder {
        let (who, owner, pool) = (format!("holder {owner}"), (true, owner), PoolId(pool));
        Holder { who, owner, pool, start, end }
    }

    #[test]
    fn no_byte_has_two_holders_and_none_lies_past_the_end() {
        let clash = |held: &[Holder]| clash(held, |_| 100);
        let good = [holder(1, 0, 0, 50), holder(2, 0, 50, 100), holder(2, 1, 0, 60)];
        assert_eq!(clash(&good), None);
        assert_eq!(clash(&[holder(1, 0, 0, 50), holder(1, 0, 20, 60)]), None);
        assert!(clash(&[holder(1, 0, 0, 50), holder(2, 0, 49, 60)]).is_some());
        assert!(clash(&[holder(1, 0, 50, 101)]).is_some());
    }

    #[test]
    fn ends_and_grants_are_counted() {
        let (a, b) = (Ticket(1), Ticket(2));
        let mut watch = Watch::new(1);
        watch.submitted(a);
        assert!(watch.ended(b, End::Finished).is_err(), "it was never submitted");
        assert!(watch.ends().is_err(), "{a} has not ended");
        let mut watch = Watch::new(1);
        watch.submitted(a);
        assert_eq!(watch.ended(a, End::Finished), Ok(()));
        assert_eq!(watch.ends().map(|ends| ends.len()), Ok(1));
        assert!(watch.ended(a, End::Cancelled).is_err());
        assert_eq!(watch.granted(0, a), Ok(()));
        assert!(watch.granted(0, b).is_err() && watch.computes(0, a).is_err());
        watch.handed_back(0, b);
        assert!(watch.computes(0, b).is_err() && watch.released().is_ok());
    }
}

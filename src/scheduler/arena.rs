//! Device memory, taken from the driver in whole pieces and carved by our own allocator.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use twinlock_api::layout::ARENA_ALIGN_BYTES;
use twinlock_api::{Device, Error, MemoryClass, Region, Result, View};

use super::allocator::Allocator;
use super::locks::outside_mem;

/// The memory of one device. Clones share it.
#[derive(Clone)]
pub struct Arena {
    shared: Arc<Shared>,
}

struct Shared {
    device: Arc<dyn Device>,
    /// The most bytes that may be taken from the driver.
    budget_bytes: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pieces: Vec<Piece>,
    by_name: BTreeMap<&'static str, u64>,
    in_use_bytes: u64,
    asked_bytes: u64,
    peak_bytes: u64,
}

struct Piece {
    region: Region,
    space: Allocator,
}

/// What an arena holds, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArenaUsage {
    /// Taken from the driver.
    pub reserved_bytes: u64,
    /// Carved, rounding included.
    pub in_use_bytes: u64,
    /// Lost to rounding.
    pub padding_bytes: u64,
    /// The most that was ever carved at once.
    pub peak_bytes: u64,
    /// Carved, by name.
    pub by_name: BTreeMap<&'static str, u64>,
}

impl Arena {
    /// An arena that takes nothing yet, and never more than `budget_bytes`.
    pub fn new(device: Arc<dyn Device>, budget_bytes: u64) -> Self {
        Self { shared: Arc::new(Shared { device, budget_bytes, state: Mutex::default() }) }
    }

    /// The device whose memory this is.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.shared.device
    }

    /// The most bytes that may be taken from the driver.
    pub fn budget_bytes(&self) -> u64 {
        self.shared.budget_bytes
    }

    /// Takes from the driver what is missing for `bytes` contiguous bytes of `class`: see
    /// [`reserve_all`](Self::reserve_all).
    ///
    /// # Errors
    /// As there.
    pub fn reserve(&self, class: MemoryClass, bytes: u64) -> Result<()> {
        self.reserve_all(&[(class, bytes)])
    }

    /// Takes from the driver what is missing for as many contiguous bytes of each class as `needs`
    /// says. Idle pieces of a class that is missing go back first, then, where the budget asks for
    /// it, every idle piece. May be slow; nothing in the steady state calls it.
    ///
    /// # Errors
    /// `ExceedsLimit` past the budget, or what the driver answers.
    pub fn reserve_all(&self, needs: &[(MemoryClass, u64)]) -> Result<()> {
        outside_mem("reserving device memory");
        let mut state = self.lock();
        let mut kept: Vec<Region> = Vec::new();
        let mut missing: Vec<(MemoryClass, u64)> = Vec::new();
        for &(class, bytes) in needs.iter().filter(|(_, bytes)| *bytes > 0) {
            let piece = state.pieces.iter().find(|piece| {
                piece.region.class() == class
                    && piece.space.largest_hole_bytes() >= bytes
                    && !kept.contains(&piece.region)
            });
            match piece {
                Some(piece) => kept.push(piece.region),
                None => missing.push((class, bytes)),
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let of_missing = |class| missing.iter().any(|(other, _)| *other == class);
        self.free_idle(&mut state, |region| of_missing(region.class()) && !kept.contains(&region))?;
        if !self.fits(&state, &missing) {
            self.free_idle(&mut state, |region| !kept.contains(&region))?;
        }
        if !self.fits(&state, &missing) {
            // Even what would serve is too large beside the rest: all anew.
            self.free_idle(&mut state, |_| true)?;
            missing = needs.to_vec();
            missing.retain(|&(class, bytes)| {
                !state.pieces.iter().any(|piece| {
                    piece.region.class() == class && piece.space.largest_hole_bytes() >= bytes
                })
            });
        }
        if !self.fits(&state, &missing) {
            let in_use = reserved_bytes(&state);
            return Err(Error::ExceedsLimit {
                what: format!("bytes of device memory beside {in_use} in pieces in use"),
                requested: total_bytes(&missing),
                limit: self.shared.budget_bytes,
            });
        }
        for (class, bytes) in missing {
            let size = rounded(bytes);
            let region = self.shared.device.allocate(piece_name(class), class, size)?;
            state.pieces.push(Piece { region, space: Allocator::new(size, ARENA_ALIGN_BYTES) });
        }
        Ok(())
    }

    fn fits(&self, state: &State, missing: &[(MemoryClass, u64)]) -> bool {
        reserved_bytes(state).saturating_add(total_bytes(missing)) <= self.shared.budget_bytes
    }

    /// Gives idle pieces that `may_go` back to the driver.
    fn free_idle(&self, state: &mut State, may_go: impl Fn(Region) -> bool) -> Result<()> {
        let idle = |piece: &Piece| piece.space.is_idle() && may_go(piece.region);
        while let Some(at) = state.pieces.iter().position(idle) {
            let piece = state.pieces.swap_remove(at);
            self.shared.device.free(piece.region)?;
        }
        Ok(())
    }

    /// Carves `bytes` bytes of `class` from what is reserved; never asks the driver.
    ///
    /// # Errors
    /// `OutOfMemory` when no hole is large enough.
    pub fn lease(&self, name: &'static str, class: MemoryClass, bytes: u64) -> Result<Lease> {
        // A view's length is a multiple of 4; the allocator rounds further.
        let bytes = bytes.next_multiple_of(4);
        let mut state = self.lock();
        let mut best: Option<(u64, usize)> = None;
        for (at, piece) in state.pieces.iter().enumerate() {
            let hole = piece.space.largest_hole_bytes();
            if piece.region.class() == class
                && hole >= bytes.max(1)
                && best.is_none_or(|(size, _)| hole < size)
            {
                best = Some((hole, at));
            }
        }
        let carved = best.and_then(|(_, at)| {
            let piece = state.pieces.get_mut(at)?;
            let start = piece.space.allocate(bytes)?;
            Some((piece.region, start, piece.space.rounded(bytes)?))
        });
        let Some((region, start, rounded)) = carved else {
            let free = (state.pieces.iter())
                .filter(|piece| piece.region.class() == class)
                .map(|piece| piece.space.free_bytes())
                .sum();
            return Err(Error::OutOfMemory {
                what: name.into(),
                requested_bytes: bytes,
                free_bytes: Some(free),
            });
        };
        let view = region.view(name, start, bytes)?;
        state.asked_bytes += bytes;
        state.in_use_bytes += rounded;
        state.peak_bytes = state.peak_bytes.max(state.in_use_bytes);
        *state.by_name.entry(name).or_default() += rounded;
        Ok(Lease { arena: self.clone(), view, rounded_bytes: rounded })
    }

    /// What is held now.
    pub fn usage(&self) -> ArenaUsage {
        let state = self.lock();
        ArenaUsage {
            reserved_bytes: reserved_bytes(&state),
            in_use_bytes: state.in_use_bytes,
            padding_bytes: state.in_use_bytes - state.asked_bytes,
            peak_bytes: state.peak_bytes,
            by_name: state.by_name.clone(),
        }
    }

    /// Gives every idle piece back to the driver.
    ///
    /// # Errors
    /// What the driver answers; the pieces are forgotten all the same.
    pub fn trim(&self) -> Result<()> {
        outside_mem("giving device memory back");
        let mut state = self.lock();
        let (idle, busy) =
            std::mem::take(&mut state.pieces).into_iter().partition(|piece| piece.space.is_idle());
        state.pieces = busy;
        let idle: Vec<Piece> = idle;
        let mut outcome = Ok(());
        for piece in idle {
            outcome = outcome.and(self.shared.device.free(piece.region));
        }
        outcome
    }

    /// Nothing panics while the lock is held, and the numbers are consistent between statements.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        outside_mem("giving device memory back");
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for piece in state.pieces.drain(..) {
            if let Err(error) = self.device.free(piece.region) {
                tracing::warn!(%error, "device memory not given back");
            }
        }
    }
}

impl fmt::Debug for Arena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arena")
            .field("device", &self.shared.device.info().name)
            .field("usage", &self.usage())
            .finish()
    }
}

/// A piece of `bytes` bytes as it is asked for; saturating, for the budget refuses that anyway.
fn rounded(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(ARENA_ALIGN_BYTES).unwrap_or(u64::MAX)
}

fn total_bytes(needs: &[(MemoryClass, u64)]) -> u64 {
    needs.iter().fold(0, |sum, (_, bytes)| sum.saturating_add(rounded(*bytes)))
}

fn reserved_bytes(state: &State) -> u64 {
    state.pieces.iter().map(|piece| piece.region.size_bytes()).sum()
}

fn piece_name(class: MemoryClass) -> &'static str {
    match class {
        MemoryClass::Resident => "arena_resident",
        MemoryClass::Work => "arena_work",
    }
}

/// A carved buffer; dropping it makes the bytes free for the next lease.
///
/// The next user may be on another stream: whoever drops a lease has seen the work on it complete,
/// or hands it on within the same stream.
#[derive(Debug)]
pub struct Lease {
    arena: Arena,
    view: View,
    rounded_bytes: u64,
}

impl Lease {
    /// The bytes.
    pub fn view(&self) -> View {
        self.view
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut state = self.arena.lock();
        let region = self.view.region();
        if let Some(piece) = state.pieces.iter_mut().find(|piece| piece.region == region) {
            piece.space.free(self.view.offset_bytes());
        }
        state.in_use_bytes -= self.rounded_bytes;
        state.asked_bytes -= self.view.len_bytes();
        let name = self.view.name();
        if let Some(bytes) = state.by_name.get_mut(name) {
            *bytes -= self.rounded_bytes;
            if *bytes == 0 {
                state.by_name.remove(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use twinlock_api::OpenOptions;

    use super::*;

    fn arena(budget_bytes: u64) -> Arena {
        let device = crate::registry::open("cpu", &OpenOptions { threads: Some(1) }).unwrap();
        Arena::new(device, budget_bytes)
    }

    /// What the arena says it took is what the device says it gave.
    fn usage(arena: &Arena) -> ArenaUsage {
        let usage = arena.usage();
        let regions_bytes = arena.device().memory().unwrap().regions_bytes;
        assert_eq!(usage.reserved_bytes, regions_bytes);
        usage
    }

    const WORK: MemoryClass = MemoryClass::Work;
    const RESIDENT: MemoryClass = MemoryClass::Resident;

    #[test]
    fn usage_follows_the_leases() {
        let arena = arena(1 << 20);
        assert_eq!(
            usage(&arena),
            ArenaUsage {
                reserved_bytes: 0,
                in_use_bytes: 0,
                padding_bytes: 0,
                peak_bytes: 0,
                by_name: BTreeMap::new(),
            }
        );
        arena.reserve(WORK, 4096).unwrap();
        let a = arena.lease("a", WORK, 1000).unwrap();
        let b = arena.lease("b", WORK, 256).unwrap();
        let more = arena.lease("a", WORK, 1).unwrap();
        assert_eq!([a.view(), b.view(), more.view()].map(|v| v.len_bytes()), [1000, 256, 4]);
        assert!([a.view(), b.view(), more.view()].iter().all(|v| v.offset_bytes() % 256 == 0));
        assert!(!a.view().overlaps(b.view()) && !a.view().overlaps(more.view()));
        let now = usage(&arena);
        assert_eq!((now.reserved_bytes, now.in_use_bytes, now.padding_bytes), (4096, 1536, 276));
        assert_eq!(now.by_name, BTreeMap::from([("a", 1280), ("b", 256)]));
        drop(a);
        let now = usage(&arena);
        assert_eq!((now.in_use_bytes, now.padding_bytes, now.peak_bytes), (512, 252, 1536));
        assert_eq!(now.by_name, BTreeMap::from([("a", 256), ("b", 256)]));
        drop((b, more));
        let now = usage(&arena);
        assert_eq!((now.in_use_bytes, now.padding_bytes, now.peak_bytes), (0, 0, 1536));
        assert_eq!((now.reserved_bytes, now.by_name.len()), (4096, 0));
        // The whole piece is one hole again.
        assert_eq!(arena.lease("all", WORK, 4096).unwrap().view().offset_bytes(), 0);
    }

    #[test]
    fn leases_never_ask_the_driver() {
        let arena = arena(1 << 20);
        let full = |class, bytes, free| {
            let outcome = arena.lease("buffer", class, bytes);
            let Err(Error::OutOfMemory { what, requested_bytes, free_bytes }) = outcome else {
                panic!("{outcome:?}");
            };
            assert_eq!((&*what, requested_bytes, free_bytes), ("buffer", bytes, Some(free)));
        };
        full(WORK, 4, 0);
        arena.reserve(WORK, 1024).unwrap();
        full(WORK, 1028, 1024);
        full(RESIDENT, 4, 0);
        // Room enough in all, but in two holes.
        let leases = [0; 4].map(|_| arena.lease("quarter", WORK, 256).unwrap());
        full(WORK, 4, 0);
        let [first, second, third, fourth] = leases;
        drop((first, third));
        full(WORK, 512, 512);
        drop(second);
        assert_eq!(arena.lease("buffer", WORK, 768).unwrap().view().offset_bytes(), 0);
        drop(fourth);
        assert_eq!(usage(&arena).reserved_bytes, 1024);
    }

    #[test]
    fn reserving_takes_what_is_missing_within_the_budget() {
        let arena = arena(4096);
        assert_eq!(arena.budget_bytes(), 4096);
        arena.reserve(WORK, 0).unwrap();
        assert_eq!(usage(&arena).reserved_bytes, 0);
        arena.reserve(WORK, 1000).unwrap();
        arena.reserve(WORK, 1024).unwrap();
        assert_eq!(usage(&arena).reserved_bytes, 1024, "there already");
        // A piece that is idle makes room for a larger one.
        arena.reserve(WORK, 2048).unwrap();
        assert_eq!(usage(&arena).reserved_bytes, 2048);
        let held = arena.lease("held", WORK, 4).unwrap();
        // Not so one in use.
        arena.reserve(RESIDENT, 1024).unwrap();
        arena.reserve(WORK, 1792).unwrap();
        assert_eq!(usage(&arena).reserved_bytes, 3072, "a hole of the piece in use is enough");
        // An idle one of the other class goes only where the budget asks for it.
        arena.reserve(WORK, 2048).unwrap();
        assert_eq!(usage(&arena).reserved_bytes, 4096);
        let outcome = arena.reserve(RESIDENT, 4096);
        let Err(Error::ExceedsLimit { what, requested, limit }) = outcome else {
            panic!("{outcome:?}");
        };
        assert!(what.contains("2048"), "{what}");
        assert_eq!((requested, limit), (4096, 4096));
        assert!(arena.reserve(RESIDENT, u64::MAX - 4096).is_err());
        assert_eq!(usage(&arena).reserved_bytes, 2048, "idle pieces went, in vain");
        arena.reserve(RESIDENT, 2048).unwrap();
        assert_eq!(usage(&arena).reserved_bytes, 4096, "the budget to the last byte");
        drop(held);
    }

    #[test]
    fn needs_are_met_together_or_made_anew() {
        let arena = arena(4096);
        // Large idle pieces of both classes must not stand in the way of small needs of both.
        arena.reserve_all(&[(WORK, 3072), (RESIDENT, 1024)]).unwrap();
        arena.reserve_all(&[(WORK, 256), (RESIDENT, 2048)]).unwrap();
        assert_eq!(usage(&arena).reserved_bytes, 2304);
        // What serves is kept.
        arena.reserve_all(&[(WORK, 1024), (RESIDENT, 2048)]).unwrap();
        assert_eq!(usage(&arena).reserved_bytes, 3072);
    }

    #[test]
    fn what_the_driver_refuses_is_told() {
        let arena = arena(u64::MAX);
        let total_bytes = arena.device().info().memory_bytes;
        let outcome = arena.reserve(WORK, total_bytes + 1);
        assert!(matches!(outcome, Err(Error::ExceedsLimit { .. })), "{outcome:?}");
        assert_eq!(usage(&arena).reserved_bytes, 0);
        arena.reserve(WORK, 4096).unwrap();
        assert!(arena.lease("buffer", WORK, 4096).is_ok());
    }

    #[test]
    fn trimming_gives_idle_pieces_back() {
        let arena = arena(1 << 20);
        arena.reserve(WORK, 1024).unwrap();
        arena.reserve(RESIDENT, 512).unwrap();
        let held = arena.lease("held", WORK, 4).unwrap();
        arena.trim().unwrap();
        assert_eq!(usage(&arena).reserved_bytes, 1024);
        drop(held);
        assert_eq!(usage(&arena).reserved_bytes, 1024, "kept until it is trimmed");
        arena.trim().unwrap();
        assert_eq!(usage(&arena).reserved_bytes, 0);
        assert!(arena.lease("gone", WORK, 4).is_err());

        // The last one out frees everything, leases included.
        arena.reserve(WORK, 1024).unwrap();
        let device = arena.device().clone();
        let held = arena.lease("held", WORK, 4).unwrap();
        drop(arena);
        assert_eq!(device.memory().unwrap().regions_bytes, 1024);
        drop(held);
        assert_eq!(device.memory().unwrap().regions_bytes, 0);
    }

    #[test]
    fn leases_from_many_threads_never_overlap() {
        let arena = arena(1 << 20);
        arena.reserve(WORK, 1 << 16).unwrap();
        let taken = Mutex::new(Vec::<View>::new());
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let (arena, taken) = (arena.clone(), &taken);
                scope.spawn(move || {
                    for round in 0..500u64 {
                        let bytes = 4 + (thread * 977 + round * 613) % 9000;
                        let lease = arena.lease("shared", WORK, bytes).unwrap();
                        let view = lease.view();
                        {
                            let mut taken = taken.lock().unwrap();
                            assert!(taken.iter().all(|other| !other.overlaps(view)));
                            taken.push(view);
                        }
                        std::thread::yield_now();
                        taken.lock().unwrap().retain(|other| *other != view);
                        drop(lease);
                    }
                });
            }
        });
        let now = usage(&arena);
        assert_eq!((now.in_use_bytes, now.padding_bytes, now.by_name.len()), (0, 0, 0));
    }
}

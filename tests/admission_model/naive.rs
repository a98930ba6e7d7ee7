//! The protocol that ours replaces: two locks, memory taken as it is needed, nobody admitted.

use stateright::{Model, Property};
use twinlock::scheduler::allocator::Allocator;

use super::explore::{NO_DEADLOCK, Told, explore};

const NO_OUT_OF_MEMORY: &str = "nobody runs out of memory";

/// What a worker does that finds no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoRoom {
    /// Gives up the prestage, and later fails.
    Fail,
    /// Gives up the prestage; later waits, holding `compute`.
    WaitInCompute,
    /// Waits inside `mem` for the prestage, too.
    WaitInMem,
}

/// Size, first stage, last stage.
type Buffer = (u64, u8, u8);

#[derive(Debug, Clone)]
struct Naive {
    name: &'static str,
    size: u64,
    workers: usize,
    buffers: Vec<Buffer>,
    no_room: NoRoom,
    free_needs_mem: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum At {
    Start,
    InMem,
    Staged,
    InCompute,
    Done,
    OutOfMemory,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Worker {
    at: At,
    stage: u8,
    held: Vec<Option<u64>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    space: Allocator,
    mem: Option<usize>,
    compute: Option<usize>,
    workers: Vec<Worker>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Move {
    LockMem(usize),
    Allocate(usize),
    UnlockMem(usize),
    SkipPrestage(usize),
    LockCompute(usize),
    AllocateInCompute(usize),
    FailToAllocate(usize),
    EndStage(usize),
}

impl Naive {
    fn last_stage(&self) -> u8 {
        self.buffers.iter().map(|(_, _, last)| *last).max().unwrap_or(0)
    }

    /// The next buffer that the worker's stage lacks.
    fn missing(&self, worker: &Worker) -> Option<usize> {
        (self.buffers.iter().zip(&worker.held)).position(|((_, first, last), at)| {
            at.is_none() && *first <= worker.stage && worker.stage <= *last
        })
    }

    fn moves(&self, state: &State, index: usize, moves: &mut Vec<Move>) {
        let worker = &state.workers[index];
        let missing = self.missing(worker);
        let room = missing
            .is_some_and(|buffer| state.space.largest_hole_bytes() >= self.buffers[buffer].0);
        let may_free = !self.free_needs_mem || state.mem.is_none();
        match worker.at {
            At::Start if state.mem.is_none() => moves.push(Move::LockMem(index)),
            At::InMem if missing.is_none() => moves.push(Move::UnlockMem(index)),
            At::InMem if room => moves.push(Move::Allocate(index)),
            At::InMem if self.no_room != NoRoom::WaitInMem => {
                moves.push(Move::SkipPrestage(index));
            }
            At::Staged if state.compute.is_none() => moves.push(Move::LockCompute(index)),
            At::InCompute if missing.is_none() => {
                moves.extend(may_free.then_some(Move::EndStage(index)));
            }
            At::InCompute if state.mem.is_some() => {}
            At::InCompute if room => moves.push(Move::AllocateInCompute(index)),
            At::InCompute if self.no_room == NoRoom::Fail => {
                moves.push(Move::FailToAllocate(index));
            }
            _ => {}
        }
    }

    fn free(&self, state: &mut State, index: usize, all: bool) {
        let State { space, workers, .. } = state;
        let worker = &mut workers[index];
        for ((_, _, last), slot) in self.buffers.iter().zip(&mut worker.held) {
            if (all || *last < worker.stage)
                && let Some(start) = slot.take()
            {
                assert!(space.free(start), "freed twice");
            }
        }
    }
}

impl Model for Naive {
    type State = State;
    type Action = Move;

    fn init_states(&self) -> Vec<State> {
        let held = vec![None; self.buffers.len()];
        vec![State {
            space: Allocator::new(self.size, 1),
            mem: None,
            compute: None,
            workers: vec![Worker { at: At::Start, stage: 0, held }; self.workers],
        }]
    }

    fn actions(&self, state: &State, moves: &mut Vec<Move>) {
        (0..self.workers).for_each(|index| self.moves(state, index, moves));
    }

    fn next_state(&self, last: &State, action: Move) -> Option<State> {
        let mut state = last.clone();
        match action {
            Move::LockMem(index) => {
                state.mem = Some(index);
                state.workers[index].at = At::InMem;
            }
            Move::Allocate(index) | Move::AllocateInCompute(index) => {
                let buffer = self.missing(&state.workers[index])?;
                let start = state.space.allocate(self.buffers[buffer].0)?;
                state.workers[index].held[buffer] = Some(start);
            }
            Move::UnlockMem(index) | Move::SkipPrestage(index) => {
                state.mem = None;
                state.workers[index].at = At::Staged;
            }
            Move::LockCompute(index) => {
                state.compute = Some(index);
                state.workers[index].at = At::InCompute;
            }
            Move::FailToAllocate(index) => {
                state.compute = None;
                state.workers[index].at = At::OutOfMemory;
                self.free(&mut state, index, true);
            }
            Move::EndStage(index) => {
                state.workers[index].stage += 1;
                self.free(&mut state, index, false);
                if state.workers[index].stage > self.last_stage() {
                    state.compute = None;
                    state.workers[index].at = At::Done;
                }
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NO_DEADLOCK, |m: &Self, s: &State| {
                let mut moves = Vec::new();
                m.actions(s, &mut moves);
                !moves.is_empty()
                    || s.workers.iter().all(|w| matches!(w.at, At::Done | At::OutOfMemory))
            }),
            Property::always(NO_OUT_OF_MEMORY, |_: &Self, s: &State| {
                s.workers.iter().all(|worker| worker.at != At::OutOfMemory)
            }),
        ]
    }
}

impl Told for Naive {
    fn name(&self) -> &'static str {
        self.name
    }

    fn tell(&self, state: &State) -> String {
        let workers = state.workers.iter().enumerate().map(|(index, worker)| {
            format!(
                "worker {index} {:?}, stage {}, buffers at {:?}\n",
                worker.at, worker.stage, worker.held
            )
        });
        let locks = format!("mem held by {:?}, compute by {:?}", state.mem, state.compute);
        workers.chain([locks]).collect()
    }
}

fn three_of_12(size: u64, no_room: NoRoom) -> Naive {
    let buffers = vec![(4, 0, 2), (4, 0, 1), (4, 1, 1)];
    let name = "naive, 3 x (8, 12, 4)";
    Naive { name, size, workers: 3, buffers, no_room, free_needs_mem: false }
}

fn breaks(model: Naive, property: &'static str) {
    let report = explore(model, Some(property));
    let found = report.find(property).unwrap_or_else(|| panic!("nothing breaks: {property}"));
    println!("{}", found.text());
}

#[test]
fn a_fallback_runs_out_of_memory_on_16() {
    breaks(three_of_12(16, NoRoom::Fail), NO_OUT_OF_MEMORY);
}

/// One holds `compute` and waits for room; the other has the room and waits for `compute`.
#[test]
fn waiting_for_room_in_compute_deadlocks_on_16() {
    breaks(three_of_12(16, NoRoom::WaitInCompute), NO_DEADLOCK);
}

/// One waits for room inside `mem`; the other, done, needs `mem` to make room.
#[test]
fn freeing_under_mem_deadlocks() {
    let model = Naive {
        name: "naive, 2 x 12 on 16, freeing needs mem",
        size: 16,
        workers: 2,
        buffers: vec![(12, 0, 1)],
        no_room: NoRoom::WaitInMem,
        free_needs_mem: true,
    };
    breaks(model.clone(), NO_DEADLOCK);
    // It is the lock, not the size: the same ends well when freeing needs no lock.
    let free =
        Naive { name: "naive, 2 x 12 on 16, freeing is free", free_needs_mem: false, ..model };
    let report = explore(free, None);
    assert!(report.broken.is_empty(), "{}", report.text());
}

/// The model is not one that always fails: with room for all there is nothing to find.
#[test]
fn nothing_breaks_on_48() {
    for no_room in [NoRoom::Fail, NoRoom::WaitInCompute, NoRoom::WaitInMem] {
        let report = explore(three_of_12(48, no_room), None);
        assert!(report.broken.is_empty(), "{}", report.text());
    }
}

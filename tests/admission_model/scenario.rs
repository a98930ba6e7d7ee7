//! What a run of the model starts from. Sizes are in GiB and the allocator's alignment is 1.

use std::sync::Arc;

use twinlock::scheduler::admission::{
    BufferNeed, PoolId, PoolSpec, Profile, ResidentKey, ResidentNeed, Rules, Ticket,
};

/// A partition that a worker will run.
#[derive(Debug, Clone)]
pub struct Job {
    pub ticket: Ticket,
    pub profile: Arc<Profile>,
}

/// Rules that are the executor's, not the state machine's.
#[derive(Debug, Clone, Copy)]
pub struct Locks {
    /// Rule 4: releasing needs no `mem`.
    pub release_is_free: bool,
    /// Rule 7: `mem` is not held while waiting for room.
    pub wait_without_mem: bool,
    /// Whether taking `mem` is a step of its own. With both rules kept nobody waits for anything
    /// while holding it, so what happens between taking and using it commutes with the taking;
    /// large scenarios leave the step out.
    pub explicit: bool,
}

#[derive(Debug, Clone)]
pub struct Scenario {
    pub name: &'static str,
    pub pools: Vec<PoolSpec>,
    /// One list of partitions a worker, run one after the other.
    pub workers: Vec<Vec<Job>>,
    /// Shrinks that may come at any time, in this order.
    pub shrinks: Vec<(PoolId, u64)>,
    /// Whether any partition may be cancelled at any time.
    pub cancels: bool,
    pub rules: Rules,
    pub locks: Locks,
}

/// A buffer of the first memory: size, first stage, last stage.
pub fn buffer(size_bytes: u64, first: u8, last: u8) -> BufferNeed {
    buffer_in(0, size_bytes, first, last)
}

pub fn buffer_in(pool: u8, size_bytes: u64, first: u8, last: u8) -> BufferNeed {
    BufferNeed { name: "buffer", pool: PoolId(pool), size_bytes, first, last }
}

pub fn resident(key: u64, size_bytes: u64) -> ResidentNeed {
    resident_in(0, key, size_bytes)
}

pub fn resident_in(pool: u8, key: u64, size_bytes: u64) -> ResidentNeed {
    ResidentNeed { key: ResidentKey(key), pool: PoolId(pool), size_bytes }
}

pub fn profile(buffers: &[BufferNeed], residents: &[ResidentNeed]) -> Arc<Profile> {
    Arc::new(Profile::new(buffers.to_vec(), residents.to_vec()).expect("a sound profile"))
}

/// 8, then 12, then 4.
pub fn grows_and_shrinks() -> Arc<Profile> {
    profile(&[buffer(4, 0, 2), buffer(4, 0, 1), buffer(4, 1, 1)], &[])
}

/// One profile a worker; worker `i` runs ticket `i`.
pub fn one_each(profiles: &[Arc<Profile>]) -> Vec<Vec<Job>> {
    let numbered = profiles.iter().zip(0..);
    numbered.map(|(p, n)| vec![Job { ticket: Ticket(n), profile: p.clone() }]).collect()
}

impl Scenario {
    pub fn new(name: &'static str, sizes: &[u64], workers: Vec<Vec<Job>>) -> Self {
        let pool = |&capacity_bytes| PoolSpec { capacity_bytes, align_bytes: 1 };
        Self {
            name,
            pools: sizes.iter().map(pool).collect(),
            workers,
            shrinks: Vec::new(),
            cancels: true,
            rules: Rules::ALL,
            locks: Locks { release_is_free: true, wait_without_mem: true, explicit: false },
        }
    }

    pub fn with_explicit_mem(mut self) -> Self {
        self.locks.explicit = true;
        self
    }

    pub fn without_cancels(mut self) -> Self {
        self.cancels = false;
        self
    }

    pub fn shrinking(mut self, size_bytes: u64) -> Self {
        self.shrinks.push((PoolId(0), size_bytes));
        self
    }

    pub fn with(mut self, change: impl FnOnce(&mut Rules)) -> Self {
        change(&mut self.rules);
        self
    }
}

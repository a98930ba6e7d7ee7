//! What a partition will hold, and when.

use std::fmt;

use crate::{Error, Result};

/// A partition's place in the total order: the smaller, the older. Priority, age and partition
/// index are folded into the number by whoever makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// One of a device's memories, by its position in the list that the machine was made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub u8);

/// Names a query that stays on the device between partitions of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResidentKey(pub u64);

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// A buffer and the stages it lives in, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BufferNeed {
    /// Its name.
    pub name: &'static str,
    /// The memory it is carved from.
    pub pool: PoolId,
    /// Its size before rounding.
    pub size_bytes: u64,
    /// The first stage that uses it.
    pub first: u8,
    /// It is released when this stage ends.
    pub last: u8,
}

/// A resident query that a partition reads: in use from its reservation to the partition's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResidentNeed {
    /// Which one.
    pub key: ResidentKey,
    /// The memory it is carved from.
    pub pool: PoolId,
    /// Its size before rounding; the same for every partition that names the key.
    pub size_bytes: u64,
}

/// All that a partition will hold. Stages are counted from 0, which is the prestage.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Profile {
    buffers: Vec<BufferNeed>,
    residents: Vec<ResidentNeed>,
    last_stage: u8,
}

impl Profile {
    /// Checks and keeps the lists.
    ///
    /// # Errors
    /// `Invalid` for a buffer that ends before it starts and for a resident named twice.
    pub fn new(buffers: Vec<BufferNeed>, residents: Vec<ResidentNeed>) -> Result<Self> {
        if let Some(buffer) = buffers.iter().find(|buffer| buffer.first > buffer.last) {
            return Err(Error::Invalid {
                what: format!("buffer {}", buffer.name),
                problem: format!(
                    "first used in stage {} but released after stage {}",
                    buffer.first, buffer.last
                ),
            });
        }
        let mut keys: Vec<_> = residents.iter().map(|need| need.key).collect();
        keys.sort_unstable();
        if let Some(pair) = keys.windows(2).find(|pair| pair.first() == pair.last()) {
            return Err(Error::Invalid {
                what: "residents of a profile".into(),
                problem: format!("{:?} is named twice", pair.first()),
            });
        }
        let last_stage = buffers.iter().map(|buffer| buffer.last).max().unwrap_or(0);
        Ok(Self { buffers, residents, last_stage })
    }

    /// The buffers, in the order given; a [`Placement`](super::Placement) names one by its index.
    pub fn buffers(&self) -> &[BufferNeed] {
        &self.buffers
    }

    /// The residents that the partition reads.
    pub fn residents(&self) -> &[ResidentNeed] {
        &self.residents
    }

    /// The last stage in which a buffer lives.
    pub fn last_stage(&self) -> u8 {
        self.last_stage
    }
}

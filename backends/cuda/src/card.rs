//! What a card is, for the choices that depend on it.

/// A card's sizes. Known without a context.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Card {
    /// Its ordinal among the driver's devices.
    pub(crate) ordinal: i32,
    /// The hardware, in the driver's words.
    pub(crate) model: String,
    /// Compute capability: major and minor, e.g. (9, 0).
    pub(crate) capability: (u32, u32),
    /// Device memory in all.
    pub(crate) memory_bytes: u64,
    /// Streaming multiprocessors.
    pub(crate) sm_count: u32,
    /// The most shared memory, static and dynamic together, of one block.
    pub(crate) shared_bytes_per_block: u32,
    /// Whether memory can be mapped to addresses.
    pub(crate) maps_memory: bool,
}

impl Card {
    /// A card that does not say what it is.
    pub(crate) const fn unknown(ordinal: i32) -> Self {
        Self {
            ordinal,
            model: String::new(),
            capability: (0, 0),
            memory_bytes: 0,
            sm_count: 0,
            shared_bytes_per_block: 0,
            maps_memory: false,
        }
    }
}

#[cfg(test)]
impl Card {
    /// An H200, for the tests of plans.
    pub(crate) fn h200() -> Self {
        Self {
            ordinal: 0,
            model: "NVIDIA H200".to_owned(),
            capability: (9, 0),
            memory_bytes: 141 << 30,
            sm_count: 132,
            shared_bytes_per_block: 227 << 10,
            maps_memory: true,
        }
    }
}

//! Which rules are in force: all of them, but for tests that show what each is for.

/// Switches for the model. Production code uses [`Rules::ALL`] and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rules {
    /// A grant leaves every older partition able to finish.
    pub banker: bool,
    /// That is proved by placing buffers, not by adding bytes up.
    pub placed: bool,
    /// `compute` goes only to a partition whose whole remaining profile is placed.
    pub whole_profile: bool,
    /// Nobody is given memory while an older partition waits for some.
    pub in_order: bool,
    /// Idle residents count as free.
    pub evict_idle: bool,
    /// A resident in use counts as held by its youngest user (else by its oldest).
    pub youngest_user: bool,
    /// The budget shrinks only by what the rule can spare.
    pub spare_shrink: bool,
}

impl Rules {
    /// All rules.
    pub const ALL: Self = Self {
        banker: true,
        placed: true,
        whole_profile: true,
        in_order: true,
        evict_idle: true,
        youngest_user: true,
        spare_shrink: true,
    };
}

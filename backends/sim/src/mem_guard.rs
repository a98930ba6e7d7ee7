//! The rule that nobody waits for a device while holding the lock `mem`.

use std::cell::Cell;
use std::marker::PhantomData;
use std::time::Duration;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// Says that this thread holds `mem` until the guard is dropped. While any is alive, every call of
/// this thread that goes to the driver's allocator or may wait for a device, of whichever card,
/// breaks the rule: [`crate::SimCard::violations`].
#[derive(Debug)]
#[must_use = "the rule is checked only while the guard lives"]
pub struct MemGuard {
    // The count belongs to the thread that made it.
    not_send: PhantomData<*const ()>,
}

/// Marks `mem` as held by this thread.
pub fn enter_mem() -> MemGuard {
    HELD.with(|held| held.set(held.get() + 1));
    MemGuard { not_send: PhantomData }
}

impl Drop for MemGuard {
    fn drop(&mut self) {
        HELD.with(|held| held.set(held.get().saturating_sub(1)));
    }
}

/// Whether this thread holds `mem`.
pub(crate) fn is_held() -> bool {
    HELD.with(Cell::get) > 0
}

/// A call that must not happen while `mem` is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The call, e.g. `device_synchronize`.
    pub call: &'static str,
    /// What it was made for: the region, buffer or stream, if it has a name.
    pub subject: &'static str,
    /// When it was made.
    pub at: Duration,
    /// How long enqueued work made it wait.
    pub waits: Duration,
}

/// What a violation leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnViolation {
    /// It is recorded, and the call goes on as on a real card.
    #[default]
    Record,
    /// It is recorded, and the call is refused with `InvalidArgument`.
    Refuse,
}

//! Faults that tests ask for.

use std::sync::Arc;

use crate::{Backend, Device, Result};

/// Makes an open device fail, for tests.
pub trait Faults: Send + Sync {
    /// The next operation is one that the driver refuses: it poisons its stream.
    fn fail_next_op(&self);

    /// The driver has no memory for the next region.
    fn fail_next_allocation(&self);

    /// The driver has no memory for any region, until `refuse_allocations(false)`.
    fn refuse_allocations(&self, refused: bool);

    /// What is enqueued from now on does not run until `hold(false)`: waits run into their timeouts.
    ///
    /// # Errors
    /// What the driver answers.
    fn hold(&self, held: bool) -> Result<()>;

    /// The device goes away: every call fails from now on.
    fn lose(&self);
}

/// A backend whose devices can be made to fail.
pub trait FaultyBackend: Backend {
    /// Opens a device by its name.
    ///
    /// # Errors
    /// As [`Backend::open`].
    fn open_faulty(&self, name: &str) -> Result<(Arc<dyn Device>, Arc<dyn Faults>)>;
}

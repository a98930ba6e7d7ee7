//! Streams and events.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::memory::next_id;

/// An ordered queue of work on one device. A handle: [`crate::Device::destroy_stream`] ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stream(u64);

impl Stream {
    /// A handle that no other stream of this process has. For backends.
    pub fn fresh() -> Self {
        Self(next_id())
    }

    /// The handle's number, for logs.
    pub const fn id(self) -> u64 {
        self.0
    }
}

/// A point in a stream: complete when all work enqueued before it has run. The last clone to go
/// releases it.
#[derive(Clone)]
pub struct Event {
    payload: Arc<dyn Any + Send + Sync>,
}

impl Event {
    /// Wraps a backend's own event.
    pub fn new<T: Any + Send + Sync>(payload: T) -> Self {
        Self { payload: Arc::new(payload) }
    }

    /// The backend's own event, if it is of type `T`.
    pub fn payload<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.payload.downcast_ref()
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Event")
    }
}

//! The library's own threads for parallel work of the host.
//!
//! A caller may wait for a proof on every thread of rayon's global pool; what its workers do in
//! parallel would then wait for those threads, and they for the workers.

use std::sync::OnceLock;

use rayon::{Scope, ThreadPool, ThreadPoolBuilder};

/// As many threads as rayon's pools have by default; none where the system gives none.
fn pool() -> Option<&'static ThreadPool> {
    static POOL: OnceLock<Option<ThreadPool>> = OnceLock::new();
    let make = || {
        let threads = ThreadPoolBuilder::new().thread_name(|number| format!("twinlock-{number}"));
        threads.build().inspect_err(|error| tracing::warn!(%error, "no threads of its own")).ok()
    };
    POOL.get_or_init(make).as_ref()
}

/// Runs `work`, whose parallel parts go to these threads; on one of another pool they stay there.
pub(crate) fn install<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    match pool() {
        Some(pool) if rayon::current_thread_index().is_none() => pool.install(work),
        _ => work(),
    }
}

/// Runs `work` here, and what it spawns on these threads; returns when all has ended. A thread of a
/// pool may not wait for what it spawns.
pub(crate) fn scope<'s, R>(work: impl FnOnce(&Scope<'s>) -> R) -> R {
    match pool() {
        Some(pool) if rayon::current_thread_index().is_none() => pool.in_place_scope(work),
        _ => rayon::in_place_scope(work),
    }
}

//! The library's own threads for parallel work of the host.
//!
//! A caller may wait for a proof on every thread of a rayon pool; what its workers do in parallel would
//! then wait for those threads, and they for the workers. Or such a thread would take up another proof
//! in the midst of one.

use std::sync::OnceLock;

use rayon::{Scope, ThreadPool, ThreadPoolBuilder};

/// Some threads, made when they are first needed.
pub(crate) struct Threads {
    name: &'static str,
    pool: OnceLock<Option<ThreadPool>>,
}

/// For what is not to wait for long.
pub(crate) static WORK: Threads = Threads::named("twinlock");
/// For reading keys before somebody computes with them, from a source that may be slow.
pub(crate) static READS: Threads = Threads::named("twinlock-reads");

impl Threads {
    const fn named(name: &'static str) -> Self {
        Self { name, pool: OnceLock::new() }
    }

    /// As many as rayon's pools have by default; none where the system gives none.
    fn pool(&self) -> Option<&ThreadPool> {
        let name = self.name;
        let make = || {
            let named = move |number| format!("{name}-{number}");
            let pool = ThreadPoolBuilder::new().thread_name(named).build();
            pool.inspect_err(|error| tracing::warn!(%error, "no threads of its own")).ok()
        };
        self.pool.get_or_init(make).as_ref()
    }

    /// Runs `work`, whose parallel parts go to these threads; on one of a pool they stay there.
    pub fn install<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match self.pool() {
            Some(pool) if rayon::current_thread_index().is_none() => pool.install(work),
            _ => work(),
        }
    }

    /// Runs `work` here, and what it spawns on these threads; returns when all has ended. A thread of a
    /// pool may not wait for what it spawns.
    pub fn scope<'s, R>(&self, work: impl FnOnce(&Scope<'s>) -> R) -> R {
        match self.pool() {
            Some(pool) if rayon::current_thread_index().is_none() => pool.in_place_scope(work),
            _ => rayon::in_place_scope(work),
        }
    }
}

/// Runs `work` on a thread of no pool: here, if this is one or the system gives none.
pub(crate) fn apart(work: impl Fn() + Sync) {
    let is_apart = rayon::current_thread_index().is_some()
        && std::thread::scope(|scope| {
            std::thread::Builder::new().spawn_scoped(scope, &work).is_ok()
        });
    if !is_apart {
        work();
    }
}

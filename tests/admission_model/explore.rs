//! Running the checker, and telling what it found.

use std::fmt::{Debug, Write as _};
use std::hash::Hash;
use std::num::NonZeroUsize;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model};

pub const NO_DEADLOCK: &str = "no deadlock";

/// A model that can tell people what a state is.
pub trait Told:
    Model<State: Clone + Debug + PartialEq + Hash + Send + Sync, Action: Clone + Debug + PartialEq>
    + Clone
    + Send
    + Sync
    + 'static
{
    fn name(&self) -> &'static str;
    fn tell(&self, state: &Self::State) -> String;
}

/// A broken property, a shortest way there and the state it ends in.
pub struct Counterexample {
    pub property: &'static str,
    steps: Vec<String>,
    end: String,
}

pub struct Report {
    pub states: usize,
    pub broken: Vec<Counterexample>,
}

impl Report {
    pub fn find(&self, property: &str) -> Option<&Counterexample> {
        self.broken.iter().find(|found| found.property == property)
    }

    pub fn text(&self) -> String {
        self.broken.iter().map(Counterexample::text).collect()
    }
}

impl Counterexample {
    pub fn text(&self) -> String {
        let mut text = format!("  broken: {}\n", self.property);
        for step in &self.steps {
            let _ = writeln!(text, "    {step}");
        }
        for line in self.end.lines() {
            let _ = writeln!(text, "    in the end: {line}");
        }
        text
    }
}

/// Explores all states, or, given a property, until it is broken.
pub fn explore<M: Told>(model: M, until: Option<&'static str>) -> Report {
    let start = Instant::now();
    let checker = search(&model, until, None);
    let mut broken = discovered(&model, &checker);
    let states = checker.unique_state_count();
    println!(
        "{}: {states} states, {} transitions, depth {}, {:.1} s",
        model.name(),
        checker.state_count(),
        checker.max_depth(),
        start.elapsed().as_secs_f64()
    );
    for found in &mut broken {
        // The checker keeps the last way that it saw: ask again for shorter ones.
        while let Some(shorter) = NonZeroUsize::new(found.steps.len() + 1)
            .map(|depth| discovered(&model, &search(&model, Some(found.property), Some(depth))))
            .and_then(|again| again.into_iter().find(|again| again.property == found.property))
        {
            *found = shorter;
        }
    }
    Report { states, broken }
}

fn search<M: Told>(
    model: &M,
    until: Option<&'static str>,
    depth: Option<NonZeroUsize>,
) -> impl Checker<M> + use<M> {
    let checker = model.clone().checker();
    let checker = match until {
        Some(property) => checker.finish_when(HasDiscoveries::AllOf([property].into())),
        None => checker,
    };
    let checker = match depth {
        Some(depth) => checker.target_max_depth(depth.get()),
        None => checker,
    };
    // No time limit: a search that was cut short would pass.
    checker.spawn_bfs().join()
}

fn discovered<M: Told>(model: &M, checker: &impl Checker<M>) -> Vec<Counterexample> {
    let found = checker.discoveries().into_iter();
    found
        .map(|(property, path)| Counterexample {
            property,
            end: model.tell(path.last_state()),
            steps: path.into_actions().iter().map(|action| format!("{action:?}")).collect(),
        })
        .collect()
}

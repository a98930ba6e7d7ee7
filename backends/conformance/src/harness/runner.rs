//! Runs the suite over backends, as named trials of libtest-mimic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use libtest_mimic::{Arguments, Completion, Conclusion, Failed, Trial as Named};
use twinlock_api::{Backend, Device, DeviceInfo, OpenOptions, Result, Stream};

use super::fixture::{Fixture, Trial, Verdict};
use super::settings::Settings;
use crate::trials;

/// Enqueues work on a stream that fails when it runs, so that the suite can see what follows. How
/// to do so is a backend's own affair.
pub type Poison = Arc<dyn Fn(&mut Fixture, Stream) -> Result<()> + Send + Sync>;

/// A backend to test.
pub struct Candidate {
    /// The backend.
    pub backend: Box<dyn Backend>,
    /// How to make work fail on its devices, if there is a way.
    pub poison: Option<Poison>,
    /// What its trials are called besides the device's name, where one device is tested in several
    /// ways.
    pub label: &'static str,
    /// Which trials it is tested with.
    pub chosen: fn(&str) -> bool,
    /// The widest windows of MSMs that a device is tried with.
    pub widest: fn(&DeviceInfo) -> u32,
}

impl Candidate {
    /// A backend without a way to make work fail.
    pub fn new(backend: Box<dyn Backend>) -> Self {
        Self { backend, poison: None, label: "", chosen: |_| true, widest: |_| 16 }
    }

    /// The same with a way to make work fail. There is no default: what fails when it runs, and is
    /// known to have failed before later work of the stream runs, differs from backend to backend.
    /// One that looks at a plan before it uses it takes [`super::accumulate_garbage`]; one whose
    /// kernels find out too late for that makes a launch fail, or injects a fault.
    #[must_use]
    pub fn with_poison(
        self,
        poison: impl Fn(&mut Fixture, Stream) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self { poison: Some(Arc::new(poison)), ..self }
    }

    /// The same under a name of its own.
    #[must_use]
    pub fn labelled(self, label: &'static str) -> Self {
        Self { label, ..self }
    }

    /// The same with those trials alone whose names `chosen` takes.
    #[must_use]
    pub fn with_trials(self, chosen: fn(&str) -> bool) -> Self {
        Self { chosen, ..self }
    }

    /// The same with windows of so many bits too, where `widest` says more than 16: their buckets take
    /// what only GPUs have, gigabytes and tens of millions of additions.
    #[must_use]
    pub fn with_windows_up_to(self, widest: fn(&DeviceInfo) -> u32) -> Self {
        Self { widest, ..self }
    }
}

/// A device under test. Its trials run one at a time, for they check its memory accounting; it is
/// opened at its first trial and again after one that failed.
struct Subject {
    backend: Arc<dyn Backend>,
    name: String,
    poison: Option<Poison>,
    device: Mutex<Option<Arc<dyn Device>>>,
}

impl Subject {
    fn run(&self, trial: &Trial, settings: &Settings) -> Verdict {
        let mut slot = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        let device = match slot.take() {
            Some(device) => device,
            None => self.backend.open(&self.name, &OpenOptions::default())?,
        };
        let verdict = run_trial(&device, self.poison.clone(), trial, settings);
        if verdict.is_ok() {
            *slot = Some(device);
        }
        verdict
    }
}

/// Runs one trial on an open device that nothing else uses.
fn run_trial(
    device: &Arc<dyn Device>,
    poison: Option<Poison>,
    trial: &Trial,
    settings: &Settings,
) -> Verdict {
    let rng = settings.rng(trial.name);
    let mut fixture = Fixture::new(device.clone(), poison, rng, settings)?;
    let outcome = catch_unwind(AssertUnwindSafe(|| (trial.run)(&mut fixture)));
    let verdict = outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(format!("panicked: {text}").into())
    });
    let verdict = verdict.and_then(|completion| fixture.finish().map(|()| completion));
    verdict.map_err(|failed| {
        let message = failed.message().unwrap_or("no message");
        Failed::from(format!("{message}\nTWINLOCK_SEED={} replays this", settings.seed))
    })
}

/// How one trial of [`check`] ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The trial's name.
    pub name: &'static str,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

/// Runs the trials whose names contain `filter` on an open device, without printing.
pub fn check(device: &Arc<dyn Device>, filter: &str, settings: &Settings) -> Vec<Report> {
    let chosen = trials::all().into_iter().filter(|trial| trial.name.contains(filter));
    let report = |trial: Trial| {
        let failure = run_trial(device, None, &trial, settings).err();
        let failure = failure.map(|failed| failed.message().unwrap_or("no message").to_string());
        Report { name: trial.name, failure }
    };
    chosen.map(report).collect()
}

/// Runs the suite on every device of `backends`, as the environment says.
pub fn run(backends: Vec<Box<dyn Backend>>, args: &Arguments) -> Conclusion {
    run_candidates(backends.into_iter().map(Candidate::new).collect(), args)
}

/// Backends that some test target of the workspace looks for.
const LOOKED_FOR: [&str; 6] = ["reference", "cpu", "dual", "sim", "wgsl", "cuda"];

/// Runs the suite on every device of `candidates`, as the environment says. A device that is
/// looked for in vain is reported as ignored, or as failed if `TWINLOCK_REQUIRE` names it. Names of
/// backends that another target looks for are left to that target.
pub fn run_candidates(candidates: Vec<Candidate>, args: &Arguments) -> Conclusion {
    match Settings::from_env() {
        Ok(settings) => {
            if !args.list {
                eprintln!("conformance: TWINLOCK_SEED={} replays this run", settings.seed);
            }
            libtest_mimic::run(args, named_trials(candidates, &Arc::new(settings)))
        }
        Err(message) => {
            let failed = Named::test("settings", move || Err(Failed::from(message)));
            libtest_mimic::run(args, vec![failed])
        }
    }
}

fn named_trials(candidates: Vec<Candidate>, settings: &Arc<Settings>) -> Vec<Named> {
    let mut named = Vec::new();
    let backend_of = |name: &str| name.split(':').next().unwrap_or_default().to_owned();
    let elsewhere = |name: &str| {
        let backend = backend_of(name);
        LOOKED_FOR.contains(&&*backend)
            && candidates.iter().all(|candidate| candidate.backend.name() != backend)
    };
    let mut missing = settings.require.clone();
    missing.retain(|name| !elsewhere(name));
    let mut lists = Vec::new();
    for Candidate { backend, poison, label, chosen, widest } in candidates {
        let backend: Arc<dyn Backend> = Arc::from(backend);
        let found = backend.discover();
        // A backend is there if one of its devices is; one that found none says why itself.
        let usable = found.iter().any(|device| device.usable.is_ok());
        let asked = |name: &str| settings.require.iter().any(|required| required == name);
        let required = asked(backend.name()) && !usable;
        if !found.is_empty() {
            missing.retain(|name| name != backend.name());
        }
        for device in found {
            missing.retain(|name| *name != device.name);
            match device.usable {
                Ok(info) => {
                    let max_window_bits = widest(&info).max(settings.max_window_bits);
                    let settings = Settings { max_window_bits, ..Settings::clone(settings) };
                    let subject = Arc::new(Subject {
                        backend: backend.clone(),
                        name: device.name,
                        poison: poison.clone(),
                        device: Mutex::default(),
                    });
                    lists.push(trials_on(&subject, label, chosen, &Arc::new(settings)).into_iter());
                }
                Err(reason) => {
                    let name = &device.name;
                    named.push(absent(name, label, reason, required || asked(name)));
                }
            }
        }
    }
    // In turn, so that several subjects are at work where several threads are.
    while !lists.is_empty() {
        named.extend(lists.iter_mut().filter_map(Iterator::next));
        lists.retain(|list| list.len() > 0);
    }
    named.extend(missing.into_iter().map(|name| {
        Named::test(format!("{name} available"), move || {
            Err(format!("TWINLOCK_REQUIRE names {name}, but no such device was looked for").into())
        })
    }));
    named
}

fn trials_on(
    subject: &Arc<Subject>,
    label: &str,
    chosen: fn(&str) -> bool,
    settings: &Arc<Settings>,
) -> Vec<Named> {
    let named = |trial: Trial| {
        let (subject, settings) = (subject.clone(), settings.clone());
        let name = trial_name(&subject.name, label, trial.name);
        Named::ignorable_test(name, move || subject.run(&trial, &settings))
    };
    trials::all().into_iter().filter(|trial| chosen(trial.name)).map(named).collect()
}

fn trial_name(device: &str, label: &str, trial: &str) -> String {
    let words = [device, label, trial];
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The one trial of a device that cannot be used.
fn absent(name: &str, label: &str, reason: String, required: bool) -> Named {
    Named::ignorable_test(trial_name(name, label, "available"), move || {
        if required {
            return Err(format!("TWINLOCK_REQUIRE names it, but: {reason}").into());
        }
        Ok(Completion::ignored_with(reason))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use twinlock_api::{Discovered, Error};

    /// A backend of one usable device, or of none.
    struct Fake {
        usable: bool,
    }

    impl Backend for Fake {
        fn name(&self) -> &'static str {
            "fake"
        }

        fn discover(&self) -> Vec<Discovered> {
            let mut found = crate::ReferenceBackend::default().discover();
            for (index, device) in found.iter_mut().enumerate() {
                device.name = format!("fake:{index}");
                if !self.usable {
                    device.usable = Err("no driver".into());
                }
            }
            found.push(Discovered { name: "fake:9".into(), usable: Err("too old".into()) });
            found
        }

        fn open(&self, _name: &str, _options: &OpenOptions) -> Result<Arc<dyn Device>> {
            Err(Error::Unsupported("a fake".into()))
        }
    }

    /// How many of the trials named `... available` are ignored and failed.
    fn absences(usable: bool, require: &[&str]) -> (u64, u64) {
        let require = require.iter().map(|name| name.to_string()).collect();
        let settings = Settings { require, ..Settings::default() };
        let candidates = vec![Candidate::new(Box::new(Fake { usable }))];
        let named = named_trials(candidates, &Arc::new(settings));
        let args = Arguments {
            filter: Some("available".into()),
            logfile: Some("/dev/null".into()),
            test_threads: Some(1),
            ..Arguments::default()
        };
        let conclusion = libtest_mimic::run(&args, named);
        assert_eq!(conclusion.num_passed, 0);
        (conclusion.num_ignored, conclusion.num_failed)
    }

    #[test]
    fn absent_devices_are_ignored_unless_required() {
        assert_eq!(absences(false, &[]), (2, 0));
        assert_eq!(absences(false, &["fake"]), (0, 2));
        assert_eq!(absences(false, &["fake:0"]), (1, 1));
        assert_eq!(absences(true, &["fake"]), (1, 0));
        assert_eq!(absences(true, &["fake", "fake:9"]), (0, 1));
        assert_eq!(absences(true, &["fake", "unheard-of"]), (1, 1));
        assert_eq!(absences(true, &["fake:7"]), (1, 1));
        // Another target looks for these.
        assert_eq!(absences(true, &["cpu", "sim:0"]), (1, 0));
    }
}

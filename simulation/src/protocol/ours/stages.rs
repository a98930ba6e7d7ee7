//! Staging ahead, and the stages under `compute`.

use twinlock::scheduler::admission::{ResidentKey, Ticket};
use twinlock::scheduler::core::{DeviceId, Event};
use twinlock::scheduler::events::Life;
use twinlock_api::View;
use twinlock_sim::{Fault, SimCard};

use super::{Ours, Phase, Sabotage};
use crate::check::Broken;
use crate::execution::{Execution, Progress};

impl Ours {
    pub(super) fn begin_staging(&mut self, ticket: Ticket) -> Result<(), Broken> {
        let Some(part) = self.parts.get_mut(&ticket) else { return Ok(()) };
        let site = part.device.and_then(|at| self.sites.get_mut(at));
        let Some(opened) = site.and_then(|site| site.card.opened.as_mut()) else {
            return self.failed(ticket, &crate::card::not_open());
        };
        match opened.lend_streams() {
            Ok(streams) => part.execution = Some(Execution::new(ticket, streams)),
            Err(error) => return self.failed(ticket, &error),
        }
        part.phase = Phase::Prepare;
        self.prepare(ticket)
    }

    /// Goes on with staged work; `None` when that failed and the attempt ends.
    fn progress(&mut self, ticket: Ticket) -> Result<Option<Progress>, Broken> {
        let Some(part) = self.parts.get_mut(&ticket) else { return Ok(None) };
        let Some(site) = part.device.and_then(|at| self.sites.get_mut(at)) else { return Ok(None) };
        let Some(opened) = &mut site.card.opened else {
            return self.failed(ticket, &crate::card::not_open()).map(|()| None);
        };
        let Some(execution) = &mut part.execution else { return Ok(None) };
        let has_flips = site.spec.config.faults.faults.iter().any(is_flip);
        let flips = |sim: &SimCard| {
            if !has_flips {
                return 0;
            }
            sim.faults_fired().iter().filter(|(_, fault)| is_flip(fault)).count()
        };
        let before = flips(&site.card.sim);
        let progress = execution.go_on(opened, part.desk.granted);
        part.spoilt |= flips(&site.card.sim) > before;
        match progress {
            Ok(progress) => Ok(Some(progress)),
            Err(error) => self.failed(ticket, &error).map(|()| None),
        }
    }

    /// Stages what has a place, asks for more while another computes, then for `compute`.
    pub(super) fn prepare(&mut self, ticket: Ticket) -> Result<(), Broken> {
        loop {
            match self.progress(ticket)? {
                None => return Ok(()),
                Some(Progress::Until(time)) => {
                    self.wake_at(ticket, time);
                    return Ok(());
                }
                Some(Progress::Done) => {}
            }
            self.staged_so_far(ticket)?;
            let Some(program) = self.program(ticket) else { return Ok(()) };
            let Some(part) = self.parts.get_mut(&ticket) else { return Ok(()) };
            let Some(first) = program.stages.first() else { return Ok(()) };
            let ready: Vec<usize> = (first.uploads.iter().copied())
                .filter(|at| part.placements.contains_key(at) && !part.staged.contains(at))
                .collect();
            if !ready.is_empty() {
                part.staged.extend(&ready);
                part.used.extend(&ready);
                part.is_staging = true;
                let views: Vec<View> =
                    ready.iter().filter_map(|at| self.view(ticket, *at)).collect();
                self.life(ticket, Life::StageStarted("prestage"));
                if let Some(execution) =
                    self.parts.get_mut(&ticket).and_then(|part| part.execution.as_mut())
                {
                    execution.add_uploads(views);
                }
                continue;
            }
            if part.desk.reserved && self.load_resident(ticket)? {
                continue;
            }
            let Some(part) = self.parts.get_mut(&ticket) else { return Ok(()) };
            if part.desk.granted {
                if self.lacks_residents(ticket) {
                    // Another loads them, and wakes this one when it has.
                    return Ok(());
                }
                self.life(ticket, Life::ComputeStarted);
                return self.stage_ended(ticket, 0);
            }
            if part.asked_compute {
                return Ok(());
            }
            let device = DeviceId(part.device.unwrap_or_default());
            let staged = first.uploads.iter().all(|at| part.staged.contains(at));
            let released = std::mem::take(&mut part.desk.released);
            if self.scene.sabotage == Sabotage::ComputeUnasked {
                return self.begin_stage(ticket, 1);
            }
            let fresh = !std::mem::replace(&mut part.asked_prestage, true);
            let (to_compute, there) = self.before(device, ticket);
            if staged || (!fresh && to_compute == 0) {
                if let Some(part) = self.parts.get_mut(&ticket) {
                    part.asked_compute = true;
                }
                self.post(Event::WantCompute { ticket })?;
            } else if (fresh || released) && there <= 1 {
                self.post(Event::WantPrestage { ticket })?;
            } else {
                return Ok(());
            }
        }
    }

    /// How many older partitions on the card compute or are still to, and how many there are at
    /// all.
    ///
    /// Who asks for `compute` without having all staged gets the rest of its memory at once or not
    /// at all, and holds up the younger; so a partition asks for the prestage, and again as memory
    /// goes back, until it is next. And only one is staged beside the one that computes: more
    /// shorten nothing, for the link is one, and take room that the next could use. One that
    /// drains still holds its window sums; what is placed around them leaves holes.
    fn before(&self, device: DeviceId, ticket: Ticket) -> (usize, usize) {
        let Some(admission) = self.core.admission_of(device) else { return (0, 0) };
        let older = || admission.tickets().take_while(|other| *other != ticket);
        let phases = older().filter_map(|other| self.parts.get(&other).map(|part| part.phase));
        let compute = phases.filter(|phase| !matches!(phase, Phase::Drain(_) | Phase::Check(_)));
        (compute.count(), older().count())
    }

    /// Notes the end of uploads and of a resident's loading.
    fn staged_so_far(&mut self, ticket: Ticket) -> Result<(), Broken> {
        let Some(part) = self.parts.get_mut(&ticket) else { return Ok(()) };
        let device = part.device.unwrap_or_default();
        let loaded = part.loads.take();
        if std::mem::take(&mut part.is_staging) {
            self.life(ticket, Life::StageEnded("prestage"));
        }
        if let Some(key) = loaded {
            if let Some(site) = self.sites.get_mut(device) {
                site.loading.remove(&key);
                site.loaded.insert(key);
            }
            self.post(Event::ResidentLoaded { ticket, key })?;
            self.memory_went_back(device);
        }
        Ok(())
    }

    fn missing_residents(&self, ticket: Ticket) -> Vec<ResidentKey> {
        let Some(part) = self.parts.get(&ticket) else { return Vec::new() };
        let site = part.device.and_then(|at| self.sites.get(at));
        let Some(site) = site else { return Vec::new() };
        part.residents.keys().copied().filter(|key| !site.loaded.contains(key)).collect()
    }

    fn lacks_residents(&self, ticket: Ticket) -> bool {
        !self.missing_residents(ticket).is_empty()
    }

    /// Starts to load a resident that nobody else loads; whether there was one.
    fn load_resident(&mut self, ticket: Ticket) -> Result<bool, Broken> {
        for key in self.missing_residents(ticket) {
            let view = self.resident_view(ticket, key);
            let Some(part) = self.parts.get_mut(&ticket) else { return Ok(false) };
            let Some(site) = part.device.and_then(|at| self.sites.get_mut(at)) else {
                return Ok(false);
            };
            if let (None, Some(execution)) = (site.loading.get(&key), &mut part.execution) {
                site.loading.insert(key, ticket);
                part.loads = Some(key);
                execution.add_uploads(view);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn begin_stage(&mut self, ticket: Ticket, stage: usize) -> Result<(), Broken> {
        let Some(program) = self.program(ticket) else { return Ok(()) };
        let Some(work) = program.stages.get(stage) else { return Ok(()) };
        let Some(device) = self.parts.get(&ticket).and_then(|part| part.device) else {
            return Ok(());
        };
        let is_drain = stage + 1 >= program.stages.len();
        if !is_drain {
            self.watch.computes(device, ticket)?;
        }
        let mut uses = program.touched(stage);
        if self.scene.sabotage == Sabotage::LeaveUnused {
            uses.pop();
        }
        let mut views: Vec<View> = uses.iter().filter_map(|at| self.view(ticket, *at)).collect();
        if views.len() != uses.len() {
            let what = format!("a buffer of stage {} has no place", work.name);
            return Err(Broken::NotAsPromised { ticket, what });
        }
        if self.scene.sabotage == Sabotage::ReachTooFar
            && let Some(view) = views.first_mut()
            && let Ok(wider) = view.region().whole(view.name())
        {
            *view = wider;
        }
        // Kernels read residents; here they use them as they use the rest.
        let keys: Vec<ResidentKey> = program.residents().map(|(key, _)| key).collect();
        views.extend(keys.iter().filter_map(|key| self.resident_view(ticket, *key)));
        let places: Vec<Option<View>> =
            (0..program.profile.buffers().len()).map(|at| self.view(ticket, at)).collect();
        let Some(part) = self.parts.get_mut(&ticket) else { return Ok(()) };
        part.used.extend(uses.iter().chain(&work.uploads).chain(&work.into));
        part.phase = if is_drain { Phase::Drain(stage) } else { Phase::Stage(stage) };
        let touches = if is_drain { &[][..] } else { &views };
        if let Some(execution) = &mut part.execution {
            let place = |at: usize| places.get(at).copied().flatten();
            let next = program.stages.get(stage + 1);
            let added = execution.add_stage(work, next, touches, place);
            added.map_err(|error| Broken::Nonsense(format!("{ticket}: {error}")))?;
        }
        self.life(ticket, Life::StageStarted(work.name));
        self.wake_now(ticket);
        Ok(())
    }

    pub(super) fn run_stage(&mut self, ticket: Ticket, stage: usize) -> Result<(), Broken> {
        let early = self.scene.sabotage == Sabotage::ReleaseEarly;
        match self.progress(ticket)? {
            None => Ok(()),
            Some(Progress::Until(time)) if !early => {
                self.wake_at(ticket, time);
                Ok(())
            }
            Some(_) => {
                let Some(program) = self.program(ticket) else { return Ok(()) };
                let name = program.stages.get(stage).map_or("", |work| work.name);
                self.life(ticket, Life::StageEnded(name));
                if self.parts.get(&ticket).is_some_and(|part| part.desk.stop) {
                    return self.wind_up(ticket, Event::Stopped { ticket });
                }
                self.stage_ended(ticket, stage)
            }
        }
    }

    /// Says that a stage ended, and goes to the next.
    fn stage_ended(&mut self, ticket: Ticket, stage: usize) -> Result<(), Broken> {
        let Some(program) = self.program(ticket) else { return Ok(()) };
        let ended = u8::try_from(stage).unwrap_or(u8::MAX);
        self.post(Event::StageEnded { ticket, stage: ended })?;
        if let Some(part) = self.parts.get_mut(&ticket) {
            let needs = program.profile.buffers();
            let lives = |at: &usize| needs.get(*at).is_some_and(|need| need.last > ended);
            part.placements.retain(|at, _| lives(at));
        }
        let next = stage + 1;
        if next + 1 == program.stages.len() {
            let device = self.parts.get(&ticket).and_then(|part| part.device).unwrap_or_default();
            self.life(ticket, Life::ComputeEnded);
            self.watch.handed_back(device, ticket);
            self.post(Event::ComputeEnded { ticket })?;
            self.memory_went_back(device);
        }
        self.begin_stage(ticket, next)
    }

    pub(super) fn drain(&mut self, ticket: Ticket, stage: usize) -> Result<(), Broken> {
        match self.progress(ticket)? {
            None => return Ok(()),
            Some(Progress::Until(time)) => {
                self.wake_at(ticket, time);
                return Ok(());
            }
            Some(Progress::Done) => {}
        }
        self.life(ticket, Life::StageEnded("drain"));
        let ended = u8::try_from(stage).unwrap_or(u8::MAX);
        self.post(Event::StageEnded { ticket, stage: ended })?;
        let Some(program) = self.program(ticket) else { return Ok(()) };
        let Some(part) = self.parts.get_mut(&ticket) else { return Ok(()) };
        part.placements.clear();
        if part.used.len() != program.profile.buffers().len() {
            let unused = (0..program.profile.buffers().len()).find(|at| !part.used.contains(at));
            let what = format!("buffer {unused:?} was promised and never used");
            return Err(Broken::NotAsPromised { ticket, what });
        }
        self.post(Event::Drained { ticket })?;
        if self.parts.get(&ticket).is_some_and(|part| part.desk.stop) {
            return self.wind_up(ticket, Event::Stopped { ticket });
        }
        self.check(ticket)
    }
}

fn is_flip(fault: &Fault) -> bool {
    matches!(fault, Fault::BitFlip { .. })
}

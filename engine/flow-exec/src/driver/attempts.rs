//! Attempts as processes: filling and starting, the barrier, the end, and what a program says in between. Decides nothing.

use std::{fs, io, path::PathBuf, time::Duration};

use flow_core::{
    AttemptId, Body, CorunWindow, Digest, GroupId, InstanceId, Outcome, Render, RunEvent, Span, StepResult,
    sched::{Action, Event, Placement},
};
use flow_protocol::Exit;

use super::{
    Update, builtin,
    finish::{self, End, Seen},
    live::{Attempt, Hands, Live, Window},
    run::plugin_of,
    settle::word,
    start,
    told::{Listener, News},
};
use crate::{
    ExecError,
    attempt::Folder,
    clock,
    keeper::{self, Request},
};

impl Live<'_> {
    /// Fills the folders of all first and starts then, so that members of a group begin together.
    pub(super) fn start_all(&mut self, starts: Vec<Action>) -> Result<(), ExecError> {
        let mut ready = Vec::new();
        for action in starts {
            let Action::Start { attempt, instance, placement } = action else { continue };
            match self.prepare(attempt, instance, placement) {
                Ok(launch) => ready.push((attempt, launch)),
                Err(reason) => {
                    self.not_started(instance, attempt, reason);
                }
            }
        }
        for (attempt, launch) in ready {
            let Some(running) = self.attempts.get(&attempt) else { continue };
            if !running.process {
                self.run_builtin(attempt);
                continue;
            }
            let (argv, env) = (launch.argv, launch.env);
            let request = Request::Start(keeper::Start {
                attempt,
                argv,
                env,
                cwd: running.folder.work(),
                folder: running.folder.path().to_owned(),
                secrets: if running.piped { self.secrets.values().to_vec() } else { Vec::new() },
            });
            let cards: Vec<usize> = running.placement.gpus.iter().map(|gpu| gpu.index()).collect();
            self.hands()?;
            let (Some(hands), Some(running)) = (&mut self.hands, self.attempts.get_mut(&attempt)) else { continue };
            running.listener.follow_log(&running.folder, &hands.growths);
            let keeper = hands.keeper.pid();
            hands.keeper.send(&request);
            // Looked at before it can have taken anything: it is started when its request is read.
            self.cards.track(attempt, keeper, &cards);
        }
        Ok(())
    }

    pub(super) fn prepare(
        &mut self,
        attempt: AttemptId,
        id: InstanceId,
        placement: Placement,
    ) -> Result<start::Launch, String> {
        let session = self.session;
        let instance = &session.expansion.instances[id.index()];
        let resolved = session.expansion.resolve(id, &self.known, Render::Paths).map_err(|error| error.message)?;
        let folder = Folder::create(self.run_dir.attempt(attempt)).map_err(|e| format!("its folder: {e}"))?;
        let members =
            instance.corun.as_ref().map(|c| session.expansion.groups[c.group.0 as usize].members.len() as u32);
        let mut launch = start::fill(&start::Start {
            session,
            instance,
            resolved: &resolved,
            placement: &placement,
            folder: &folder,
            objects: &self.objects,
            checkpoint: &format!("../../../checkpoints/{}", id.0),
            members,
            exe: &self.exe,
            environment: &self.environment,
        })?;
        // After the copies are made: what is as it was when it was hashed is what was copied.
        for input in instance.inputs.iter() {
            if let Some(changed) = self.inputs.changed(&session.path(&input.path), input.by_listing) {
                return Err(format!("`{}` changed while the run was going on; run again", changed.display()));
            }
        }
        let began = clock::unix_seconds();
        let process = !matches!(resolved.body, Body::Builtin { .. });
        let plugin = matches!(resolved.body, Body::Plugin { .. });
        let metrics = session.expansion.steps[instance.step.index()].metrics.as_ref();
        let piped = process && self.tellers.contains(&id) && !self.secrets.values().is_empty();
        let mut listener = Listener::new(&folder, plugin, metrics, began);
        listener.hide(&self.secrets);
        if piped {
            listener.hear_through_pipe(&folder).map_err(|e| format!("its folder: {e}"))?;
        }
        let circumstances = finish::circumstances(&session.expansion.machine, instance, &placement);
        let reason = self.decided.get(&id).map(|d| d.reason.clone()).unwrap_or_default();
        self.say(RunEvent::Started {
            instance: id,
            attempt,
            folder: format!("runs/{}/attempts/{}", self.run, attempt.0),
            reason,
            gpus: circumstances.gpus.clone(),
            cpus: placement.cpus,
        });
        if let Some(text) = launch.barrier.take() {
            self.say(RunEvent::Notice { instance: Some(id), text });
        }
        let running = Attempt {
            instance: id,
            listener,
            folder,
            resolved,
            placement,
            process,
            piped,
            announces: launch.announces,
            linked: std::mem::take(&mut launch.linked),
            circumstances,
            began,
            killed: None,
            fraction: None,
            text: String::new(),
        };
        if process {
            self.company.join(attempt, id, &running.placement.gpus, running.began);
        }
        if let Some(corun) = &instance.corun {
            self.windows.insert(corun.group, Window::default());
        }
        if running.placement.trial {
            let (_, others) = self.labels(self.company.of(attempt));
            self.say(RunEvent::Notice { instance: Some(id), text: self.trial(&running, &others) });
        }
        self.attempts.insert(attempt, running);
        Ok(launch)
    }

    pub(super) fn run_builtin(&mut self, attempt: AttemptId) {
        let Some(running) = self.attempts.get(&attempt) else { return };
        let id = running.instance;
        let Body::Builtin { name, .. } = &running.resolved.body else { return };
        let expansion = &self.session.expansion;
        let place = expansion.instances[id.index()].outputs.first().map_or("out", |output| &output.path);
        let done = builtin::input(expansion, id, &self.known, &self.objects)
            .and_then(|input| builtin::run(self.builtins, name, &input, &running.folder.work().join(place)));
        let exit = Exit {
            code: Some(i32::from(done.is_err())),
            signal: None,
            started_at: running.began,
            ended_at: clock::unix_seconds(),
            cpu_s: 0.0,
            max_rss: 0,
            oom_killed: false,
            swept: 0,
            spawn_error: done.as_ref().err().cloned(),
        };
        self.queue.push_back(Event::Started { attempt });
        if self.session.expansion.instances[id.index()].corun.is_some() {
            self.queue.push_back(Event::Ready { attempt });
        }
        self.exited(attempt, &exit);
        if let (Ok(output), Some(result)) = (done, self.ended.get_mut(&attempt)) {
            result.metrics.extend(output.metrics);
            result.message = result.message.take().or(output.message);
        }
    }

    pub(super) fn on_keeper(&mut self, event: keeper::Event) -> Result<(), ExecError> {
        match event {
            keeper::Event::Started { attempt, pid } => {
                self.hands()?.sampler.track(attempt, pid);
                self.queue.push_back(Event::Started { attempt });
                if let Some(running) = self.attempts.get(&attempt) {
                    let grouped = self.session.expansion.instances[running.instance.index()].corun.is_some();
                    if grouped && !running.announces {
                        self.ready(attempt);
                    }
                }
            }
            keeper::Event::SpawnFailed { attempt, reason } => {
                if let Some(running) = self.attempts.remove(&attempt) {
                    self.company.leave(attempt, clock::unix_seconds(), None);
                    self.not_started(running.instance, attempt, reason);
                }
            }
            keeper::Event::Exited { attempt, exit } => {
                self.hear(attempt, |listener| listener.listen_to_the_end(exit.ended_at));
                self.exited(attempt, &exit);
            }
        }
        Ok(())
    }

    fn not_started(&mut self, instance: InstanceId, attempt: AttemptId, reason: String) {
        self.say_ended(instance, attempt, Outcome::Failed, Some(reason.clone()));
        self.unstarted.insert(attempt, reason.clone());
        self.queue.push_back(Event::SpawnFailed { attempt, reason });
    }

    pub(super) fn ready(&mut self, attempt: AttemptId) {
        self.say(RunEvent::Ready { attempt });
        self.queue.push_back(Event::Ready { attempt });
    }

    pub(super) fn release(&mut self, attempts: Vec<AttemptId>) {
        let at = clock::unix_seconds();
        let mut gpus = flow_core::CorunGpus::Own;
        for &attempt in &attempts {
            self.order(attempt, |folder| folder.go(at));
            let Some(running) = self.attempts.get_mut(&attempt) else { continue };
            running.listener.released(at);
            if let Some(corun) = &self.session.expansion.instances[running.instance.index()].corun {
                gpus = corun.gpus;
                self.windows.entry(corun.group).or_default().released = Some(at);
            }
        }
        self.say(RunEvent::Released { attempts, gpus });
    }

    pub(super) fn stop(&mut self, attempts: &[AttemptId]) {
        for &attempt in attempts {
            self.order(attempt, Folder::stop);
            let Some(running) = self.attempts.get(&attempt) else { continue };
            let group = self.session.expansion.instances[running.instance.index()].corun.as_ref().map(|c| c.group);
            self.close(group, clock::unix_seconds());
        }
    }

    /// Writes a file that a program waits for: without it, it would wait for ever.
    fn order(&mut self, attempt: AttemptId, write: impl FnOnce(&Folder) -> io::Result<()>) {
        let Some(running) = self.attempts.get_mut(&attempt) else { return };
        if let Err(e) = write(&running.folder) {
            let why = format!("it cannot be told to go on or to end in {}: {e}", running.folder.path().display());
            running.listener.refused = Some(why);
            self.kill(attempt, Span(0), Outcome::Failed);
        }
    }

    /// The window of a group ends, unless it has ended before. Says whether it ends by this.
    fn close(&mut self, group: Option<GroupId>, at: f64) -> bool {
        if let Some(window) = group.and_then(|group| self.windows.get_mut(&group))
            && window.released.is_some()
            && window.closed.is_none()
        {
            window.closed = Some(at);
            return true;
        }
        false
    }

    pub(super) fn kill(&mut self, attempt: AttemptId, grace: Span, outcome: Outcome) {
        if let Some(running) = self.attempts.get_mut(&attempt) {
            running.killed.get_or_insert(outcome);
        }
        if let Some(Hands { keeper, .. }) = &mut self.hands {
            keeper.send(&Request::Kill { attempt, grace: Duration::from_micros(grace.0) });
        }
    }

    /// Its process tree is gone: what is left is to collect.
    pub(super) fn exited(&mut self, attempt: AttemptId, exit: &Exit) {
        let Some(mut running) = self.attempts.remove(&attempt) else { return };
        let expansion = &self.session.expansion;
        let instance = &expansion.instances[running.instance.index()];
        let step = &expansion.steps[instance.step.index()];
        let group = instance.corun.as_ref().map(|corun| corun.group);
        let closes = self.close(group, exit.ended_at);
        let window = instance.corun.as_ref().and_then(|corun| {
            let window = self.windows.get(&corun.group)?;
            Some(CorunWindow {
                group: corun.name.to_string(),
                gpus: corun.gpus,
                members: expansion.groups[corun.group.0 as usize].members.len() as u32,
                released_at: window.released? - exit.started_at,
                closed_at: window.closed? - exit.started_at,
                epochs: 0,
                closed_by: window.closed_by.clone(),
            })
        });
        let mut company = self.company.leave(attempt, exit.ended_at, running.listener.told.at_work(true));
        for (other, companion) in &mut company {
            companion.at_work =
                self.attempts.get(other).map_or(companion.at_work, |runs| runs.listener.told.at_work(false));
        }
        (running.circumstances.corunners, running.circumstances.neighbours) = self.labels(company.values());
        let fingerprint = self.decided.get(&running.instance).map_or(Digest([0; 32]), |decided| decided.fingerprint);
        let (samples, cost) = self.hands.as_ref().map(|hands| hands.sampler.untrack(attempt)).unwrap_or_default();
        let (gpus, gpu_cost) = self.cards.untrack(attempt);
        let seen = Seen { samples, gpus, cost: cost + gpu_cost };
        let mut result = finish::finish(
            End {
                workflow: &expansion.workflow,
                machine: &expansion.machine,
                step: &step.name,
                run: self.run,
                instance,
                resolved: &running.resolved,
                fingerprint,
                folder: &running.folder,
                beside: &self.session.workspace.folder,
                objects: &self.objects,
                exit,
                killed: running.killed,
                listener: &mut running.listener,
                circumstances: std::mem::take(&mut running.circumstances),
                window,
            },
            &seen,
        );
        if running.process
            && let Err(e) = running.folder.write_usage(&result.usage)
        {
            let text = format!("what it used cannot be written to {}: {e}", running.folder.path().display());
            self.say(RunEvent::Notice { instance: Some(running.instance), text });
        }
        if result.outcome == Outcome::Failed && !running.placement.gpus.is_empty() {
            let cards: Vec<usize> = running.placement.gpus.iter().map(|gpu| gpu.index()).collect();
            if let Some(lost) = self.cards.lost(&cards) {
                // The scheduler is to know it before it hears of the end.
                self.tell_gpus();
                let how = result.message.map(|message| format!(" ({message})")).unwrap_or_default();
                result.message = Some(format!("{lost} while it ran{how}"));
            }
        }
        self.forget_set_up(running.instance, exit, &mut result);
        if let Some(killed) = running.killed.filter(|_| result.outcome == Outcome::Ok) {
            // It was done in the moment in which it was to be ended: what it was ended for stands, as the scheduler has it.
            result.outcome = killed;
            result.outputs.clear();
        }
        // What was copied into its folder could not change under it; what is read in place could.
        for input in instance.inputs.iter() {
            let path = self.session.path(&input.path);
            let in_place = |_: &PathBuf| input.in_place || path.is_dir();
            if let Some(changed) = self.inputs.changed(&path, input.by_listing).filter(in_place) {
                let near = changed.strip_prefix(&self.session.workspace.folder).unwrap_or(&changed);
                result.spoiled.push(format!("`{}` changed while it ran", near.display()));
            }
        }
        for (place, artifact) in &running.linked {
            match self.objects.verify_untouched(artifact) {
                Ok(None) => {}
                Ok(Some(damage)) => result.spoiled.push(format!("`{place}` is only to be read, and {damage}")),
                Err(error) => result.spoiled.push(format!("whether `{place}` is as it was cannot be told: {error}")),
            }
        }
        if closes && result.outcome != Outcome::Ok {
            // The others, which end later, are told by what.
            let by = Some(format!("{}: {}", instance.label, word(result.outcome).replace('_', " ")));
            if let Some(window) = group.and_then(|group| self.windows.get_mut(&group)) {
                window.closed_by.clone_from(&by);
            }
            if let Some(window) = &mut result.circumstances.corun {
                window.closed_by = by;
            }
        }
        result.message = result.message.map(|message| self.secrets.hide(message));
        result.spoiled.iter_mut().for_each(|why| *why = self.secrets.hide(std::mem::take(why)));
        if result.outcome == Outcome::Ok {
            for text in running.listener.told.remarks() {
                self.say(RunEvent::Notice { instance: Some(running.instance), text });
            }
            if exit.swept > 0 {
                let left = if exit.swept == 1 { "process was" } else { "processes were" };
                let text = format!(
                    "{} {left} still running when it ended, and ended with it; if they were to write more, let it wait for \
                     them, with `wait` at the end of a command",
                    exit.swept
                );
                self.say(RunEvent::Notice { instance: Some(running.instance), text });
            }
        }
        let (gpus, told) = (&running.placement.gpus, &running.listener.told);
        result.circumstances.sharing = self.history.sharing(running.instance, gpus, told, &company, &result);
        let (outcome, spoiled) = (result.outcome, !result.spoiled.is_empty());
        self.say_ended(running.instance, attempt, outcome, result.message.clone());
        for text in &result.spoiled {
            self.say(RunEvent::Notice { instance: Some(running.instance), text: text.clone() });
        }
        if outcome == Outcome::Ok {
            // Its outputs are in the store; a failed one keeps its work folder for whoever looks for the reason.
            self.leftovers.add(running.folder.work());
        }
        self.ended.insert(attempt, result);
        self.queue.push_back(Event::Exited { attempt, outcome, spoiled });
    }

    /// A plugin's program that could not even be loaded lacks something that its set-up had made ready: the next run makes it
    /// anew.
    fn forget_set_up(&self, instance: InstanceId, exit: &Exit, result: &mut StepResult) {
        if exit.code != Some(127) || result.outcome != Outcome::Failed || !result.circumstances.facts.is_empty() {
            return;
        }
        let name = plugin_of(self.session, instance);
        let plugin = self.session.plugins.iter().find(|plugin| Some(plugin.name()) == name);
        let Some(plugin) = plugin.filter(|plugin| !plugin.manifest.setup.is_empty()) else { return };
        let record = self.store.dir().plugin(plugin.name());
        if fs::remove_file(&record).is_ok() || !record.exists() {
            let how = result.message.take().unwrap_or_default();
            result.message = Some(format!("{how}; the next run sets {} up again", plugin.name()));
        }
    }

    pub(super) fn say_ended(
        &mut self,
        instance: InstanceId,
        attempt: AttemptId,
        outcome: Outcome,
        message: Option<String>,
    ) {
        self.say(RunEvent::Ended { instance, attempt, outcome, message });
    }

    pub(super) fn listen(&mut self) {
        let ids: Vec<AttemptId> = self.attempts.iter().filter(|(_, a)| a.process).map(|(id, _)| *id).collect();
        for attempt in ids {
            self.hear(attempt, |listener| listener.listen(clock::unix_seconds()));
        }
    }

    fn hear(&mut self, attempt: AttemptId, listen: impl FnOnce(&mut Listener) -> News) {
        let Some(running) = self.attempts.get_mut(&attempt) else { return };
        let News { ready, sufficed, progress, epochs, refused, notices } = listen(&mut running.listener);
        let instance = running.instance;
        let grouped = self.session.expansion.instances[running.instance.index()].corun.is_some();
        if let Some((fraction, text)) = progress {
            (running.fraction, running.text) = (fraction.or(running.fraction), text.clone());
            (self.observe)(Update::Progress { attempt, fraction, text });
        }
        let units: Vec<_> = epochs.iter().map(|(_, metrics)| running.listener.told.units(metrics.keys())).collect();
        for ((epoch, metrics), units) in epochs.into_iter().zip(units) {
            self.say(RunEvent::Epoch { attempt, epoch, metrics, units });
        }
        for text in notices {
            self.say(RunEvent::Notice { instance: Some(instance), text });
        }
        if ready && grouped {
            self.ready(attempt);
        }
        if sufficed && grouped {
            self.queue.push_back(Event::Sufficed { attempt });
        }
        if refused.is_some() {
            self.kill(attempt, Span(0), Outcome::Failed);
        }
    }
}

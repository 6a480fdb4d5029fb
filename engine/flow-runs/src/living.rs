//! The users of a store and its living runs, known by files that their processes lock, because a lock ends with its
//! process. The files' content is for display. Knows no database.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    ops::ControlFlow,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use nix::fcntl::{Flock, FlockArg};

use flow_core::{RunId, reason::StoreAction};
use rustix::fs::{FlockOperation, flock};

use crate::{
    Holder, Liveness, Result, RunDir, StoreDir, StoreError,
    file::{self, is_at},
    lock::{self, LockWait, TRIES, holder_in, read_holder, take_soon, write_holder},
    process::ProcessWatch,
    tree::remove_tree,
};

/// A run created this recently may not have its lock yet, and another one may appear without a visible change.
const COMING: Duration = Duration::from_millis(100);

/// A shared or exclusive use of a store.
pub struct Users {
    lock: Flock<File>,
    pub is_alone: bool,
}

impl Users {
    /// Lets other processes use the store too.
    pub fn share(&mut self, dir: &StoreDir) -> Result<()> {
        if self.is_alone {
            let _ = self.lock.set_len(0);
            self.lock
                .relock(FlockArg::LockShared)
                .map_err(|e| StoreError::io(StoreAction::Lock, dir.users_file())(e.into()))?;
            self.is_alone = false;
        }
        Ok(())
    }
}

impl Drop for Users {
    fn drop(&mut self) {
        if self.is_alone {
            let _ = self.lock.set_len(0);
        }
    }
}

impl StoreDir {
    /// Uses the store with others; exclusively if no other process uses it now. Waits for an exclusive user.
    pub fn join(&self, me: &Holder, mut waiting: impl FnMut(&Holder) -> ControlFlow<()>) -> Result<Users> {
        let mut patience = LockWait::default();
        loop {
            for alone in [true, false] {
                if let Some(users) = self.try_use(me, alone)? {
                    return Ok(users);
                }
            }
            patience.wait(self, &holder_in(&self.users_file())?, &mut waiting)?;
        }
    }

    /// Uses the store exclusively. Waits for its users, the runs first.
    pub fn alone(&self, me: &Holder, mut waiting: impl FnMut(&Holder) -> ControlFlow<()>) -> Result<Users> {
        let mut patience = LockWait::default();
        loop {
            if let Some(users) = self.try_use(me, true)? {
                return Ok(users);
            }
            let who = match (self.living()?.into_iter().next(), self.holder()?) {
                (Some(run), _) => run,
                (None, Some(holder)) => holder,
                (None, None) => holder_in(&self.users_file())?,
            };
            patience.wait(self, &who, &mut waiting)?;
        }
    }

    fn try_use(&self, me: &Holder, alone: bool) -> Result<Option<Users>> {
        let path = self.users_file();
        let how = if alone { FlockArg::LockExclusiveNonblock } else { FlockArg::LockSharedNonblock };
        let Some(mut lock) = lock::flock(&path, how)? else { return Ok(None) };
        if alone {
            write_holder(&mut lock, me).map_err(StoreError::io(StoreAction::Write, &path))?;
        }
        Ok(Some(Users { lock, is_alone: alone }))
    }

    /// The living runs, oldest first. A killed run does not count, whatever its folder says.
    ///
    /// # Errors
    /// The folder of the runs cannot be read.
    pub fn living(&self) -> Result<Vec<Holder>> {
        let runs = self.runs()?.into_iter();
        let lives = runs.filter_map(|run| {
            let holder = self.run(&run).lives()?;
            Some(Holder { run: Some(run), ..holder })
        });
        Ok(lives.collect())
    }

    /// Removes the remains of killed runs: their copies of inputs, and their folders if they had not begun.
    pub fn sweep_runs(&self) -> Result<()> {
        let runs = self.runs()?;
        for run in &runs {
            self.run(run).sweep();
        }
        // A run that was killed before it came alive has no such file.
        for run in runs.iter().rev().map(|run| self.run(run)).filter(|run| !run.alive_file().exists()) {
            if !run.clear() {
                run.sweep_inputs();
                break;
            }
        }
        Ok(())
    }
}

impl RunDir {
    pub(crate) fn alive_file(&self) -> PathBuf {
        self.path().join("alive")
    }

    /// The process of a living run; `None` if it ended or was killed.
    pub fn lives(&self) -> Option<Holder> {
        self.life().map(|life| life.holder)
    }

    /// A handle to check repeatedly whether it lives, if it does now.
    pub(crate) fn life(&self) -> Option<Life> {
        let file = file::open_to_read(&self.alive_file()).ok()?;
        let file = Flock::lock(file, FlockArg::LockSharedNonblock).err()?.0;
        let holder = read_holder(&file);
        let life = Life { process: ProcessWatch::of(holder.process.clone()), holder, file };
        (!life.has_ended()).then_some(life)
    }

    /// Takes the name of a new run, which lives from then on; `None` if another process has it.
    pub fn take(&self, me: &Holder) -> Result<Option<RunLife>> {
        match fs::create_dir(self.path()) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            made => made.map_err(StoreError::io(StoreAction::Create, self.path()))?,
        }
        self.come_alive(me)
    }

    /// Locks it in a new folder. An empty folder looks like that of a killed run: another process may have removed it,
    /// and a third one created it again.
    fn come_alive(&self, me: &Holder) -> Result<Option<RunLife>> {
        let path = self.alive_file();
        let file = match File::options().read(true).write(true).create_new(true).open(&path) {
            Ok(file) => file,
            Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) => return Ok(None),
            Err(e) => {
                let _ = fs::remove_dir(self.path());
                return Err(StoreError::io(StoreAction::Create, &path)(e));
            }
        };
        let Some(mut lock) = take_soon(file, TRIES) else { return Ok(None) };
        if !is_at(&lock, &path) {
            return Ok(None);
        }
        write_holder(&mut lock, me).map_err(StoreError::io(StoreAction::Write, &path))?;
        Ok(Some(RunLife { run: self.clone(), lock }))
    }

    /// The folders in which attempts of root have their own copies of inputs.
    pub fn copies_of_attempts(&self) -> Vec<PathBuf> {
        let attempts = fs::read_dir(self.attempts()).into_iter().flatten().flatten();
        let inside = attempts.map(|attempt| attempt.path().join("inputs"));
        let outside = self.own_work().and_then(|work| fs::read_dir(work).ok()).into_iter().flatten().flatten();
        let outside = outside.map(|attempt| attempt.path().join(".inputs"));
        inside.chain(outside).filter(|copies| copies.is_dir()).collect()
    }

    /// Removes the remains of a killed run.
    fn sweep(&self) {
        let path = self.alive_file();
        let Ok(file) = file::open_to_read(&path) else { return };
        if let Some(_dead) = take_soon(file, 0).filter(|lock| is_at(lock, &path)) {
            if self.has_jobs() {
                // Its jobs survived it, and read its copies of inputs.
                return;
            }
            self.sweep_inputs();
            // If one cannot be removed now, `flow gc` removes it.
            self.copies_of_attempts().iter().for_each(|copies| drop(remove_tree(copies)));
            let _ = fs::remove_file(&path);
            if !self.journal().exists() {
                self.clear();
            }
        }
    }
}

/// A living run of another process, as seen.
pub(crate) struct Life {
    file: File,
    holder: Holder,
    process: ProcessWatch,
}

impl Life {
    pub(crate) fn is_active(&self) -> bool {
        self.is_locked() && !self.has_ended()
    }

    fn is_locked(&self) -> bool {
        let is_free = flock(&self.file, FlockOperation::NonBlockingLockShared).is_ok();
        if is_free {
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
        !is_free
    }

    /// True if the process is dead, even if its run's file is still locked. The kernel frees file locks later than
    /// claims, and a sweep holds the lock for a moment. The next holder of its claim must not find it alive.
    fn has_ended(&self) -> bool {
        self.process.liveness() == Liveness::Dead
    }
}

/// The other living runs of a store, for repeated checks.
pub struct LivingRuns {
    dir: StoreDir,
    /// The run that checks.
    own: RunId,
    living: BTreeMap<RunId, Life>,
    /// The time of the runs folder's change up to which the list is complete.
    as_of: Option<SystemTime>,
}

impl LivingRuns {
    /// With an empty list.
    pub fn other_than(dir: &StoreDir, own: &RunId) -> LivingRuns {
        LivingRuns { dir: dir.clone(), own: own.clone(), living: BTreeMap::new(), as_of: None }
    }

    /// The runs that have ended since the last call, by the clock at `now`. `None` if none has ended or could have come
    /// and gone unseen. Runs that the caller knows to be alive (`lives`) are not checked.
    pub fn ended(&mut self, now: SystemTime, lives: impl Fn(&RunId) -> bool) -> Option<Vec<RunId>> {
        let changed = fs::metadata(self.dir.runs_folder()).and_then(|meta| meta.modified()).ok();
        let came = changed.is_none() || self.as_of != changed;
        if came {
            self.as_of = changed.filter(|at| now.duration_since(*at).is_ok_and(|age| age >= COMING));
            self.look_for_new();
        }
        let mut ended = Vec::new();
        self.living.retain(|run, life| {
            let goes_on = lives(run) || life.is_active();
            ended.extend((!goes_on).then(|| run.clone()));
            // Others that see only its lock still take it for living, so it is reported again until the lock is free.
            goes_on || life.is_locked()
        });
        (came || !ended.is_empty()).then_some(ended)
    }

    fn look_for_new(&mut self) {
        for run in self.dir.runs().unwrap_or_default() {
            if run == self.own || self.living.contains_key(&run) {
                continue;
            }
            match self.dir.run(&run).life() {
                // It has not written its process into the file yet.
                Some(life) if life.holder.process.pid == 0 => self.as_of = None,
                Some(life) => drop(self.living.insert(run, life)),
                None => {}
            }
        }
    }
}

/// The life of a run. Dropping it ends the life, and removes a run that had not begun.
pub struct RunLife {
    run: RunDir,
    lock: Flock<File>,
}

impl RunLife {
    pub fn is_of(&self, run: &RunDir) -> bool {
        self.run.path() == run.path()
    }
}

impl Drop for RunLife {
    fn drop(&mut self) {
        let path = self.run.alive_file();
        if is_at(&self.lock, &path) {
            let _ = fs::remove_file(&path);
            if !self.run.journal().exists() {
                self.run.unname();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use flow_core::RunId;

    use super::*;
    use crate::ProcessIdentity;

    #[test]
    fn a_run_is_over_with_its_process_though_its_lock_is_held_for_a_moment_longer() {
        let scratch = tempfile::tempdir().unwrap();
        let run = StoreDir::create(scratch.path()).unwrap().run(&RunId("1".into()));
        let mut process = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let identity = ProcessIdentity::of(process.id()).unwrap();
        let me = Holder { process: identity, doing: "flow run a.yaml".into(), run: None, since: "15:30:12".into() };
        let _lock = run.take(&me).unwrap().unwrap();
        let life = run.life().unwrap();
        assert!(life.is_active() && run.lives().is_some());
        process.kill().unwrap();
        while life.is_active() {
            thread::yield_now();
        }
        assert!(run.lives().is_none(), "not reaped yet");
        process.wait().unwrap();
        assert!(!life.is_active() && run.lives().is_none());
    }

    #[test]
    fn a_death_is_seen_by_the_next_look_and_no_look_says_that_nobody_died_who_may_have() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = StoreDir::create(scratch.path()).unwrap();
        let [own, first, second] = ["1", "2", "3"].map(|name| RunId(name.into()));
        let mut living = LivingRuns::other_than(&dir, &own);
        let mut now = SystemTime::now() + COMING;
        let mut look = |living: &mut LivingRuns| {
            now += COMING;
            living.ended(now, |_| false)
        };
        assert_eq!(look(&mut living), Some(vec![]), "there was no look before");
        assert_eq!(look(&mut living), None);
        let mut process = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let identity = ProcessIdentity::of(process.id()).unwrap();
        let me = Holder { process: identity, doing: "flow run a.yaml".into(), run: None, since: "15:30:12".into() };
        let lock = dir.run(&first).take(&me).unwrap().unwrap();
        assert_eq!(look(&mut living), Some(vec![]), "one came, and another may have gone");
        assert_eq!(look(&mut living), None);
        drop(dir.run(&second).take(&me).unwrap().unwrap());
        assert_eq!(look(&mut living), Some(vec![]), "it came and went");
        process.kill().unwrap();
        process.wait().unwrap();
        assert_eq!(look(&mut living), Some(vec![first.clone()]));
        assert_eq!(look(&mut living), Some(vec![first.clone()]), "others can see its lock");
        drop(lock);
        assert_eq!(look(&mut living), Some(vec![first]));
        while look(&mut living).is_some() {}
        assert_eq!(look(&mut living), None);
    }

    #[test]
    fn whose_new_folder_was_swept_away_has_no_run() {
        let scratch = tempfile::tempdir().unwrap();
        let run = StoreDir::create(scratch.path()).unwrap().run(&RunId("1".into()));
        let process = ProcessIdentity::own();
        let me = Holder { process, doing: "flow run a.yaml".into(), run: None, since: "15:30:12".into() };
        assert!(run.come_alive(&me).unwrap().is_none(), "nobody made it anew");
        let alive = run.take(&me).unwrap();
        assert!(alive.is_some());
        assert!(run.come_alive(&me).unwrap().is_none(), "it is somebody else's");
        assert!(run.take(&me).unwrap().is_none());
        assert!(run.lives().is_some());
    }
}

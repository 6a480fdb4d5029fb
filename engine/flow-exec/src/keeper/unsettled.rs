//! What has ended well, and the engine has not settled yet: where the engine is gone before that, it is there for whoever comes next.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use flow_core::AttemptId;
use flow_store::StoreDir;

use super::Unsettled;
use crate::attempt::write_atomically;

#[derive(Default)]
pub(super) struct UnsettledEnds {
    ended: BTreeMap<AttemptId, Unsettled>,
    /// What the engine saw of it, and where that is written down.
    observed: BTreeMap<AttemptId, (PathBuf, String)>,
}

impl UnsettledEnds {
    pub(super) fn ended(&mut self, attempt: AttemptId, unsettled: Option<Unsettled>) {
        self.ended.extend(unsettled.map(|unsettled| (attempt, unsettled)));
    }

    pub(super) fn observed(&mut self, attempt: AttemptId, path: PathBuf, text: String) {
        self.observed.insert(attempt, (path, text));
    }

    pub(super) fn settled(&mut self, attempt: AttemptId) {
        self.ended.remove(&attempt);
        self.observed.remove(&attempt);
    }

    /// Nobody is left to settle it: writes it down.
    pub(super) fn write(&mut self) {
        let mut units: BTreeMap<&Path, Vec<AttemptId>> = BTreeMap::new();
        for (attempt, unsettled) in &self.ended {
            units.entry(&unsettled.path).or_default().push(*attempt);
        }
        // Of a group that is not whole another member may be about to end.
        let is_whole = |unit: &Vec<AttemptId>| unit.iter().all(|attempt| self.ended[attempt].members <= unit.len());
        let whole: Vec<Vec<AttemptId>> = units.into_values().filter(is_whole).collect();
        whole.into_iter().for_each(|unit| self.write_unit(&unit));
    }

    fn write_unit(&mut self, unit: &[AttemptId]) {
        let mut told = None;
        for attempt in unit {
            let Some(unsettled) = self.ended.remove(attempt) else { continue };
            let seen = self.observed.remove(attempt);
            if !seen.map_or(!unsettled.is_watched, |(path, text)| write_atomically(&path, text.as_bytes()).is_ok()) {
                return;
            }
            told = Some(unsettled);
        }
        let Some(Unsettled { path, text, store, .. }) = told else { return };
        // What cannot be written down is done again.
        let _ = path.parent().map(fs::create_dir_all);
        if write_atomically(&path, text.as_bytes()).is_ok()
            && let Ok(Some(store)) = StoreDir::existing(&store)
        {
            store.has_news();
        }
    }
}

//! Attempts that ended well and that the engine has not settled yet. If the engine is gone before, writes them for the
//! next run.

use std::{collections::BTreeMap, fs, path::PathBuf};

use flow_core::AttemptId;
use flow_store::StoreDir;

use super::Unsettled;
use crate::attempt::write_atomically;

#[derive(Default)]
pub(super) struct UnsettledEnds(BTreeMap<AttemptId, Unsettled>);

impl UnsettledEnds {
    pub(super) fn ended(&mut self, attempt: AttemptId, unsettled: Option<Unsettled>) {
        self.0.extend(unsettled.map(|unsettled| (attempt, unsettled)));
    }

    pub(super) fn settled(&mut self, attempt: AttemptId) {
        self.0.remove(&attempt);
    }

    /// Nobody is left to settle them: writes them to disk.
    pub(super) fn write(&mut self) {
        let mut units: BTreeMap<PathBuf, Vec<AttemptId>> = BTreeMap::new();
        for (attempt, unsettled) in &self.0 {
            units.entry(unsettled.path.clone()).or_default().push(*attempt);
        }
        // Another member of an incomplete group may still end.
        units.retain(|_, unit| unit.iter().all(|attempt| self.0[attempt].members <= unit.len()));
        for unit in units.values() {
            let ended = unit.iter().filter_map(|attempt| self.0.remove(attempt));
            ended.last().iter().for_each(write_down);
        }
    }
}

fn write_down(unsettled: &Unsettled) {
    // If this fails, the attempt runs again.
    let _ = unsettled.path.parent().map(fs::create_dir_all);
    if write_atomically(&unsettled.path, unsettled.text.as_bytes()).is_ok()
        && let Ok(Some(store)) = StoreDir::existing(&unsettled.store)
    {
        store.has_news();
    }
}

//! What has ended well, and the engine has not settled yet: where the engine is gone before that, it is there for whoever comes next.

use std::{collections::BTreeMap, fs, path::PathBuf};

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
        for (attempt, unsettled) in std::mem::take(&mut self.ended) {
            let Unsettled { path, text, store, is_watched } = unsettled;
            let seen = self.observed.remove(&attempt);
            let is_seen = seen.map_or(!is_watched, |(path, text)| write_atomically(&path, text.as_bytes()).is_ok());
            // What cannot be written down is done again.
            let _ = path.parent().map(fs::create_dir_all);
            if is_seen
                && write_atomically(&path, text.as_bytes()).is_ok()
                && let Ok(Some(store)) = StoreDir::existing(&store)
            {
                store.has_news();
            }
        }
    }
}

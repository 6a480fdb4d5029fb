//! Results, last fingerprints and history: what is applied is there after the store is opened again, and in no other place.

use flow_core::RunId;
use flow_runs::StoreError;
use flow_store::{Batch, HISTORY, shapes};
use serde_json::json;

use crate::common::{keep, observed, open, record, result, scratch, write};

#[test]
fn what_was_applied_is_there_after_reopening() {
    let dir = scratch();
    let kept = result("solo[batch=16]", 16);
    {
        let store = open(dir.path()).unwrap();
        record(&store, &kept, json!({"batch": 16}));
    }
    let store = open(dir.path()).unwrap();
    assert_eq!(store.result(&kept.fingerprint).unwrap(), Some(kept.clone()));
    assert_eq!(store.result(&result("other", 1).fingerprint).unwrap(), None);
    let last = store.last("feb08", "solo[batch=16]").unwrap().unwrap();
    assert_eq!((last.fingerprint, last.parts), (kept.fingerprint, json!({"batch": 16})));
    assert_eq!(store.last("feb08", "solo[batch=1]").unwrap(), None, "a label that is a prefix of another");

    let mut batch = Batch::new();
    batch.forget(&kept.fingerprint);
    store.apply(&batch).unwrap();
    assert_eq!(store.result(&kept.fingerprint).unwrap(), None);
}

#[test]
fn history_keeps_the_newest_of_each_shape() {
    let dir = scratch();
    let [instance, step] = shapes("feb08", "solo", "solo[batch=16]");
    for first in [0, 30, 60] {
        let store = open(dir.path()).unwrap();
        let journal = store.begin(&RunId(format!("{first:04}"))).unwrap();
        let both = |salt| ["solo[batch=16]", "solo[batch=32]"].map(|label| observed(&result(label, salt)));
        keep(&store, &journal, (first..first + 30).flat_map(both).collect()).unwrap();
    }
    let store = open(dir.path()).unwrap();
    let ends = |shape: &str| store.history(shape).unwrap().iter().map(|seen| seen.at).collect::<Vec<_>>();
    assert_eq!(ends(&instance), (90 - HISTORY as u64..90).map(|salt| 1_000 * salt + 500).collect::<Vec<_>>());
    assert_eq!(ends(&step).len(), HISTORY);
    assert_eq!(ends("feb08/other/"), [0; 0]);
}

#[test]
fn values_of_any_size_are_kept_and_do_not_pile_up_in_the_database() {
    let dir = scratch();
    let store = open(dir.path()).unwrap();
    let parts = json!({"files": (0..5_000).map(|n| format!("{n:064}")).collect::<Vec<_>>()});
    for salt in 0..20 {
        record(&store, &result("all", salt), parts.clone());
    }
    assert_eq!(store.last("feb08", "all").unwrap().unwrap().parts, parts);
    let blobs = std::fs::read_dir(dir.path().join("db/blobs")).map_or(0, Iterator::count);
    assert_eq!(blobs, 0, "sled puts large values in files that it never removes");
}

#[test]
fn another_format_is_refused_and_the_words_say_what_to_do() {
    let dir = scratch();
    let refused = |format: &str| {
        write(dir.path().join("format"), format);
        let error = open(dir.path()).err().unwrap();
        error.to_string().replace(&*dir.path().to_string_lossy(), "STORE")
    };
    insta::assert_snapshot!(refused("5\n"), @"`STORE/format` has format 5, and this flow knows formats up to 4: use the flow that wrote it, or a newer one");
    for older in ["1\n", "3\n"] {
        assert_eq!(
            refused(older),
            format!(
                "the store `STORE` has format {format}, and this flow reads format 4 only: `mv STORE STORE.{format}` makes room for a \
                 new store, or choose another one with --store or FLOW_STORE. The flow that wrote it can still read it",
                format = older.trim()
            )
        );
    }
    write(dir.path().join("format"), "one\n");
    assert!(matches!(open(dir.path()), Err(StoreError::Malformed { .. })));
}

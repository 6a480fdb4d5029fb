//! The pages in `examples/reports` are what this flow makes of the runs in `examples/runs`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::space;

/// A published run, and all of them together, in bytes.
const LARGEST: u64 = 500 << 10;
const ALL: u64 = 4 << 20;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// A page with the files in its folder.
fn page(folder: &Path, name: &str) -> BTreeMap<String, String> {
    let charts = fs::read_dir(folder.join(name)).into_iter().flatten().flatten().map(|entry| entry.path());
    let files = charts.chain([folder.join(format!("{name}.md"))]);
    files.map(|file| (file.file_name().unwrap().to_string_lossy().into(), fs::read_to_string(file).unwrap())).collect()
}

/// Other runs of the same experiment: tables with `machines: true` show them, too.
fn others(bundle: &Path, name: &str) -> Vec<PathBuf> {
    let experiment = format!("{}-", name.split('-').next().unwrap());
    let is_alike = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(&experiment);
    let all = fs::read_dir(bundle.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let mut others: Vec<PathBuf> = all.filter(|path| path != bundle && is_alike(path)).collect();
    others.sort();
    others
}

#[test]
fn published_pages_are_made_from_their_runs() {
    let mut all = 0;
    for entry in fs::read_dir(examples().join("runs")).unwrap() {
        let bundle = entry.unwrap().path();
        let Some(name) = bundle.file_name().unwrap().to_str().unwrap().strip_suffix(".bundle").map(str::to_owned)
        else {
            continue;
        };
        let bytes = fs::metadata(&bundle).unwrap().len();
        assert!(bytes <= LARGEST, "{name}: {bytes} bytes");
        all += bytes;
        let here = space();
        for run in others(&bundle, &name).iter().chain([&bundle]) {
            here.flow([Path::new("import"), run.as_path()]).expect(0);
        }
        here.flow(["report", "--to", &format!("{name}.md")]).expect(0);
        let (now, published) = (page(&here.path(""), &name), page(&examples().join("reports"), &name));
        let old = now.keys().chain(published.keys()).find(|file| now.get(*file) != published.get(*file));
        assert_eq!(old, None, "{name}: `examples/reports/make.sh` makes it again");
        let has_gap = |text: &String| text.contains('⟨') || text.contains("{$");
        let gap = published.iter().find(|(_, text)| has_gap(text)).map(|(file, _)| file);
        assert_eq!(gap, None, "{name}: a message or one of its variables is missing");
    }
    assert!(all <= ALL, "{all} bytes");
}

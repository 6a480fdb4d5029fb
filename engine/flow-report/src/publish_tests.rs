//! The entry is in the right place and replaces only itself, and no other byte of the file changes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::entries::all;

fn job(name: &str, hardware: &str, date: &str, body: &str, existing: Option<&str>) -> PublishJob {
    let json = serde_json::json!({"workflow": name, "hardware": hardware, "date": date}).to_string();
    let entry = format!("# {date}: {name}\n\n{body}\n\n![Time](charts/t-epoch_time.svg)\n\n## Section\n");
    PublishJob {
        files: BTreeMap::from([
            ("report.json".to_owned(), json.into_bytes()),
            ("entry.md".to_owned(), entry.into_bytes()),
            ("report.md".to_owned(), b"# Title\n\n![Time](charts/t-epoch_time.svg)\n".to_vec()),
            ("charts/t-epoch_time.svg".to_owned(), b"<svg/>".to_vec()),
        ]),
        what: PublishWhat::WhatsNew,
        target: "NEWS.md".into(),
        existing: existing.map(str::to_owned),
        whats_new: BTreeMap::new(),
        report: Some("reports/feb08.md".into()),
        replace: Replace::Alike,
    }
}

/// With the words of reports.
fn publish(job: &PublishJob) -> Result<Publication, String> {
    super::publish(job, &Words::default())
}

fn published(job: &PublishJob) -> String {
    let files = publish(job).expect("published").files;
    assert_eq!(files.len(), 1);
    String::from_utf8(files[0].bytes.clone()).expect("UTF-8")
}

#[test]
fn a_readme_with_other_content() {
    let readme = "# Lab\n\nText.\n\n## What's News\n\nOlder words.\n\n## Usage\n\n```\n# What's New\n```\n";
    let once = published(&job("feb08", "4 x TITAN Xp", "2026-02-08", "A table.", Some(readme)));
    insta::assert_snapshot!(once, @r#"
    # Lab

    Text.

    ## What's News

    <!-- flow entry: feb08 on 4 x TITAN Xp, 2026-02-08, no profile -->

    ### 2026-02-08: feb08

    A table.

    ![Time](reports/feb08/t-epoch_time.svg)

    #### Section

    [reports/feb08.md](reports/feb08.md)

    <!-- flow's words: 2f627a7b9480 -->
    <!-- end of flow entry: feb08 on 4 x TITAN Xp -->

    Older words.

    ## Usage

    ```
    # What's New
    ```
    "#);
    assert_eq!(published(&job("feb08", "4 x TITAN Xp", "2026-02-08", "A table.", Some(&once))), once);
    // An entry of the same report and day is replaced. Other days and other hardware get further entries, newest first.
    let better = published(&job("feb08", "4 x TITAN Xp", "2026-02-08", "Better.", Some(&once)));
    assert_eq!(without_digests(&better), without_digests(&once.replace("A table.", "Better.")));
    let again = published(&job("feb08", "4 x TITAN Xp", "2026-02-09", "Best.", Some(&better)));
    let other = published(&job("feb08", "2 CPUs AMD", "2026-02-13", "Slow.", Some(&again)));
    let oldest = published(&job("feb07", "2 CPUs AMD", "2026-02-07", "First.", Some(&other)));
    let order: Vec<usize> =
        ["Slow.", "Best.", "Better.", "First.", "Older words."].map(|t| oldest.find(t).expect(t)).to_vec();
    assert!(order.is_sorted(), "{oldest}");
    for text in [&again, &other, &oldest] {
        assert_eq!(without_entries(text), without_entries(&once));
    }
}

fn without_digests(text: &str) -> String {
    text.lines().filter(|line| !line.starts_with(WORDS)).collect::<Vec<_>>().join("\n")
}

/// The content of a file without entries and without the blank lines around them.
fn without_entries(file: &str) -> String {
    let mut out = file.to_owned();
    while let Some(place) = all(&out).first() {
        out = format!("{}{}", out[..place.start].trim_end(), &out[place.end..]);
    }
    out
}

#[test]
fn windows_lines_and_odd_ends_stay() {
    let windows = "# Lab\r\n\r\n### What’s new?\r\nold\r\n";
    let once = published(&job("a", "b", "2026-01-01", "x", Some(windows)));
    assert!(!once.replace("\r\n", "").contains('\n'), "{once:?}");
    assert!(once.starts_with(
        "# Lab\r\n\r\n### What’s new?\r\n\r\n<!-- flow entry: a on b, 2026-01-01, no profile -->\r\n\r\n#### 2026-01-01: a"
    ));
    assert!(once.ends_with("<!-- end of flow entry: a on b -->\r\n\r\nold\r\n"));
    assert_eq!(published(&job("a", "b", "2026-01-01", "x", Some(&once))), once);

    for file in ["", "no heading", "no heading\n", "## What's New", "What's New\n======", "x\n\nWhats new\n---\n"] {
        let once = published(&job("a", "b", "2026-01-01", "x", Some(file)));
        assert!(once.starts_with(file), "{once:?}");
        assert_eq!(published(&job("a", "b", "2026-01-01", "x", Some(&once))), once);
    }
    let new = published(&job("a", "b", "2026-01-01", "x", None));
    assert!(new.starts_with("## What's New\n\n<!-- flow entry"), "{new}");
}

#[test]
fn without_a_published_report_there_are_no_charts() {
    let mut job = job("a", "b", "2026-01-01", "x", None);
    assert!(published(&job).contains("![Time](reports/feb08/t-epoch_time.svg)"));
    job.report = None;
    let text = published(&job);
    assert!(!text.contains("!["), "{text}");
    assert!(!text.contains("reports/"), "{text}");
}

#[test]
fn a_report_stands_beside_its_charts() {
    let mut job = job("a", "b", "2026-01-01", "x", None);
    job.what = PublishWhat::Report;
    job.target = "feb08.md".into();
    let files = publish(&job).expect("published").files;
    let paths: Vec<&str> = files.iter().map(|f| f.path.as_str()).collect();
    assert_eq!(paths, ["feb08.md", "feb08/t-epoch_time.svg"]);
    assert!(String::from_utf8_lossy(&files[0].bytes).contains("(feb08/t-epoch_time.svg)"));
    // An older version of the report is replaced, a user's file never.
    job.existing = String::from_utf8(files[0].bytes.clone()).ok();
    assert_eq!(publish(&job).expect("published").files, files);
    job.existing = Some("# Notes\n\n<!-- flow entry: a on b, 2026-01-01 -->\n".into());
    assert!(publish(&job).expect_err("refused").contains("flow did not write"));
    job.existing = Some("# Other\n\n<!-- flow report: other -->\n".into());
    let other = publish(&job).expect_err("refused");
    assert!(other.contains("is the report of the workflow `other`; move it away"), "{other}");
    job.existing = None;
    job.files.remove("report.md");
    assert!(publish(&job).expect_err("refused").contains("is it a `flow/report`?"));
}

/// A whole report of a run with this profile on these GPUs.
fn of(profile: Option<&str>, gpus: &[&str], existing: Option<&str>, what: PublishWhat) -> PublishJob {
    let mut job = job("a", "b", "2026-01-01", "x", existing);
    let gpus: Vec<_> = gpus.iter().map(|model| serde_json::json!([model, 2, 0])).collect();
    let setup = serde_json::json!({"gpus": gpus, "profile": profile.map(|name| (name, "requested"))});
    let json = serde_json::json!({"workflow": "a", "hardware": "b", "date": "2026-01-01", "setup": setup});
    job.files.insert("report.json".to_owned(), json.to_string().into_bytes());
    PublishJob { what, target: "a.md".into(), ..job }
}

#[test]
fn another_profile_and_other_gpus_replace_nothing() {
    type Run = (Option<&'static str>, &'static [&'static str]);
    let whole = |(profile, gpus): Run, old: Option<&str>| of(profile, gpus, old, PublishWhat::Report);
    let gpus = |published: &str, own: &str| WithheldReason::Gpus { published: published.into(), own: own.into() };
    let profile = |published: &str, own: &str| WithheldReason::Profile { published: published.into(), own: own.into() };
    let table: [(Run, Run, Option<WithheldReason>); 6] = [
        ((None, &[]), (None, &[]), None),
        ((Some("p"), &["H200"]), (Some("p"), &["H200"]), None),
        ((None, &["H200"]), (None, &[]), Some(gpus("H200", ""))),
        ((Some("p"), &[]), (Some("q"), &["H200"]), Some(gpus("", "H200"))),
        ((Some("p"), &["H200"]), (None, &["H200"]), Some(profile("p", ""))),
        ((None, &["H200"]), (Some("q"), &["H200"]), Some(profile("", "q"))),
    ];
    for (first, then, expected) in table {
        let old =
            String::from_utf8(publish(&whole(first, None)).expect("published").files[0].bytes.clone()).expect("UTF-8");
        let job = whole(then, Some(&old));
        assert_eq!(publish(&job).expect("published").withheld, expected, "{first:?} {then:?}");
        let job = PublishJob { replace: Replace::Always, ..job };
        assert_eq!(publish(&job).expect("published").withheld, None);
    }
    // A report whose marks were removed cannot be compared.
    let old = "# A\n\n<!-- flow report: a -->\n";
    assert_eq!(publish(&whole((Some("p"), &["H200"]), Some(old))).expect("published").withheld, None);
    // An entry names its hardware: only another profile on the same replaces it.
    let entry = |(profile, gpus): Run, old: Option<&str>| of(profile, gpus, old, PublishWhat::WhatsNew);
    let readme = published(&entry((Some("p"), &[]), Some("# Lab\n")));
    assert_eq!(publish(&entry((Some("p"), &[]), Some(&readme))).expect("published").withheld, None);
    let other = publish(&entry((Some("q"), &[]), Some(&readme))).expect("published");
    assert_eq!(other.withheld, Some(profile("p", "q")));
    assert!(!String::from_utf8_lossy(&other.files[0].bytes).contains("# Lab"), "only the entry is written elsewhere");
    let part =
        PublishJob { replace: Replace::Nothing(WithheldReason::Part), ..entry((Some("p"), &[]), Some("# Lab\n")) };
    assert_eq!(publish(&part).expect("published").withheld, None, "nothing of it was there");
}

proptest! {
    #[test]
    fn publishing_twice_is_publishing_once(
        parts in prop::collection::vec(prop_oneof![
            Just("# What's New\n"), Just("\r\n"), Just("\n"), Just("text"), Just("```\n"), Just("## Other\n"),
            Just("<!-- flow entry: a on b, 2026-01-03 -->\n"), Just("<!-- end of flow entry: a on b -->\n"),
            Just("<!-- flow entry: c on d, 2026-01-02 -->\nold\n<!-- end of flow entry: c on d -->\n"),
        ], 0..8)
    ) {
        let file = parts.concat();
        let once = published(&job("a", "b", "2026-01-01", "x", Some(&file)));
        let twice = published(&job("a", "b", "2026-01-01", "x", Some(&once)));
        prop_assert_eq!(&twice, &once);
    }
}

/// A report that `flow/report` made, on these GPUs, with this title.
fn of_report(workflow: &str, gpus: bool, date: &str, title: &str) -> PublishJob {
    let setup = serde_json::json!({"gpus": if gpus { vec![("NVIDIA H200", 4, 0)] } else { vec![] }, "cpus": [("EPYC", 2)],
        "parameters": [], "versions": [], "profile": null, "more": []});
    let json = serde_json::json!({"format": report::REPORT_FORMAT, "workflow": workflow, "languages": ["en", "zh"],
        "title": {"en": title, "zh": format!("{title}（中文）")}, "date": date, "setup": setup, "sections": [], "left_out": [], "runs": [], "accepted": {}, "disturbed": {}, "foreign_cpu": {}, "foreign_processes": {}, "gpu_shared": {}, "doubts": {"short": {}, "few": {}, "chance": {}}, "fake_gpus": false,
        "hardware": if gpus { "4 × NVIDIA H200" } else { "2 CPUs EPYC" }});
    let mut job = job(workflow, "", date, title, Some("# Lab\n\nText.\n"));
    job.files.insert("report.json".to_owned(), json.to_string().into_bytes());
    PublishJob { target: "README.md".into(), ..job }
}

/// Publishes one report after another into the same files, and returns the files.
fn after(jobs: &[PublishJob]) -> BTreeMap<String, String> {
    let mut files = BTreeMap::from([("README.md".to_owned(), "# Lab\n\nText.\n".to_owned())]);
    for job in jobs {
        let existing = files.get(&job.target).cloned();
        let job = PublishJob { existing, whats_new: files.clone(), ..job.clone() };
        let done = publish(&job).expect("published");
        assert_eq!(done.withheld, None);
        let written = done.files.into_iter().map(|file| (file.path, String::from_utf8(file.bytes).expect("UTF-8")));
        files.extend(written);
    }
    files
}

#[test]
fn a_readme_has_the_newest_three_in_three_lines_and_a_file_beside_it_has_all() {
    let day = |n: usize| of_report("feb08", true, &format!("2026-02-0{n}"), &format!("Title {n}"));
    let files = after(&[day(1), day(3), day(4), day(2)]);
    insta::assert_snapshot!(files["README.md"], @r"
    # Lab

    Text.

    ## What's New

    <!-- flow entry: feb08 on 4 × NVIDIA H200, 2026-02-04, no profile -->

    **2026-02-04: Title 4**\
    [report](reports/feb08.md) · [all entries](WHATSNEW.md)

    <!-- flow's words: 80913aac7637 -->
    <!-- end of flow entry: feb08 on 4 × NVIDIA H200 -->

    <!-- flow entry: feb08 on 4 × NVIDIA H200, 2026-02-03, no profile -->

    **2026-02-03: Title 3**\
    [report](reports/feb08.md) · [all entries](WHATSNEW.md)

    <!-- flow's words: be148c4a6664 -->
    <!-- end of flow entry: feb08 on 4 × NVIDIA H200 -->

    <!-- flow entry: feb08 on 4 × NVIDIA H200, 2026-02-02, no profile -->

    **2026-02-02: Title 2**\
    [report](reports/feb08.md) · [all entries](WHATSNEW.md)

    <!-- flow's words: 4bd95a7d342a -->
    <!-- end of flow entry: feb08 on 4 × NVIDIA H200 -->
    ");
    assert!(files["README.md"].ends_with("NVIDIA H200 -->\n") && !files["README.md"].ends_with("\n\n"));
    let all = &files["WHATSNEW.md"];
    assert!(all.starts_with("# What's New\n\n<!-- flow entry: feb08 on 4 × NVIDIA H200, 2026-02-04"), "{all}");
    let order: Vec<usize> = [4, 3, 2, 1].map(|n| all.find(&format!("## 2026-02-0{n}: feb08")).expect("there")).to_vec();
    assert!(order.is_sorted() && !files.contains_key("reports/WHATSNEW.md"), "{all}");
    assert_eq!(after(&[day(1), day(3), day(4), day(2), day(3), day(1)]), files);
    // In the language of the file.
    let chinese = after(&[PublishJob { target: "README.zh.md".into(), ..day(1) }]);
    assert!(chinese["README.zh.md"].contains("**2026-02-01: Title 1（中文）**"), "{chinese:?}");
    assert!(chinese["README.zh.md"].contains("[全部条目](WHATSNEW.md)"), "{chinese:?}");
}

#[test]
fn a_wrapped_answer_stays_a_paragraph() {
    let text = format!("{} 1.99 ± 0.31 − 2. - # 7) of words {}", "word ".repeat(18).trim(), "x".repeat(120));
    insta::assert_snapshot!(wrapped(&text), @r"
    word word word word word word word word word word word word word word word word word word 1.99 ±
    0.31 − 2. - # 7) of words
    xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
    ");
    let marks = format!("{} - # 7) word", "word ".repeat(19).trim());
    assert_eq!(wrapped(&marks), format!("{} - # 7)\nword", "word ".repeat(19).trim()));
}

#[test]
fn without_a_gpu_a_readme_stays_unless_the_user_wants_it() {
    let job = of_report("feb08", false, "2026-02-08", "On CPUs");
    let files = after(std::slice::from_ref(&job));
    assert_eq!(files.keys().collect::<Vec<_>>(), ["README.md", "reports/WHATSNEW.md"]);
    assert_eq!(files["README.md"], "# Lab\n\nText.\n");
    let all = &files["reports/WHATSNEW.md"];
    assert!(all.starts_with("# What's New (runs without a GPU)\n\n<!-- flow entry: feb08 on 2 CPUs"), "{all}");
    assert!(all.contains("\n[feb08.md](feb08.md)\n") && all.contains("](feb08/t-epoch_time.svg)"), "{all}");
    let files = after(&[PublishJob { replace: Replace::Always, ..job.clone() }]);
    assert_eq!(files.keys().collect::<Vec<_>>(), ["README.md", "WHATSNEW.md"]);
    assert!(files["README.md"].contains("**2026-02-08, CPU: On CPUs**"), "{files:?}");
    // A link out of the folder of the file.
    let files = after(&[PublishJob { report: Some("docs/feb08.md".into()), ..job }]);
    assert!(files["reports/WHATSNEW.md"].contains("[../docs/feb08.md](../docs/feb08.md)"), "{files:?}");
}

#[test]
fn long_entries_that_leave_a_readme_are_kept() {
    let old = "# Lab\n\n## What's New\n\nMy words.\n\n";
    let long = |day: &str| {
        published(&job("old", "2 CPUs", day, "A table.\n\n## Part", Some(""))).replace("## What's New\n\n", "")
    };
    let readme =
        [old, &long("2026-01-03"), "\nBetween.\n\n", &long("2026-01-02"), "\n", &long("2026-01-01"), "\n# End\n"]
            .concat();
    let job = PublishJob { existing: Some(readme), ..of_report("feb08", true, "2026-02-08", "New") };
    let files = publish(&job).expect("published").files;
    let [all, readme] = [0, 1].map(|n| String::from_utf8(files[n].bytes.clone()).expect("UTF-8"));
    assert!(!readme.contains("2026-01-01") && readme.matches("<!-- flow entry").count() == 3, "{readme}");
    assert!(["My words.", "Between.", "# End", "2026-01-02"].iter().all(|kept| readme.contains(kept)), "{readme}");
    assert!(all.contains("\n## 2026-01-01: old\n\nA table.\n") && all.contains("\n### Part\n"), "{all}");
    assert_eq!(all.matches("<!-- flow entry").count(), 4, "{all}");
    // An entry that was edited in a README stays there.
    let edited = readme.replacen("A table.", "A table of mine.", 1);
    let job =
        PublishJob { existing: Some(edited), whats_new: BTreeMap::from([("WHATSNEW.md".to_owned(), all)]), ..job };
    let later = |day: &str| of_report("feb07", true, day, "Newer");
    let newer = PublishJob { files: later("2026-02-09").files, ..job };
    let files = publish(&newer).expect("published").files;
    let readme = String::from_utf8(files[1].bytes.clone()).expect("UTF-8");
    assert!(readme.contains("A table of mine.") && !readme.contains("2026-01-02"), "{readme}");
}

/// A text counts as a heading only if Markdown shows one, and an unopened fence hides no entry.
#[test]
fn a_comment_of_the_author_is_neither_heading_nor_fence() {
    let comment = "<!--\n## What's New\n\n```\n-->\n\n# A tool\n\n```sh\nmake\n```\n\n    ## What's New\n";
    let first = published(&job("feb08", "H200", "2026-02-08", "text", Some(comment)));
    assert!(first.starts_with(comment), "{first}");
    assert_eq!(published(&job("feb08", "H200", "2026-02-08", "text", Some(&first))), first);
}

#[test]
fn marks_in_the_authors_own_words_are_words() {
    let body = "<!-- flow entry: x, 2026-01-01 -->\n\n<!-- end of flow entry: feb08 -->\n<!-- flow report: y -->";
    let job = |existing: &str| job("feb08", "", "2026-02-08", body, Some(existing));
    let once = published(&job("# Lab\n\n## What's New\n\nText.\n"));
    assert_eq!(published(&job(&once)), once);
    assert_eq!(once.matches("<!--").count(), 3, "{once}");
    let mut odd = job(&once);
    odd.report = Some("reports/a (1) [x]#2.md".into());
    assert!(
        published(&odd).contains("[reports/a (1) \\[x\\]#2.md](reports/a%20%281%29%20%5Bx%5D%232.md)"),
        "{}",
        published(&odd)
    );
}

#[test]
fn a_page_of_another_language_is_in_the_folder_of_the_report() {
    let mut job = job("a", "b", "2026-01-01", "x", None);
    (job.what, job.target) = (PublishWhat::Report, "feb08.md".into());
    job.files.insert("report.md".into(), b"# T\n\n[\xe4\xb8\xad](report.zh.md)\n".to_vec());
    job.files.insert("report.zh.md".into(), b"# T\n\n[En](report.md)\n\n![x](charts/t.zh.svg)\n".to_vec());
    let files = publish(&job).expect("published").files;
    let text = |path: &str| {
        let file = files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("no {path}"));
        String::from_utf8(file.bytes.clone()).expect("UTF-8")
    };
    assert!(text("feb08.md").contains("](feb08/zh.md)"), "{}", text("feb08.md"));
    assert_eq!(text("feb08/zh.md"), "# T\n\n[En](../feb08.md)\n\n![x](t.zh.svg)\n");
}

#[test]
fn a_terminal_shows_no_links_to_files_beside_the_report() {
    let text = "# T\n\n2 CPUs · 6 results · [中文](report.zh.md) · [data](charts/a%20b.csv)\n\n[data](charts/t.csv)\n\n\
                [T](#t) [paper](https://x.org/a.csv)\n";
    assert_eq!(for_terminal(text), "# T\n\n2 CPUs · 6 results\n\n[T](#t) [paper](https://x.org/a.csv)\n");
}

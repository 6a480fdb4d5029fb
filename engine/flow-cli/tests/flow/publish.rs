//! What `publish:` may write, and what is said where it may not.

use std::fs;

use crate::space;

const WORKFLOW: &str = r#"
flow: 1
name: a
steps:
  train: {matrix: {batch: [1, 2]}, run: echo loss 3, metrics: {stdout: "loss {loss}"}}
  tab: {uses: flow/table, with: {from: train, rows: batch, columns: [loss]}}
  rep: {uses: flow/report, with: {sections: [{table: tab}]}}
publish: [{from: rep, to: rep.md}]
"#;

#[test]
fn what_is_not_published_is_said_with_its_reason() {
    let space = space();
    space.write("a.yaml", WORKFLOW).write("rep.md", "my own notes\n");
    let reason = "not published `rep.md`: flow did not write the existing file; move it away, or publish elsewhere";
    let quiet = space.flow(["run", "-q", "a.yaml"]).expect(1).text();
    assert!(quiet.contains(reason), "{quiet}");
    let loud = space.flow(["run", "a.yaml"]).expect(1).text();
    assert_eq!(loud.matches(reason).count(), 1, "{loud}");
    let status = space.flow(["status"]).expect(0).stdout();
    assert!(status.contains("failed: 4 cached") && status.contains(reason), "{status}");
    assert_eq!(space.read("rep.md"), "my own notes\n");
    // An entry tells what was found, and leads nowhere else.
    let news = WORKFLOW.replace("publish: [", "publish: [{from: rep, whats_new: NEWS.md}, ");
    space.write("a.yaml", &news).write("NEWS.md", "## What's New\n").flow(["run", "a.yaml"]).expect(1);
    assert!(space.read("NEWS.md").contains("flow entry: a") && !space.read("NEWS.md").contains("rep.md"));
}

#[test]
fn files_that_a_later_run_replaced_are_reported() {
    let space = space();
    let run = |workflow: &str| {
        space.write("a.yaml", workflow).flow(["run", "a.yaml"]).expect(0);
        space.journal()[0]["run"].as_str().unwrap().to_owned()
    };
    let [first, second] = [WORKFLOW.to_owned(), WORKFLOW.replace("echo loss 3", "echo loss 4")].map(|text| run(&text));
    let note = "a later run replaced these files; `flow report RUN --print` prints this run's";
    let old = space.flow(["report", "--run", &first]).expect(0);
    assert!(old.stdout().starts_with("rep.md\n") && old.stderr().contains(note), "{}", old.text());
    let new = space.flow(["report", "--run", &second]).expect(0);
    assert!(!new.text().contains("later run"), "{}", new.text());
}

#[test]
fn a_report_is_one_file_to_send_in_each_of_its_languages() {
    let space = space();
    let sweep = WORKFLOW.replace("sections:", "languages: [en, zh], sections:").replace("[loss]", "[epoch_time, loss]");
    let epochs = "for e in 1 2 3; do echo epoch $e loss 3 in 0.1 s; done";
    let sweep =
        sweep.replace("echo loss 3", epochs).replace("loss {loss}", "epoch {epoch} loss {loss} in {epoch_time:s} s");
    space.write("a.yaml", &sweep);
    space.flow(["run", "a.yaml"]).expect(0);
    let told = space.flow(["report", "--html", "--lang", "zh", "-o", "zh.html"]).expect(0).stdout();
    assert_eq!(told.trim(), "zh.html");
    let page = space.read("zh.html");
    assert!(page.starts_with("<!doctype html>\n<html lang=\"zh\">") && page.contains("每轮用时 ("), "{page}");
    assert!(page.contains("<svg ") && !page.contains("Epoch time"), "{page}");
    space.flow(["report", "--html", "--lang", "zh", "-o", "again.html"]).expect(0);
    assert_eq!(space.read("again.html"), page, "the same data, the same bytes");
    space.flow(["report", "rep", "--html", "-o", "both.html"]).expect(0);
    let both = space.read("both.html");
    assert!(both.contains("<article id=\"en\" lang=\"en\">") && both.contains("<article id=\"zh\" lang=\"zh\">"));
    let said = space.flow(["report", "--html", "-o", "nosuch/x.html"]).expect(2).text();
    assert!(said.contains("`nosuch/x.html` cannot be written"), "{said}");
}

#[test]
fn files_of_a_renamed_section_are_removed_unless_somebody_changed_them() {
    let space = space();
    let named = |name: &str| {
        let workflow =
            WORKFLOW.replace("tab:", &format!("{name}:")).replace("{table: tab}", &format!("{{table: {name}}}"));
        space.write("a.yaml", &workflow);
    };
    let there = |file: &str| space.path(file).exists();
    named("one");
    space.flow(["run", "a.yaml"]).expect(0);
    assert!(there("rep/one.csv"));
    space.write("rep/mine.csv", "my own");
    // A trial publishes nothing, and what was published before it is not forgotten.
    space.flow(["run", "a.yaml", "--no-publish"]).expect(0);
    named("two");
    let said = space.flow(["run", "a.yaml"]).expect(0).text();
    assert!(said.contains("removed `rep/one") && said.contains("which the earlier report had"), "{said}");
    assert!(there("rep/two.csv") && !there("rep/one.csv") && there("rep/mine.csv"));
    space.write("rep/two.csv", "with a remark");
    named("three");
    space.flow(["run", "a.yaml"]).expect(0);
    assert!(there("rep/three.csv") && there("rep/two.csv") && there("rep/mine.csv"));
}

const TRIAL: &str = r#"
flow: 1
name: a
params: {epochs: 3, note: plain}
profiles: {quick: {params: {epochs: 2}}}
steps:
  train: {run: "echo loss ${{ params.epochs }}", metrics: {stdout: "loss {loss}"}}
  tab: {uses: flow/table, with: {from: train, columns: [loss]}}
  rep: {uses: flow/report, with: {sections: [{table: tab, title: "${{ note }}"}]}}
publish: [{from: rep, to: docs/rep.md}, {from: rep, whats_new: NEWS.md}]
"#;

#[test]
fn a_trial_replaces_nothing_that_is_published() {
    let space = space();
    space.write("a.yaml", TRIAL).write("NEWS.md", "# Lab\n");
    space.flow(["run", "a.yaml"]).expect(0);
    let files = || (space.read("docs/rep.md"), space.read("NEWS.md"));
    let published = files();
    assert!(published.0.contains("3") && published.1.contains("flow entry"), "{published:?}");
    let trials: [(&[&str], &str); 3] = [
        (&["--set", "epochs=1"], "other values of epochs were used; --publish replaces it"),
        (&["--no-publish"], "--no-publish was given"),
        (&["--profile", "quick"], "it comes from no profile, this run from quick; --publish replaces it"),
    ];
    for (args, why) in trials {
        // Said again where there is nothing to do.
        for _ in 0..2 {
            let said = space.flow([&["run", "a.yaml"], args].concat()).expect(0).text();
            assert!(said.contains(&format!("kept      docs/rep.md: {why}")), "{args:?}: {said}");
            assert!(said.contains("written   .flow/runs/RUN/not-published/docs/rep.md"), "{said}");
            let newest = fs::read_dir(space.path(".flow/runs")).unwrap().map(|run| run.unwrap().path()).max().unwrap();
            let written = fs::read_to_string(newest.join("not-published/docs/rep.md")).unwrap();
            assert!(written.contains("loss"), "{written}");
            assert_eq!(files(), published, "{args:?}");
        }
        assert!(space.flow(["report"]).expect(0).stdout().contains("not-published/docs/rep.md"));
    }
    // The head says what is not as in the file.
    let text = space.flow(["run", "a.yaml", "--set", "epochs=1", "--publish"]).expect(0).text();
    assert!(text.contains("published docs/rep.md"), "{text}");
    assert!(files().0.contains("- Parameters set on the command line: `epochs=1`"), "{}", files().0);
    let text = space.flow(["run", "a.yaml"]).expect(0).text();
    assert!(text.contains("published docs/rep.md") && files() == published, "{text}");
}

#[test]
fn what_somebody_wrote_into_a_published_text_is_not_lost() {
    let space = space();
    space.write("a.yaml", TRIAL).write("NEWS.md", "# Lab\n");
    space.flow(["run", "a.yaml"]).expect(0);
    let edit = |file: &str, before: &str, words: &str| {
        space.write(file, &space.read(file).replacen(before, &format!("{words}\n\n{before}"), 1));
    };
    edit("docs/rep.md", "<details>", "My introduction.");
    edit("NEWS.md", "| loss", "My remark.");
    let edited = || (space.read("docs/rep.md"), space.read("NEWS.md"));
    let mine = edited();
    assert!(mine.0.contains("My introduction.") && mine.1.contains("My remark."), "{mine:?}");
    // Flow has nothing else to say than it said: there is nothing to decide.
    let text = space.flow(["run", "a.yaml"]).expect(0).text();
    assert!(!text.contains("kept") && edited() == mine, "{text}");
    space.write("a.yaml", &TRIAL.replace("echo loss ${{", "echo loss 1${{"));
    let text = space.flow(["run", "a.yaml"]).expect(0).text();
    let why = "it was edited by hand; --publish replaces it";
    assert!(text.contains(&format!("kept      docs/rep.md: {why}")), "{text}");
    assert!(text.contains(&format!("kept      NEWS.md: {why}")) && edited() == mine, "{text}");
    // As is what a formatter does.
    let plain =
        |text: String| text.replace("My introduction.\n\n", "").replace("My remark.\n\n", "").replace("| ", "|   ");
    space.write("docs/rep.md", &plain(mine.0)).write("NEWS.md", &plain(mine.1));
    let text = space.flow(["run", "a.yaml", "-f", "rep"]).expect(0).text();
    assert!(text.contains("published docs/rep.md") && text.contains("published NEWS.md"), "{text}");
    assert!(edited().0.contains("13"), "{}", edited().0);
    edit("docs/rep.md", "<details>", "My introduction.");
    let text = space.flow(["run", "a.yaml", "--publish"]).expect(0).text();
    assert!(text.contains("published docs/rep.md") && !edited().0.contains("My introduction."), "{text}");
}

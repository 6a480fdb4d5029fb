//! The pages of published figures, as a new reader sees them: their first lines in both languages, which a person has
//! checked.

mod common;

use common::known::{self, Page};
use common::{run, whole};

/// Lines of each half that the snapshots contain.
const LINES: usize = 25;

/// The first lines of a page by language.
fn first_lines(page: &Page) -> String {
    let out = run("report", page.with.clone(), &page.input).expect("a report");
    let page = whole(&out, "report.md");
    let (english, chinese) = page.split_once("\n## 中文\n").expect("two halves");
    [english, chinese]
        .map(|half| half.trim().lines().take(LINES).collect::<Vec<_>>().join("\n"))
        .join("\n\n## 中文\n\n")
}

#[test]
fn which_batch_size() {
    insta::assert_snapshot!(first_lines(&known::feb07()));
}

#[test]
fn which_layout_alone_and_together() {
    insta::assert_snapshot!(first_lines(&known::feb08()));
}

#[test]
fn two_on_one_gpu() {
    insta::assert_snapshot!(first_lines(&known::feb13()));
}

#[test]
fn where_the_jumps_are() {
    insta::assert_snapshot!(first_lines(&known::jumps()));
}

#[test]
fn batch_sizes_and_the_cpu() {
    insta::assert_snapshot!(first_lines(&known::bird()));
}

#[test]
fn packed_or_one_after_another() {
    insta::assert_snapshot!(first_lines(&known::packing()));
}

/// A whole page.
fn page(page: &Page) -> String {
    whole(&run("report", page.with.clone(), &page.input).expect("a report"), "report.md")
}

#[test]
fn what_a_sentence_says_of_a_load_stands_below_it_for_each_result() {
    let page = page(&known::feb07());
    assert!(page.contains("GPU-bound: GPU utilisation is 96.4% to 98.0%."), "{page}");
    for (batch, load) in [(16, "98.0%"), (32, "97.7%"), (512, "96.4%")] {
        let row = page.lines().find(|line| line.starts_with(&format!("| GPU utilisation of `train[batch={batch}]`")));
        assert!(row.is_some_and(|row| row.contains(load)), "{batch}: {page}");
    }
}

#[test]
fn height_and_place_of_a_jump_are_those_of_the_table() {
    let page = page(&known::jumps());
    // From 54.72 to 53.79 ms is a fall by 0.93 ms and not a jump. From 53.79 to 63.84, 59.17 to 72.41 and 118.50 to
    // 132.03 ms are jumps.
    assert!(!page.contains("23 and 24") && !page.contains("−8.7"), "{page}");
    let line = page.lines().find(|line| line.starts_with("- vgg16: Time of a step falls")).expect("a sentence");
    for step in ["32 (−6.06 ms)", "48 (−7.37 ms)", "25 (+10.05 ms)", "33 (+13.24 ms)", "65 (+13.53 ms)"] {
        assert!(line.contains(step), "{step}: {line}");
    }
}

#[test]
fn those_that_were_packed_with_it_are_no_others() {
    let page = page(&known::packing());
    assert!(page.contains("12 results shared their GPUs with other steps of flow, as planned"), "{page}");
    assert!(!page.contains("others used"), "{page}");
}

/// A load falls that rose before, and a slowdown of 39 times was nine before.
#[test]
fn what_was_found_earlier_is_found_again_only_with_its_sign_and_size() {
    let page = page(&known::bird());
    let row = |first: &str| page.lines().find(|line| line.starts_with(first)).unwrap_or_else(|| panic!("{page}"));
    assert!(row("| GPU utilisation ").ends_with("| no, the opposite |"), "{page}");
    let times = row("| Epoch time, gpu → cpu");
    assert!(times.contains("9.00×") && times.contains("39×") && times.ends_with("| no, different |"), "{times}");
}

//! A report as one page: its folds open and close, its targets are unique, and its links lead somewhere.

use std::collections::BTreeSet;

use crate::common::{REPORTS, ResultExt, add_table, feb08, input, result, run, view, whole};
use flow_core::BuiltinInput;
use roxmltree::Node;
use serde_json::{Value, json};

/// Reports with one section and with many, some of which show the same table.
fn reports() -> Vec<(BuiltinInput, Value)> {
    let mut with = feb08::with();
    let sections = with["sections"].as_array_mut().expect("a list");
    sections.extend(sections.clone());
    let of = |batch: u32| result("s", &[("batch", json!(batch))], 1).epoch_time(100.0 / f64::from(batch));
    let mut named = input(vec![("s", view("torch/train", None, [8, 16, 32].map(of).to_vec()))]);
    let names = ["t", "t_2", "zh", "clip", "h1"];
    for name in names {
        add_table(&mut named, name, json!({"from": "s", "rows": "batch", "columns": ["epoch_time"]}));
    }
    let sections: Vec<Value> = names.iter().chain(&["t", "zh", "t"]).map(|name| json!({"table": name})).collect();
    vec![
        (feb08::with_gpus(), feb08::with()),
        (feb08::without_gpus(), feb08::with()),
        (feb08::with_gpus(), with),
        (named, json!({"languages": ["en", "zh"], "sections": sections})),
    ]
}

fn duplicate(ids: &[String]) -> Option<&String> {
    let mut seen = BTreeSet::new();
    ids.iter().find(|id| !seen.insert(*id))
}

#[test]
fn a_page_of_html_holds_together() {
    for (input, with) in reports() {
        let out = run("report", with, &input).expect("a report");
        for lang in [None, Some("en"), Some("zh")] {
            let page = REPORTS.page(|file| out.files.get(file).cloned(), lang);
            let page = page.expect("a page").expect("a report");
            let body = page.split_once("<body>").expect("a body").1.trim_end().trim_end_matches("</html>");
            let xml = format!("<body>{body}").replace("<br>", "<br/>");
            // A fold that does not close is not valid XML.
            let document = roxmltree::Document::parse(&xml).unwrap_or_else(|e| panic!("{e}:\n{page}"));
            let elements = || document.descendants().filter(Node::is_element);
            let ids: Vec<String> = elements().filter_map(|node| node.attribute("id")).map(str::to_owned).collect();
            assert_eq!(duplicate(&ids), None, "{page}");
            let links = elements().filter_map(|node| node.attribute("href")).filter_map(|to| to.strip_prefix('#'));
            let clips = elements().filter_map(|node| node.attribute("clip-path"));
            let clips = clips.filter_map(|clip| clip.strip_prefix("url(#")?.strip_suffix(')'));
            for to in links.chain(clips) {
                assert!(ids.iter().any(|id| id == to), "a link to #{to} of {ids:?}");
            }
            let folds: Vec<Node<'_, '_>> = elements().filter(|node| node.has_tag_name("details")).collect();
            assert!(folds.len() > 1, "{page}");
            for fold in folds {
                let first = fold.first_element_child().expect("something inside");
                assert!(first.has_tag_name("summary") && first.text().is_some_and(|text| !text.is_empty()), "{page}");
                assert!(!fold.ancestors().skip(1).any(|node| node.has_tag_name("details")), "a fold in a fold: {page}");
            }
        }
    }
}

#[test]
fn a_report_in_markdown_holds_together() {
    for (input, with) in reports() {
        let report = whole(&run("report", with, &input).expect("a report"), "report.md");
        let mut open = false;
        for line in report.lines().filter(|line| ["<details>", "</details>"].contains(line)) {
            assert_eq!(open, line == "</details>", "{report}");
            open = !open;
        }
        assert!(!open, "{report}");
        let target = |line: &str| Some(line.strip_prefix("<a id=\"")?.strip_suffix("\"></a>")?.to_owned());
        let ids: Vec<String> = report.lines().filter_map(target).collect();
        assert_eq!(duplicate(&ids), None, "{report}");
        for to in report.split("](#").skip(1).filter_map(|rest| rest.split_once(')')).map(|(to, _)| to) {
            assert!(to == "中文" || ids.iter().any(|id| id == to), "a link to #{to} of {ids:?}");
        }
    }
}

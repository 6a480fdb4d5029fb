//! Puts text by others into every field of results. A report must show it as it was written, and it must not create a
//! link, HTML, a table row, or an unreadable picture.

use std::{collections::BTreeSet, sync::LazyLock, thread};

use crate::common::{REPORTS, ResultExt, add_table, feb08, input, result, run, text, view};
use flow_core::reason::{Cause, Disturbance, ProfileReason, Texts};
use flow_core::{
    BuiltinInput, BuiltinOutput, Builtins, GpuFacts, Machine, PublishJob, PublishWhat, Replace, StepResult,
};
use flow_report::{Bar, Gantt};
use proptest::prelude::*;
use pulldown_cmark::{Event, Options, Parser, Tag};
use serde_json::{Value, json};

/// Texts with a special meaning in some place.
const NASTY: [&str; 34] = [
    "(\t",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "a <!-- hidden",
    "--> shown",
    "x](javascript:alert(1)) [y",
    "![p](https://example.com/p.png)",
    "[a][b] [c]",
    "solo[batch=16](javascript:alert(1))",
    "<javascript:alert(1)>",
    "<https://example.com>",
    "a | b \\| c \\\\| d",
    "`` ` ``` `",
    "`a\\|b`",
    "***a*** __b__ ~~c~~ $d$ _e",
    "# heading",
    "- item\n- item\n\n# heading\n\n| a |\n|---|\n| b |",
    "\n\n<!-- flow entry: x on y, 2026-01-01 -->\n\n",
    "\n\n<!-- end of flow entry: feb08 -->\n\n",
    "\n\n<!-- flow's words: 0 -->\n\n",
    "1. one\r\n2) two\n===\n---\n> quote",
    "```\nfence",
    "~~~ fence",
    "    four blanks",
    "&lt;b&gt; &#106; &copy; &amp",
    "\x1b[31mred\x1b]8;;https://example.com\x07link\x1b]8;;\x07\x1b[0m",
    "\u{9b}31m\u{85}\u{7f}\0\u{8}",
    "\u{202e}gnp.exe\u{2066}\u{2028}\u{2029}\u{feff}\u{200b}\u{fffe}",
    "[^1]: note [ ] [x]",
    "back\\slash\\",
    "$\\frac{1}{2}$ \\$ ]]></text><g onload='x'>",
    "/![ ",
    "/\\®<script>alert(1)</script>",
    "=HYPERLINK(\"https://example.com\")",
];

/// Strings that are not free text: their values are fixed, or they have a meaning for a report.
const FIXED: [&str; 13] = [
    "fingerprint",
    "outcome",
    "mode",
    "kind",
    "digest",
    "series",
    "step",
    "uses",
    "from",
    "table",
    "corun.gpus",
    "resource",
    "memory",
];

/// Puts `by` before every text in a value.
fn stain(value: &mut Value, path: &str, by: &str) {
    let fixed = FIXED.iter().any(|name| path.ends_with(&format!(".{name}")));
    // These units decide how a number is displayed.
    let known =
        path.ends_with(".unit") && value.as_str().is_some_and(|unit| ["s", "bytes", "ratio", ""].contains(&unit));
    match value {
        Value::String(text) if !fixed && !known => *text = format!("{by}{text}"),
        Value::Array(all) => all.iter_mut().for_each(|one| stain(one, path, by)),
        Value::Object(map) => map.iter_mut().for_each(|(key, one)| stain(one, &format!("{path}.{key}"), by)),
        _ => {}
    }
}

/// The results with `by` before every text, and before the names of an axis, a metric and a fact.
fn stained(mut all: BuiltinInput, by: &str) -> BuiltinInput {
    // The name of a column has no spaces around it and is not a function.
    let name = format!("{}version", by.trim_start().replace(['(', ')'], ""));
    for view in all.steps.values_mut() {
        for result in &mut view.results {
            let mut json = serde_json::to_value(&*result).expect("JSON");
            stain(&mut json, "", by);
            *result = serde_json::from_value(json).expect("a result");
            if let Some(version) = result.axes.shift_remove("version") {
                result.axes.insert_before(0, name.clone(), version);
            }
            // A metric's name says whether more of it is better. This name says nothing.
            if let Some(top1) = result.metrics.remove("top1") {
                result.metrics.insert(format!("{name}_seen"), top1);
            }
        }
        if let Some(why) = &mut view.absent {
            why.texts(&mut |text| *text = format!("{by}{text}"));
        }
    }
    let expression = format!("{by}machine.gpus == 0");
    all.profile = all.profile.map(|(profile, _)| (format!("{by}{profile}"), ProfileReason::Holds { expression }));
    all.workflow = format!("{by}{}", all.workflow);
    let gpu = GpuFacts { uuid: by.into(), index: 0, name: format!("{by}H200"), memory: 1 << 30 };
    all.machine = Machine { gpus: vec![gpu], cpus: 2, cpu_model: format!("{by}EPYC"), ..Machine::default() };
    let labels = json!({&name: {format!("{by}v7"): {"en": format!("{by}seven"), "zh": format!("{by}七")}}});
    let solo = json!({"from": "solo", "rows": "batch", "split": name, "labels": labels,
        "columns": ["gpus", "gpu_memory", "cpu_util", "epoch_time", "growth(epoch_time)", format!("{name}_seen"), "odd",
            "gpu_model", "torch", "nosuch", {"column": "wall", "label": {"en": format!("{by}Wall"), "zh": format!("{by}用时")}}]});
    add_table(&mut all, "solo_table", solo);
    add_table(
        &mut all,
        "four_table",
        json!({"from": "four", "rows": [name, "batch"], "columns": ["gpu_memory", "epoch_time"]}),
    );
    add_table(&mut all, "parts_table", json!({"from": "solo", "rows": "batch", "split": name, "columns": ["odd"]}));
    all
}

/// Adds one of everything that a report can say about results.
fn everything(mut all: BuiltinInput) -> BuiltinInput {
    let solo = &mut all.steps["solo"].results;
    for result in solo.iter_mut() {
        *result = result.clone().metric("odd", 3.5, "widgets").metric("wall", 1.0, "s");
        result.params.insert("optimizer".into(), json!("sgd"));
    }
    solo[0].accepted = Some("a comment changed".into());
    solo[1].disturbances = vec![
        Disturbance::InputChanged { path: "photos".into(), differences: vec![] },
        Disturbance::InputRewritten { path: "photos".into(), seconds: 12 },
        Disturbance::InputWritten { path: "photos".into(), folder: None, itself: false },
        Disturbance::ForeignProcess { pid: 7, name: "python".into(), gpu: "0".into() },
    ];
    solo[2].circumstances.foreign_cpu = Some(0.17);
    solo[3].circumstances.foreign_processes =
        vec![flow_core::ForeignProcess { pid: 7, name: "python3".into(), gpu: "GPU-0".into(), memory: 1 << 30 }];
    solo[4].circumstances.gpu_shared = Some(0.2);
    solo[4].cause = Some(Cause::Reported { text: "it failed".into() });
    solo[5].circumstances.gpu_models = vec!["other".into()];
    all.steps["together"].results[0].disturbances = vec![Disturbance::OtherRuns { attempts: 2 }];
    all
}

fn with() -> Value {
    let mut with = feb08::with();
    let sections = with["sections"].as_array_mut().expect("sections");
    sections[1].as_object_mut().expect("a section").remove("compare");
    sections.push(json!({"table": "parts_table"}));
    with
}

/// The inputs of both reports, with `by` before their texts.
fn reports(by: &str) -> impl Iterator<Item = BuiltinInput> {
    [feb08::with_gpus(), feb08::without_gpus()].into_iter().map(move |input| stained(everything(input), by))
}

/// The inputs with a harmless prefix, and their reports.
fn plain() -> &'static [(BuiltinInput, BuiltinOutput)] {
    static PLAIN: LazyLock<Vec<(BuiltinInput, BuiltinOutput)>> = LazyLock::new(|| {
        let reported = |input: BuiltinInput| (input.clone(), run("report", with(), &input).expect("a report"));
        reports("x").map(reported).collect()
    });
    &PLAIN
}

fn options() -> Options {
    Options::ENABLE_TABLES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_MATH
}

/// The structure of a text, and its words.
fn read(markdown: &str) -> (Vec<String>, String) {
    let (mut shape, mut words) = (Vec::new(), String::new());
    for event in Parser::new_ext(markdown, options()) {
        match event {
            Event::Text(text) | Event::Code(text) => words.push_str(&text),
            Event::SoftBreak | Event::HardBreak => words.push(' '),
            Event::Start(Tag::Table(columns)) => shape.push(format!("table of {}", columns.len())),
            Event::Start(Tag::Paragraph) | Event::End(_) => {}
            Event::Start(Tag::Link { dest_url, .. }) => shape.push(format!("link {dest_url}")),
            Event::Start(Tag::Image { dest_url, .. }) => shape.push(format!("image {dest_url}")),
            other => shape.push(format!("{other:?}")),
        }
    }
    (shape, words)
}

/// Letters and punctuation in lower case. Backticks are left out, because a reason makes code of the text between them.
fn bare(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && *c != '`').flat_map(char::to_lowercase).collect()
}

/// The text as it is shown: control characters are visible.
fn shown(text: &str) -> String {
    bare(&flow_core::visible(text))
}

fn holds(of: &str, by: &str, plain: &str, markdown: &str, must: bool) -> Result<(), TestCaseError> {
    let hidden = markdown.chars().find(|c| *c != '\n' && flow_core::is_hidden(*c));
    prop_assert!(hidden.is_none(), "{of} of {by:?} has {hidden:?}");
    let ((shape, words), (plain_shape, _)) = (read(markdown), read(plain));
    prop_assert_eq!(shape, plain_shape, "{} of {:?}:\n{}", of, by, markdown);
    let one_line = by.replace(['\n', '\r', '\t'], " ");
    prop_assert!(!must || bare(&words).contains(&shown(&one_line)), "{of} does not read {by:?}:\n{markdown}");
    Ok(())
}

/// Names of the elements of a picture.
fn elements(svg: &str) -> Result<BTreeSet<String>, TestCaseError> {
    let document = roxmltree::Document::parse(svg);
    let document = document.map_err(|e| TestCaseError::fail(format!("{e}:\n{svg}")))?;
    let hidden =
        document.descendants().filter_map(|n| n.text()).flat_map(str::chars).find(|c| flow_core::is_hidden(*c));
    prop_assert!(hidden.is_none(), "{hidden:?} in {svg}");
    Ok(document.descendants().filter(|n| n.is_element()).map(|n| n.tag_name().name().to_owned()).collect())
}

/// Checks the outputs of one or both reports for results whose texts begin with `by`.
fn harmless(by: &str, count: usize) -> Result<(), TestCaseError> {
    for (input, (plain, expected)) in reports(by).zip(plain()).take(count) {
        let out = run("report", with(), &input).map_err(TestCaseError::fail)?;
        prop_assert_eq!(out.files.keys().collect::<Vec<_>>(), expected.files.keys().collect::<Vec<_>>());
        for file in ["report.md", "entry.md"] {
            holds(file, by, &text(expected, file), &text(&out, file), true)?;
        }
        for (file, lang) in [("table.en.md", "en"), ("table.zh.md", "zh")] {
            for step in ["solo_table", "four_table"] {
                let of = |input: &BuiltinInput| input.steps[step].files[0].get(file).cloned().unwrap_or_default();
                let [table, expected] = [of(&input), of(plain)].map(|bytes| String::from_utf8(bytes).expect("UTF-8"));
                holds(&format!("{step} in {lang}"), by, &expected, &table, true)?;
            }
        }
        for (file, svg) in out.files.iter().filter(|(file, _)| file.ends_with(".svg")) {
            let [svg, expected] = [svg, &expected.files[file]].map(|svg| String::from_utf8_lossy(svg).into_owned());
            prop_assert_eq!(elements(&svg)?, elements(&expected)?);
        }
        for lang in [None, Some("en"), Some("zh")] {
            let [page, expected] = [&out, expected].map(|out| page(out, lang));
            prop_assert_eq!(html(&page)?, html(&expected)?, "the page of {:?}", by);
        }
        published(&out.files, by)?;
    }
    Ok(())
}

fn page(out: &BuiltinOutput, lang: Option<&str>) -> String {
    REPORTS.page(|file| out.files.get(file).cloned(), lang).expect("a page").expect("a report")
}

/// The structure of a page: elements with their attributes and link targets. It loads and runs nothing.
fn html(page: &str) -> Result<Vec<String>, TestCaseError> {
    let body = page.split_once("<body>").map_or("", |(_, body)| body).trim_end().trim_end_matches("</html>");
    // Everything on the page is also XML, except elements without an end.
    let xml = format!("<body>{body}").replace("<br>", "<br/>");
    let document = roxmltree::Document::parse(&xml);
    let document = document.map_err(|e| TestCaseError::fail(format!("{e}:\n{page}")))?;
    let mut shape = Vec::new();
    for element in document.descendants().filter(|node| node.is_element()) {
        let name = element.tag_name().name();
        prop_assert!(
            !["script", "iframe", "img", "image", "object", "embed", "link", "base", "meta", "form"].contains(&name)
        );
        let mut attributes = Vec::new();
        for attribute in element.attributes() {
            let (name, value) = (attribute.name(), attribute.value());
            prop_assert!(!name.starts_with("on") && !["src", "srcset", "data", "action"].contains(&name), "{name}");
            let leads = ["#", "https://", "http://", "mailto:"].iter().any(|begin| value.starts_with(begin));
            prop_assert!(name != "href" || leads, "a link to {value:?}");
            prop_assert!(!value.contains("url(") || value.starts_with("url(#"), "{name}={value:?}");
            attributes.push(name.to_owned());
        }
        shape.push(format!("{name} {}", attributes.join(" ")));
    }
    // Some elements may differ: a long name takes more lines in a picture, not every text can be code, and a note says
    // if a similar name exists.
    shape.retain(|element| {
        !["br", "code", "text", "tspan", "line", "path", "rect", "circle"].iter().any(|own| element.starts_with(own))
    });
    Ok(shape)
}

/// An entry is in a file once, replaces itself, and changes nothing else.
fn published(files: &std::collections::BTreeMap<String, Vec<u8>>, by: &str) -> Result<(), TestCaseError> {
    let job = |existing: &str| PublishJob {
        files: files.clone(),
        what: PublishWhat::WhatsNew,
        target: "NEWS.md".into(),
        existing: Some(existing.to_owned()),
        whats_new: std::collections::BTreeMap::new(),
        report: Some("reports/feb08.md".into()),
        replace: Replace::Alike,
    };
    let publish = |existing: &str| {
        let files = REPORTS.publish(&job(existing)).expect("published").files;
        String::from_utf8(files[0].bytes.clone()).expect("UTF-8")
    };
    let readme = "# Lab\n\n## What's New\n\nOlder words.\n\n```\ncode\n```\n\n## Usage\n";
    let once = publish(readme);
    prop_assert_eq!(&publish(&once), &once, "{:?} published twice", by);
    prop_assert!(once.contains("Older words.\n\n```\ncode\n```\n\n## Usage\n"), "{}", once);
    let marks =
        Parser::new_ext(&once, options()).filter(|event| matches!(event, Event::Html(_) | Event::InlineHtml(_)));
    prop_assert_eq!(marks.count(), 3, "{}", once);
    Ok(())
}

#[test]
fn the_worst_that_is_known() {
    let long = "very long ".repeat(200);
    let all: Vec<&str> = NASTY.into_iter().chain([&*long]).collect();
    // Few places differ in the report without GPUs, so it gets every third text.
    let check = |(n, by): (usize, &&str)| {
        harmless(by, if n % 3 == 0 { 2 } else { 1 }).unwrap_or_else(|e| panic!("{by:?}: {e}"));
    };
    thread::scope(|scope| {
        for first in [0, 1] {
            let half = all.iter().enumerate().skip(first).step_by(2);
            scope.spawn(move || half.for_each(check));
        }
    });
}

#[test]
fn schedules_of_odd_kinds_and_instances() {
    for by in NASTY {
        let bar = |n: usize| Bar { lane: n % 2, kind: format!("{by}{n}"), start: n as f64, end: n as f64 + 1.0 };
        let gantt = Gantt::new(2, (0..8).map(bar).collect(), Some((vec![(0.0, 1.0)], 4.0)), vec![(0.0, 1.0)]);
        elements(&gantt.svg(&flow_report::Words::new(), "en")).unwrap_or_else(|e| panic!("{by:?}: {e}"));
        let report = |by: &str| {
            let label = |n: u32| -> StepResult {
                let mut result =
                    result("sim", &[("policy", json!(format!("{by}{n}")))], 0).metric("makespan", 8.0, "s");
                result.label = format!("{by}sim{n}");
                result
            };
            let mut sim = view("flow/simulate", None, vec![label(1), label(2)]);
            for files in &mut sim.files {
                files.insert("schedule.json".into(), serde_json::to_vec(&gantt).expect("JSON"));
            }
            let mut input = input(vec![("sim", sim)]);
            add_table(&mut input, "t", json!({"from": "sim", "columns": ["makespan"]}));
            let schedules = [1, 2].map(|n| json!({"from": "sim", "where": {"policy": format!("{by}{n}")}}));
            let with = json!({"languages": ["en", "zh"], "sections": [{"table": "t", "schedules": schedules}]});
            run("report", with, &input).expect("a report")
        };
        let (out, plain) = (report(by), report("x"));
        holds("report.md", by, &text(&plain, "report.md"), &text(&out, "report.md"), true)
            .unwrap_or_else(|e| panic!("{by:?}: {e}"));
        for svg in ["charts/schedule-1.svg", "charts/schedule-2.svg"] {
            elements(&text(&out, svg)).unwrap_or_else(|e| panic!("{by:?}: {e}"));
        }
    }
}

#[test]
fn what_authors_write_cannot_load_or_run_anything_in_a_page() {
    let author = "<script>alert(1)</script> <b onclick=x>b</b> [a](javascript:alert(1)) [d](data:text/html,x) <javascript:x> \
                  ![p](https://example.com/p.png) [ok](https://example.com) <!-- unseen -->";
    let mut with = feb08::with();
    with["sections"][0]["title"] = json!(author);
    with["sections"][0]["notes"] = json!({"question": author, "guess": author, "todo": format!("x\n\n{author}")});
    with["setup"] = json!([{"label": author, "value": author}]);
    with["template"] = json!(format!(
        "# {author}\n\n{author}\n\n<div>\n{author}\n</div>\n\n<!--\nx\n-->\n\n{{{{ sections[0].table }}}}"
    ));
    for template in [true, false] {
        if !template {
            with.as_object_mut().expect("parameters").remove("template");
        }
        let out = run("report", with.clone(), &feb08::with_gpus()).expect("a report");
        for lang in [None, Some("en"), Some("zh")] {
            let page = page(&out, lang);
            html(&page).unwrap_or_else(|e| panic!("{e}"));
            assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{page}");
            assert!(page.contains("<a href=\"https://example.com\">ok</a>"), "{page}");
            assert!(!page.contains("<!-- unseen"), "{page}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn whatever_it_is(parts in proptest::collection::vec(prop_oneof![
        proptest::sample::select(&NASTY[..]).prop_map(str::to_owned),
        "[-\\[\\](){}<>!#*_`~|&;:$\\\\\\n\\r\\t =+.0-9a-c\"'/]{1,12}",
        "\\PC{1,6}",
        any::<char>().prop_map(String::from),
    ], 1..4)) {
        harmless(&parts.concat(), 2)?;
    }
}

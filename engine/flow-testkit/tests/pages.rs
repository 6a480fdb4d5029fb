//! What people read first: the README, the page of its first command, and the questions that workflows ask.

use std::{fs, path::PathBuf};

use regex_lite::Regex;
use serde_yaml::Value;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The numbers in a text, as they are written.
fn numbers(text: &str) -> Vec<String> {
    let number = Regex::new(r"\d+(\.\d+)?").expect("a pattern");
    number.find_iter(text).map(|found| found.as_str().to_owned()).collect()
}

/// A number of the page reads so with as many digits.
fn is_in(page: &[f64], number: &str) -> bool {
    let decimals = number.split_once('.').map_or(0, |(_, behind)| behind.len());
    page.iter().any(|value| format!("{value:.decimals$}") == number)
}

/// A README without its entries of What's New, which flow writes.
fn readme(path: &str) -> String {
    let page = read(path);
    let entries = Regex::new(r"(?s)<!-- flow entry:.*<!-- end of flow entry:[^\n]*\n").expect("a pattern");
    entries.replace(&page, "").into_owned()
}

const READMES: [&str; 2] = ["README.md", "README.zh.md"];

#[test]
fn a_readme_is_short_and_has_the_two_commands_that_do_everything() {
    for path in READMES {
        let page = readme(path);
        assert!(page.lines().count() <= 150, "{path}: {} lines", page.lines().count());
        let long: Vec<&str> = page.lines().filter(|line| line.chars().count() > 100).collect();
        assert!(long.is_empty(), "{path}: {long:#?}");
        for command in ["\ncargo run --release -- run workflows/feb08.yaml\n", "`python3 engine/test.py`"] {
            assert!(page.contains(command), "{path}: {command}");
        }
    }
}

#[test]
fn a_readme_opens_with_an_answer_from_a_report() {
    for (path, verdicts) in READMES.into_iter().zip([["only concurrent", "parallel"], ["仅并发", "并行"]]) {
        let page = readme(path);
        let caption = page.split("\n\n").find(|paragraph| paragraph.starts_with('*')).expect("a caption");
        let caption = caption.replace('\n', " ");
        assert!(page.find("\n```").is_some_and(|command| page.find("![").expect("a picture") < command), "{path}");
        for verdict in verdicts {
            assert!(caption.contains(&format!("**{verdict}**")), "{path}: {caption}");
        }
        let link = Regex::new(r"(?m)\]\((examples/reports/\S+-\S+\.md)\)|^\[1\]: (\S+)$").expect("a pattern");
        let found = link.captures(&page).expect("the report");
        let report = found.get(1).or(found.get(2)).expect("a link").as_str();
        let rows = read(report);
        let rows = rows.lines().filter(|line| line.starts_with("| "));
        let on_page: Vec<f64> = rows.flat_map(numbers).filter_map(|number| number.parse().ok()).collect();
        let said: Vec<String> = numbers(&caption).into_iter().filter(|number| number.contains('.')).collect();
        assert!(said.len() >= 4, "{said:?}");
        for number in said {
            assert!(is_in(&on_page, &number), "{path} says {number}, and {report} does not");
        }
    }
}

#[test]
fn links_between_pages_lead_somewhere() {
    let link = Regex::new(r"\]\(([^)\s#]+)(?:#[^)]*)?\)|(?m)^\[[^\]]+\]: ([^\s#]+)").expect("a pattern");
    let mut pages: Vec<String> =
        READMES.iter().chain(&["CHANGELOG.md", "examples/README.md"]).map(|page| (*page).to_owned()).collect();
    let docs = fs::read_dir(root().join("docs")).expect("a folder").flatten();
    let docs = docs.map(|page| format!("docs/{}", page.file_name().to_string_lossy()));
    pages.extend(docs.filter(|page| page.ends_with(".md")));
    let mut seen = 0;
    for page in pages {
        let folder = root().join(&page).parent().expect("a folder").to_owned();
        for found in link.captures_iter(&read(&page)) {
            let target = found.get(1).or(found.get(2)).expect("a link").as_str();
            if !target.contains("://") {
                seen += 1;
                assert!(folder.join(target).exists(), "{page}: {target}");
            }
        }
    }
    assert!(seen > 20, "{seen}");
}

/// The values of each key `question` in it.
fn questions(value: &Value, found: &mut Vec<Value>) {
    match value {
        Value::Mapping(mapping) => {
            for (key, value) in mapping {
                match key.as_str() {
                    Some("question") => found.push(value.clone()),
                    _ => questions(value, found),
                }
            }
        }
        Value::Sequence(values) => values.iter().for_each(|value| questions(value, found)),
        _ => {}
    }
}

/// Asked whether it is 52 %, of shares that it was given, a simulation finds 52 %.
#[test]
fn no_question_names_the_figure_that_would_answer_it() {
    let mut asked = Vec::new();
    for path in fs::read_dir(root().join("workflows")).expect("a folder").flatten().map(|entry| entry.path()) {
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let text = fs::read_to_string(&path).expect("a file");
            questions(&serde_yaml::from_str(&text).unwrap_or_else(|error| panic!("{path:?}: {error}")), &mut asked);
        }
    }
    assert!(asked.len() >= 10, "{asked:?}");
    let figure = Regex::new(r"\d\s*[%％×倍]|\d+\.\d").expect("a pattern");
    for question in asked {
        let text = serde_yaml::to_string(&question).expect("text");
        assert!(!figure.is_match(&text), "{text}");
    }
}

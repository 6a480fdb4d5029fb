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
fn stands_in(page: &[f64], number: &str) -> bool {
    let decimals = number.split_once('.').map_or(0, |(_, behind)| behind.len());
    page.iter().any(|value| format!("{value:.decimals$}") == number)
}

#[test]
fn the_readme_leads_with_an_answer() {
    let readme = read("README.md");
    let (before, _) = readme.split_once("\n```").expect("a command");
    let rows: Vec<&str> = before.lines().filter(|line| line.starts_with("| ")).collect();
    assert!(rows.len() >= 3, "a table stands before the first command: {before}");
    for verdict in ["only concurrent", "parallel"] {
        assert!(rows.iter().any(|row| row.contains(verdict)), "{verdict}: {rows:#?}");
    }
}

#[test]
fn what_the_first_command_writes_without_a_gpu_shows_what_the_readme_says_of_it() {
    let page = read("reports/feb08.md");
    assert!(page.contains("\n- v7: ") && page.contains("Bottleneck: CPU"), "{page}");
    let readme = read("README.md");
    let start = readme.find("**Two cores and no GPU show it too**").expect("the paragraph");
    let said = &readme[start..][..readme[start..].find("([report](reports/feb08.md))").expect("its report")];
    // In its tables and in what it found, and not in the date, the head and the notes.
    let begins = ["| ", "- v", "- From", "- Together"];
    let found = page.lines().filter(|line| begins.iter().any(|begin| line.starts_with(begin)));
    let on_page: Vec<f64> = found.flat_map(numbers).filter_map(|number| number.parse().ok()).collect();
    let said = numbers(&said.replace("v7", "").replace("v11", ""));
    assert!(said.len() >= 7, "{said:?}");
    for number in said {
        assert!(stands_in(&on_page, &number), "README.md says {number}, and reports/feb08.md does not");
    }
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

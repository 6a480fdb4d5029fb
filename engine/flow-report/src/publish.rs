//! `publish:`: a whole report next to its charts, and an entry below the heading "What's New" of a file whose other
//! bytes stay as they are.

use flow_core::{FileToWrite, Publication, PublishJob, PublishWhat, Replace, WHATS_NEW, reason::WithheldReason};
use serde::{Deserialize, de::IgnoredAny};
use unicode_width::UnicodeWidthStr;

use crate::entries::{self, Edits, Entry, GPUS, PROFILE, REPORT, WORDS, mark, marked, without_marks, words};
use crate::words::Words;
use crate::{report, safe};

/// Characters that a path may contain and that mean something else in a link.
const PATH: &str = "%#?";

/// The fields of `report.json` that an entry needs.
#[derive(Deserialize)]
struct Identity {
    workflow: String,
    date: String,
    hardware: String,
    #[serde(default)]
    languages: Vec<String>,
    #[serde(default)]
    setup: Head,
}

impl Identity {
    fn entry_name(&self) -> String {
        // Simulations have no hardware.
        match self.hardware.as_str() {
            "" => mark(&self.workflow),
            hardware => mark(&format!("{} on {hardware}", self.workflow)),
        }
    }
}

/// The fields of its set-up.
#[derive(Default, Deserialize)]
struct Head {
    #[serde(default)]
    gpus: Vec<(String, usize, u64)>,
    #[serde(default)]
    profile: Option<(String, IgnoredAny)>,
}

impl Head {
    fn profile(&self) -> String {
        self.profile.as_ref().map(|(name, _)| mark(name)).unwrap_or_default()
    }

    fn gpus(&self) -> String {
        let models: Vec<String> = self.gpus.iter().map(|(model, ..)| mark(model)).collect();
        models.join(", ")
    }
}

/// Writes an entry of `publish:`.
pub(crate) fn publish(job: &PublishJob, catalogue: &Words) -> Result<Publication, String> {
    let stem = job.target.rsplit_once('.').map_or(job.target.as_str(), |(stem, _)| stem);
    let own = identity(job)?;
    match job.what {
        PublishWhat::Report => {
            let workflow = mark(&own.workflow);
            let old = job.existing.as_deref().filter(|old| !old.trim().is_empty());
            let folder = safe::target(stem, PATH);
            let mut text = public(job, "report.md")?.replace("](charts/", &format!("]({folder}/"));
            for lang in other_languages(job) {
                text = text.replace(&format!("](report.{lang}.md)"), &format!("]({folder}/{lang}.md)"));
            }
            let (profile, gpus, words) = (own.setup.profile(), own.setup.gpus(), words(&text));
            let marks = format!("{PROFILE}{profile} -->\n{GPUS}{gpus} -->\n{WORDS}{words} -->\n{REPORT}{workflow} -->");
            let mut text = format!("{text}\n{marks}\n");
            let edits = Edits::of(old.unwrap_or_default(), &words);
            let withheld = withheld(&job.replace, old.is_some(), || {
                let old = old.unwrap_or_default();
                different(&own.setup, marked(old, PROFILE), marked(old, GPUS)).or(in_the_way(edits))
            });
            if let (Some(old), None) = (old, &withheld) {
                may_replace(old, &workflow)?;
                if job.replace == Replace::Alike && edits == Edits::OfTheSame {
                    old.clone_into(&mut text);
                }
            }
            let mut files = vec![FileToWrite { path: job.target.clone(), bytes: text.into_bytes() }];
            // The folder belongs to flow, so a page in it replaces no file of a user.
            for lang in other_languages(job) {
                let back = format!("](../{})", safe::target(&job.target, PATH));
                let page = public(job, &format!("report.{lang}.md"))?.replace("](charts/", "](");
                let bytes = page.replace("](report.md)", &back).into_bytes();
                files.push(FileToWrite { path: format!("{stem}/{lang}.md"), bytes });
            }
            for (path, bytes) in &job.files {
                if let Some(chart) = path.strip_prefix("charts/") {
                    files.push(FileToWrite { path: format!("{stem}/{chart}"), bytes: bytes.clone() });
                }
            }
            Ok(Publication { files, withheld })
        }
        PublishWhat::WhatsNew => whats_new(job, &own, catalogue),
    }
}

/// Maximum entries in a README, in three lines each.
const NEWEST: usize = 3;

/// An entry. A README has the newest ones in short, and a file next to it has all of them. Without a GPU, entries are
/// only in another file, unless the user wants them published.
fn whats_new(job: &PublishJob, own: &Identity, catalogue: &Words) -> Result<Publication, String> {
    let readme = job.target.to_lowercase().starts_with("readme");
    let short = readme && (!own.setup.gpus.is_empty() || job.replace == Replace::Always);
    let path = match (readme, short) {
        (false, _) => job.target.as_str(),
        (true, true) => WHATS_NEW[0],
        (true, false) => WHATS_NEW[1],
    };
    let there = if readme { job.whats_new.get(path) } else { job.existing.as_ref() };
    let there = there.map(String::as_str).filter(|there| !readme || !there.trim().is_empty());
    let existing = there.unwrap_or(match (readme, short) {
        (false, _) => "",
        (true, true) => "# What's New\n",
        (true, false) => "# What's New (runs without a GPU)\n",
    });
    let text = entry(job, path)?;
    let entry = Entry { name: own.entry_name(), date: mark(&own.date), profile: own.setup.profile(), text };
    let front = job.existing.as_deref().filter(|_| short).unwrap_or_default();
    let in_front = if short { Some(in_short(job, own, &entry, catalogue)?) } else { None };

    let (workflow, all) = (mark(&own.workflow), entries::all(existing));
    let on = format!("{workflow} on ");
    let published = all.iter().any(|place| place.name == workflow || place.name.starts_with(&on));
    let edits = edits(existing, &entry);
    let front_edits = in_front.as_ref().map_or(Edits::None, |entry| self::edits(front, entry));
    let newest = all.iter().filter(|place| place.name == entry.name).max_by_key(|place| place.date.as_str());
    let withheld = withheld(&job.replace, published, || {
        different(&own.setup, Some(&newest?.profile), None).or(in_the_way(edits)).or(in_the_way(front_edits))
    });
    if withheld.is_some() {
        let bytes = entries::with_entry("", &entry).into_bytes();
        return Ok(Publication { files: vec![FileToWrite { path: path.to_owned(), bytes }], withheld });
    }
    let with = |file: &str, entry: &Entry, edits: Edits| match edits {
        Edits::OfTheSame if job.replace == Replace::Alike => file.to_owned(),
        _ => entries::with_entry(file, entry),
    };
    let mut content = with(existing, &entry, edits);
    let mut files = Vec::new();
    if let Some(in_front) = in_front {
        content = entries::with_all_of(&content, front);
        let bytes = entries::newest(&with(front, &in_front, front_edits), NEWEST).into_bytes();
        files.push(FileToWrite { path: job.target.clone(), bytes });
    }
    files.insert(0, FileToWrite { path: path.to_owned(), bytes: content.into_bytes() });
    Ok(Publication { files, withheld: None })
}

/// The edits to the entry of the same report and day.
fn edits(file: &str, entry: &Entry) -> Edits {
    let all = entries::all(file);
    let old = entries::same(&all, entry).map(|old| &file[old.start..old.end]);
    old.map_or(Edits::None, |old| Edits::of(old, &words(&entry.text)))
}

fn in_the_way(edits: Edits) -> Option<WithheldReason> {
    (edits == Edits::OfAnother).then_some(WithheldReason::Edited)
}

/// The entry in three lines: title, answer and links. In the language of a file such as `README.zh.md`, if the report
/// has that language.
fn in_short(job: &PublishJob, own: &Identity, entry: &Entry, catalogue: &Words) -> Result<Entry, String> {
    let json = text(job, "report.json")?;
    let lang = job.target.split('.').rev().nth(1).filter(|lang| own.languages.iter().any(|own| own == lang));
    let lang = lang.or(own.languages.first().map(String::as_str)).unwrap_or("en");
    let words = catalogue.locale(lang);
    let said = report::in_short(json.as_bytes(), words)?;
    let link = |key: &str, path: &str| format!("[{}]({})", words.word(key), safe::target(path, PATH));
    let report = job.report.iter().map(|report| link("news-report", report));
    let links: Vec<String> = report.chain([link("news-all", WHATS_NEW[0])]).collect();
    let lines = [format!("**{}**", said.title), wrapped(&said.answer.replace('\n', " ")), links.join(" · ")];
    let lines: Vec<String> = lines.into_iter().filter(|line| !line.trim().is_empty()).collect();
    let text = lines.join("\\\n");
    Ok(Entry { text: without_marks(&safe::without_folders(&text)), ..entry.clone() })
}

/// Wraps a paragraph at blanks. No line begins like a list, a heading or a quote of Markdown.
fn wrapped(text: &str) -> String {
    const COLUMNS: usize = 100;
    let is_mark = |word: &str| {
        let number = word.strip_suffix(['.', ')']).unwrap_or_default();
        word.starts_with(['-', '+', '*', '#', '>', '=', '|']) || number.parse::<u32>().is_ok()
    };
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        match lines.last_mut() {
            // The last column is for a backslash.
            Some(line) if is_mark(word) || line.width() + 1 + word.width() < COLUMNS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

/// The languages that have a separate page next to `report.md`.
fn other_languages(job: &PublishJob) -> impl Iterator<Item = &str> {
    job.files.keys().filter_map(|path| path.strip_prefix("report.")?.strip_suffix(".md"))
}

/// The reason why a published text stays, if one is `there`; `different` returns how it differs.
fn withheld(replace: &Replace, there: bool, different: impl Fn() -> Option<WithheldReason>) -> Option<WithheldReason> {
    match replace {
        Replace::Nothing(WithheldReason::Requested) => Some(WithheldReason::Requested),
        Replace::Nothing(why) if there => Some(why.clone()),
        Replace::Alike if there => different(),
        _ => None,
    }
}

/// How a published text differs from the one of this run, according to its marks.
fn different(own: &Head, profile: Option<&str>, gpus: Option<&str>) -> Option<WithheldReason> {
    let differs =
        |published: Option<&str>, own: &str| published.filter(|published| *published != own).map(str::to_owned);
    let (profile_here, gpus_here) = (own.profile(), own.gpus());
    if let Some(published) = differs(gpus, &gpus_here) {
        return Some(WithheldReason::Gpus { published, own: gpus_here });
    }
    differs(profile, &profile_here).map(|published| WithheldReason::Profile { published, own: profile_here })
}

/// A user's file must not be replaced, and neither must the report of another workflow.
fn may_replace(old: &str, workflow: &str) -> Result<(), String> {
    let owner = old.rsplit_once(REPORT).and_then(|(_, rest)| rest.split_once(" -->"));
    let whose = match owner {
        Some((owner, _)) if owner == workflow => return Ok(()),
        Some((owner, _)) => format!("the existing file is the report of the workflow `{owner}`"),
        None => "flow did not write the existing file".to_owned(),
    };
    Err(format!("{whose}; move it away, or publish elsewhere"))
}

fn identity(job: &PublishJob) -> Result<Identity, String> {
    serde_json::from_str(&text(job, "report.json")?)
        .map_err(|e| format!("`report.json` of the report cannot be read: {e}; run the report again"))
}

fn text(job: &PublishJob, file: &str) -> Result<String, String> {
    let bytes =
        job.files.get(file).ok_or_else(|| format!("the step to publish has no `{file}`: is it a `flow/report`?"))?;
    String::from_utf8(bytes.clone()).map_err(|_| format!("`{file}` is not UTF-8"))
}

/// A text of the report for publication: without folders of the machine that made it.
fn public(job: &PublishJob, file: &str) -> Result<String, String> {
    Ok(without_marks(&safe::without_folders(&text(job, file)?)))
}

/// The text of an entry for this file, with headings from level one. Its charts are those of the published report;
/// without one it has none.
fn entry(job: &PublishJob, file: &str) -> Result<String, String> {
    let text = public(job, "entry.md")?;
    let Some(report) = &job.report else {
        return Ok(without_charts(&text));
    };
    let report = from_folder(file, report);
    let link = safe::target(&report, PATH);
    let folder = link.rsplit_once('.').map_or(link.as_str(), |(stem, _)| stem);
    let text = text.replace("](charts/", &format!("]({folder}/"));
    Ok(format!("{}\n[{}]({link})\n", without_double_blanks(text.lines()), safe::text(&report)))
}

/// A path from the folder of a file. That folder is at most one level below the folder that the path is relative to.
fn from_folder(file: &str, path: &str) -> String {
    match file.rsplit_once('/') {
        Some((folder, _)) => {
            let inside = path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
            inside.map_or_else(|| format!("../{path}"), str::to_owned)
        }
        None => path.to_owned(),
    }
}

/// The text of a report for a terminal: without charts and links to files beside it, and with nothing folded.
pub(crate) fn for_terminal(text: &str) -> String {
    let text = without_charts(text);
    let unfolded = text.lines().filter_map(|line| {
        let inside = |begin: &str, end: &str| line.strip_prefix(begin).and_then(|rest| rest.strip_suffix(end));
        if matches!(line, "<details>" | "</details>") || inside("<a id=\"", "\"></a>").is_some() {
            return None;
        }
        inside("<summary>", "</summary>").map_or_else(|| without_links(line), |title| Some(format!("**{title}**")))
    });
    without_double_blanks(unfolded.collect::<Vec<_>>().iter().map(String::as_str))
}

/// A line without links to files beside the report; `None` if it has nothing else.
fn without_links(line: &str) -> Option<String> {
    let mut out = line.to_owned();
    for begin in ["](charts/", "](report."] {
        while let Some(at) = out.find(begin) {
            let (Some(from), Some(length)) = (out[..at].rfind('['), out[at..].find(')')) else { break };
            let from = out[..from].strip_suffix(" · ").map_or(from, str::len);
            out.replace_range(from..=at + length, "");
        }
    }
    (line.is_empty() || !out.is_empty()).then_some(out)
}

/// The text of a report without its charts and their captions, for a place that does not have them.
pub(crate) fn without_charts(text: &str) -> String {
    let mut chart = false;
    without_double_blanks(text.lines().filter(|line| {
        chart = line.starts_with("![") && line.contains("](charts/") || chart && !line.is_empty();
        !chart
    }))
}

fn without_double_blanks<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let mut out = String::new();
    for line in lines {
        if !line.is_empty() || !out.ends_with("\n\n") && !out.is_empty() {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
#[path = "publish_tests.rs"]
mod tests;

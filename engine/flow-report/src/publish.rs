//! `publish:`: a whole report beside its charts, and an entry under the heading "What's New" of a file whose other bytes stay as
//! they are.

use std::{borrow::Cow, ops::Range};

use flow_core::{Digest, FileToWrite, Publication, PublishJob, PublishWhat, Replace, reason::Withheld, visible};
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};
use serde::{Deserialize, de::IgnoredAny};

use crate::safe;

/// The begin of an entry; its end is [`END`] with the same identity.
const BEGIN: &str = "<!-- flow entry: ";
const END: &str = "<!-- end of flow entry: ";
/// The end of a whole report, by which it is known again.
const REPORT: &str = "<!-- flow report: ";
/// The profile and the GPU models of a whole report, between its text and its end.
const PROFILE: &str = "<!-- flow report's profile: ";
const GPUS: &str = "<!-- flow report's GPUs: ";
/// The digest of a report's or an entry's own words, so that words of others in it are seen.
const WORDS: &str = "<!-- flow's words: ";
/// In the begin of an entry, before the profile, or that there is none.
const ENTRY_PROFILE: &str = ", profile ";
const ENTRY_WITHOUT: &str = ", no profile";
/// The heading of a file that has none.
const HEADING: &str = "## What's New";

/// Signs that a path may have and that mean something else in a link.
const PATH: &str = "%#?";

/// What of `report.json` an entry needs.
#[derive(Deserialize)]
struct Identity {
    workflow: String,
    date: String,
    hardware: String,
    #[serde(default)]
    setup: Head,
}

/// What of its set-up.
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

/// What a publish entry writes.
pub(crate) fn publish(job: &PublishJob) -> Result<Publication, String> {
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
                different(&own.setup, marked(old, PROFILE), marked(old, GPUS)).or(edits.in_the_way())
            });
            if let (Some(old), None) = (old, &withheld) {
                may_replace(old, &workflow)?;
                if job.replace == Replace::Alike && edits == Edits::OfTheSame {
                    old.clone_into(&mut text);
                }
            }
            let mut files = vec![FileToWrite { path: job.target.clone(), bytes: text.into_bytes() }];
            // The folder is flow's own, so a page in it replaces nobody's file.
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
        PublishWhat::WhatsNew => {
            let existing = job.existing.as_deref().unwrap_or("");
            let (workflow, name) = (mark(&own.workflow), entry_name(&own));
            let on = format!("{workflow} on ");
            let entries = places(&Page::of(existing).lines);
            let there = entries.iter().any(|p| p.identity == workflow || p.identity.starts_with(&on));
            let entry = entry(job)?;
            let old = entries.iter().find(|place| place.identity == name);
            let edits = old.map_or(Edits::None, |old| Edits::of(&existing[old.start..old.end], &words(&entry)));
            let withheld = withheld(&job.replace, there, || {
                different(&own.setup, old?.profile.as_deref(), None).or(edits.in_the_way())
            });
            let content = match &withheld {
                None if job.replace == Replace::Alike && edits == Edits::OfTheSame => existing.to_owned(),
                None => with_entry(existing, &entry, &own),
                Some(_) => with_entry("", &entry, &own),
            };
            let files = vec![FileToWrite { path: job.target.clone(), bytes: content.into_bytes() }];
            Ok(Publication { files, withheld })
        }
    }
}

/// The languages that have a page of their own beside `report.md`.
fn other_languages(job: &PublishJob) -> impl Iterator<Item = &str> {
    job.files.keys().filter_map(|path| path.strip_prefix("report.")?.strip_suffix(".md"))
}

/// Why something that is published, if it is, stays; `different` says in what it is another thing.
fn withheld(replace: &Replace, there: bool, different: impl Fn() -> Option<Withheld>) -> Option<Withheld> {
    match replace {
        Replace::Nothing(Withheld::Asked) => Some(Withheld::Asked),
        Replace::Nothing(why) if there => Some(why.clone()),
        Replace::Alike if there => different(),
        _ => None,
    }
}

/// In what something published differs from what a run would publish, as far as its marks say.
fn different(own: &Head, profile: Option<&str>, gpus: Option<&str>) -> Option<Withheld> {
    let differs =
        |published: Option<&str>, own: &str| published.filter(|published| *published != own).map(str::to_owned);
    let (profile_here, gpus_here) = (own.profile(), own.gpus());
    if let Some(published) = differs(gpus, &gpus_here) {
        return Some(Withheld::Gpus { published, own: gpus_here });
    }
    differs(profile, &profile_here).map(|published| Withheld::Profile { published, own: profile_here })
}

/// What somebody did to a published text since flow wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edits {
    /// Nothing, as far as its marks say.
    None,
    /// Something, and flow has nothing else to say than it said.
    OfTheSame,
    /// Something, and flow has something new to say.
    OfAnother,
}

impl Edits {
    /// Of the text as it is, and the digest of the words that would replace it.
    fn of(old: &str, new: &str) -> Edits {
        match marked(old, WORDS) {
            Some(wrote) if wrote != words(old) => {
                if wrote == new {
                    Edits::OfTheSame
                } else {
                    Edits::OfAnother
                }
            }
            _ => Edits::None,
        }
    }

    fn in_the_way(self) -> Option<Withheld> {
        (self == Edits::OfAnother).then_some(Withheld::Edited)
    }
}

/// A digest of the letters and digits of a text, less its marks: what a formatter does to a table, or to ends of lines, is no edit.
fn words(text: &str) -> String {
    let own =
        text.lines().filter(|line| ![BEGIN, END, REPORT, PROFILE, GPUS, WORDS].iter().any(|m| line.starts_with(m)));
    let words: String = own.flat_map(str::chars).filter(|c| c.is_alphanumeric()).collect();
    Digest::of(words.as_bytes()).short()
}

/// What the last mark of a kind says.
fn marked<'a>(text: &'a str, kind: &str) -> Option<&'a str> {
    text.rsplit_once(kind).and_then(|(_, rest)| rest.split_once("-->")).map(|(value, _)| value.trim_end())
}

/// Somebody's own file is not this workflow's to replace, nor is another workflow's report.
fn may_replace(old: &str, workflow: &str) -> Result<(), String> {
    let owner = old.rsplit_once(REPORT).and_then(|(_, rest)| rest.split_once(" -->"));
    let whose = match owner {
        Some((owner, _)) if owner == workflow => return Ok(()),
        Some((owner, _)) => format!("the file that is there is the report of the workflow `{owner}`"),
        None => "flow did not write the file that is there".to_owned(),
    };
    Err(format!("{whose}; move it away, or publish elsewhere"))
}

fn identity(job: &PublishJob) -> Result<Identity, String> {
    serde_json::from_str(&text(job, "report.json")?)
        .map_err(|e| format!("`report.json` of the report cannot be read: {e}; run the report again"))
}

fn text(job: &PublishJob, file: &str) -> Result<String, String> {
    let bytes =
        job.files.get(file).ok_or_else(|| format!("the step to publish has no `{file}`: is it a flow/report?"))?;
    String::from_utf8(bytes.clone()).map_err(|_| format!("`{file}` is not UTF-8"))
}

/// What is published of a text of the report: no folder of the machine that made it.
fn public(job: &PublishJob, file: &str) -> Result<String, String> {
    Ok(without_marks(&safe::without_folders(&text(job, file)?)))
}

/// The text of an entry, headings counted from one: charts where the published report has them, or none.
fn entry(job: &PublishJob) -> Result<String, String> {
    let text = public(job, "entry.md")?;
    let Some(report) = &job.report else {
        return Ok(without_charts(&text));
    };
    let link = safe::target(report, PATH);
    let folder = link.rsplit_once('.').map_or(link.as_str(), |(stem, _)| stem);
    let text = text.replace("](charts/", &format!("]({folder}/"));
    Ok(format!("{}\n[{}]({link})\n", without_double_blanks(text.lines()), safe::text(report)))
}

/// The text of a report for a terminal: without charts, and with nothing folded.
pub(crate) fn for_terminal(text: &str) -> String {
    let text = without_charts(text);
    let unfolded = text.lines().filter_map(|line| {
        let inside = |begin: &str, end: &str| line.strip_prefix(begin).and_then(|rest| rest.strip_suffix(end));
        if matches!(line, "<details>" | "</details>") || inside("<a id=\"", "\"></a>").is_some() {
            return None;
        }
        Some(inside("<summary>", "</summary>").map_or_else(|| line.to_owned(), |title| format!("**{title}**")))
    });
    without_double_blanks(unfolded.collect::<Vec<_>>().iter().map(String::as_str))
}

/// The text of a report for a place where its charts are not, nor what is said of them below each.
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

/// Something that may stand inside an HTML comment, on one line.
fn mark(text: &str) -> String {
    let text = text.replace("--", "–").replace(['<', '>', '\r', '\n'], " ");
    visible(text.trim()).into_owned()
}

/// The text of a report in which no line is a mark: the author's own words or template may have one.
fn without_marks(text: &str) -> String {
    [BEGIN, END, REPORT, PROFILE, GPUS, WORDS]
        .iter()
        .fold(text.to_owned(), |text, mark| text.replace(mark, &mark.replace('<', "&lt;")))
}

/// An entry as it stands in a file: from the first byte of its begin to the last of its end.
#[derive(Debug, PartialEq)]
struct Place {
    start: usize,
    end: usize,
    identity: String,
    date: String,
    profile: Option<String>,
}

/// A line of a file: where it starts, and its text without the end of line.
struct SourceLine<'a> {
    start: usize,
    text: &'a str,
    /// Inside a block of code nothing is a mark.
    code: bool,
}

struct Heading {
    range: Range<usize>,
    level: usize,
    text: String,
}

/// What Markdown makes of a file.
struct Page<'a> {
    lines: Vec<SourceLine<'a>>,
    headings: Vec<Heading>,
}

impl Page<'_> {
    fn of(file: &str) -> Page<'_> {
        let mut read = Cow::Borrowed(file);
        // A fence that nobody closed is a slip, and hides nothing.
        while let Some(fence) = open_fence(&read) {
            let blank = " ".repeat(fence.len());
            read.to_mut().replace_range(fence, &blank);
        }
        let (mut code, mut headings) = (Vec::new(), Vec::<Heading>::new());
        for (event, range) in Parser::new(&read).into_offset_iter() {
            match event {
                Event::Start(Tag::CodeBlock(_)) => code.push(range),
                Event::Start(Tag::Heading { level, .. }) => {
                    headings.push(Heading { range, level: level as usize, text: String::new() });
                }
                Event::Text(words) | Event::Code(words) => {
                    let heading = headings.last_mut().filter(|heading| heading.range.contains(&range.start));
                    heading.into_iter().for_each(|heading| heading.text.push_str(&words));
                }
                _ => {}
            }
        }
        let (mut lines, mut start, mut code) = (Vec::new(), 0, code.into_iter().peekable());
        for line in file.split_inclusive('\n') {
            while code.next_if(|block| block.end <= start).is_some() {}
            // An indented block begins behind its indentation.
            let code = code.peek().is_some_and(|block| block.start < start + line.len());
            lines.push(SourceLine { start, text: line.trim_end_matches('\n').trim_end_matches('\r'), code });
            start += line.len();
        }
        Page { lines, headings }
    }
}

/// The signs of a fence that opens a block without an end.
fn open_fence(text: &str) -> Option<Range<usize>> {
    let blocks = Parser::new(text).into_offset_iter().filter_map(|(event, range)| match event {
        Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))) => Some(range),
        _ => None,
    });
    let last = blocks.last().filter(|last| text[last.end..].trim().is_empty())?;
    let block = &text[last.clone()];
    let sign = block.chars().next()?;
    let signs = |line: &str| line.chars().take_while(|c| *c == sign).count();
    let (open, end) = (signs(block), block.lines().skip(1).last().unwrap_or_default().trim());
    let closed = signs(end) >= open && signs(end) == end.len();
    (!closed).then(|| last.start..last.start + open)
}

/// The level of the first heading that reads What's New, and where the line after it begins.
fn heading(page: &Page<'_>, file: &str) -> Option<(usize, usize)> {
    // What an entry says is no heading of the file.
    let inside = places(&page.lines);
    let own = |heading: &&Heading| !inside.iter().any(|p| (p.start..p.end).contains(&heading.range.start));
    let found = page.headings.iter().filter(own).find(|heading| reads_whats_new(&heading.text))?;
    let end = found.range.start + file[found.range.clone()].trim_end().len();
    let after = page.lines.iter().map(|line| line.start).find(|start| *start >= end);
    Some((found.level, after.unwrap_or(file.len())))
}

/// `What's New`, `What’s News`, `📰 **What's new** / 最新动态`: in any case, with other signs around, or before a second language.
fn reads_whats_new(text: &str) -> bool {
    let text = text.to_lowercase().replace(['’', '‘', '`'], "'");
    let first = text.split([':', '/', '|', '(', '（', '·', '：']).next().unwrap_or_default();
    let bare = first.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    matches!(bare, "what's new" | "what's news" | "whats new" | "whats news")
}

fn places(lines: &[SourceLine<'_>]) -> Vec<Place> {
    let mut places = Vec::new();
    let mut open: Option<(usize, &str)> = None;
    for line in lines.iter().filter(|line| !line.code) {
        if let Some(head) = line.text.strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(" -->")) {
            open = Some((line.start, head));
        } else if let Some(identity) = line.text.strip_prefix(END).and_then(|rest| rest.strip_suffix(" -->"))
            && let Some((start, head)) = open.take()
            && let Some(date) = head.strip_prefix(identity).and_then(|rest| rest.strip_prefix(", "))
        {
            let end = line.start + line.text.len();
            let (date, profile) = match (date.split_once(ENTRY_PROFILE), date.strip_suffix(ENTRY_WITHOUT)) {
                (Some((date, profile)), _) => (date, Some(profile.to_owned())),
                (None, Some(date)) => (date, Some(String::new())),
                (None, None) => (date, None),
            };
            places.push(Place { start, end, identity: identity.to_owned(), date: date.to_owned(), profile });
        }
    }
    places
}

fn entry_name(identity: &Identity) -> String {
    // What was simulated is on no hardware.
    match identity.hardware.as_str() {
        "" => mark(&identity.workflow),
        hardware => mark(&format!("{} on {hardware}", identity.workflow)),
    }
}

/// The file with the entry in it: where its older self was if that has the same day, else among the others, newest first.
fn with_entry(file: &str, entry: &str, identity: &Identity) -> String {
    let name = entry_name(identity);
    let date = mark(&identity.date);
    let own = |file: &str| places(&Page::of(file).lines).into_iter().find(|p| p.identity == name);
    let old = own(file);
    // Somebody may have copied it; only one is to be there.
    let (mut without, mut copies) = (file.to_owned(), 0);
    while let Some(copy) = own(&without) {
        without = self::without(&without, &copy);
        copies += 1;
    }
    // Ends of lines as the rest of the file has them.
    let eol = match without.find('\n') {
        Some(at) if without[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    };
    let level = heading(&Page::of(&without), &without).map_or(2, |(level, _)| level);
    let profile = match identity.setup.profile() {
        none if none.is_empty() => ENTRY_WITHOUT.to_owned(),
        profile => format!("{ENTRY_PROFILE}{profile}"),
    };
    let mut block = format!("{BEGIN}{name}, {date}{profile} -->\n\n");
    let page = Page::of(entry.trim_end());
    for SourceLine { start, text: line, .. } in page.lines {
        if line.starts_with('#') && page.headings.iter().any(|heading| heading.range.start == start) {
            let own = line.chars().take_while(|c| *c == '#').count();
            block.push_str(&"#".repeat((own + level).min(6)));
            block.push_str(&line[own..]);
        } else {
            block.push_str(line);
        }
        block.push('\n');
    }
    block.push_str(&format!("\n{WORDS}{} -->\n{END}{name} -->", words(entry)));
    let block = block.replace('\n', eol);

    match old {
        Some(old) if old.date == date && copies == 1 => format!("{}{block}{}", &file[..old.start], &file[old.end..]),
        _ => insert(&without, &block, &date, eol),
    }
}

/// The file without an entry and the blank line behind it.
fn without(file: &str, old: &Place) -> String {
    let rest = &file[old.end..];
    let gap = rest.len() - rest.trim_start_matches(['\r', '\n']).len();
    let blank = rest[..gap].char_indices().filter(|(_, c)| *c == '\n').nth(1).map_or(gap, |(at, _)| at + 1);
    format!("{}{}", &file[..old.start], &rest[blank..])
}

fn insert(file: &str, block: &str, date: &str, eol: &str) -> String {
    let found = Page::of(file);
    let Some((_, after)) = heading(&found, file) else {
        // A file without the heading gets it at its end: no other place is certainly right.
        let gap = match file {
            "" => String::new(),
            _ if file.ends_with(&format!("{eol}{eol}")) => String::new(),
            _ if file.ends_with('\n') => eol.to_owned(),
            _ => eol.repeat(2),
        };
        return format!("{file}{gap}{HEADING}{eol}{eol}{block}{eol}");
    };
    let older = places(&found.lines).into_iter().filter(|p| p.start >= after).find(|p| p.date.as_str() <= date);
    let newer = places(&found.lines).into_iter().rfind(|p| p.start >= after && p.date.as_str() > date);
    match (older, newer) {
        (Some(older), _) => format!("{}{block}{eol}{eol}{}", &file[..older.start], &file[older.start..]),
        (None, Some(newer)) => format!("{}{eol}{eol}{block}{}", &file[..newer.end], &file[newer.end..]),
        (None, None) => {
            let (before, rest) = file.split_at(after);
            let opened = if before.ends_with('\n') { eol.to_owned() } else { eol.repeat(2) };
            // The blank line that stands under the heading, if one does, comes to stand behind the entry.
            let closed = match rest {
                "" => eol.to_owned(),
                _ if rest.starts_with(['\n', '\r']) => eol.to_owned(),
                _ => eol.repeat(2),
            };
            format!("{before}{opened}{block}{closed}{rest}")
        }
    }
}

#[cfg(test)]
#[path = "publish_tests.rs"]
mod tests;

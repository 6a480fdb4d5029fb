//! Entries in a file whose other bytes stay as they are: below its heading "What's New", newest first, each between two
//! marks.

use std::{borrow::Cow, cmp::Reverse, ops::Range};

use flow_core::{Digest, visible};
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};

/// The start of an entry. Its end is [`END`] with the same name.
pub(crate) const BEGIN: &str = "<!-- flow entry: ";
const END: &str = "<!-- end of flow entry: ";
/// The end of a whole report, by which flow recognises it.
pub(crate) const REPORT: &str = "<!-- flow report: ";
/// The profile and the GPU models of a whole report, between its text and its end.
pub(crate) const PROFILE: &str = "<!-- flow report's profile: ";
pub(crate) const GPUS: &str = "<!-- flow report's GPUs: ";
/// The digest of flow's own words in a report or an entry, which reveals the words of others in it.
pub(crate) const WORDS: &str = "<!-- flow's words: ";
const MARKS: [&str; 6] = [BEGIN, END, REPORT, PROFILE, GPUS, WORDS];
/// In the start of an entry: before the profile, or the mark that there is none.
const ENTRY_PROFILE: &str = ", profile ";
const ENTRY_WITHOUT: &str = ", no profile";
/// The heading for a file that has none.
const HEADING: &str = "## What's New";

/// An entry to be written into a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    /// The name of its report, with the hardware.
    pub(crate) name: String,
    pub(crate) date: String,
    /// Empty if there is none.
    pub(crate) profile: String,
    /// Its text. The top level of its headings is one.
    pub(crate) text: String,
}

/// Changes to a published text since flow wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edits {
    /// None, according to its marks.
    None,
    /// It was edited, and flow has no new text.
    OfTheSame,
    /// It was edited, and flow has a new text.
    OfAnother,
}

impl Edits {
    /// The edits of `old`, if `new` is the digest of the words that would replace it.
    pub(crate) fn of(old: &str, new: &str) -> Edits {
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
}

/// A digest of the letters and digits of a text without its marks. So a formatter that changes tables or line ends
/// makes no edit.
pub(crate) fn words(text: &str) -> String {
    let own = text.lines().filter(|line| !is_mark(line));
    let words: String = own.flat_map(str::chars).filter(|c| c.is_alphanumeric()).collect();
    Digest::of(words.as_bytes()).short()
}

fn is_mark(line: &str) -> bool {
    MARKS.iter().any(|mark| line.starts_with(mark))
}

/// The value of the last mark of a kind.
pub(crate) fn marked<'a>(text: &'a str, kind: &str) -> Option<&'a str> {
    text.rsplit_once(kind).and_then(|(_, rest)| rest.split_once("-->")).map(|(value, _)| value.trim_end())
}

/// A text that is valid inside an HTML comment, on one line.
pub(crate) fn mark(text: &str) -> String {
    let text = text.replace("--", "–").replace(['<', '>', '\r', '\n'], " ");
    visible(text.trim()).into_owned()
}

/// The text of a report without marks, because the author's own words or template may contain some.
pub(crate) fn without_marks(text: &str) -> String {
    MARKS.iter().fold(text.to_owned(), |text, mark| text.replace(mark, &mark.replace('<', "&lt;")))
}

/// An entry in a file: from the first byte of its start to the last byte of its end.
#[derive(Debug, PartialEq)]
pub(crate) struct Place {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) name: String,
    pub(crate) date: String,
    /// Empty if it has none.
    pub(crate) profile: String,
}

impl Place {
    fn is_of(&self, entry: &Entry) -> bool {
        self.name == entry.name && self.date == entry.date
    }

    /// The entry in the form for another file.
    fn entry(&self, file: &str) -> Entry {
        let block = &file[self.start..self.end];
        let page = Page::of(block);
        let level = page.headings.iter().map(|heading| heading.level).min().unwrap_or(1);
        let mut text = String::new();
        for line in page.lines.iter().filter(|line| line.code || !is_mark(line.text)) {
            let heading = page.headings.iter().any(|heading| heading.range.start == line.start);
            let up = if heading && line.text.starts_with('#') { level - 1 } else { 0 };
            text.push_str(&line.text[up..]);
            text.push('\n');
        }
        Entry {
            name: self.name.clone(),
            date: self.date.clone(),
            profile: self.profile.clone(),
            text: text.trim().to_owned(),
        }
    }
}

/// A line of a file: its position, and its text without the end of line.
struct SourceLine<'a> {
    start: usize,
    text: &'a str,
    /// Whether it is in a code block, where nothing is a mark.
    code: bool,
}

struct Heading {
    range: Range<usize>,
    level: usize,
    text: String,
}

/// A file as Markdown reads it.
struct Page<'a> {
    lines: Vec<SourceLine<'a>>,
    headings: Vec<Heading>,
}

impl Page<'_> {
    fn of(file: &str) -> Page<'_> {
        let mut read = Cow::Borrowed(file);
        // An unclosed fence is a mistake and must not hide anything.
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
            // An indented block begins after its indentation.
            let code = code.peek().is_some_and(|block| block.start < start + line.len());
            lines.push(SourceLine { start, text: line.trim_end_matches('\n').trim_end_matches('\r'), code });
            start += line.len();
        }
        Page { lines, headings }
    }
}

/// The characters of a fence that opens a block without an end.
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

/// The level of the first What's New heading, and the position of the line after it.
fn heading(page: &Page<'_>, file: &str) -> Option<(usize, usize)> {
    // Headings inside entries do not count.
    let inside = places(&page.lines);
    let own = |heading: &&Heading| !inside.iter().any(|p| (p.start..p.end).contains(&heading.range.start));
    let found = page.headings.iter().filter(own).find(|heading| reads_whats_new(&heading.text))?;
    let end = found.range.start + file[found.range.clone()].trim_end().len();
    let after = page.lines.iter().map(|line| line.start).find(|start| *start >= end);
    Some((found.level, after.unwrap_or(file.len())))
}

/// Whether a heading reads `What's New`, `What’s News` or `📰 **What's new** / 最新动态`: in any case, with other characters
/// around it, or before a second language.
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
            let date = date.strip_suffix(ENTRY_WITHOUT).unwrap_or(date);
            let (date, profile) = date.split_once(ENTRY_PROFILE).unwrap_or((date, ""));
            let (name, date, profile) = (identity.to_owned(), date.to_owned(), profile.to_owned());
            places.push(Place { start, end, name, date, profile });
        }
    }
    places
}

/// All entries of a file, from top to bottom.
pub(crate) fn all(file: &str) -> Vec<Place> {
    places(&Page::of(file).lines)
}

/// The entry of the same report and day, if the file has it.
pub(crate) fn same<'a>(all: &'a [Place], entry: &Entry) -> Option<&'a Place> {
    all.iter().find(|place| place.is_of(entry))
}

/// The file with the entry in it: in place of the one for the same report and day, or else among the others, newest
/// first.
pub(crate) fn with_entry(file: &str, entry: &Entry) -> String {
    let own = |file: &str| all(file).into_iter().find(|place| place.is_of(entry));
    let old = own(file);
    // The entry may have been copied, and only one must remain.
    let (mut without, mut copies) = (file.to_owned(), 0);
    while let Some(copy) = own(&without) {
        without = self::without(&without, &copy);
        copies += 1;
    }
    // Line ends as in the rest of the file.
    let eol = match without.find('\n') {
        Some(at) if without[..at].ends_with('\r') => "\r\n",
        _ => "\n",
    };
    let level = heading(&Page::of(&without), &without).map_or(2, |(level, _)| level);
    let Entry { name, date, profile, text } = entry;
    let profile = if profile.is_empty() { ENTRY_WITHOUT.to_owned() } else { format!("{ENTRY_PROFILE}{profile}") };
    let mut block = format!("{BEGIN}{name}, {date}{profile} -->\n\n");
    let page = Page::of(text.trim_end());
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
    block.push_str(&format!("\n{WORDS}{} -->\n{END}{name} -->", words(text)));
    let block = block.replace('\n', eol);
    match old {
        Some(old) if copies == 1 => format!("{}{block}{}", &file[..old.start], &file[old.end..]),
        _ => insert(&without, &block, date, eol),
    }
}

/// The file with all entries of another file that it does not have.
pub(crate) fn with_all_of(file: &str, other: &str) -> String {
    all(other).iter().fold(file.to_owned(), |file, place| {
        let entry = place.entry(other);
        if same(&all(&file), &entry).is_some() { file } else { with_entry(&file, &entry) }
    })
}

/// The file with its `keep` newest entries, and all edited ones.
pub(crate) fn newest(file: &str, keep: usize) -> String {
    let mut file = file.to_owned();
    loop {
        let mut places = all(&file);
        places.sort_by_key(|place| Reverse(place.date.clone()));
        let flows = |place: &&Place| Edits::of(&file[place.start..place.end], "") == Edits::None;
        let Some(oldest) = places.iter().skip(keep).rfind(flows) else { return file };
        file = without(&file, oldest);
    }
}

/// The file without an entry and the blank line after it.
fn without(file: &str, old: &Place) -> String {
    let rest = &file[old.end..];
    let gap = rest.len() - rest.trim_start_matches(['\r', '\n']).len();
    let blank = rest[..gap].char_indices().filter(|(_, c)| *c == '\n').nth(1).map_or(gap, |(at, _)| at + 1);
    let before = &file[..old.start];
    // At the end of a file, the blank line before the entry goes instead.
    let kept = before.trim_end_matches(['\r', '\n']);
    let eol = if before[kept.len()..].starts_with('\r') { 2 } else { 1 };
    match &rest[blank..] {
        "" if !kept.is_empty() => before[..before.len().min(kept.len() + eol)].to_owned(),
        rest => format!("{before}{rest}"),
    }
}

fn insert(file: &str, block: &str, date: &str, eol: &str) -> String {
    let found = Page::of(file);
    let Some((_, after)) = heading(&found, file) else {
        // A file without the heading gets it at its end, because no other place is certain to be right.
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
            // A blank line below the heading is moved behind the entry.
            let closed = match rest {
                "" => eol.to_owned(),
                _ if rest.starts_with(['\n', '\r']) => eol.to_owned(),
                _ => eol.repeat(2),
            };
            format!("{before}{opened}{block}{closed}{rest}")
        }
    }
}

//! Turns the model into files: words in each language, charts, and a template for the layout.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use flow_core::reason::BuiltinFault;
use minijinja::{Environment, UndefinedBehavior, context, syntax::SyntaxConfig};
use serde::{Deserialize, Serialize};

use super::answer::answer;
use super::charts::{Chart, charts};
use super::labels::named;
use super::lines::{LabelledValue, cpu_count, setup};
use super::model::{REPORT_FORMAT, Report, Section};
use super::picture::Picture;
use super::reproduction::{self, TitledTable};
use super::with::{ReportWith, Value};
use super::{assumptions, front, html, prose, together};
use crate::analysis::TextTable;
use crate::format::Format;
use crate::safe;
use crate::table::{Content, Grid, Names, csv, markdown, unit_of};
use crate::words::{Args, Words};

/// The built-in templates, each with the file that it makes: the whole report, and the What's New entry.
const REPORT: (&str, &str) = ("report.md", include_str!("../../templates/report.md.j2"));
const ENTRY: (&str, &str) = ("entry.md", include_str!("../../templates/entry.md.j2"));

/// The variables of a template, in one language.
#[derive(Serialize)]
struct Page {
    lang: String,
    title: String,
    /// The title with the date, for What's New.
    dated_title: String,
    /// The title in the other languages.
    other_titles: Vec<String>,
    date: String,
    /// Date, model, hardware and cost, on one line.
    head: String,
    /// Links to the other languages and to the numbers.
    links: Vec<String>,
    sections: Vec<PageSection>,
    setup: Vec<LabelledValue>,
    setup_title: String,
    remarks: Vec<String>,
    /// The first remark, and the number of the others.
    remark: Option<String>,
}

#[derive(Serialize)]
struct PageSection {
    /// A permanent link target, named after the step of the table.
    id: String,
    title: String,
    answer: String,
    /// The title as a link, and the answer in short: a line in the list of sections.
    headline: String,
    /// The table, the chart and the bullets of its first screen.
    table: String,
    chart: Option<Chart>,
    bullets: Vec<String>,
    compared: Option<TitledTable>,
    /// Whether its first screen is folded, except for the answer.
    folded: bool,
    details_title: String,
    /// A link to the numbers of the table.
    data: String,
    full_table: String,
    more: Vec<TitledTable>,
    /// Assumptions of simulations.
    assumed: Option<TitledTable>,
    /// Figures computed for the findings.
    computed: Option<TitledTable>,
    /// All other charts.
    charts: Vec<Chart>,
    /// All findings and notes.
    findings: Vec<String>,
}

/// From this section on, a page folds everything except the answer.
const FOLDED: usize = 3;

/// All files of a report: `report.md` (and `report.zh.md` if each language has a file), `entry.md`, `report.json`, `charts/*.svg`
/// and `charts/*.csv`.
pub(crate) fn render(
    report: &Report,
    with: &ReportWith,
    words: &Words,
) -> Result<BTreeMap<String, Vec<u8>>, BuiltinFault> {
    let langs: Vec<&str> = with.languages.iter().map(|l| l.code()).collect();
    let several = langs.len() > 1;
    let mut files = BTreeMap::new();
    let mut whole = String::new();
    for (at, lang) in langs.iter().enumerate() {
        let text = page_of(REPORT, report, words, lang, &langs)?;
        match at {
            0 => whole = text,
            _ if report.split => {
                files.insert(format!("report.{lang}.md"), text.into_bytes());
            }
            _ => {
                let name = words.word(lang, "language");
                whole += &format!("\n---\n\n## {name}\n\n{}", below(&text));
            }
        }
    }
    files.insert(REPORT.0.into(), whole.into_bytes());
    let entry = page_of(ENTRY, report, words, langs.first().copied().unwrap_or("en"), &langs)?;
    files.insert(ENTRY.0.into(), entry.into_bytes());
    for lang in &langs {
        let caption = caption(report, words, lang);
        for chart in named(report, lang).sections.iter().flat_map(|of| charts(of, words, lang, several, &caption)) {
            let bytes = chart.picture.map_or_else(|| chart.svg.into_bytes(), |picture| picture.bytes());
            files.insert(format!("charts/{}", chart.file), bytes);
        }
    }
    for section in &report.sections {
        files.insert(format!("charts/{}.csv", section.name), csv(&section.table).into_bytes());
    }
    let json = serde_json::to_string_pretty(report).map_err(|e| BuiltinFault::NotWritten { message: e.to_string() })?;
    files.insert("report.json".into(), (json + "\n").into_bytes());
    Ok(files)
}

/// Moves headings two levels down, below the heading of a language.
fn below(text: &str) -> String {
    let mut code = false;
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        code ^= line.trim_start().starts_with("```");
        let level = line.chars().take_while(|c| *c == '#').count();
        if !code && (1..=4).contains(&level) && line[level..].starts_with(' ') {
            out.push_str("##");
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}

/// The text of a report in one language, from its `report.json`.
pub(crate) fn in_language(json: &[u8], words: &Words, lang: &str) -> Result<String, String> {
    page_of(REPORT, &read(json)?, words, lang, &[lang]).map_err(|fault| fault.to_string())
}

/// The answer of each section, from `report.json`: in this language, or in the first one of the report.
pub(crate) fn answers(json: &[u8], words: &Words, lang: Option<&str>) -> Result<Vec<String>, String> {
    let report = read(json)?;
    let lang = lang.or(report.languages.first().map(|lang| lang.code())).unwrap_or("en");
    let several = report.sections.len() > 1;
    let report = named(&report, lang);
    let answer = |section: &Section| {
        let answer = answer(section);
        let said = match several {
            true => front::headline(section, &answer, words, lang),
            false => front::lead(section, &answer, words, lang),
        };
        match several {
            true => behind(&prose::title(section, words, lang), said, words, lang),
            false => said,
        }
    };
    Ok(report.sections.iter().map(answer).map(|answer| safe::plain(&answer)).collect())
}

/// The title and the answer of a report, one line each.
pub(crate) struct InShort {
    pub(crate) title: String,
    pub(crate) answer: String,
}

/// The title of a report and the answer of its first section, one line each, from its `report.json`.
pub(crate) fn in_short(json: &[u8], words: &Words, lang: &str) -> Result<InShort, String> {
    let report = read(json)?;
    let report = named(&report, lang);
    let answer = report.sections.first().map(|section| front::lead(section, &answer(section), words, lang));
    Ok(InShort {
        title: safe::line(&dated(&report, &title_in(&report, lang))),
        answer: safe::line(&answer.unwrap_or_default()),
    })
}

/// The title of an entry: with its date, and marked if no GPU was used.
fn dated(report: &Report, title: &str) -> String {
    let cpu = if report.setup.gpus.is_empty() && !report.setup.cpus.is_empty() { "CPU" } else { "" };
    let before: Vec<&str> = [report.date.as_str(), cpu].into_iter().filter(|part| !part.is_empty()).collect();
    if before.is_empty() { title.to_owned() } else { format!("{}: {title}", before.join(", ")) }
}

/// A report with its charts as one page, from its `report.json`: in one language, or in all languages of the report.
pub(crate) fn page(json: &[u8], words: &Words, lang: Option<&str>) -> Result<String, String> {
    let report = read(json)?;
    let langs = lang.map_or_else(|| report.languages.iter().map(|lang| lang.code()).collect(), |lang| vec![lang]);
    let article = |lang: &&str| {
        let text = page_of(REPORT, &report, words, lang, &[lang]).map_err(|fault| fault.to_string())?;
        let named = named(&report, lang);
        let charts = named
            .sections
            .iter()
            .flat_map(|section| charts(section, words, lang, false, &caption(&report, words, lang)));
        Ok(html::Article {
            lang: (*lang).to_owned(),
            name: words.word(lang, "language"),
            markdown: safe::without_folders(&without_data(&text, &report, words, lang)),
            charts: charts.map(|chart| (chart.file, shown(chart.svg, chart.picture.as_ref()))).collect(),
        })
    };
    Ok(html::page(&langs.iter().map(article).collect::<Result<Vec<_>, String>>()?))
}

/// Removes links to the files of numbers, because these are not next to the page.
fn without_data(text: &str, report: &Report, words: &Words, lang: &str) -> String {
    report.sections.iter().fold(text.to_owned(), |text, section| {
        let link = data_link(section, words, lang);
        text.replace(&format!(" · {link}"), "").replace(&format!("\n{link}\n"), "\n")
    })
}

/// A drawing, or a picture in its place. Its text is next to it, so `alt` is empty.
fn shown(svg: String, picture: Option<&Picture>) -> String {
    picture.map_or(svg, |picture| format!("<img alt=\"\" src=\"{}\">", picture.address()))
}

fn read(json: &[u8]) -> Result<Report, String> {
    #[derive(Deserialize)]
    struct Version {
        format: u32,
    }
    let version: Version = serde_json::from_slice(json).map_err(|e| format!("the report cannot be read: {e}"))?;
    if version.format != REPORT_FORMAT {
        let whose = if version.format < REPORT_FORMAT { "an earlier" } else { "a later" };
        return Err(format!("the report was made by {whose} version of flow; run the report again"));
    }
    serde_json::from_slice(json).map_err(|e| format!("the report cannot be read: {e}"))
}

/// The file of a template in one language. `langs` are the languages that the report has.
fn page_of(
    (file, built_in): (&str, &str),
    report: &Report,
    words: &Words,
    lang: &str,
    langs: &[&str],
) -> Result<String, BuiltinFault> {
    let own = report.template.as_deref().filter(|_| file == REPORT.0);
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.set_fuel(Some(1_000_000));
    // Errors then contain the name that is wrong.
    env.set_debug(true);
    let fails = |said: String| BuiltinFault::TemplateFails { message: said };
    let syntax =
        SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(|e| fails(e.to_string()))?;
    env.set_syntax(syntax);
    let page = content(report, words, lang, langs, file == ENTRY.0);
    let name = if own.is_some() { "template" } else { file };
    let page = context! { ..minijinja::Value::from(minijinja::value::Serde(&page)) };
    let rendered = flow_core::render_template(env, name, own.unwrap_or(built_in), page);
    rendered.map(|text| tidy(&text)).map_err(fails)
}

/// Reduces several blank lines to one, and removes them at the ends.
fn tidy(text: &str) -> String {
    let mut out = String::new();
    let mut blank = true;
    for line in text.lines() {
        if line.trim().is_empty() {
            blank = true;
            continue;
        }
        if blank && !out.is_empty() {
            out.push('\n');
        }
        blank = false;
        out.push_str(line);
        out.push('\n');
    }
    out
}

/// The answer after a title, which may be a question.
fn behind(title: &str, said: String, words: &Words, lang: &str) -> String {
    format!("{title}{}{said}", mark_behind(title.trim_end_matches('*'), words, lang))
}

fn mark_behind(title: &str, words: &Words, lang: &str) -> String {
    match title.ends_with(['?', '？']) {
        // In Markdown, bold text ends at a blank, but not between `？` and a letter.
        true => " ".to_owned(),
        false => words.word(lang, "mark-colon"),
    }
}

fn title_in(report: &Report, lang: &str) -> String {
    let by = &report.title;
    // A workflow's name in place of a title is not Markdown.
    match by.get(lang).or_else(|| by.get("")).or_else(|| by.get("en")).or_else(|| by.values().next()) {
        Some(title) if *title != report.workflow => safe::authors(title),
        _ => safe::text(&report.workflow),
    }
}

/// The page in one language. An entry has bullets in all languages.
fn content(report: &Report, words: &Words, lang: &str, langs: &[&str], entry: bool) -> Page {
    let (unnamed, report) = (report, &*named(report, lang));
    let title = title_in(report, lang);
    let mut other_titles: Vec<String> = langs.iter().map(|other| title_in(report, other)).collect();
    other_titles.retain(|other| *other != title);
    other_titles.dedup();
    let mut said = BTreeSet::new();
    let several = langs.len() > 1;
    let sections = report.sections.iter().enumerate();
    let sections = sections.map(|(at, one)| section(one, words, lang, several, at >= FOLDED, &mut said));
    let mut sections: Vec<PageSection> = sections.collect();
    // In a file with several languages, link targets of the later ones include the language.
    for page in sections.iter_mut() {
        if !report.split && langs.first() != Some(&lang) {
            page.id += &format!("-{lang}");
        }
        let link = format!("**[{}](#{})**", page.title, page.id);
        page.headline = format!("{link}{}{}", mark_behind(&page.title, words, lang), page.headline);
    }
    if entry {
        entry_bullets(unnamed, &mut sections, words, langs);
    }
    let remarks = prose::remarks(report, words, lang);
    let remark = remarks.first().map(|first| match remarks.len() - 1 {
        0 => first.clone(),
        more => {
            words.sentences(lang, &[first.clone(), words.text(lang, "front-remarks", &Args::new().count("more", more))])
        }
    });
    Page {
        lang: lang.to_owned(),
        dated_title: dated(report, &title),
        title,
        other_titles,
        date: report.date.clone(),
        head: head(report, words, lang),
        links: links(report, words, lang, langs),
        sections,
        setup: setup(report, words, lang),
        setup_title: words.word(lang, "front-setup"),
        remarks: remarks.iter().map(|text| safe::line(text)).collect(),
        remark: remark.map(|text| safe::line(&text)),
    }
}

/// Maximum lines of an entry, and its lines for title and head with the blank lines between.
const LINES: usize = 25;
const HEAD: usize = 8;

/// The bullets of an entry: an answer per section in each language, for as many sections as there is room for.
fn entry_bullets(report: &Report, sections: &mut [PageSection], words: &Words, langs: &[&str]) {
    let table = sections.first().map_or(0, |page| page.table.lines().count());
    let room = (LINES.saturating_sub(HEAD + table) / langs.len().max(1)).max(1);
    // The last line gives the number of sections without room.
    let reports: Vec<_> = langs.iter().map(|lang| named(report, lang)).collect();
    let shown = if sections.len() > room { (room - 1).max(1) } else { sections.len() };
    let more = sections.len() - shown;
    for (at, page) in sections.iter_mut().enumerate() {
        page.findings.clear();
        page.folded = at > 0;
        if at > shown {
            continue;
        }
        if at == shown {
            let more = |lang: &&str| words.text(lang, "news-more", &Args::new().count("more", more));
            page.findings = langs.iter().map(more).map(|text| format!("- {text}")).collect();
            continue;
        }
        let titled = |(lang, report): (&&str, &Cow<'_, Report>)| {
            let Some(section) = report.sections.get(at) else { return String::new() };
            let answer = answer(section);
            if report.sections.len() == 1 {
                return front::lead(section, &answer, words, lang);
            }
            let said = front::headline(section, &answer, words, lang);
            behind(&format!("**{}**", prose::title(section, words, lang)), said, words, lang)
        };
        page.findings = langs.iter().zip(&reports).map(titled).map(|text| format!("- {}", safe::line(&text))).collect();
    }
}

/// Date, model, hardware and cost.
fn head(report: &Report, words: &Words, lang: &str) -> String {
    let setup = &report.setup;
    let mut parts = vec![report.date.clone()];
    parts.extend(setup.parameters.iter().find(|(name, _)| name == "model").map(|(_, value)| safe::text(value)));
    let own = setup.more.iter().take(1).map(|own| match &own.value {
        Value::Number(n) => format!("{} {n}", safe::authors(own.label.of(lang))),
        Value::Text(text) => safe::authors(text.of(lang)),
    });
    parts.extend(own);
    parts.extend(setup.gpus.iter().map(|(model, count, _)| format!("{count} × {}", safe::text(model))));
    let cpus = setup.cpus.iter().map(|(model, count)| {
        let cpus = cpu_count(setup, model, *count, words, lang);
        if setup.gpus.is_empty() { format!("{cpus} ({})", safe::text(model)) } else { cpus }
    });
    parts.extend(cpus);
    let cost = report.cost;
    if cost.results > 0 && cost.wall > 0.0 {
        let (all, show) = if cost.gpu > 0.0 { (cost.gpu, "front-cost-gpu") } else { (cost.wall, "front-cost") };
        let time = words.figure(lang, &Format::for_unit("s", std::iter::once(all)), all);
        parts.push(words.text(lang, show, &Args::new().count("results", cost.results).with("time", time)));
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" · ")
}

/// The same line for a picture.
fn caption(report: &Report, words: &Words, lang: &str) -> String {
    safe::plain(&head(report, words, lang))
}

fn links(report: &Report, words: &Words, lang: &str, langs: &[&str]) -> Vec<String> {
    let first = langs.first() == Some(&lang);
    let other = langs.iter().enumerate().filter(|(_, other)| **other != lang).map(|(at, other)| {
        let name = words.word(other, "language");
        match (report.split, at) {
            (true, 0) => format!("[{name}](report.md)"),
            (true, _) => format!("[{name}](report.{other}.md)"),
            (false, 0) => String::new(),
            (false, _) => format!("[{name}](#{name})"),
        }
    });
    let mut links: Vec<String> = other.filter(|link| !link.is_empty() && (first || report.split)).collect();
    if let [only] = report.sections.as_slice() {
        links.push(data_link(only, words, lang));
    }
    links
}

fn data_link(section: &Section, words: &Words, lang: &str) -> String {
    let name = words.word(lang, "front-data");
    format!("[{name}](charts/{}.csv)", safe::target(&section.name, "%#?"))
}

fn listed(bullets: impl IntoIterator<Item = String>) -> Vec<String> {
    bullets.into_iter().map(|text| format!("- {}", safe::line(&text))).collect()
}

/// The changes of each column from one value of the split to the other.
fn changes(section: &Section, words: &Words, lang: &str) -> Option<TitledTable> {
    let changes = section.changes.as_ref()?;
    let names = Names { table: &section.table, words };
    let mut grid = Grid::default();
    for axis in &section.table.rows {
        let text = |row: &crate::table::Row, at: usize| {
            matches!(&row.cells[at].content, Content::Text { number: Some(_), .. })
        };
        let at = grid.heads.len();
        let right = section.table.body.iter().all(|row| text(row, at));
        grid.heads.push((names.head(axis, lang), right));
    }
    for (column, show) in &changes.columns {
        let unit = unit_of(show, words, lang);
        grid.heads.push((names.head(column, lang) + &unit, true));
    }
    for (row, cells) in section.table.body.iter().zip(&changes.rows) {
        let keys = row.cells.iter().take(section.table.rows.len());
        let keys = keys.map(|cell| cell.text().map_or_else(|| "—".into(), safe::text));
        let cells = cells.iter().zip(&changes.columns);
        let cells = cells.map(|(v, (_, show))| v.map_or_else(|| "—".into(), |v| show.cell(v)));
        grid.rows.push(keys.chain(cells).collect());
    }
    let (a, b) = changes.ends();
    let title = words.text(lang, "changes-title", &Args::new().with("a", safe::text(&a)).with("b", safe::text(&b)));
    let differences: Vec<String> = changes.differences().map(|column| names.inline(column, lang)).collect();
    let note = match differences.is_empty() {
        true => String::new(),
        false => {
            let args = Args::new().with("columns", words.list(lang, &differences));
            format!("\n{}\n", words.text(lang, "changes-differences", &args))
        }
    };
    let text = grid.markdown(words, lang) + &note;
    Some(TitledTable { title: safe::line(&title), text })
}

fn section(
    section: &Section,
    words: &Words,
    lang: &str,
    several: bool,
    folded: bool,
    shown: &mut BTreeSet<String>,
) -> PageSection {
    let names = Names { table: &section.table, words };
    let mut more = Vec::new();
    more.extend(changes(section, words, lang));
    more.extend(reproduction::held(section, words, lang));
    let titled = |of: TextTable| TitledTable { title: safe::line(&of.title), text: of.body(words, lang) };
    let analyses = section.analyses.iter();
    more.extend(analyses.flat_map(|(_, found)| found.tables(&section.analyses, &names, lang)).map(titled));
    let mut add = |key: &str, grid: Grid, notes: Vec<String>| {
        more.push(titled(TextTable { title: words.word(lang, key), grid, notes }));
    };
    if !section.together.is_empty() {
        let gains = together::intervals(&section.together, words, lang);
        let repeated = together::repeated(&section.together, words, lang);
        let interference = together::interference(&section.together, words, lang);
        let notes: Vec<String> = repeated.into_iter().chain(interference).chain(gains).collect();
        add("together-members", together::members(&section.together, words, lang, &names), notes);
        if let Some(used) = together::used(&section.together, words, lang, &names) {
            let windows = together::windows(&section.together, words, lang);
            add("together-used", used, windows.into_iter().collect());
        }
        let explained = together::explained(&section.together).into_iter().map(|key| words.word(lang, key));
        add("together-groups", together::groups(section, words, lang), explained.collect());
    }
    if let Some(packed) = &section.packed {
        add("packed-members", together::packed(packed, words, lang, &names), Vec::new());
    }
    more.extend(reproduction::members(section, words, lang));
    let key = if shown.is_empty() { "assumed-heading" } else { "assumed-heading-other" };
    let assumed = assumptions::worded(&section.assumed, words, lang, shown);
    let assumed = assumed.map(|text| TitledTable { title: words.word(lang, key), text });
    let computed = (!section.computed.is_empty()).then(|| {
        let heads = ["computed-figure", "computed-value"].map(|key| (words.word(lang, key), key == "computed-value"));
        let rows = section.computed.iter().map(|entry| vec![entry.label(lang, &names), entry.text(words, lang)]);
        let grid = Grid { heads: heads.into(), rows: rows.collect() };
        TitledTable { title: words.word(lang, "computed-heading"), text: grid.markdown(words, lang) }
    });
    let mut charts = charts(section, words, lang, several, "");
    let answer = answer(section);
    let first = front::chart(section, &answer, &charts).map(|at| charts.remove(at));
    // The author's notes are among the findings.
    let notes = prose::notes(section, words, lang);
    let limits = front::limits(section, &answer, words, lang);
    let room = front::BULLETS.saturating_sub(notes.len() + limits.len()).max(1);
    let bullets = front::bullets(section, &answer, room, words, lang).into_iter().filter(|said| !said.is_empty());
    let bullets = limits.into_iter().chain(bullets).chain(notes);
    PageSection {
        id: section.name.clone(),
        title: prose::title(section, words, lang),
        answer: front::lead(section, &answer, words, lang),
        headline: front::headline(section, &answer, words, lang),
        table: front::table(section, &answer, words, lang),
        chart: first,
        bullets: listed(bullets),
        compared: front::compared(section, words, lang),
        folded,
        details_title: words.word(lang, "front-details"),
        data: data_link(section, words, lang),
        full_table: markdown(&section.table, words, lang),
        more,
        assumed,
        computed,
        charts,
        findings: listed(prose::bullets(section, words, lang)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bold_titles_end_where_markdown_sees_it() {
        let words = Words::new();
        let said = |title: &str| behind(title, "sjf 最低".to_owned(), &words, "zh");
        assert_eq!(["**哪种策略？**", "**策略**"].map(said), ["**哪种策略？** sjf 最低", "**策略**：sjf 最低"]);
    }
}

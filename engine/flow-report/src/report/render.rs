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
use super::with::Value;
use super::{assumptions, front, html, prose, together};
use crate::analysis::TextTable;
use crate::findings::ComputedFigure;
use crate::format::Format;
use crate::safe;
use crate::table::{Content, Grid, GridColumns, Names, csv, dash, markdown, unit_of};
use crate::words::{Args, Locale, Words};

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
pub(crate) fn render(report: &Report, words: &Words) -> Result<BTreeMap<String, Vec<u8>>, BuiltinFault> {
    let langs: Vec<Locale<'_>> = report.languages.iter().map(|lang| words.locale(lang.code())).collect();
    let several = langs.len() > 1;
    let mut files = BTreeMap::new();
    let mut whole = String::new();
    for (at, words) in langs.iter().enumerate() {
        let text = page_of(REPORT, report, *words, &langs)?;
        match at {
            0 => whole = text,
            _ if report.split => {
                files.insert(format!("report.{}.md", words.lang), text.into_bytes());
            }
            _ => {
                let name = words.word("language");
                whole += &format!("\n---\n\n## {name}\n\n{}", below(&text));
            }
        }
    }
    files.insert(REPORT.0.into(), whole.into_bytes());
    let entry = page_of(ENTRY, report, langs.first().copied().unwrap_or(words.locale("en")), &langs)?;
    files.insert(ENTRY.0.into(), entry.into_bytes());
    for words in langs {
        let caption = caption(report, words);
        for chart in named(report, words.lang).sections.iter().flat_map(|of| charts(of, words, several, &caption)) {
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
pub(crate) fn in_language(json: &[u8], words: Locale<'_>) -> Result<String, String> {
    page_of(REPORT, &read(json)?, words, &[words]).map_err(|fault| fault.to_string())
}

/// The answer of each section, from `report.json`: in this language, or in the first one of the report.
pub(crate) fn answers(json: &[u8], words: &Words, lang: Option<&str>) -> Result<Vec<String>, String> {
    let report = read(json)?;
    let words = words.locale(lang.or(report.languages.first().map(|lang| lang.code())).unwrap_or("en"));
    let several = report.sections.len() > 1;
    let report = named(&report, words.lang);
    let answer = |section: &Section| {
        let answer = answer(section);
        let said = match several {
            true => front::headline(section, &answer, words),
            false => front::lead(section, &answer, words),
        };
        match several {
            true => behind(&prose::title(section, words), said, words),
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
pub(crate) fn in_short(json: &[u8], words: Locale<'_>) -> Result<InShort, String> {
    let report = read(json)?;
    let report = named(&report, words.lang);
    let answer = report.sections.first().map(|section| front::lead(section, &answer(section), words));
    Ok(InShort {
        title: safe::line(&dated(&report, &title_in(&report, words.lang))),
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
        let words = words.locale(lang);
        let text = page_of(REPORT, &report, words, &[words]).map_err(|fault| fault.to_string())?;
        let (named, caption) = (named(&report, lang), caption(&report, words));
        let charts = named.sections.iter().flat_map(|section| charts(section, words, false, &caption));
        Ok(html::Article {
            lang: (*lang).to_owned(),
            name: words.word("language"),
            markdown: safe::without_folders(&without_data(&text, &report, words)),
            charts: charts.map(|chart| (chart.file, shown(chart.svg, chart.picture.as_ref()))).collect(),
        })
    };
    Ok(html::page(&langs.iter().map(article).collect::<Result<Vec<_>, String>>()?))
}

/// Removes links to the files of numbers, because these are not next to the page.
fn without_data(text: &str, report: &Report, words: Locale<'_>) -> String {
    report.sections.iter().fold(text.to_owned(), |text, section| {
        let link = data_link(section, words);
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
    words: Locale<'_>,
    langs: &[Locale<'_>],
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
    let page = content(report, words, langs, file == ENTRY.0);
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
fn behind(title: &str, said: String, words: Locale<'_>) -> String {
    format!("{title}{}{said}", mark_behind(title.trim_end_matches('*'), words))
}

fn mark_behind(title: &str, words: Locale<'_>) -> String {
    match title.ends_with(['?', '？']) {
        // In Markdown, bold text ends at a blank, but not between `？` and a letter.
        true => " ".to_owned(),
        false => words.word("mark-colon"),
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
fn content(report: &Report, words: Locale<'_>, langs: &[Locale<'_>], entry: bool) -> Page {
    let (unnamed, report) = (report, &*named(report, words.lang));
    let title = title_in(report, words.lang);
    let mut other_titles: Vec<String> = langs.iter().map(|other| title_in(report, other.lang)).collect();
    other_titles.retain(|other| *other != title);
    other_titles.dedup();
    let mut said = BTreeSet::new();
    let several = langs.len() > 1;
    let sections = report.sections.iter().enumerate();
    let sections = sections.map(|(at, one)| section(one, words, several, at >= FOLDED, &mut said));
    let mut sections: Vec<PageSection> = sections.collect();
    // In a file with several languages, link targets of the later ones include the language.
    for page in sections.iter_mut() {
        if !report.split && !is_first(words, langs) {
            page.id += &format!("-{}", words.lang);
        }
        let link = format!("**[{}](#{})**", page.title, page.id);
        page.headline = format!("{link}{}{}", mark_behind(&page.title, words), page.headline);
    }
    if entry {
        entry_bullets(unnamed, &mut sections, langs);
    }
    let remarks = prose::remarks(report, words);
    let remark = remarks.first().map(|first| match remarks.len() - 1 {
        0 => first.clone(),
        more => words.sentences(&[first.clone(), words.text("front-remarks", &Args::new().count("more", more))]),
    });
    Page {
        lang: words.lang.to_owned(),
        dated_title: dated(report, &title),
        title,
        other_titles,
        date: report.date.clone(),
        head: head(report, words),
        links: links(report, words, langs),
        sections,
        setup: setup(report, words),
        setup_title: words.word("front-setup"),
        remarks: remarks.iter().map(|text| safe::line(text)).collect(),
        remark: remark.map(|text| safe::line(&text)),
    }
}

/// Maximum lines of an entry, and its lines for title and head with the blank lines between.
const LINES: usize = 25;
const HEAD: usize = 8;

/// The bullets of an entry: an answer per section in each language, for as many sections as there is room for.
fn entry_bullets(report: &Report, sections: &mut [PageSection], langs: &[Locale<'_>]) {
    let table = sections.first().map_or(0, |page| page.table.lines().count());
    let room = (LINES.saturating_sub(HEAD + table) / langs.len().max(1)).max(1);
    // The last line gives the number of sections without room.
    let reports: Vec<_> = langs.iter().map(|words| named(report, words.lang)).collect();
    let shown = if sections.len() > room { (room - 1).max(1) } else { sections.len() };
    let more = sections.len() - shown;
    for (at, page) in sections.iter_mut().enumerate() {
        page.findings.clear();
        page.folded = at > 0;
        if at > shown {
            continue;
        }
        if at == shown {
            let more = |words: &Locale<'_>| words.text("news-more", &Args::new().count("more", more));
            page.findings = langs.iter().map(more).map(|text| format!("- {text}")).collect();
            continue;
        }
        let titled = |(words, report): (&Locale<'_>, &Cow<'_, Report>)| {
            let Some(section) = report.sections.get(at) else { return String::new() };
            let answer = answer(section);
            if report.sections.len() == 1 {
                return front::lead(section, &answer, *words);
            }
            let said = front::headline(section, &answer, *words);
            behind(&format!("**{}**", prose::title(section, *words)), said, *words)
        };
        page.findings = langs.iter().zip(&reports).map(titled).map(|text| format!("- {}", safe::line(&text))).collect();
    }
}

/// Date, model, hardware and cost.
fn head(report: &Report, words: Locale<'_>) -> String {
    let setup = &report.setup;
    let mut parts = vec![report.date.clone()];
    parts.extend(setup.parameters.iter().find(|(name, _)| name == "model").map(|(_, value)| safe::text(value)));
    let own = setup.more.iter().take(1).map(|own| match &own.value {
        Value::Number(n) => format!("{} {n}", safe::authors(own.label.of(words.lang))),
        Value::Text(text) => safe::authors(text.of(words.lang)),
    });
    parts.extend(own);
    parts.extend(setup.gpus.iter().map(|(model, count, _)| format!("{count} × {}", safe::text(model))));
    let cpus = setup.cpus.iter().map(|(model, count)| {
        let cpus = cpu_count(setup, model, *count, words);
        if setup.gpus.is_empty() { format!("{cpus} ({})", safe::text(model)) } else { cpus }
    });
    parts.extend(cpus);
    let cost = report.cost;
    if cost.results > 0 && cost.wall > 0.0 {
        let (all, show) = if cost.gpu > 0.0 { (cost.gpu, "front-cost-gpu") } else { (cost.wall, "front-cost") };
        let time = words.figure(&Format::for_unit("s", std::iter::once(all)), all);
        parts.push(words.text(show, &Args::new().count("results", cost.results).with("time", time)));
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" · ")
}

/// The same line for a picture.
fn caption(report: &Report, words: Locale<'_>) -> String {
    safe::plain(&head(report, words))
}

fn links(report: &Report, words: Locale<'_>, langs: &[Locale<'_>]) -> Vec<String> {
    let first = is_first(words, langs);
    let other = langs.iter().enumerate().filter(|(_, other)| other.lang != words.lang).map(|(at, other)| {
        let name = other.word("language");
        match (report.split, at) {
            (true, 0) => format!("[{name}](report.md)"),
            (true, _) => format!("[{name}](report.{}.md)", other.lang),
            (false, 0) => String::new(),
            (false, _) => format!("[{name}](#{name})"),
        }
    });
    let mut links: Vec<String> = other.filter(|link| !link.is_empty() && (first || report.split)).collect();
    if let [only] = report.sections.as_slice() {
        links.push(data_link(only, words));
    }
    links
}

/// Whether it is the first language of a report.
fn is_first(words: Locale<'_>, langs: &[Locale<'_>]) -> bool {
    langs.first().is_some_and(|first| first.lang == words.lang)
}

fn data_link(section: &Section, words: Locale<'_>) -> String {
    let name = words.word("front-data");
    format!("[{name}](charts/{}.csv)", safe::target(&section.name, "%#?"))
}

fn listed(bullets: impl IntoIterator<Item = String>) -> Vec<String> {
    bullets.into_iter().map(|text| format!("- {}", safe::line(&text))).collect()
}

/// The changes of each column from one value of the split to the other.
fn changes(section: &Section, words: Locale<'_>) -> Option<TitledTable> {
    let changes = section.changes.as_ref()?;
    let names = Names { table: &section.table, words };
    let mut grid = Grid::default();
    for axis in &section.table.rows {
        let text = |row: &crate::table::Row, at: usize| {
            matches!(&row.cells[at].content, Content::Text { number: Some(_), .. })
        };
        let at = grid.heads.len();
        let right = section.table.body.iter().all(|row| text(row, at));
        grid.heads.push((names.head(axis), right));
    }
    for (column, show) in &changes.columns {
        let unit = unit_of(show, words);
        grid.heads.push((names.head(column) + &unit, true));
    }
    for (row, cells) in section.table.body.iter().zip(&changes.rows) {
        let keys = row.cells.iter().take(section.table.rows.len());
        let keys = keys.map(|cell| cell.text().map_or_else(dash, safe::text));
        let cells = cells.iter().zip(&changes.columns);
        let cells = cells.map(|(v, (_, show))| v.map_or_else(dash, |v| show.cell(v)));
        grid.rows.push(keys.chain(cells).collect());
    }
    let (a, b) = changes.ends();
    let title = words.text("changes-title", &Args::new().with("a", safe::text(&a)).with("b", safe::text(&b)));
    let differences: Vec<String> = changes.differences().map(|column| names.inline(column)).collect();
    let note = match differences.is_empty() {
        true => String::new(),
        false => {
            let args = Args::new().with("columns", words.list(&differences));
            format!("\n{}\n", words.text("changes-differences", &args))
        }
    };
    let text = grid.markdown(words) + &note;
    Some(TitledTable { title: safe::line(&title), text })
}

fn section(
    section: &Section,
    words: Locale<'_>,
    several: bool,
    folded: bool,
    shown: &mut BTreeSet<String>,
) -> PageSection {
    let names = Names { table: &section.table, words };
    let mut more = Vec::new();
    more.extend(changes(section, words));
    more.extend(reproduction::held(section, words));
    let titled = |of: TextTable| TitledTable { title: safe::line(&of.title), text: of.body(words) };
    let analyses = section.analyses.iter();
    more.extend(analyses.flat_map(|(_, found)| found.tables(&section.analyses, &names)).map(titled));
    let mut add = |key: &str, grid: Grid, notes: Vec<String>| {
        more.push(titled(TextTable { title: words.word(key), grid, notes }));
    };
    if !section.together.is_empty() {
        let gains = together::intervals(&section.together, words);
        let repeated = together::repeated(&section.together, words);
        let interference = together::interference(&section.together, words);
        let notes: Vec<String> = repeated.into_iter().chain(interference).chain(gains).collect();
        add("together-members", together::members(&section.together, &names), notes);
        if let Some(used) = together::used(&section.together, &names) {
            let windows = together::windows(&section.together, words);
            add("together-used", used, windows.into_iter().collect());
        }
        let explained = together::explained(&section.together).into_iter().map(|key| words.word(key));
        add("together-groups", together::groups(section, words), explained.collect());
    }
    if let Some(packed) = &section.packed {
        add("packed-members", together::packed(packed, &names), Vec::new());
    }
    more.extend(reproduction::members(section, words));
    let key = if shown.is_empty() { "assumed-heading" } else { "assumed-heading-other" };
    let assumed = assumptions::worded(&section.assumed, words, shown);
    let assumed = assumed.map(|text| TitledTable { title: words.word(key), text });
    let computed = (!section.computed.is_empty()).then(|| {
        let mut columns = GridColumns::<&ComputedFigure>::new();
        columns.text(words.word("computed-figure"), |entry| entry.label(&names));
        columns.number(words.word("computed-value"), |entry| entry.text(words));
        let text = columns.grid(&section.computed).markdown(words);
        TitledTable { title: words.word("computed-heading"), text }
    });
    let mut charts = charts(section, words, several, "");
    let answer = answer(section);
    let first = front::chart(section, &answer, &charts).map(|at| charts.remove(at));
    // The author's notes are among the findings.
    let notes = prose::notes(section, words);
    let limits = front::limits(section, &answer, words);
    let room = front::BULLETS.saturating_sub(notes.len() + limits.len()).max(1);
    let bullets = front::bullets(section, &answer, room, words).into_iter().filter(|said| !said.is_empty());
    let bullets = limits.into_iter().chain(bullets).chain(notes);
    PageSection {
        id: section.name.clone(),
        title: prose::title(section, words),
        answer: front::lead(section, &answer, words),
        headline: front::headline(section, &answer, words),
        table: front::table(section, &answer, &names),
        chart: first,
        bullets: listed(bullets),
        compared: front::compared(section, &names),
        folded,
        details_title: words.word("front-details"),
        data: data_link(section, words),
        full_table: markdown(&section.table, words),
        more,
        assumed,
        computed,
        charts,
        findings: listed(prose::bullets(section, words)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bold_titles_end_where_markdown_sees_it() {
        let words = Words::new();
        let said = |title: &str| behind(title, "sjf 最低".to_owned(), words.locale("zh"));
        assert_eq!(["**哪种策略？**", "**策略**"].map(said), ["**哪种策略？** sjf 最低", "**策略**：sjf 最低"]);
    }
}

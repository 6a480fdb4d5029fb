//! From the model to files: words in each language, charts, and a template that lays them out.

use std::collections::{BTreeMap, BTreeSet};

use flow_core::reason::BuiltinFault;
use minijinja::{Environment, UndefinedBehavior, context, syntax::SyntaxConfig};
use serde::{Deserialize, Serialize};

use super::charts::{Chart, charts};
use super::held::{self, Titled};
use super::model::{REPORT_FORMAT, Report, Section};
use super::picture::Picture;
use super::with::{Layout, ReportWith, Value};
use super::{assumptions, entry, html, prose, together};
use crate::safe;
use crate::table::{Content, Grid, Names, in_short, markdown, name};
use crate::words::{Args, Words, join};

/// The built-in templates by name: the whole report, and the entry of What's New.
const TEMPLATES: [(&str, &str); 2] = [
    ("report.md", include_str!("../../templates/report.md.j2")),
    ("entry.md", include_str!("../../templates/entry.md.j2")),
];

/// What a template is given, in the languages of one block.
#[derive(Serialize)]
struct Page {
    title: Vec<String>,
    date: String,
    setup: Vec<LabelledValue>,
    /// What of it an entry needs.
    short_setup: Vec<LabelledValue>,
    sections: Vec<PageSection>,
    /// Bullets of an entry in each language, of all sections.
    findings: Vec<Vec<String>>,
    remarks: Vec<String>,
}

#[derive(Clone, Serialize)]
struct LabelledValue {
    label: String,
    colon: String,
    value: String,
}

#[derive(Serialize)]
struct PageSection {
    title: String,
    table: String,
    /// What of it an entry needs.
    short_table: String,
    more: Vec<Titled>,
    /// What simulations take for granted.
    assumed: Option<Titled>,
    /// Figures computed for the findings.
    computed: Option<Titled>,
    charts: Vec<Chart>,
    /// Bullets of each language, in order.
    bullets: Vec<Vec<String>>,
}

/// All files of a report: `report.md`, `entry.md`, `report.json`, `charts/*.svg`.
pub(crate) fn render(
    report: &Report,
    with: &ReportWith,
    words: &Words,
) -> Result<BTreeMap<String, Vec<u8>>, BuiltinFault> {
    let langs: Vec<&str> = with.languages.iter().map(|l| l.code()).collect();
    let blocks: Vec<Vec<&str>> = match with.layout {
        Layout::Interleaved => vec![langs.clone()],
        Layout::Separate => langs.iter().map(|lang| vec![*lang]).collect(),
    };
    let mut files = BTreeMap::new();
    for (file, _) in TEMPLATES {
        let text = blocks.iter().map(|block| block_of(file, report, words, block, &langs));
        files.insert(file.to_owned(), text.collect::<Result<Vec<_>, _>>()?.join("\n---\n\n").into_bytes());
    }
    for section in &report.sections {
        for chart in charts(section, words, &langs, &langs) {
            let bytes = chart.picture.map_or_else(|| chart.svg.into_bytes(), |picture| picture.bytes());
            files.insert(format!("charts/{}", chart.file), bytes);
        }
    }
    let json = serde_json::to_string_pretty(report).map_err(|e| BuiltinFault::NotWritten { said: e.to_string() })?;
    files.insert("report.json".into(), (json + "\n").into_bytes());
    Ok(files)
}

/// The text of a report in one language, of its `report.json`.
pub(crate) fn in_language(json: &[u8], words: &Words, lang: &str) -> Result<String, String> {
    block_of(TEMPLATES[0].0, &read(json)?, words, &[lang], &[lang]).map_err(|fault| fault.to_string())
}

/// A report with its charts as one page, of its `report.json`: in one language, or in each of its own.
pub(crate) fn page(json: &[u8], words: &Words, lang: Option<&str>) -> Result<String, String> {
    let report = read(json)?;
    let langs = lang.map_or_else(|| report.languages.iter().map(|lang| lang.code()).collect(), |lang| vec![lang]);
    let article = |lang: &&str| {
        let text = block_of(TEMPLATES[0].0, &report, words, &[lang], &[lang]).map_err(|fault| fault.to_string())?;
        let charts = report.sections.iter().flat_map(|section| charts(section, words, &[lang], &[lang]));
        Ok(html::Article {
            lang: (*lang).to_owned(),
            name: words.text(lang, "language", &Args::new()),
            markdown: safe::without_folders(&text),
            charts: charts.map(|chart| (chart.file, shown(chart.svg, chart.picture.as_ref()))).collect(),
        })
    };
    Ok(html::page(&langs.iter().map(article).collect::<Result<Vec<_>, String>>()?))
}

/// A drawing, or an image in its place; a page says beside it what it shows.
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

/// A file of the report in the languages of one block.
fn block_of(file: &str, report: &Report, words: &Words, block: &[&str], all: &[&str]) -> Result<String, BuiltinFault> {
    let built_in = TEMPLATES.iter().find(|(name, _)| *name == file).map_or("", |(_, text)| text);
    let own = report.template.as_deref().filter(|_| file == TEMPLATES[0].0);
    let mut env = Environment::new();
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.set_fuel(Some(1_000_000));
    // A mistake is told with the name that is wrong.
    env.set_debug(true);
    let fails = |said: String| BuiltinFault::TemplateFails { said };
    let syntax =
        SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build().map_err(|e| fails(e.to_string()))?;
    env.set_syntax(syntax);
    let page = content(report, words, block, all);
    let name = if own.is_some() { "template" } else { file };
    let page = context! { ..minijinja::Value::from(minijinja::value::Serde(&page)) };
    let rendered = flow_core::render_bounded(env, name, own.unwrap_or(built_in), page);
    rendered.map(|text| tidy(&text)).map_err(fails)
}

/// One blank line where a template left several, none at the ends.
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

/// An entry shows the tables of a report with no more; else each question has what was found, and its table is in the report.
const ENTRY_TABLES: usize = 3;
/// Nor does it show a table of more rows.
const ENTRY_ROWS: usize = 12;

/// The page in the languages of a block; charts are shared by all blocks, so what stands in them is in all languages.
fn content(report: &Report, words: &Words, langs: &[&str], all: &[&str]) -> Page {
    let title = langs.iter().map(|lang| {
        let by = &report.title;
        by.get(*lang).or_else(|| by.get("")).or_else(|| by.get("en")).or_else(|| by.values().next())
    });
    // A name that stands for a title is no Markdown.
    let said = |title: Option<&String>| match title {
        Some(title) if *title != report.workflow => safe::authors(title),
        _ => safe::text(&report.workflow),
    };
    let mut titles: Vec<String> = Vec::new();
    for text in title.map(said) {
        if !titles.contains(&text) {
            titles.push(text);
        }
    }
    let (mut said, mut noted) = (BTreeSet::new(), BTreeSet::new());
    let mut sections: Vec<PageSection> =
        report.sections.iter().map(|s| section(s, words, langs, all, &mut said)).collect();
    let few = report.sections.len() <= ENTRY_TABLES;
    for (page, section) in
        sections.iter_mut().zip(&report.sections).filter(|(_, section)| few && section.table.body.len() <= ENTRY_ROWS)
    {
        page.short_table = in_short(&section.table, words, langs, &mut noted);
    }
    Page {
        title: titles,
        date: report.date.clone(),
        setup: setup(report, words, langs),
        short_setup: short(setup(report, words, langs), report.setup.parameters.len()),
        findings: langs.iter().enumerate().map(|(at, lang)| listed(entry::bullets(report, words, lang), at)).collect(),
        sections,
        remarks: langs
            .iter()
            .flat_map(|lang| prose::remarks(report, words, lang))
            .map(|text| safe::line(&text))
            .collect(),
    }
}

fn setup(report: &Report, words: &Words, langs: &[&str]) -> Vec<LabelledValue> {
    let setup = &report.setup;
    let colon = words.mark(langs, "mark-colon");
    let joined = |key: &str| words.joined(langs, key);
    let line = |label: String, value: String| LabelledValue { label, colon: colon.clone(), value };
    let mut lines = Vec::new();
    for (parameter, value) in &setup.parameters {
        let value = match parameter.as_str() {
            "input_size" if value.parse::<u32>().is_ok() => format!("{value}×{value}"),
            _ => safe::text(value),
        };
        // The author's line of the same name says it instead.
        let own = |lang: &&str| setup.more.iter().any(|own| own.label.of(lang) == name(parameter, words, lang));
        if !langs.iter().any(own) {
            lines.push(line(join(langs.iter().map(|lang| name(parameter, words, lang))), value));
        }
    }
    if !setup.set.is_empty() {
        let set = setup.set.iter().map(|(name, value)| safe::code(&format!("{name}={value}")));
        lines.push(line(joined("setup-set"), set.collect::<Vec<_>>().join(", ")));
    }
    for own in &setup.more {
        let value = |lang: &str| match &own.value {
            Value::Number(n) => n.to_string(),
            Value::Text(text) => safe::authors(text.of(lang)),
        };
        lines.push(line(
            join(langs.iter().map(|l| safe::authors(own.label.of(l)))),
            join(langs.iter().map(|l| value(l))),
        ));
    }
    let mib = |bytes: u64| bytes / (1 << 20);
    let gpus = setup.gpus.iter().map(|(model, count, memory)| {
        let mut text = format!("{count} × {}", safe::text(model));
        if *memory > 0 {
            text += &format!(", {} MiB", mib(*memory));
        }
        if let Some(there) = setup.machine_gpus.get(model) {
            let of = |lang: &&str| words.text(lang, "setup-gpus-there", &Args::new().with("there", there.to_string()));
            text += &format!(" ({})", join(langs.iter().map(of)));
        }
        text
    });
    let gpus: Vec<String> = gpus.collect();
    let cpus: Vec<String> =
        setup.cpus.iter().map(|(model, count)| format!("{} ({count} CPUs)", safe::text(model))).collect();
    // Without a CPU there was no machine: what a report shows was computed, and is the same on all of them.
    if !cpus.is_empty() {
        lines.push(line("GPU".into(), if gpus.is_empty() { joined("setup-no-gpu") } else { gpus.join("; ") }));
        lines.push(line("CPU".into(), cpus.join("; ")));
    }
    if !setup.versions.is_empty() {
        let versions = setup.versions.iter().map(|(name, version)| (name.as_str(), safe::text(version)));
        let versions = versions.map(|(name, version)| match name {
            "torch" => format!("PyTorch {version}"),
            "cuda" => format!("CUDA {version}"),
            "cudnn" => format!("cuDNN {version}"),
            "driver" => format!("NVIDIA {version}"),
            other => format!("{} {version}", safe::text(other)),
        });
        lines.push(line(joined("setup-versions"), versions.collect::<Vec<_>>().join(", ")));
    }
    if let Some((profile, why)) = &setup.profile {
        let text = |lang: &str| {
            let args = Args::new().with("profile", safe::code(profile)).with("why", words.reasons(lang).profile(why));
            words.text(lang, "setup-profile-value", &args)
        };
        lines.push(line(joined("setup-profile"), join(langs.iter().map(|lang| text(lang)))));
    }
    if !report.runs.is_empty() {
        let runs: Vec<String> = report.runs.iter().map(|run| safe::code(&run.0)).collect();
        lines.push(line(joined("setup-runs"), runs.join(", ")));
    }
    if !setup.revisions.is_empty() {
        let said = |lang: &str| {
            let each = setup.revisions.iter().map(|revision| {
                let args = Args::new().with("commit", safe::code(revision.short()));
                words.text(lang, if revision.dirty { "setup-commit-dirty" } else { "setup-commit-clean" }, &args)
            });
            each.collect::<Vec<_>>().join("; ")
        };
        lines.push(line(joined("setup-commit"), join(langs.iter().map(|lang| said(lang)))));
    }
    lines
}

/// On a line what was trained, the author's own, and on a line the machine: the rest is in the report.
fn short(mut lines: Vec<LabelledValue>, parameters: usize) -> Vec<LabelledValue> {
    let machine = lines.iter().position(|line| line.label == "CPU");
    lines.truncate(machine.map_or(lines.len(), |at| at + 1));
    let mut one = |from: usize, count: usize| {
        let rest: Vec<LabelledValue> = lines.drain(from + 1..from + count).collect();
        rest.iter().for_each(|line| lines[from].value += &format!("; {}{}{}", line.label, line.colon, line.value));
    };
    if let Some(cpu) = machine {
        one(cpu - 1, 2);
    }
    if parameters > 1 {
        one(0, parameters);
    }
    lines
}

/// As a list. Neighbouring lists take different signs, or Markdown would make them one.
fn listed(bullets: Vec<String>, at: usize) -> Vec<String> {
    let sign = if at.is_multiple_of(2) { '-' } else { '*' };
    bullets.into_iter().map(|text| format!("{sign} {}", safe::line(&text))).collect()
}

fn section(section: &Section, words: &Words, langs: &[&str], all: &[&str], said: &mut BTreeSet<String>) -> PageSection {
    let names = Names { table: &section.table, words };
    let mut more = Vec::new();
    if let Some(changes) = &section.changes {
        let mut grid = Grid::default();
        for axis in &section.table.rows {
            let text = |row: &crate::table::Row, at: usize| {
                matches!(&row.cells[at].content, Content::Text { number: Some(_), .. })
            };
            let at = grid.heads.len();
            let right = section.table.body.iter().all(|row| text(row, at));
            grid.heads.push((join(langs.iter().map(|lang| names.head(axis, lang))), right));
        }
        for (column, show) in &changes.columns {
            let unit = match show.head() {
                None => String::new(),
                Some("points") => format!(" ({})", words.joined(langs, "unit-points")),
                Some(unit) => format!(" ({})", safe::text(unit)),
            };
            grid.heads.push((join(langs.iter().map(|lang| names.head(column, lang))) + &unit, true));
        }
        for (row, cells) in section.table.body.iter().zip(&changes.rows) {
            let keys = row.cells.iter().take(section.table.rows.len()).map(|cell| match &cell.content {
                Content::Text { text, .. } => safe::text(text),
                _ => "—".into(),
            });
            let cells = cells.iter().zip(&changes.columns);
            let cells = cells.map(|(v, (_, show))| v.map_or_else(|| "—".into(), |v| show.cell(v)));
            grid.rows.push(keys.chain(cells).collect());
        }
        let title = langs.iter().map(|lang| {
            let (a, b) = changes.ends();
            words.text(lang, "changes-title", &Args::new().with("a", safe::text(&a)).with("b", safe::text(&b)))
        });
        let differences = langs.iter().filter_map(|lang| {
            let of: Vec<String> = changes.differences().map(|column| names.inline(column, lang)).collect();
            let args = Args::new().with("columns", words.list(lang, &of));
            (!of.is_empty()).then(|| words.text(lang, "changes-differences", &args))
        });
        let notes: Vec<String> = differences.collect();
        let notes = if notes.is_empty() { String::new() } else { format!("\n{}\n", notes.join("  \n")) };
        let text = grid.typeset(words, langs).markdown() + &notes;
        more.push(Titled { title: safe::line(&join(title)), text });
    }
    more.extend(held::held(section, words, langs));
    let analyses = &section.analyses;
    for shown in analyses.iter().flat_map(|(_, found)| found.tables(analyses, &section.table, words, langs)) {
        let text = shown.body(words, langs);
        more.push(Titled { title: safe::line(&shown.title), text });
    }
    let mut add = |key: &str, grid: Grid, notes: &[String]| {
        let notes = if notes.is_empty() { String::new() } else { format!("\n{}\n", notes.join("  \n")) };
        more.push(Titled { title: words.joined(langs, key), text: grid.typeset(words, langs).markdown() + &notes });
    };
    if !section.together.is_empty() {
        let gains = together::intervals(&section.together, words, langs);
        let repeated = together::repeated(&section.together, words, langs);
        let interference = together::interference(&section.together, words, langs);
        let notes: Vec<String> = repeated.into_iter().chain(interference).chain(gains).collect();
        add("together-members", together::members(&section.together, words, langs, &names), &notes);
        if let Some(used) = together::used(&section.together, words, langs, &names) {
            let windows = together::windows(&section.together, words, langs);
            add("together-used", used, windows.as_slice());
        }
        let explained = together::explained(&section.together).into_iter().map(|key| words.joined(langs, key));
        let notes: Vec<String> = explained.collect();
        add("together-groups", together::groups(section, words, langs), &notes);
    }
    if let Some(packed) = &section.packed {
        add("packed-members", together::packed(packed, words, langs, &names), &[]);
    }
    more.extend(held::members(section, words, langs));
    let key = if said.is_empty() { "assumed-heading" } else { "assumed-heading-other" };
    let assumed = assumptions::worded(&section.assumed, words, langs, said);
    let assumed = assumed.map(|text| Titled { title: words.joined(langs, key), text });
    let computed = (!section.computed.is_empty()).then(|| {
        let heads =
            ["computed-figure", "computed-value"].map(|key| (words.joined(langs, key), key == "computed-value"));
        let mut grid = Grid { heads: heads.into(), rows: Vec::new() };
        for entry in &section.computed {
            let label = join(langs.iter().map(|lang| entry.label(words, lang, &names)));
            let value = join(langs.iter().map(|lang| entry.text(words, lang)));
            grid.rows.push(vec![label, value]);
        }
        Titled { title: words.joined(langs, "computed-heading"), text: grid.typeset(words, langs).markdown() }
    });
    PageSection {
        title: join(langs.iter().map(|lang| prose::title(section, words, lang))),
        table: markdown(&section.table, words, langs),
        short_table: String::new(),
        more,
        assumed,
        computed,
        charts: charts(section, words, langs, all),
        bullets: langs.iter().enumerate().map(|(at, lang)| listed(prose::bullets(section, words, lang), at)).collect(),
    }
}

//! The charts of a section: which there are, what they are called, and their words. Drawing is `chart`'s.

use serde::Serialize;

use super::model::Section;
use super::schedule::Scheduled;
use crate::chart;
use crate::format::Format;
use crate::gantt::Frame;
use crate::safe;
use crate::table::{Column, Content, Names, content};
use crate::words::{Args, Words, join};

/// A chart, as a template refers to it.
#[derive(Serialize)]
pub(super) struct Chart {
    /// Its file, beside the other charts.
    pub(super) file: String,
    /// What it shows, for who does not see it.
    pub(super) alt: String,
    /// What is to be known of it and does not stand in it; mostly nothing.
    pub(super) caption: String,
    #[serde(skip)]
    pub(super) svg: String,
}

/// Columns that are drawn over the rows.
const CURVES: [&str; 9] = [
    "epoch_time",
    "iteration_time",
    "gpu_memory",
    "time_in_system",
    "time_in_system_p99",
    "waiting",
    "makespan",
    "gpu_use",
    "cpu_use",
];

/// `langs` are those of the text around, `all` those of the report.
pub(super) fn charts(section: &Section, words: &Words, langs: &[&str], all: &[&str]) -> Vec<Chart> {
    let table = &section.table;
    let names = Names { table, words };
    let mut charts = schedule_charts(&section.schedules, words, langs, all);
    let axis = |axis: &str| join(all.iter().map(|lang| names.plain(axis, lang)));
    if let [rows] = table.rows.as_slice() {
        let ticks: Vec<(f64, String)> = table
            .body
            .iter()
            .filter_map(|row| match &row.cells[0].content {
                Content::Text { text, number } => Some(((*number)?, text.clone())),
                _ => None,
            })
            .collect();
        for column in CURVES {
            let mut shown = None;
            let lines = table.parts().into_iter().filter_map(|part| {
                let at = table.find(column, None, part)?;
                let show = &table.columns[at].show;
                shown.get_or_insert_with(|| show.clone());
                let points = table
                    .body
                    .iter()
                    .filter_map(|row| Some((row.cells[0].number()?, row.cells[at].number()? * show.factor)));
                let name = part.and_then(|part| table.point(part)).unwrap_or_default();
                Some(chart::Line { name, points: points.collect() })
            });
            let lines: Vec<chart::Line> = lines.filter(|line| line.points.len() >= 2).collect();
            let Some(show) = shown.filter(|_| !lines.is_empty() && ticks.len() == table.body.len()) else { continue };
            let labels = chart::Labels { x: axis(rows), y: axis(column) + &unit(&show) };
            let gaps = gaps(section, column, words, all);
            charts.push(Chart {
                file: format!("{}-{column}.svg", section.name),
                alt: join(langs.iter().map(|lang| {
                    let args =
                        Args::new().with("column", names.head(column, lang)).with("axis", names.inline(rows, lang));
                    words.text(lang, "chart-over", &args)
                })),
                caption: String::new(),
                svg: chart::curve(&lines, &gaps, &ticks, &labels),
            });
        }
    }
    charts.extend(together_chart(section, words, langs, all, &names));
    charts.extend(load_chart(section, words, langs, all));
    charts
}

/// As an axis tells it.
fn unit(show: &Format) -> String {
    match show.unit.as_str() {
        "" => String::new(),
        unit => format!(" ({unit})"),
    }
}

/// The rows in which no part of the table has a number for the column, with what became of the first.
fn gaps(section: &Section, column: &str, words: &Words, all: &[&str]) -> Vec<chart::Gap> {
    let table = &section.table;
    let columns: Vec<usize> = table.parts().into_iter().filter_map(|part| table.find(column, None, part)).collect();
    let gap = |row: &crate::table::Row| {
        let ended = |at: &usize| matches!(row.cells[*at].content, Content::Outcome { .. });
        let first = columns.first().filter(|_| columns.iter().all(ended))?;
        let why = |lang: &&str| content(&row.cells[*first].content, &Column::default(), words, &[lang]);
        Some(chart::Gap { at: row.cells[0].number()?, why: all.iter().map(why).collect() })
    };
    table.body.iter().filter_map(gap).collect()
}

fn together_chart(section: &Section, words: &Words, langs: &[&str], all: &[&str], names: &Names<'_>) -> Option<Chart> {
    let mut bars = Vec::new();
    for member in section.together.iter().flat_map(|g| &g.members) {
        let point: Vec<String> = member.axes.values().map(crate::columns::written).collect();
        bars.push((point.join(" "), member.alone?, member.together?));
    }
    let show = Format::for_unit("s", bars.iter().flat_map(|(_, a, b)| [*a, *b]));
    let measure = section.together.first()?.measure.clone();
    let x = section.together.iter().flat_map(|g| &g.members).next()?;
    let x = x.axes.keys().map(|axis| join(all.iter().map(|l| names.plain(axis, l)))).collect::<Vec<_>>().join(", ");
    let labels = chart::Labels { x, y: join(all.iter().map(|l| names.plain(&measure, l))) + &unit(&show) };
    for (_, a, b) in &mut bars {
        *a *= show.factor;
        *b *= show.factor;
    }
    let (alone, together) = (words.joined(all, "chart-alone"), words.joined(all, "chart-together"));
    Some(Chart {
        file: format!("{}-together.svg", section.name),
        alt: words.joined(langs, "chart-together-alt"),
        caption: String::new(),
        svg: chart::bars(&bars, (&alone, &together), &labels),
    })
}

/// The GPU of a placement, by its place, that was busy most; the first where none was sampled.
fn busiest(series: &flow_core::Series) -> usize {
    let mean = |n: usize| {
        let points = series.samples.get(&format!("gpu{n}_load"))?;
        Some(points.iter().map(|(_, load)| load).sum::<f64>() / points.len().max(1) as f64)
    };
    let loads = (0..).map_while(mean).enumerate();
    loads.fold((0, f64::MIN), |most, (n, load)| if load > most.1 { (n, load) } else { most }).0
}

fn load_chart(section: &Section, words: &Words, langs: &[&str], all: &[&str]) -> Option<Chart> {
    let (label, series) = section.load.as_ref()?;
    let gpu = busiest(series);
    let wanted = [
        ("cpu".to_owned(), "column-cpu_util"),
        (format!("gpu{gpu}_load"), "column-gpu_load"),
        (format!("gpu{gpu}_memory_load"), "column-gpu_memory_load"),
    ];
    let lines = wanted.into_iter().filter_map(|(sample, key)| {
        let points = series.samples.get(&sample)?.iter().map(|(t, v)| (*t, v * 100.0)).collect();
        Some(chart::Line { name: words.joined(all, key), points })
    });
    let lines: Vec<chart::Line> = lines.collect();
    // Every second one, so that neighbours can be told apart.
    let odd = series.epoch_times.iter().filter(|(epoch, ..)| epoch % 2 == 1);
    let epochs: Vec<(f64, f64)> = odd.map(|(_, begin, end)| (*begin, *end)).collect();
    let labels = chart::Labels {
        x: format!("{} (s)", words.joined(all, "chart-time")),
        y: format!("{} (%)", words.joined(all, "chart-load")),
    };
    let args = || Args::new().with("label", safe::text(label));
    Some(Chart {
        file: format!("{}-load.svg", section.name),
        alt: join(langs.iter().map(|lang| words.text(lang, "chart-load-alt", &args()))),
        caption: String::new(),
        svg: chart::load(&lines, &epochs, &labels),
    })
}

/// The pictures: over one time, and with one scale for who waits, so that they can be compared.
fn schedule_charts(schedules: &[Scheduled], words: &Words, langs: &[&str], all: &[&str]) -> Vec<Chart> {
    let frame = Frame::around(schedules.iter().map(|scheduled| &scheduled.gantt));
    let chart = |(n, Scheduled { file, label, of, gantt }): (usize, &Scheduled)| {
        let args = |lang: &str, label: String| {
            let part = gantt.part(words, lang, frame);
            let whole = if part.is_empty() { "yes" } else { "no" };
            Args::new().with("label", label).with("part", part).with("whole", whole).count("of", *of as usize)
        };
        let caption = langs.iter().map(|lang| {
            let what = words.text(lang, "chart-schedule-caption", &args(lang, safe::code(label)));
            // How to read it is said once.
            let how = if n == 0 { words.text(lang, "chart-schedule-how", &Args::new()) } else { String::new() };
            safe::line(&format!("{what}{}{how}", if how.is_empty() || *lang == "zh" { "" } else { " " }))
        });
        Chart {
            file: file.clone(),
            alt: join(langs.iter().map(|lang| words.text(lang, "chart-schedule-alt", &args(lang, safe::text(label))))),
            caption: caption.collect::<Vec<_>>().join("\\\n"),
            svg: gantt.drawn(words, all, label, frame),
        }
    };
    schedules.iter().enumerate().map(chart).collect()
}

//! Computed figures as text: their values and their labels.

use super::{Computed, What};
use crate::safe;
use crate::table::Names;
use crate::words::{Args, Words};

impl Computed {
    /// The figure, with its interval if that is shown.
    pub(crate) fn text(&self, words: &Words, lang: &str) -> String {
        let value = words.figure(lang, &self.show, self.value);
        let Some((low, high)) = self.ends else { return value };
        let (from, to) = (self.show.number(low), words.figure(lang, &self.show, high));
        let range = words.text(lang, "range", &Args::new().with("from", from).with("to", to));
        words.text(lang, "computed-interval", &Args::new().with("value", value).with("range", range))
    }

    /// The label of the figure in the table of computed figures.
    pub(crate) fn label(&self, words: &Words, lang: &str, names: &Names<'_>) -> String {
        let inline = |name: &str| names.inline(name, lang);
        let of = |column: &str, axis: &str| Args::new().with("column", inline(column)).with("axis", inline(axis));
        let told = |key: &str, column: &str| words.text(lang, key, &Args::new().with("column", inline(column)));
        let off = |key: &str, column: &str, of: &str| {
            words.text(lang, key, &Args::new().with("column", inline(column)).with("of", inline(of)))
        };
        let text = match &self.what {
            What::Growth { column, axis, from, to } => words.text(
                lang,
                "computed-growth",
                &of(column, axis).with("from", safe::text(from)).with("to", safe::text(to)),
            ),
            What::Jump { column, axis, from, to } => words.text(
                lang,
                "computed-jump",
                &of(column, axis).with("from", safe::text(from)).with("to", safe::text(to)),
            ),
            What::Intercept { column, axis } => words.text(lang, "computed-intercept", &of(column, axis)),
            What::Slope { column, axis } => words.text(lang, "computed-slope", &of(column, axis)),
            What::R2 { column, axis } => words.text(lang, "computed-r2", &of(column, axis)),
            What::Least { column } => told("computed-least", column),
            What::Most { column } => told("computed-most", column),
            What::MeanChange { column } => told("computed-mean-change", column),
            What::LowChange { column } => told("computed-low-change", column),
            What::HighChange { column } => told("computed-high-change", column),
            What::Pairs { column } => told("computed-pairs", column),
            What::MedianChange { column } => told("computed-median-change", column),
            What::RowsChanged { column } => told("computed-rows-changed", column),
            What::Rows { column } => told("computed-rows", column),
            What::SignTest { column } => told("computed-sign-test", column),
            What::FTest { column, axis } => words.text(lang, "computed-f-test", &of(column, axis)),
            What::PairTest { column } => told("computed-pair-test", column),
            What::TTest { column, at } => {
                let args = Args::new().with("column", inline(column)).with("at", safe::text(at));
                words.text(lang, "computed-t-test", &args)
            }
            What::Furthest { column } => told("computed-furthest", column),
            What::AxisMean { column, at } => {
                let args = Args::new().with("column", inline(column)).with("at", safe::text(at));
                words.text(lang, "computed-axis-mean", &args)
            }
            What::AxisWay { column, axis } => words.text(lang, "computed-axis-way", &of(column, axis)),
            What::Compared => words.text(lang, "computed-compared", &Args::new()),
            What::Packed => words.text(lang, "computed-packed", &Args::new()),
            What::Foreign => words.text(lang, "computed-foreign", &Args::new()),
            What::ForeignBeside { label } => {
                words.text(lang, "computed-foreign-beside", &Args::new().with("label", safe::code(label)))
            }
            What::AtOnce => words.text(lang, "computed-at-once", &Args::new()),
            What::OneByOne => words.text(lang, "computed-one-by-one", &Args::new()),
            What::Gain => words.text(lang, "computed-gain", &Args::new()),
            What::LeastSlowdown => words.text(lang, "computed-least-slowdown", &Args::new()),
            What::MostSlowdown => words.text(lang, "computed-most-slowdown", &Args::new()),
            What::Off { column } => told("computed-off", column),
            What::AsGiven { column } => told("computed-as-given", column),
            What::Given { column } => told("computed-given", column),
            What::LeastOff { column, of } => off("computed-least-off", column, of),
            What::MostOff { column, of } => off("computed-most-off", column, of),
            What::TypicalOff { column, of } => off("computed-typical-off", column, of),
            What::Apart { column, axis, at } => {
                words.text(lang, "computed-apart", &of(column, axis).with("at", safe::text(at)))
            }
            What::Behind { column, axis, at, part, than } => {
                let args = of(column, axis).with("at", safe::text(at)).with("part", safe::text(part));
                words.text(lang, "computed-behind", &args.with("than", safe::text(than)))
            }
            What::Of { column, label } => {
                let args = Args::new().with("column", inline(column)).with("label", safe::code(label));
                words.text(lang, "computed-of", &args)
            }
            What::Middle { label } => {
                words.text(lang, "computed-middle", &Args::new().with("label", safe::code(label)))
            }
            What::Ends { label } => words.text(lang, "computed-ends", &Args::new().with("label", safe::code(label))),
        };
        names.scoped(&self.scope, names.capital(text, lang), lang)
    }
}

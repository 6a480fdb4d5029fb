//! Replaces axis values in a report by the names that the author gave them, in one language.

use std::borrow::Cow;

use super::model::{Report, Section};
use crate::table::{everywhere, number_columns};

pub(super) fn named<'a>(report: &'a Report, lang: &str) -> Cow<'a, Report> {
    if report.sections.iter().all(|section| section.table.labels.is_empty()) {
        return Cow::Borrowed(report);
    }
    let section = |section: &Section| match everywhere(section, &section.table.labels, lang) {
        Some(mut named) => {
            number_columns(&mut named.table, lang);
            named
        }
        None => section.clone(),
    };
    Cow::Owned(Report { sections: report.sections.iter().map(section).collect(), ..report.clone() })
}

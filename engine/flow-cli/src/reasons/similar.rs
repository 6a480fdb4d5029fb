//! Joins the messages about many instances: after a change of the command, the reasons of a sweep
//! differ in values but have one form.

use flow_core::reason::{Cause, Texts};
use flow_core::{Outcome, why::RunReasons};
use indexmap::IndexMap;
use serde::Serialize;
use serde_json::Value;

use super::{settled, why, why_within};

/// Why an instance is as it is.
#[derive(Clone, Debug)]
pub(crate) enum InstanceReason {
    Runs(RunReasons),
    /// Why it was settled in this way.
    Settled(Outcome, Option<Cause>),
    /// Until which verdict is decided it repeats, and the maximum number of runs.
    MayRepeat {
        group: String,
        at_most: u32,
    },
    /// Words that are equal only for equal messages.
    Words(String),
}

impl InstanceReason {
    pub(crate) fn words(&self) -> String {
        match self {
            InstanceReason::Runs(reasons) => why(reasons),
            InstanceReason::Settled(outcome, cause) => settled(*outcome, cause.as_ref()),
            InstanceReason::MayRepeat { group, at_most } => {
                format!("while the verdict on {group} is undecided, up to {at_most} runs of each")
            }
            InstanceReason::Words(words) => words.clone(),
        }
    }

    /// The message in a limited number of columns: values are left out first.
    pub(crate) fn words_within(&self, columns: usize) -> String {
        match self {
            InstanceReason::Runs(reasons) => why_within(reasons, columns),
            _ => self.words(),
        }
    }

    /// The form shared by messages that differ only in numbers, names and texts.
    pub(crate) fn form(&self) -> Value {
        match self {
            InstanceReason::Runs(why) => without_values(why.clone()),
            InstanceReason::Settled(outcome, cause) => {
                Value::Array(vec![without_values(*outcome), without_values(cause.clone())])
            }
            InstanceReason::MayRepeat { .. } => Value::Null,
            InstanceReason::Words(words) => Value::String(words.clone()),
        }
    }
}

fn without_values<T: Texts + Serialize>(mut reason: T) -> Value {
    fn without_numbers(value: &mut Value) {
        match value {
            // A number that became a text is a change like any other.
            Value::Number(_) => *value = Value::String(String::new()),
            Value::Array(list) => list.iter_mut().for_each(without_numbers),
            Value::Object(map) => map.values_mut().for_each(without_numbers),
            Value::Null | Value::Bool(_) | Value::String(_) => {}
        }
    }
    reason.texts(&mut String::clear);
    let mut form = serde_json::to_value(reason).unwrap_or_default();
    without_numbers(&mut form);
    form
}

/// Reasons of one form: the most frequent one, its first instance, the number of instances, and
/// whether they differ.
pub(crate) struct SimilarReasons<T> {
    pub(crate) of: T,
    words: String,
    pub(crate) count: usize,
    differ: bool,
}

impl<T> SimilarReasons<T> {
    /// The reason, noting that others have other values.
    pub(crate) fn words(&self) -> String {
        self.put(&self.words)
    }

    /// The same with the reason in these words.
    pub(crate) fn put(&self, said: &str) -> String {
        if self.differ { format!("{said}; the others alike") } else { said.to_owned() }
    }
}

/// The forms of some reasons, in order of first appearance.
pub(crate) fn alike<T>(reasons: impl Iterator<Item = (T, InstanceReason)>) -> Vec<SimilarReasons<T>> {
    let mut forms: IndexMap<Value, IndexMap<String, (T, usize)>> = IndexMap::new();
    for (of, reason) in reasons {
        forms.entry(reason.form()).or_default().entry(reason.words()).or_insert((of, 0)).1 += 1;
    }
    let alike = forms.into_values().filter_map(|reasons| {
        let (count, differ) = (reasons.values().map(|(_, count)| count).sum(), reasons.len() > 1);
        // The first of equally frequent ones.
        let (said, (of, _)) = reasons.into_iter().rev().max_by_key(|(_, (_, count))| *count)?;
        Some(SimilarReasons { of, words: said, count, differ })
    });
    alike.collect()
}

#[cfg(test)]
mod tests {
    use flow_core::fingerprint::PartKind;
    use flow_core::why::Reason;
    use serde_json::json;

    use super::*;

    fn runs(reason: Reason) -> InstanceReason {
        InstanceReason::Runs(RunReasons { first: vec![reason], more: 0 })
    }

    fn said(reasons: Vec<InstanceReason>) -> Vec<(String, usize)> {
        alike(reasons.into_iter().map(|reason| ((), reason))).iter().map(|one| (one.words(), one.count)).collect()
    }

    #[test]
    fn reasons_of_one_form_are_told_as_one() {
        let value = |name: &str, was, is| {
            runs(Reason::Value { kind: PartKind::Parameter, name: name.into(), was: Some(was), is: Some(is) })
        };
        let values =
            vec![value("lr", json!(1), json!(2)), value("lr", json!(3), json!("x")), value("n", json!(1), json!(2))];
        assert_eq!(said(values), [("`lr` was 1, is 2; the others alike".to_owned(), 3)]);
        let verdict = |looks, gain| {
            runs(Reason::Undecided { group: "together".into(), looks, at_most: 3, gain: Some((gain, 0.1)) })
        };
        let first = || runs(Reason::NeverRan);
        let one = "the verdict on together is undecided after one run of each (gain 0.90 ± 0.10); at most 3 are made";
        let mixed = vec![first(), verdict(1, 0.9), first(), verdict(2, 0.8)];
        assert_eq!(said(mixed), [("its first run".to_owned(), 2), (format!("{one}; the others alike"), 2)]);
    }

    #[test]
    fn what_differs_by_more_than_values_is_told_apart() {
        let needs =
            |label: &str| InstanceReason::Settled(Outcome::Skipped, Some(Cause::NeedFailed { label: label.into() }));
        let condition =
            InstanceReason::Settled(Outcome::Skipped, Some(Cause::ConditionFalse { expression: "a".into() }));
        let told = said(vec![needs("a[n=1]"), condition, needs("a[n=1]")]);
        assert_eq!(told.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(told[0].0, needs("a[n=1]").words());
    }
}

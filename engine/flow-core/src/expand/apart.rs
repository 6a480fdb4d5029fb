//! Inputs and outputs lie apart in the work folder: a folder that is an input is the author's own and no copy, and what a step
//! produces is taken away from where it lies.

use crate::{
    Diagnostic, Instance,
    paths::{normal, within},
    spec::{
        at::{On, Problems},
        step::Step,
    },
};

/// Finds an output that is an input, lies in one or holds one.
pub(super) fn check(step: &Step, instance: &Instance, problems: &mut Problems) {
    for output in instance.outputs.iter() {
        let path = normal(&output.path);
        for input in instance.inputs.iter().filter(|input| !input.in_place) {
            let place = input.place();
            let how = if path == place {
                "is"
            } else if within(&path, &place) {
                "lies in"
            } else if within(&place, &path) {
                "holds"
            } else {
                continue;
            };
            let shown = match normal(&input.path) == place {
                true => format!("the input `{place}`"),
                false => format!("the input `{}`, which appears as `{place}`", input.path),
            };
            let what = Diagnostic::new(format!("the output `{}` {how} {shown}", output.path));
            let what = what.help(format!(
                "an input is only to be read: write to another folder; what is to be changed is copied first, with `cp -r {place} new`"
            ));
            let (at, text) = match (step.values.get("outputs"), step.values.get("inputs")) {
                (Some(outputs), _) => (&outputs.at, &output.path),
                // The outputs are the plugin's.
                (None, Some(inputs)) => (&inputs.at, &input.path),
                (None, None) => (&step.at, &output.path),
            };
            return problems.add(at, On::Text(text.clone()), what);
        }
    }
}

//! Inputs and outputs lie apart in the work folder: a folder that is an input is linked to and no copy of the step's own, and what
//! a step produces is taken away from where it lies. So do inputs and the artifacts of other steps, which appear in `in/`.

use crate::{
    Diagnostic, Input, Instance,
    paths::{normal, within},
    spec::{
        at::{On, Problems},
        step::Step,
    },
};

/// Finds an output that is an input, lies in one or holds one; and an input in `in/` of a step that `reads` others.
pub(super) fn check(step: &Step, instance: &Instance, reads: bool, problems: &mut Problems) {
    let taken = |input: &&Input| reads && !input.in_place && (input.place() == "in" || within(&input.place(), "in"));
    if let (Some(input), Some(inputs)) = (instance.inputs.iter().find(taken), step.parts.value("inputs")) {
        let what = Diagnostic::new("`in/` is where artifacts of other steps appear");
        let what = what.help("the folder must have another name here, for this step reads other steps");
        return problems.add(&inputs.at, On::Text(input.path.clone()), what);
    }
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
                "an input is only to be read: write to another folder; what is to be changed is copied first, with `cp -r {place} new; chmod -R u+w new`"
            ));
            let (at, text) = match (step.parts.value("outputs"), step.parts.value("inputs")) {
                (Some(outputs), _) => (&outputs.at, &output.path),
                // The outputs are the plugin's.
                (None, Some(inputs)) => (&inputs.at, &input.path),
                (None, None) => (&step.at, &output.path),
            };
            return problems.add(at, On::Text(text.clone()), what);
        }
    }
}

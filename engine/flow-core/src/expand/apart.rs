//! Inputs and outputs must not overlap in the work folder. An input folder is a link, not a private copy, and outputs
//! are moved away from their place. The artifacts of other steps appear in `in/`, so no input may be there either.

use super::prepare::StepPlan;
use crate::{
    Diagnostic, Input, Instance,
    paths::{normal, within},
    spec::{
        at::{PlacePart, Problems},
        files::relation,
        step::Step,
    },
};

/// Finds an output that is an input, is inside one or contains one; an output of another step in such a place; and an
/// input in `in/` of a step that reads others.
pub(super) fn check(step: &Step, instance: &Instance, plan: &StepPlan, problems: &mut Problems) {
    let reads = !plan.reads.is_empty();
    let taken = |input: &&Input| reads && !input.in_place && (input.place() == "in" || within(&input.place(), "in"));
    if let (Some(input), Some(inputs)) = (instance.inputs.iter().find(taken), step.parts.value("inputs")) {
        let what = Diagnostic::new("`in/` is where artifacts of other steps appear");
        let what = what.help("rename the folder, because this step reads other steps");
        return problems.add(&inputs.at, PlacePart::Text(input.path.clone()), what);
    }
    let inputs = || instance.inputs.iter().filter(|input| !input.in_place);
    for (place, output) in &plan.placed {
        let input = inputs().find_map(|input| Some((relation(place, &input.place())?, "input", input.place())));
        let own = instance.outputs.iter().map(|output| (normal(&output.path), "output"));
        let own = own.filter_map(|(path, what)| Some((relation(place, &path)?, what, path))).next();
        if let Some((how, what, other)) = input.or(own) {
            let what = Diagnostic::new(format!("`{place}` {how} the {what} `{other}` in the work folder"));
            return problems.key(&output.at, what.help("give each a path of its own"));
        }
    }
    for output in instance.outputs.iter() {
        let path = normal(&output.path);
        for input in inputs() {
            let place = input.place();
            let Some(how) = relation(&path, &place) else { continue };
            // A copy may be changed, and taken as an output.
            if input.copy && how != "holds" {
                continue;
            }
            let shown = match normal(&input.path) == place {
                true => format!("the input `{place}`"),
                false => format!("the input `{}`, which appears as `{place}`", input.path),
            };
            let what = Diagnostic::new(format!("the output `{}` {how} {shown}", output.path));
            let what = what.help(match how {
                "holds" => "inputs are read-only: write to another folder".to_owned(),
                _ => format!(
                    "inputs are read-only: write to another folder, or write `{{path: {}, copy: true}}` under `inputs:`",
                    input.path
                ),
            });
            let (at, text) = match (step.parts.value("outputs"), step.parts.value("inputs")) {
                (Some(outputs), _) => (&outputs.at, &output.path),
                // The plugin declares the outputs.
                (None, Some(inputs)) => (&inputs.at, &input.path),
                (None, None) => (&step.at, &output.path),
            };
            return problems.add(at, PlacePart::Text(text.clone()), what);
        }
    }
}

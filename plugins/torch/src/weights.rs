//! Weights to begin with: a file of safetensors, held against what the network needs. Knows no training.

use std::collections::BTreeMap;
use std::path::Path;

use flow_plugin::Error;
use tch::Tensor;

use crate::model::Form;

/// Puts what a file holds into a network's new weights, by name; with `new_head`, all but the layers that give the classes.
pub(crate) fn read(
    file: &Path,
    form: &Form,
    new_head: bool,
    new: Vec<(String, Tensor)>,
) -> Result<Vec<(String, Tensor)>, Error> {
    let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
    let values = Tensor::read_safetensors(file).map_err(|error| {
        Error::failed(format!(
            "cannot read {name} as safetensors: {error}. PyTorch writes it with \
             safetensors.torch.save_file(model.state_dict(), \"{name}\")"
        ))
    })?;
    // PyTorch counts the batches that a normalisation has seen, and does nothing with the number.
    let counts = |name: &str| name.ends_with(".num_batches_tracked");
    let mut values: BTreeMap<String, Tensor> = values.into_iter().filter(|(name, _)| !counts(name)).collect();
    let (mut fitting, mut missing, mut unlike, mut heads) = (Vec::new(), Vec::new(), Vec::new(), true);
    for (variable, own) in new {
        let is_head = form.model.is_head(&variable);
        match values.remove(&variable) {
            _ if new_head && is_head => fitting.push((variable, own)),
            None => missing.push(variable),
            Some(value) if value.size() == own.size() => fitting.push((variable, value)),
            Some(value) => {
                heads &= is_head;
                unlike.push(format!("`{variable}` is {} and not {}", shape(&value), shape(&own)));
            }
        }
    }
    missing.sort();
    unlike.sort();
    let left: Vec<String> = values.into_keys().collect();
    let (model, classes) = (form.model.name(), form.classes);
    let trouble = match (&*missing, &*left, &*unlike) {
        ([], [], []) => return Ok(fitting),
        ([first, rest @ ..], ..) => {
            format!("no `{first}`{}, as {model} has: are they of another model?", more(rest.len()))
        }
        (_, [first, rest @ ..], _) => {
            format!("`{first}`{}, of which {model} has none: are they of another model?", more(rest.len()))
        }
        (.., [first, rest @ ..]) if heads => format!(
            "other classes, {first}{}: `new_head: true` keeps the rest and begins a new last layer for the {classes} classes",
            more(rest.len())
        ),
        (.., [first, rest @ ..]) => {
            format!(
                "other shapes, {first}{}: are they of another model, or of images of another size?",
                more(rest.len())
            )
        }
    };
    Err(Error::failed(format!("the weights in {name} have {trouble}")))
}

fn more(count: usize) -> String {
    if count == 0 { String::new() } else { format!(" and {count} more") }
}

/// As people write it, `512×1000`.
fn shape(tensor: &Tensor) -> String {
    let sides: Vec<String> = tensor.size().iter().map(i64::to_string).collect();
    if sides.is_empty() { "one number".to_owned() } else { sides.join("×") }
}

#[cfg(test)]
mod tests {
    use tch::nn;
    use tch::{Device, Kind};

    use super::*;
    use crate::model::Model;

    fn new(form: &Form) -> Vec<(String, Tensor)> {
        let store = nn::VarStore::new(Device::Cpu);
        let _network = form.build(&store.root());
        store.variables().into_iter().collect()
    }

    #[test]
    fn what_does_not_fit_is_named_with_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("theirs.safetensors");
        let form = |model, classes| Form { model, classes, size: 64, dropout: None };
        let trained = form(Model::Resnet18, 5);
        let mut theirs = new(&trained);
        theirs.push(("bn1.num_batches_tracked".to_owned(), Tensor::from(7i64)));
        let read = |theirs: &[(String, Tensor)], form: Form, new_head| {
            Tensor::write_safetensors(theirs, &file).unwrap();
            read(&file, &form, new_head, new(&form)).map_err(|error| error.to_string())
        };
        assert_eq!(read(&theirs, trained, false).unwrap().len(), theirs.len() - 1);
        let refused = |theirs: &[(String, Tensor)], form| read(theirs, form, false).unwrap_err();
        insta::assert_snapshot!(refused(&theirs, form(Model::Resnet18, 2)), @"the weights in theirs.safetensors have other classes, `fc.bias` is 5 and not 2 and 1 more: `new_head: true` keeps the rest and begins a new last layer for the 2 classes");
        insta::assert_snapshot!(refused(&theirs, form(Model::Resnet34, 5)), @"the weights in theirs.safetensors have no `layer1.2.bn1.bias` and 79 more, as resnet34 has: are they of another model?");
        let larger = new(&form(Model::Resnet34, 5));
        insta::assert_snapshot!(refused(&larger, form(Model::Resnet18, 5)), @"the weights in theirs.safetensors have `layer1.2.bn1.bias` and 79 more, of which resnet18 has none: are they of another model?");
        let conv1 = theirs.iter().position(|(name, _)| name == "conv1.weight").unwrap();
        let mut narrow = theirs.iter().map(|(name, value)| (name.clone(), value.shallow_clone())).collect::<Vec<_>>();
        narrow[conv1].1 = Tensor::zeros([64, 1, 7, 7], (Kind::Float, Device::Cpu));
        insta::assert_snapshot!(refused(&narrow, form(Model::Resnet18, 5)), @"the weights in theirs.safetensors have other shapes, `conv1.weight` is 64×1×7×7 and not 64×3×7×7: are they of another model, or of images of another size?");
        let begun = read(&theirs, form(Model::Resnet18, 2), true).unwrap();
        let of = |all: &[(String, Tensor)], name: &str| {
            all.iter().find(|(other, _)| other == name).unwrap().1.shallow_clone()
        };
        assert_eq!(of(&begun, "fc.weight").size(), [2, 512]);
        assert_eq!(of(&begun, "conv1.weight"), of(&theirs, "conv1.weight"));
        std::fs::write(&file, "no safetensors").unwrap();
        let words = super::read(&file, &trained, false, new(&trained)).unwrap_err().to_string();
        assert!(words.contains("save_file(model.state_dict(), \"theirs.safetensors\")"), "{words}");
    }
}

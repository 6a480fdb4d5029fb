//! Weights to begin with: a file of safetensors, held against what the network needs. Knows no training.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
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
    let values = tensors(file).map_err(|why| Error::failed(format!("the weights in {name} cannot be read: {why}")))?;
    // PyTorch counts the batches that a normalisation has seen, and does nothing with the number.
    let counts = |name: &str| name.ends_with(".num_batches_tracked");
    let mut values: BTreeMap<String, Tensor> = values.into_iter().filter(|(name, _)| !counts(name)).collect();
    // DataParallel puts this before all names, and no network here has a name that begins so.
    if values.keys().all(|name| name.starts_with(PARALLEL)) {
        values = values.into_iter().map(|(name, value)| (name.replacen(PARALLEL, "", 1), value)).collect();
    }
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
        ([first, rest @ ..], [], []) if missing.iter().all(|name| form.model.is_head(name)) => format!(
            "no `{first}`{}, which give the classes: `new_head: true` begins a new last layer",
            more(rest.len())
        ),
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

/// The prefix that DataParallel and DistributedDataParallel add to names of weights.
const PARALLEL: &str = "module.";

/// The tensors in a file of safetensors, by name; the error says what keeps it from being read, and what helps.
pub(crate) fn tensors(file: &Path) -> Result<Vec<(String, Tensor)>, String> {
    if let Some(why) = unreadable(file).map_err(|error| error.to_string())? {
        return Err(why);
    }
    Tensor::read_safetensors(file).map_err(|error| format!("{}, {error}", wrong_format(file)))
}

/// The problem of a file, as far as its beginning and length show it. The library's messages are for programmers.
fn unreadable(file: &Path) -> io::Result<Option<String>> {
    /// No header is longer.
    const LONGEST: u64 = 100_000_000;
    if fs::metadata(file)?.is_dir() {
        return Ok(Some("it is a folder; name the file of safetensors".to_owned()));
    }
    let mut open = File::open(file)?;
    let length = open.metadata()?.len();
    let mut size = [0; 8];
    let mut header = Vec::new();
    if length > 8 {
        open.read_exact(&mut size)?;
        open.take(u64::from_le_bytes(size).min(LONGEST)).read_to_end(&mut header)?;
    }
    let due = 8u64.saturating_add(u64::from_le_bytes(size));
    let cut_short = |due: u64| {
        format!(
            "it is cut short, {length} bytes of {due} at least, as a copy that was interrupted is; copy it or write it again"
        )
    };
    if length <= 8 || header.first() != Some(&b'{') || due - 8 > LONGEST {
        return Ok(Some(wrong_format(file)));
    }
    if due > length {
        return Ok(Some(cut_short(due)));
    }
    let Ok(header) = serde_json::from_slice::<BTreeMap<String, serde_json::Value>>(&header) else {
        return Ok(Some(wrong_format(file)));
    };
    let ends = header.values().filter_map(|tensor| tensor["data_offsets"][1].as_u64());
    let due = due.saturating_add(ends.max().unwrap_or(0));
    Ok((due > length).then(|| cut_short(due)))
}

fn wrong_format(file: &Path) -> String {
    let name = file.file_stem().unwrap_or(file.as_os_str()).to_string_lossy();
    format!(
        "it is no safetensors; PyTorch writes that with safetensors.torch.save_file(model.state_dict(), \"{name}.safetensors\")"
    )
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
        let without_head: Vec<_> = new(&trained).into_iter().filter(|(name, _)| !name.starts_with("fc.")).collect();
        insta::assert_snapshot!(refused(&without_head, trained), @"the weights in theirs.safetensors have no `fc.bias` and 1 more, which give the classes: `new_head: true` begins a new last layer");
        assert!(read(&without_head, trained, true).is_ok());
        let parallel = theirs.iter().map(|(name, value)| (format!("module.{name}"), value.shallow_clone()));
        assert_eq!(read(&parallel.collect::<Vec<_>>(), trained, false).unwrap().len(), theirs.len() - 1);
    }

    #[test]
    fn what_cannot_be_read_is_told_in_words_with_the_way_out() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("theirs.safetensors");
        let form = Form { model: Model::Resnet18, classes: 2, size: 64, dropout: None };
        let refused = |file: &Path| super::read(file, &form, false, Vec::new()).unwrap_err().to_string();
        let save = "save_file(model.state_dict(), \"theirs.safetensors\")";
        assert!(
            refused(&file).ends_with("cannot be read: No such file or directory (os error 2)"),
            "{}",
            refused(&file)
        );
        assert!(refused(folder.path()).contains("it is a folder; name the file"), "{}", refused(folder.path()));
        for text in ["", "no safetensors", "PK\u{3}\u{4} what torch.save writes", "\u{2}\0\0\0\0\0\0\0{]"] {
            fs::write(&file, text).unwrap();
            let said = refused(&file);
            assert!(said.contains("it is no safetensors") && said.contains(save), "{text:?}: {said}");
        }
        Tensor::write_safetensors(&[("a", Tensor::zeros([100], (Kind::Float, Device::Cpu)))], &file).unwrap();
        let whole = fs::read(&file).unwrap();
        for length in [20, 100, whole.len() - 1] {
            fs::write(&file, &whole[..length]).unwrap();
            let said = refused(&file);
            assert!(said.contains(&format!("it is cut short, {length} bytes of ")), "{length}: {said}");
        }
        assert!(refused(&file).contains(&format!("of {}", whole.len())));
    }
}

//! The files of a step, as it declares them: `inputs:` and `outputs:`, which may not be in each other's way. Looks at no file.

use std::collections::BTreeMap;

use minijinja::value::{Value, ValueKind};

use super::{
    at::{Problems, Seg},
    typed_value::{
        MistakeKind, PrependPath, TypedResult, ValueMistake, all, entries, expected, identifier, list, mapping, other,
        seg, text, texts,
    },
};
use crate::{
    Diagnostic, Input, Output,
    expr::{Node, Template},
    paths::{normal, within},
};

pub(crate) fn inputs(value: &Value) -> TypedResult<Vec<Input>> {
    const WHAT: &str = "a list of paths, or a mapping of names and paths";
    let input = |name: Option<String>, value: &Value| {
        let (path, by_listing, copy) = match value.kind() {
            ValueKind::Map => detailed(value)?,
            _ => (text(value)?, false, false),
        };
        if path.trim().is_empty() {
            return other(Diagnostic::new("the path is empty"));
        }
        Ok(Input { name, path, by_listing, copy, in_place: false })
    };
    let found: Vec<(Seg, Input)> = match value.kind() {
        ValueKind::Seq => all(list(value, WHAT)?.iter().enumerate().map(|(i, v)| {
            let one = input(None, v).and_then(placed).below(Seg::Index(i))?;
            Ok((Seg::Index(i), one))
        }))?,
        _ => all(mapping(value, WHAT)?.into_iter().map(|(name, v)| {
            identifier(&name, "an input").map_err(|wrong| for_outputs_only(wrong, &name, &v)).below(seg(&name))?;
            let one = input(Some(name.clone()), &v).and_then(placed).below(seg(&name))?;
            Ok((seg(&name), one))
        }))?,
    };
    apart(&found)?;
    Ok(found.into_iter().map(|(_, input)| input).collect())
}

/// `inputs:` in two parts: files of the author, and outputs of other steps by their places in the work folder,
/// `{data/x: "${{ steps.a.out }}"}`.
pub(crate) fn split(inputs: &Template) -> (Template, Vec<(String, Template)>) {
    let Node::Map(members) = &inputs.node else { return (inputs.clone(), Vec::new()) };
    let (mut own, mut placed) = (Vec::new(), Vec::new());
    for (key, node) in members {
        let member = Template { at: inputs.at.key(key), node: node.clone() };
        let mut is_late = false;
        member.visit(&mut |expr, _| is_late |= expr.is_late());
        match is_late {
            true => placed.push((normal(key), member)),
            false => own.push((key.clone(), node.clone())),
        }
    }
    (Template { at: inputs.at.clone(), node: Node::Map(own) }, placed)
}

/// Checks the outputs of other steps under `inputs:`, as far as that is possible before they are there.
pub(super) fn check_placed(inputs: &Template, problems: &mut Problems) {
    let placed = split(inputs).1;
    for (n, (place, member)) in placed.iter().enumerate() {
        let problem = if let Err(wrong) = inside(if place.is_empty() { "." } else { place }, "the place") {
            wrong.into_iter().find_map(|wrong| match wrong.what {
                MistakeKind::Other(what) => Some(what),
                MistakeKind::Type { .. } => None,
            })
        } else if placed[..n].iter().any(|(twin, _)| place == twin) {
            Some(Diagnostic::new(format!("two outputs would be at `{place}` in the work folder")))
        } else if let Some((twin, _)) = placed[..n].iter().find(|(twin, _)| relation(place, twin).is_some()) {
            Some(Diagnostic::new(format!("`{twin}` and `{place}` would lie inside one another in the work folder")))
        } else if !may_be_output(&member.node) {
            let what = Diagnostic::new(format!("`{place}` is not one output of a step"));
            problems.value(&member.at, what.label("expected `${{ steps.NAME.out }}` and nothing else"));
            None
        } else {
            None
        };
        if let Some(what) = problem {
            problems.key(&member.at, what);
        }
    }
}

/// False for a text around an expression, a whole step, a metric, or an output with something appended.
fn may_be_output(node: &Node) -> bool {
    let Node::Expr(expr) = node else { return false };
    let is_plain = !expr.has_branches() && !expr.text.contains(['(', '[', '|']);
    !is_plain || expr.is_artifact()
}

/// How a path lies to another one: it is that, lies in it, or holds it.
pub(crate) fn relation(path: &str, other: &str) -> Option<&'static str> {
    match () {
        () if path == other => Some("is"),
        () if within(path, other) => Some("lies in"),
        () if within(other, path) => Some("holds"),
        () => None,
    }
}

/// Adds what to write instead of a path as the key of a file.
fn for_outputs_only(mut wrong: Vec<ValueMistake>, key: &str, value: &Value) -> Vec<ValueMistake> {
    if let (true, Some(MistakeKind::Other(what))) = (key.contains(['/', '.']), wrong.first_mut().map(|w| &mut w.what)) {
        let path = value.as_str().unwrap_or(key);
        what.help.push(format!(
            "write a name as the key, `file: {path}`, or a list, `inputs: [{path}]`; \
             only an output of another step, `${{{{ steps.NAME.out }}}}`, has a path as its key"
        ));
    }
    wrong
}

/// No two inputs lie in the same place of the work folder, and those that are inside one another there do so where they are, too.
fn apart(inputs: &[(Seg, Input)]) -> TypedResult<()> {
    // Folders before what lies in them, and that before all else: what a path lies in is then the last of the paths that are open.
    let mut sorted: Vec<(String, usize)> =
        inputs.iter().enumerate().map(|(i, (_, input))| (input.place().replace('/', "\0"), i)).collect();
    sorted.sort_unstable();
    let mut open: Vec<&(String, usize)> = Vec::new();
    // The first in the file, as a reader would find it.
    let mut wrong: Option<(usize, Diagnostic)> = None;
    for this in &sorted {
        let (here, i) = this;
        let inside =
            |above: &str| here.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('\0'));
        while open.pop_if(|(above, _)| !inside(above)).is_some() {}
        if let Some((above, other_one)) = open.last() {
            let later = *i.max(other_one);
            let (one, twin) = (&inputs[later].1, &inputs[*i.min(other_one)].1);
            let what = if above == here {
                Some(Diagnostic::new(format!(
                    "`{}` and `{}` would both appear as `{}` in the work folder",
                    twin.path,
                    one.path,
                    one.place()
                )))
            } else if within(&normal(&inputs[*i].1.path), &normal(&inputs[*other_one].1.path)) {
                None // Of all that begin like a folder's content its own comes in one piece.
            } else {
                let what = Diagnostic::new(format!(
                    "`{}` and `{}` would lie inside one another in the work folder, but do not lie so here",
                    twin.path, one.path
                ));
                Some(what.help("inputs keep their names in the work folder: rename one of them"))
            };
            if let Some(what) = what.filter(|_| wrong.as_ref().is_none_or(|(first, _)| later < *first)) {
                wrong = Some((later, what));
            }
        }
        open.push(this);
    }
    match wrong {
        None => Ok(()),
        Some((i, what)) => other(what).below(inputs[i].0.clone()),
    }
}

/// An input whose place in the work folder is its own.
fn placed(input: Input) -> TypedResult<Input> {
    let here = input.place();
    if here.is_empty() {
        let what = Diagnostic::new(format!("the input `{}` is the workflow's whole folder", input.path));
        return other(what.help("list what the step reads"));
    }
    Ok(input)
}

/// The path of `{path: PATH, by: listing, copy: true}`, and whether each of both is said.
fn detailed(value: &Value) -> TypedResult<(String, bool, bool)> {
    const KEYS: [&str; 3] = ["path", "by", "copy"];
    let entries = entries(value, "`{path: PATH, by: listing}` or `{path: PATH, copy: true}`", &KEYS, "an input")?;
    let Some(path) = entries.get("path") else {
        return other(Diagnostic::new("the input has no `path`"));
    };
    let by = match entries.get("by").map(|v| (v, v.as_str())) {
        None | Some((_, Some("content"))) => false,
        Some((_, Some("listing"))) => true,
        Some((v, _)) => expected(v, "`listing` (names and sizes only) or `content`").below(seg("by"))?,
    };
    let copy = match entries.get("copy").map(|v| (v, bool::try_from(v.clone()))) {
        None => false,
        Some((_, Ok(copy))) if !copy || !by => copy,
        Some((_, Ok(_))) => {
            let what = Diagnostic::new("an input by listing cannot be copied: its contents may change during the run");
            return other(what).below(seg("copy"));
        }
        Some((v, Err(_))) => expected(v, "`true` or `false`").below(seg("copy"))?,
    };
    Ok((text(path).below(seg("path"))?, by, copy))
}

/// `outputs:`. The only one of a list is named `out`. Several are named by their files, without suffix; if two would have
/// the same name, by their whole paths, with `_` for all other characters.
pub(crate) fn outputs(value: &Value) -> TypedResult<Vec<Output>> {
    const WHAT: &str = "a list of paths, or a mapping of names and paths";
    let found: Vec<(Seg, Output)> = match value.kind() {
        ValueKind::Seq => {
            let paths = texts(value, WHAT)?;
            let stem = |path: &str| {
                let file = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path);
                file.split('.').next().unwrap_or(file).to_owned()
            };
            let mut stems: BTreeMap<String, usize> = BTreeMap::new();
            let is_alone = paths.len() == 1;
            if !is_alone {
                paths.iter().for_each(|path| *stems.entry(stem(path)).or_default() += 1);
            }
            let name = |path: &str| match Some(path).filter(|_| !is_alone).map(stem) {
                None => "out".to_owned(),
                Some(stem) if stems[&stem] == 1 => stem,
                Some(_) => normal(path).chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect(),
            };
            let named = |(i, path): (usize, String)| (Seg::Index(i), Output { name: name(&path), path });
            paths.into_iter().enumerate().map(named).collect()
        }
        _ => all(mapping(value, WHAT)?.into_iter().map(|(name, v)| {
            let path = text(&v).below(seg(&name))?;
            Ok((seg(&name), Output { path, name }))
        }))?,
    };
    const NAMES: &str = "a mapping `{model: out/model.pt}` gives each output its name";
    let mut clean: Vec<Output> = Vec::new();
    // By path and by name.
    let (mut paths, mut names): (BTreeMap<String, usize>, BTreeMap<String, usize>) = Default::default();
    let mut wrong: Vec<ValueMistake> = Vec::new();
    for (place, output) in found {
        let path = inside(&output.path, "the output").and_then(|path| {
            identifier(&output.name, "an output").map_err(|mut wrong| {
                if let Some(MistakeKind::Other(what)) = wrong.first_mut().map(|w| &mut w.what) {
                    what.help.push(NAMES.to_owned());
                }
                wrong
            })?;
            Ok(path)
        });
        let path = match path.below(place.clone()) {
            Ok(path) => path,
            Err(more) => {
                wrong.extend(more);
                continue;
            }
        };
        // Of all that begin like a folder's content its first is the next behind it.
        let folder = format!("{path}/");
        let inside = paths.range(folder.clone()..).next().filter(|(other, _)| other.starts_with(&folder));
        let above = path.match_indices('/').find_map(|(end, _)| paths.get(&path[..end]));
        let clash = if let Some(twin) = paths.get(&path) {
            let twin = &clean[*twin].name;
            let what = Diagnostic::new(format!("two outputs are `{path}`: `{twin}` and `{}`", output.name));
            Some(what.help("give each a path of its own"))
        } else if let Some(twin) = above.or(inside.map(|(_, twin)| twin)) {
            let twin = &clean[*twin].path;
            let what = Diagnostic::new(format!("the outputs `{twin}` and `{path}` are inside one another"));
            Some(what.help("give each a path of its own"))
        } else if names.contains_key(&output.name) {
            Some(Diagnostic::new(format!("two outputs would be called `{}`", output.name)).help(NAMES))
        } else {
            None
        };
        match clash {
            Some(what) => wrong.push(ValueMistake { path: vec![place], key: false, what: MistakeKind::Other(what) }),
            None => {
                paths.insert(path.clone(), clean.len());
                names.insert(output.name.clone(), clean.len());
                clean.push(Output { name: output.name, path });
            }
        }
    }
    if wrong.is_empty() { Ok(clean) } else { Err(wrong) }
}

/// It looks like a shell's pattern, `*.csv`.
pub(super) fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?'])
}

/// A path in the work folder, cleaned of `.` and doubled slashes.
fn inside(path: &str, what: &str) -> TypedResult<String> {
    let parts = || path.split('/').filter(|p| !p.is_empty() && *p != ".");
    let first = parts().next();
    if path.starts_with('/') || parts().any(|part| part == "..") || first.is_none() {
        return other(
            Diagnostic::new(format!("{what} `{path}` is not in the step's work folder"))
                .label("expected a relative path without `..`"),
        );
    }
    if is_pattern(path) {
        return other(
            Diagnostic::new(format!("{what} `{path}` is a pattern"))
                .label("expected the path of a file or a folder")
                .help("`outputs` takes no patterns: name each file, or the folder that they are in"),
        );
    }
    if first == Some("in") {
        return other(Diagnostic::new("`in/` holds artifacts of other steps, read-only").help("write elsewhere"));
    }
    Ok(normal(path))
}

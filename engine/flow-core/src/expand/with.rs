//! Checks `with:` against its step's schema: mistakes, defaults, and the parameters that are paths or names of steps.
//! Values that are not known yet are skipped until they are.

use std::collections::BTreeMap;

use jsonschema::{ValidationError, Validator, error::ValidationErrorKind, paths::LocationSegment};
use serde_json::{Map, Value as Json};

use super::marks::{self, Mark, MarkSegment};
use crate::{
    Diagnostic,
    expr::{
        Node, Template,
        value::{from_json, to_json},
    },
    reason::ParameterFault,
    spec::{
        at::{PlacePart, Problems, Seg, YamlPath},
        describe,
    },
};

#[derive(Debug)]
pub(super) struct Schema {
    /// `torch/train`.
    uses: String,
    root: Json,
    validator: Validator,
    marks: Vec<(Vec<MarkSegment>, Mark)>,
    most: Vec<UpperBound>,
}

/// An upper bound: a parameter is at most a metric of another parameter's artifact: `x-flow-most: data.images`. A share
/// of it may be reserved by a third parameter: `x-flow-most: data.images less valid`.
#[derive(Debug)]
struct UpperBound {
    name: String,
    of: String,
    metric: String,
    less: Option<String>,
}

/// Placeholder for an unknown value; a text, because most are paths of artifacts.
const UNKNOWN: &str = "<known later>";

impl Schema {
    /// Compiles a schema. An invalid one is the plugin's fault.
    pub(super) fn new(uses: &str, with: &Json) -> Result<Self, String> {
        let root = if with.is_null() { Json::Bool(true) } else { with.clone() };
        let validator = jsonschema::validator_for(&root)
            .map_err(|e| format!("the schema of `{uses}` is broken: {e} (at `{}` of it)", e.instance_path()))?;
        let mut marks = Vec::new();
        marks::find(&root, &root, &mut Vec::new(), &mut marks, 0);
        let properties = root.get("properties").and_then(Json::as_object).into_iter().flatten();
        let most = properties.filter_map(|(name, property)| {
            let (of, metric) = property.get("x-flow-most")?.as_str()?.split_once('.')?;
            let (metric, less) =
                metric.split_once(" less ").map_or((metric, None), |(metric, less)| (metric, Some(less)));
            let less = less.map(str::to_owned);
            Some(UpperBound { name: name.clone(), of: of.to_owned(), metric: metric.to_owned(), less })
        });
        let most = most.collect();
        Ok(Schema { uses: uses.to_owned(), root, validator, marks, most })
    }

    pub(super) fn fill(&self, with: &mut Json) {
        marks::fill(&self.root, &self.root, with, 0);
    }

    /// The parameters with this mark that hold a text.
    pub(super) fn marked(&self, with: &Json, kind: Mark) -> Vec<(Vec<Seg>, String)> {
        let mut found = BTreeMap::new();
        for (way, _) in self.marks.iter().filter(|(_, mark)| *mark == kind) {
            marks::walk(way, with, &mut Vec::new(), &mut |path, text| {
                found.entry(path).or_insert_with(|| text.to_owned());
            });
        }
        found.into_iter().collect()
    }

    /// The mistakes in a `with:` whose values are all known.
    pub(super) fn mistakes(&self, with: &Json) -> Vec<ParameterFault> {
        if self.validator.is_valid(with) {
            return Vec::new();
        }
        let mut mistakes = self.errors(with, &[]);
        mistakes.sort_by_cached_key(|mistake| mistake.what.to_string());
        mistakes.into_iter().map(|mistake| mistake.fault).collect()
    }

    /// Values above the bound of an artifact. `known` returns a metric of the step that made the artifact with a digest.
    pub(super) fn too_large(&self, with: &Json, known: impl Fn(&str, &str) -> Option<f64>) -> Vec<ParameterFault> {
        let too_large = |UpperBound { name, of, metric, less }: &UpperBound| {
            let value = with.get(name)?.as_f64()?;
            let most = known(with.get(of)?.as_str()?, metric).filter(|most| value > *most)?;
            let (uses, name, of, metric) = (self.uses.clone(), name.clone(), of.clone(), metric.clone());
            let part =
                less.as_ref().and_then(|part| Some((part, with.get(part)?.as_f64().filter(|share| *share > 0.0)?)));
            let (value, rest) = (value.to_string(), part.map_or(most, |(_, share)| (most * (1.0 - share)).floor()));
            let most = most.to_string();
            Some(match part {
                None => ParameterFault::ParameterTooLarge { uses, name, value, of, metric, most },
                Some((part, share)) => ParameterFault::ParameterTooLargeForPart {
                    uses,
                    name,
                    value,
                    of,
                    metric,
                    most,
                    part: part.clone(),
                    share: share.to_string(),
                    rest: rest.to_string(),
                },
            })
        };
        self.most.iter().filter_map(too_large).collect()
    }

    /// Checks the known part of a `with:`. `at` is the place of `with`, or of `uses` if there is none.
    pub(super) fn check(
        &self,
        with: &Json,
        unknown: &[Vec<Seg>],
        at: &YamlPath,
        label: Option<&str>,
        problems: &mut Problems,
    ) {
        if self.validator.is_valid(with) {
            return;
        }
        for found in self.errors(with, unknown) {
            let at = at.below(&found.path);
            let what = match label {
                Some(label) => found.what.help(format!("so it is in `{label}`")),
                None => found.what,
            };
            problems.add(&at, if found.key { PlacePart::Key } else { PlacePart::Value }, what);
        }
    }

    fn errors(&self, with: &Json, unknown: &[Vec<Seg>]) -> Vec<Mistake> {
        let mut found = Vec::new();
        self.validator.iter_errors(with).for_each(|error| self.explain(&error, unknown, &mut found));
        found
    }

    fn explain(&self, error: &ValidationError<'_>, unknown: &[Vec<Seg>], found: &mut Vec<Mistake>) {
        let path: Vec<Seg> = error.instance_path().iter().map(seg).collect();
        if unknown.iter().any(|u| path.starts_with(u)) {
            return;
        }
        let holds_unknown = unknown.iter().any(|u| u.starts_with(&path));
        let dotted = dotted(&path);
        let name = dotted.strip_prefix("with.").unwrap_or("with").to_owned();
        let uses = || self.uses.clone();
        let subject = format!("`{name}`");
        let shown = || describe(&from_json(error.instance()));
        let is = || format!("{subject} of `{}` is {}", self.uses, shown());
        let value = |what: Diagnostic| {
            let (name, message) = (name.clone(), what.to_string());
            let fault = ParameterFault::ParameterWrong { uses: uses(), name, value: shown(), message };
            Mistake { path: path.clone(), key: false, what, fault }
        };
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected }
            | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
                let schema = self.violated(error).unwrap_or(&self.root);
                let known = schema.get("properties").and_then(Json::as_object);
                for name in unexpected {
                    let mut path = path.clone();
                    path.push(Seg::Key(name.as_str().into()));
                    let owner = if path.len() == 1 { format!("`{}`", self.uses) } else { subject.clone() };
                    let what = Diagnostic::new(format!("{owner} has no parameter `{name}`"));
                    let what = what.nearest(name, known.into_iter().flat_map(Map::keys).map(String::as_str));
                    let fault = ParameterFault::ParameterUnknown {
                        uses: uses(),
                        name: name.clone(),
                        message: what.to_string(),
                    };
                    found.push(Mistake { path, key: true, what, fault });
                }
            }
            ValidationErrorKind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                let owner = if path.is_empty() { format!("`{}`", self.uses) } else { subject };
                let what = Diagnostic::new(format!("{owner} needs the parameter `{name}`"));
                let what = match self.about(&path, name) {
                    Some(about) => what.help(about),
                    None => what,
                };
                let message = what.to_string();
                let fault = ParameterFault::ParameterMissing { uses: uses(), name: name.to_owned(), message };
                found.push(Mistake { path, key: true, what, fault });
            }
            ValidationErrorKind::Type { kind } => {
                let wanted = match kind {
                    jsonschema::error::TypeKind::Single(one) => type_words(&one.to_string()).to_owned(),
                    jsonschema::error::TypeKind::Multiple(many) => {
                        let mut names: Vec<String> =
                            many.iter().map(|t| type_words(&t.to_string()).to_owned()).collect();
                        names.sort_by_key(|name| name == "null");
                        names.join(" or ")
                    }
                };
                found.push(value(Diagnostic::new(is()).label(format!("expected {wanted}"))));
            }
            ValidationErrorKind::Enum { options } => {
                let names: Vec<&str> = options.as_array().into_iter().flatten().filter_map(Json::as_str).collect();
                let what = Diagnostic::new(is());
                let what = match error.instance().as_str() {
                    Some(wrong) => what.nearest(wrong, names.iter().copied()),
                    None => what.label(format!("expected one of {options}")),
                };
                found.push(value(what));
            }
            ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
                if holds_unknown {
                    return;
                }
                // A branch that fails only because the value has another type was not meant.
                let here = error.instance_path().iter().count();
                let other_type = |e: &ValidationError<'_>| {
                    matches!(e.kind(), ValidationErrorKind::Type { .. } | ValidationErrorKind::Constant { .. })
                        && e.instance_path().iter().count() == here
                };
                let branches = branches(context, here);
                let meant: Vec<_> = branches.iter().filter(|branch| !branch.iter().any(|e| other_type(e))).collect();
                // Of several, take the best match: the one that fails deepest inside, or has the fewest mistakes.
                let depth = |branch: &[&ValidationError<'_>]| {
                    let inside = branch.iter().map(|e| e.instance_path().iter().count()).min().unwrap_or(0);
                    (inside, std::cmp::Reverse(branch.len()))
                };
                let best = meant.iter().map(|branch| depth(branch)).max();
                let mut likely = meant.iter().filter(|branch| Some(depth(branch)) == best);
                if let (Some(branch), None) = (likely.next(), likely.next()) {
                    return branch.iter().for_each(|e| self.explain(e, unknown, found));
                }
                let mut wanted: Vec<String> = Vec::new();
                for e in branches.iter().flatten() {
                    let word = match e.kind() {
                        ValidationErrorKind::Type { kind: jsonschema::error::TypeKind::Single(one) } => {
                            type_words(&one.to_string()).to_owned()
                        }
                        ValidationErrorKind::Constant { expected_value } => expected_value.to_string(),
                        ValidationErrorKind::Enum { options } => format!("one of {options}"),
                        _ => continue,
                    };
                    if !wanted.contains(&word) {
                        wanted.push(word);
                    }
                }
                // `null` means an absent value, which is rarely meant if a value is present.
                if wanted.len() > 1 {
                    wanted.retain(|word| word != "null");
                }
                let what = Diagnostic::new(is());
                let told = |word: &str| self.violated(error)?.get(word)?.as_str();
                found.push(value(if !wanted.is_empty() {
                    let what = what.label(format!("expected {}", wanted.join(" or ")));
                    told("x-flow-help").into_iter().fold(what, Diagnostic::help)
                } else if let Some(forms) = told("description") {
                    let forms = forms.split_whitespace().collect::<Vec<_>>().join(" ");
                    what.label(format!("expected {}", forms.trim_end_matches('.')))
                } else {
                    what.label("none of its allowed forms")
                }));
            }
            _ if holds_unknown => {}
            _ => {
                let words = error.to_string();
                let what = Diagnostic::new(format!("{subject} of `{}`: {words}", self.uses));
                let fault = ParameterFault::ParameterRefused { uses: uses(), name, message: what.to_string() };
                found.push(Mistake { path, key: false, what, fault });
            }
        }
    }

    /// The part of the schema with the word that an error violates.
    fn violated(&self, error: &ValidationError<'_>) -> Option<&Json> {
        let pointer = error.schema_path().to_string();
        self.root.pointer(pointer.rsplit_once('/').map_or("", |(above, _)| above))
    }

    fn about(&self, path: &[Seg], name: &str) -> Option<String> {
        let property = self.root.get("properties").filter(|_| path.is_empty())?.get(name)?;
        Some(format!("{name}: {}", property.get("description")?.as_str()?.lines().next()?))
    }
}

/// The branches of several forms, including those of nested forms.
fn branches<'e>(context: &'e [Vec<ValidationError<'static>>], here: usize) -> Vec<Vec<&'e ValidationError<'static>>> {
    let mut flat = Vec::new();
    for branch in context {
        match &branch[..] {
            [error] if error.instance_path().iter().count() == here => match error.kind() {
                ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
                    flat.extend(branches(context, here));
                }
                _ => flat.push(vec![error]),
            },
            _ => flat.push(branch.iter().collect()),
        }
    }
    flat
}

struct Mistake {
    path: Vec<Seg>,
    key: bool,
    what: Diagnostic,
    /// The same as a value.
    fault: ParameterFault,
}

fn seg(segment: LocationSegment<'_>) -> Seg {
    match segment {
        LocationSegment::Property(name) => Seg::Key(name.as_ref().into()),
        LocationSegment::Index(i) => Seg::Index(i),
    }
}

fn type_words(name: &str) -> &str {
    match name {
        "integer" => "a whole number",
        "number" => "a number",
        "string" => "a text",
        "boolean" => "true or false",
        "array" => "a list",
        "object" => "a mapping",
        other => other,
    }
}

/// A folded `with:` as JSON, and the paths of unknown values.
pub(super) type KnownJson = (Json, Vec<Vec<Seg>>);

/// The known part of a folded `with:`. The error has the path of a value that is not JSON, and the reason.
pub(super) fn known(template: &Template) -> Result<KnownJson, (Vec<Seg>, String)> {
    let mut unknown = Vec::new();
    let json = json_of(&template.node, &mut Vec::new(), &mut unknown)?;
    Ok((json, unknown))
}

fn json_of(node: &Node, path: &mut Vec<Seg>, unknown: &mut Vec<Vec<Seg>>) -> Result<Json, (Vec<Seg>, String)> {
    match node {
        Node::Const(value) => to_json(value).map_err(|fault| (path.clone(), fault.to_string())),
        Node::Expr(_) | Node::Text(_) | Node::Broken => {
            unknown.push(path.clone());
            Ok(Json::String(UNKNOWN.to_owned()))
        }
        Node::List(nodes) => {
            let mut list = Vec::with_capacity(nodes.len());
            for (i, node) in nodes.iter().enumerate() {
                path.push(Seg::Index(i));
                list.push(json_of(node, path, unknown)?);
                path.pop();
            }
            Ok(Json::Array(list))
        }
        Node::Map(nodes) => {
            let mut map = Map::new();
            for (key, node) in nodes {
                path.push(Seg::Key(key.clone()));
                map.insert(key.to_string(), json_of(node, path, unknown)?);
                path.pop();
            }
            Ok(Json::Object(map))
        }
    }
}

/// The path of a parameter as a name: `with.sections.0.image`.
pub(super) fn dotted(path: &[Seg]) -> String {
    let mut name = "with".to_owned();
    for seg in path {
        name.push('.');
        match seg {
            Seg::Key(key) => name.push_str(key),
            Seg::Index(i) => name.push_str(&i.to_string()),
        }
    }
    name
}

/// A mapping; empty for any other value.
pub(super) fn object(json: Json) -> Map<String, Json> {
    match json {
        Json::Object(map) => map,
        _ => Map::new(),
    }
}

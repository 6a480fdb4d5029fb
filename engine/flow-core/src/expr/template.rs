//! Values with expressions in them: parsed once, folded once for a step as far as that goes, evaluated for each instance.

use std::sync::Arc;

use minijinja::value::Value;
use serde_json::Value as Json;

use super::{
    Expr,
    scan::end_of_expression,
    shown,
    value::{from_yaml, key_text, to_json, to_text},
};
use crate::{
    Diagnostic,
    reason::{ExprFault, Fault},
    spec::{
        at::{PlacePart, Problems, Seg, YamlPath},
        typed_value::mapping,
    },
};

/// A value of the file, with its place.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pub(crate) at: YamlPath,
    pub(crate) node: Node,
}

/// A value that may hold expressions.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// No expression in it.
    Const(Value),
    /// `${{ }}` and nothing else.
    Expr(Arc<Expr>),
    /// A text with expressions in it.
    Text(Vec<Piece>),
    /// A list with expressions in it.
    List(Vec<Node>),
    /// A mapping with expressions in it.
    Map(Vec<(Arc<str>, Node)>),
    /// Something that was wrong and has been said.
    Broken,
}

impl Node {
    fn as_const(&self) -> Option<&Value> {
        match self {
            Node::Const(value) => Some(value),
            _ => None,
        }
    }

    /// The value at a path.
    pub(crate) fn at(&self, path: &[Seg]) -> Option<&Node> {
        let Some((first, rest)) = path.split_first() else { return Some(self) };
        let below = match (self, first) {
            (Node::Map(nodes), Seg::Key(key)) => nodes.iter().find(|(name, _)| name == key).map(|(_, node)| node),
            (Node::List(nodes), Seg::Index(index)) => nodes.get(*index),
            _ => None,
        };
        below?.at(rest)
    }

    /// The value as written, each expression as its text.
    pub(crate) fn written(&self) -> Json {
        let expression = |expr: &Expr| format!("${{{{ {} }}}}", expr.text);
        match self {
            Node::Const(value) => to_json(value).unwrap_or_default(),
            Node::Expr(expr) => expression(expr).into(),
            Node::Text(pieces) => {
                let text = |piece: &Piece| match piece {
                    Piece::Text(text) => text.clone(),
                    Piece::Expr(expr) => expression(expr),
                };
                pieces.iter().map(text).collect::<String>().into()
            }
            Node::List(nodes) => nodes.iter().map(Node::written).collect(),
            Node::Map(nodes) => nodes.iter().map(|(key, node)| (key.to_string(), node.written())).collect(),
            Node::Broken => Json::Null,
        }
    }

    /// It may become a path of the author when its step starts: it does not begin with an output of another step.
    pub(crate) fn is_late_path(&self) -> bool {
        let is_late = |expr: &Expr| expr.is_late() || expr.reads.names.iter().any(|name| name == "seed");
        match self {
            Node::Expr(expr) => is_late(expr) && !expr.is_artifact(),
            Node::Text(pieces) => {
                let begins_with_artifact = matches!(pieces.first(), Some(Piece::Expr(expr)) if expr.is_artifact());
                !begins_with_artifact && pieces.iter().any(|piece| matches!(piece, Piece::Expr(expr) if is_late(expr)))
            }
            _ => false,
        }
    }
}

/// A piece of a text.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    /// As it stands.
    Text(String),
    /// To be rendered.
    Expr(Arc<Expr>),
}

/// An expression has no value: where below the template, its text, and why.
#[derive(Clone, Debug)]
pub(crate) struct EvalError {
    pub(crate) path: Vec<Seg>,
    pub(crate) expr: Arc<str>,
    pub(crate) fault: Fault,
}

impl EvalError {
    fn of(expr: &Expr, fault: impl Into<Fault>) -> Self {
        EvalError { path: Vec::new(), expr: expr.text.clone(), fault: fault.into() }
    }

    fn below(mut self, seg: Seg) -> Self {
        self.path.insert(0, seg);
        self
    }

    /// Adds the error as a problem of the template.
    pub(crate) fn report(self, template: &Template, problems: &mut Problems) {
        let at = template.at.below(&self.path);
        let words = self.fault.to_string();
        let names_it = matches!(&self.fault, Fault::Expr(fault) if matches!(**fault, ExprFault::Undefined { .. }));
        let what = if names_it { words } else { format!("`{}`: {words}", shown(&self.expr)) };
        let text = self.expr.to_string();
        problems.add(&at, PlacePart::In { expression: self.expr, text }, Diagnostic::new(what));
    }
}

impl Template {
    /// Reads a value; bad expressions in it are problems.
    pub(crate) fn parse(yaml: &serde_yaml::Value, at: &YamlPath, problems: &mut Problems) -> Template {
        Template { at: at.clone(), node: parse(yaml, at, problems) }
    }

    /// Its value, where no expression is in it.
    pub(crate) fn as_const(&self) -> Option<&Value> {
        self.node.as_const()
    }

    /// The keys of a mapping, as far as they are known.
    pub(crate) fn keys(&self) -> Option<Vec<String>> {
        match &self.node {
            Node::Map(members) => Some(members.iter().map(|(key, _)| key.to_string()).collect()),
            Node::Const(value) => {
                mapping(value, "").ok().map(|members| members.into_iter().map(|(key, _)| key).collect())
            }
            _ => None,
        }
    }

    /// Every expression in it, with its place.
    pub(crate) fn visit(&self, see: &mut dyn FnMut(&Expr, &YamlPath)) {
        visit(&self.node, &self.at, see);
    }

    /// The same with every expression evaluated that `now` admits.
    pub(crate) fn fold(&self, scope: &Value, now: &dyn Fn(&Expr) -> bool) -> Result<Template, EvalError> {
        Ok(Template { at: self.at.clone(), node: Fold { scope, now }.fold(&self.node)? })
    }

    pub(crate) fn eval(&self, scope: &Value) -> Result<Value, EvalError> {
        match self.fold(scope, &|_| true)?.node {
            Node::Const(value) => Ok(value),
            // Everything was admitted, so that everything is folded.
            _ => Ok(Value::UNDEFINED),
        }
    }
}

fn parse(yaml: &serde_yaml::Value, at: &YamlPath, problems: &mut Problems) -> Node {
    use serde_yaml::Value as Yaml;
    // Most large values are data: their members need places only where something is wrong with one.
    if is_plain(yaml)
        && let Ok(value) = from_yaml(yaml)
    {
        return Node::Const(value);
    }
    match yaml {
        Yaml::String(text) if text.contains("${{") => parse_text(text, at, problems),
        Yaml::Sequence(list) => {
            let nodes: Vec<Node> = list.iter().enumerate().map(|(i, v)| parse(v, &at.index(i), problems)).collect();
            collect_list(nodes)
        }
        Yaml::Mapping(map) => {
            let mut nodes = Vec::with_capacity(map.len());
            for (key, value) in map {
                match key_text(key) {
                    Ok(key) => {
                        let node = parse(value, &at.key(&key), problems);
                        nodes.push((Arc::from(key), node));
                    }
                    Err(message) => problems.value(at, Diagnostic::new(message)),
                }
            }
            collect_map(nodes)
        }
        plain => match from_yaml(plain) {
            Ok(value) => Node::Const(value),
            Err(message) => {
                problems.value(at, Diagnostic::new(message));
                Node::Broken
            }
        },
    }
}

/// No expression is in it.
fn is_plain(yaml: &serde_yaml::Value) -> bool {
    use serde_yaml::Value as Yaml;
    match yaml {
        Yaml::String(text) => !text.contains("${{"),
        Yaml::Sequence(list) => list.iter().all(is_plain),
        Yaml::Mapping(map) => map.iter().all(|(_, value)| is_plain(value)),
        _ => true,
    }
}

fn parse_text(text: &str, at: &YamlPath, problems: &mut Problems) -> Node {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("${{") {
        let inside = &rest[start + 3..];
        let Some(end) = end_of_expression(inside) else {
            problems.add(
                at,
                PlacePart::Text(rest[start..].lines().next().unwrap_or("").to_owned()),
                Diagnostic::new("`${{` is not closed").label("`}}` is missing"),
            );
            return Node::Broken;
        };
        if start > 0 {
            pieces.push(Piece::Text(rest[..start].to_owned()));
        }
        match Expr::new(&inside[..end]) {
            Ok(expr) => pieces.push(Piece::Expr(Arc::new(expr))),
            Err(what) => {
                let text = inside[..end].trim();
                problems.add(at, PlacePart::In { expression: text.into(), text: text.to_owned() }, what);
                return Node::Broken;
            }
        }
        rest = &inside[end + 2..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    let blank = |piece: &Piece| matches!(piece, Piece::Text(text) if text.trim().is_empty());
    let whole = pieces.iter().filter(|p| !blank(p)).count() == 1;
    match pieces.iter().find(|p| !blank(p)) {
        Some(Piece::Expr(expr)) if whole => Node::Expr(expr.clone()),
        _ => Node::Text(pieces),
    }
}

fn collect_list(nodes: Vec<Node>) -> Node {
    let values: Option<Vec<Value>> = nodes.iter().map(|node| node.as_const().cloned()).collect();
    values.map_or(Node::List(nodes), |values| Node::Const(Value::from(values)))
}

fn collect_map(nodes: Vec<(Arc<str>, Node)>) -> Node {
    let values: Option<Vec<(Arc<str>, Value)>> =
        nodes.iter().map(|(k, node)| Some((k.clone(), node.as_const()?.clone()))).collect();
    values.map_or(Node::Map(nodes), |values| Node::Const(Value::from_pairs(values)))
}

fn visit(node: &Node, at: &YamlPath, see: &mut dyn FnMut(&Expr, &YamlPath)) {
    match node {
        Node::Const(_) | Node::Broken => {}
        Node::Expr(expr) => see(expr, at),
        Node::Text(pieces) => {
            for piece in pieces {
                if let Piece::Expr(expr) = piece {
                    see(expr, at);
                }
            }
        }
        Node::List(nodes) => {
            for (i, node) in nodes.iter().enumerate() {
                visit(node, &at.index(i), see);
            }
        }
        Node::Map(nodes) => {
            for (key, node) in nodes {
                visit(node, &at.key(key), see);
            }
        }
    }
}

/// Expressions evaluated in place.
struct Fold<'a> {
    scope: &'a Value,
    now: &'a dyn Fn(&Expr) -> bool,
}

impl Fold<'_> {
    fn value(&self, expr: &Expr) -> Result<Value, EvalError> {
        expr.eval(self.scope).map_err(|fault| EvalError::of(expr, fault))
    }

    fn text(&self, expr: &Expr) -> Result<String, EvalError> {
        to_text(&self.value(expr)?).map_err(|fault| EvalError::of(expr, fault))
    }

    fn fold(&self, node: &Node) -> Result<Node, EvalError> {
        Ok(match node {
            Node::Const(value) => Node::Const(value.clone()),
            Node::Broken => Node::Broken,
            Node::Expr(expr) if (self.now)(expr) => Node::Const(self.value(expr)?),
            Node::Expr(expr) => Node::Expr(expr.clone()),
            Node::Text(pieces) => {
                let mut folded: Vec<Piece> = Vec::with_capacity(pieces.len());
                for piece in pieces {
                    let piece = match piece {
                        Piece::Expr(expr) if (self.now)(expr) => Piece::Text(self.text(expr)?),
                        other => other.clone(),
                    };
                    match (folded.last_mut(), piece) {
                        (Some(Piece::Text(before)), Piece::Text(more)) => before.push_str(&more),
                        (_, piece) => folded.push(piece),
                    }
                }
                match &folded[..] {
                    [Piece::Text(text)] => Node::Const(Value::from(text.as_str())),
                    _ => Node::Text(folded),
                }
            }
            Node::List(nodes) => {
                let folded = nodes.iter().enumerate().map(|(i, n)| self.fold(n).map_err(|e| e.below(Seg::Index(i))));
                collect_list(folded.collect::<Result<_, _>>()?)
            }
            Node::Map(nodes) => {
                let folded =
                    nodes.iter().map(|(k, n)| Ok((k.clone(), self.fold(n).map_err(|e| e.below(Seg::Key(k.clone())))?)));
                collect_map(folded.collect::<Result<_, EvalError>>()?)
            }
        })
    }
}

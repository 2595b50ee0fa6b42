//! A YAML document whose every value knows its line, and readers that say exactly what is wrong with one.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;
use std::time::Duration;

use crate::api::parse_duration;

/// Words further apart than this are not mistaken for each other: two slips of the finger.
const SLIPS_MAX: usize = 2;

/// What is wrong in a file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Mistake {
    /// The file.
    pub file: String,
    /// Its line, from 1; 0 if it is about the whole file.
    pub line: u64,
    /// The field, such as `steps[2].expect.within`; empty if the text is no YAML.
    pub field: String,
    /// What is wrong with it.
    pub what: String,
    /// What it may have been meant to be.
    pub hint: Option<String>,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        if !self.field.is_empty() {
            write!(f, ": {}", self.field)?;
        }
        write!(f, ": {}", self.what)
    }
}

/// A value and its line.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    line: u64,
    node: Node,
}

#[derive(Clone, Debug)]
enum Node {
    Scalar(Value),
    List(Vec<Tree>),
    Map(Vec<(Spanned<String>, Tree)>),
}

impl Tree {
    /// Reads a document.
    pub(super) fn read(file: &str, text: &str) -> Result<Self, Mistake> {
        serde_saphyr::from_str_with_options(text, options()).map_err(|error| not_yaml(file, &error))
    }

    /// Reads a file of several documents.
    pub(super) fn read_all(file: &str, text: &str) -> Result<Vec<Self>, Mistake> {
        serde_saphyr::from_multiple_with_options(text, options()).map_err(|error| not_yaml(file, &error))
    }

    /// The document as a whole.
    pub(super) fn root<'a>(&'a self, file: &'a str) -> Place<'a> {
        Place {
            file,
            path: String::new(),
            tree: self,
        }
    }

    fn value(&self) -> Value {
        match &self.node {
            Node::Scalar(value) => value.clone(),
            Node::List(items) => items.iter().map(Self::value).collect(),
            Node::Map(entries) => entries
                .iter()
                .map(|(key, tree)| (key.value.clone(), tree.value()))
                .collect(),
        }
    }
}

/// Only `true` and `false` are not texts: `on`, `no` and `y` are words that people write.
fn options() -> serde_saphyr::Options {
    serde_saphyr::options! { strict_booleans: true }
}

fn not_yaml(file: &str, error: &serde_saphyr::Error) -> Mistake {
    Mistake {
        file: file.to_owned(),
        line: error.location().map_or(0, |location| location.line()),
        field: String::new(),
        what: in_plain_words(error.without_snippet()),
        hint: None,
    }
}

/// The library talks to those who call it, where it knows a way out for them; those who write files have another.
fn in_plain_words(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error::{DuplicateMappingKey, MultipleDocuments};
    match error {
        DuplicateMappingKey { key: Some(key), .. } => format!("the field `{key}` stands here a second time"),
        DuplicateMappingKey { key: None, .. } => "a field stands here a second time".to_owned(),
        MultipleDocuments { .. } => "another document begins here, and there must be one only".to_owned(),
        other => other.to_string().lines().next().unwrap_or_default().to_owned(),
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let read = Spanned::<Node>::deserialize(from)?;
        Ok(Self {
            line: read.referenced.line(),
            node: read.value,
        })
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Node, D::Error> {
        Node::deserialize(from)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Node::Map(map))
    }
}

/// A value at its place in the document.
#[derive(Clone, Debug)]
pub(super) struct Place<'a> {
    file: &'a str,
    path: String,
    tree: &'a Tree,
}

impl<'a> Place<'a> {
    /// Its line.
    pub(super) fn line(&self) -> u64 {
        self.tree.line
    }

    /// A mistake right here.
    pub(super) fn wrong(&self, what: impl Into<String>) -> Mistake {
        Mistake {
            file: self.file.to_owned(),
            line: self.tree.line,
            field: self.path.clone(),
            what: what.into(),
            hint: None,
        }
    }

    /// A word that is none of those known, with the one it is nearest to.
    pub(super) fn unknown(&self, what: &str, word: &str, known: &[&str]) -> Mistake {
        let mut mistake = self.wrong(format!("{word:?} is no {what}"));
        mistake.hint = Some(suggestion(word, known));
        mistake
    }

    /// What it holds, untyped.
    pub(super) fn value(&self) -> Value {
        self.tree.value()
    }

    /// All texts in it, each at its own place, in the order of the file.
    pub(super) fn texts(&self) -> Vec<Self> {
        match &self.tree.node {
            Node::Scalar(Value::String(_)) => vec![self.clone()],
            Node::Scalar(_) => Vec::new(),
            Node::List(items) => {
                let items = items.iter().enumerate();
                items
                    .flat_map(|(number, tree)| self.below(&format!("[{number}]"), tree).texts())
                    .collect()
            }
            Node::Map(entries) => entries
                .iter()
                .flat_map(|(key, tree)| self.below(&format!(".{}", key.value), tree).texts())
                .collect(),
        }
    }

    /// A text.
    pub(super) fn text(&self) -> Result<&'a str, Mistake> {
        match &self.tree.node {
            Node::Scalar(Value::String(text)) => Ok(text),
            other => Err(self.wrong(format!("is {}, and must be a text", kind_of(other)))),
        }
    }

    /// A text that says something.
    pub(super) fn words(&self) -> Result<String, Mistake> {
        let text = self.text()?.trim();
        if text.is_empty() {
            return Err(self.wrong("is empty"));
        }
        Ok(text.to_owned())
    }

    /// A whole number.
    pub(super) fn number<T: TryFrom<u64>>(&self) -> Result<T, Mistake> {
        let number = match &self.tree.node {
            Node::Scalar(value) => value.as_u64().and_then(|number| T::try_from(number).ok()),
            _ => None,
        };
        number.ok_or_else(|| {
            let what = kind_of(&self.tree.node);
            self.wrong(format!("is {what}, and must be a whole number from 0"))
        })
    }

    /// A duration such as `2m30s`.
    pub(super) fn duration(&self) -> Result<Duration, Mistake> {
        let written = match &self.tree.node {
            Node::Scalar(Value::String(text)) => text.clone(),
            Node::Scalar(value) => value.to_string(),
            other => kind_of(other),
        };
        parse_duration(&written)
            .ok_or_else(|| self.wrong(format!("{written:?} is no duration such as 2m30s")))
    }

    /// The items of a list.
    pub(super) fn items(&self) -> Result<Vec<Self>, Mistake> {
        let Node::List(items) = &self.tree.node else {
            let what = kind_of(&self.tree.node);
            return Err(self.wrong(format!("is {what}, and must be a list")));
        };
        Ok(items
            .iter()
            .enumerate()
            .map(|(number, tree)| self.below(&format!("[{number}]"), tree))
            .collect())
    }

    /// The items of a list, or the one thing that stands in place of a list of one.
    pub(super) fn one_or_more(&self) -> Result<Vec<Self>, Mistake> {
        match self.tree.node {
            Node::List(_) => self.items(),
            _ => Ok(vec![self.clone()]),
        }
    }

    /// The fields of a map, all of which must be known.
    pub(super) fn fields(&self, known: &'static [&'static str]) -> Result<Fields<'a>, Mistake> {
        let Node::Map(entries) = &self.tree.node else {
            let what = kind_of(&self.tree.node);
            let must = known.join(", ");
            return Err(self.wrong(format!("is {what}, and must have fields: {must}")));
        };
        for (key, tree) in entries {
            if !known.contains(&key.value.as_str()) {
                let mut mistake = self
                    .below(&format!(".{}", key.value), tree)
                    .wrong("is no field here");
                mistake.line = key.referenced.line();
                mistake.hint = Some(suggestion(&key.value, known));
                return Err(mistake);
            }
        }
        Ok(Fields { of: self.clone() })
    }

    /// The field of that name, whichever others there may be: if this is a map that has it, and it is not null.
    pub(super) fn field(&self, name: &str) -> Option<Self> {
        let Node::Map(entries) = &self.tree.node else {
            return None;
        };
        let (_, tree) = entries.iter().find(|(key, _)| key.value == name)?;
        (!matches!(tree.node, Node::Scalar(Value::Null))).then(|| self.below(&format!(".{name}"), tree))
    }

    fn below(&self, step: &str, tree: &'a Tree) -> Self {
        let path = format!("{}{step}", self.path);
        Self {
            file: self.file,
            path: path.trim_start_matches('.').to_owned(),
            tree,
        }
    }
}

/// The fields of a map, all of them known.
#[derive(Clone, Debug)]
pub(super) struct Fields<'a> {
    of: Place<'a>,
}

impl<'a> Fields<'a> {
    /// The field of that name, if it is there and not null.
    pub(super) fn get(&self, name: &str) -> Option<Place<'a>> {
        self.of.field(name)
    }

    /// The field of that name, which must be there.
    pub(super) fn need(&self, name: &str) -> Result<Place<'a>, Mistake> {
        self.get(name)
            .ok_or_else(|| self.of.wrong(format!("has no `{name}`, which it needs")))
    }

    /// The field of that name, read if it is there.
    pub(super) fn read<T>(
        &self,
        name: &str,
        how: impl FnOnce(&Place<'a>) -> Result<T, Mistake>,
    ) -> Result<Option<T>, Mistake> {
        self.get(name).map(|place| how(&place)).transpose()
    }

    /// Exactly one of these fields, and its name.
    pub(super) fn one_of(&self, names: &[&'static str]) -> Result<(&'static str, Place<'a>), Mistake> {
        let mut present = names
            .iter()
            .filter_map(|&name| self.get(name).map(|place| (name, place)));
        let first = present
            .next()
            .ok_or_else(|| self.of.wrong(format!("has none of {}", names.join(", "))))?;
        match present.next() {
            None => Ok(first),
            Some((second, place)) => Err(place.wrong(format!(
                "cannot stand beside `{}`: one of `{second}` and `{}` at a time",
                first.0, first.0
            ))),
        }
    }
}

fn kind_of(node: &Node) -> String {
    match node {
        Node::Scalar(Value::Null) => "empty".to_owned(),
        Node::Scalar(value) => value.to_string(),
        Node::List(_) => "a list".to_owned(),
        Node::Map(_) => "a map".to_owned(),
    }
}

/// The known word that is nearest, or all of them.
fn suggestion(word: &str, known: &[&str]) -> String {
    let nearest = known
        .iter()
        .map(|candidate| (slips(word, candidate), *candidate))
        .min();
    match nearest {
        Some((slips, candidate)) if slips <= SLIPS_MAX => format!("did you mean `{candidate}`?"),
        _ => format!("one of: {}", known.join(", ")),
    }
}

/// How many letters must be added, dropped or changed to turn one word into the other (Levenshtein).
fn slips(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Tree {
        Tree::read("a.yaml", text).unwrap()
    }

    #[test]
    fn every_value_knows_its_line_and_its_field() {
        let tree = read("a: 1\nb:\n  - x\n  - c: {d: 5}\n");
        let root = tree.root("a.yaml").fields(&["a", "b"]).unwrap();
        let items = root.need("b").unwrap().items().unwrap();
        let deep = items[1].fields(&["c"]).unwrap().need("c").unwrap();
        let deep = deep.fields(&["d"]).unwrap().need("d").unwrap();
        assert_eq!(deep.number::<u32>(), Ok(5));
        assert_eq!(
            deep.text().unwrap_err().to_string(),
            "a.yaml:4: b[1].c.d: is 5, and must be a text"
        );
    }

    #[test]
    fn an_unknown_field_is_refused_at_its_own_line_with_the_nearest_word() {
        let tree = read("name: x\nstesp: []\n");
        let mistake = tree.root("a.yaml").fields(&["name", "steps"]).unwrap_err();
        assert_eq!(mistake.to_string(), "a.yaml:2: stesp: is no field here");
        assert_eq!(mistake.hint.as_deref(), Some("did you mean `steps`?"));
    }

    #[test]
    fn a_word_that_is_near_to_none_gets_all_of_them() {
        assert_eq!(suggestion("zebra", &["name", "steps"]), "one of: name, steps");
    }

    #[test]
    fn slips_are_counted() {
        for (one, other, count) in [
            ("", "abc", 3),
            ("kitten", "sitting", 3),
            ("same", "same", 0),
            ("ab", "ba", 2),
        ] {
            assert_eq!(slips(one, other), count, "{one} {other}");
        }
    }

    #[test]
    fn what_is_no_yaml_is_named_with_its_line() {
        let mistake = Tree::read("a.yaml", "a: 1\nb: [1,\nc: }\n").unwrap_err();
        assert_eq!(mistake.file, "a.yaml");
        assert!(mistake.line >= 2, "{mistake}");
    }

    #[test]
    fn two_fields_of_which_one_is_allowed_are_refused() {
        let tree = read("say: x\ncrash: {}\n");
        let fields = tree.root("a.yaml").fields(&["say", "crash"]).unwrap();
        let mistake = fields.one_of(&["say", "crash"]).unwrap_err();
        assert_eq!(mistake.line, 2);
        assert!(
            mistake.to_string().contains("crash: cannot stand beside `say`"),
            "{mistake}"
        );
    }
}

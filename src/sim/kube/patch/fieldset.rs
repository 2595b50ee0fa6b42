//! Sets of fields: what a manager owns, what a change touched.
//!
//! A set is a tree of path elements in which each node may itself be a member; owning a container and owning what is
//! in it are different things. It is printed and read in the form of `fieldsV1`.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

/// One step of a path. Keys and values are kept as JSON text, which is how `fieldsV1` writes them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Element {
    /// A field of an object, or an entry of a map.
    Field(String),
    /// The element of a list that has these keys.
    Key(BTreeMap<String, String>),
    /// The element of a set that is this value.
    Value(String),
    /// The element of a list at this place.
    Index(usize),
}

impl Element {
    /// A field by its name.
    pub fn field(name: &str) -> Self {
        Self::Field(name.to_owned())
    }

    /// The name under which `fieldsV1` has it.
    fn print(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(keys) => {
                let keys: Vec<_> = keys
                    .iter()
                    .map(|(name, value)| format!("{}:{value}", Value::from(name.as_str())))
                    .collect();
                format!("k:{{{}}}", keys.join(","))
            }
            Self::Value(value) => format!("v:{value}"),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    fn parse(text: &str) -> Result<Self, FieldsError> {
        let malformed = || FieldsError::Element(text.to_owned());
        let json = |text: &str| serde_json::from_str::<Value>(text).map_err(|_| malformed());
        match text.split_once(':').ok_or_else(malformed)? {
            ("f", name) => Ok(Self::field(name)),
            ("k", keys) => match json(keys)? {
                Value::Object(keys) => Ok(Self::Key(
                    keys.into_iter()
                        .map(|(name, value)| (name, value.to_string()))
                        .collect(),
                )),
                _ => Err(malformed()),
            },
            ("v", value) => Ok(Self::Value(json(value)?.to_string())),
            ("i", index) => index.parse().map(Self::Index).map_err(|_| malformed()),
            _ => Err(malformed()),
        }
    }
}

/// As the field of a cause names it: `.spec.ports[containerPort=80]`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(keys) => {
                let keys: Vec<_> = keys
                    .iter()
                    .map(|(name, value)| format!("{name}={value}"))
                    .collect();
                write!(f, "[{}]", keys.join(","))
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A `fieldsV1` that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    /// A name that is not of the form `f:`, `k:`, `v:` or `i:`.
    #[error("malformed path element {0:?}")]
    Element(String),
    /// Something else than an object.
    #[error("a set of fields is an object of objects")]
    NotAnObject,
}

/// A set of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// No node is here that is neither a member nor has members below it.
    nodes: BTreeMap<Element, Node>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    member: bool,
    below: FieldSet,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl FieldSet {
    /// The set of one path of plain fields.
    pub fn of_fields(path: &[&str]) -> Self {
        let path: Vec<_> = path.iter().map(|name| Element::field(name)).collect();
        let mut set = Self::default();
        set.insert(&path);
        set
    }

    /// Adds a path, not its parents. The empty path is the whole object, which nobody owns.
    pub fn insert(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        let mut new = None;
        // Parents are there already more often than not, and elements are dear to copy.
        let node = match self.nodes.get_mut(first) {
            Some(node) => node,
            None => new.insert(Node::default()),
        };
        if rest.is_empty() {
            node.member = true;
        } else {
            node.below.insert(rest);
        }
        if let Some(node) = new {
            self.nodes.insert(first.clone(), node);
        }
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether this element itself is a member.
    pub fn has(&self, element: &Element) -> bool {
        self.nodes.get(element).is_some_and(|node| node.member)
    }

    /// The members below an element, if there are any.
    pub fn below(&self, element: &Element) -> Option<&Self> {
        let node = self.nodes.get(element)?;
        (!node.below.is_empty()).then_some(&node.below)
    }

    /// What is in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut all = self.clone();
        all.absorb(other);
        all
    }

    fn absorb(&mut self, other: &Self) {
        for (element, theirs) in &other.nodes {
            match self.nodes.get_mut(element) {
                Some(ours) => {
                    ours.member |= theirs.member;
                    ours.below.absorb(&theirs.below);
                }
                None => {
                    self.nodes.insert(element.clone(), theirs.clone());
                }
            }
        }
    }

    /// What is in this and not in the other. A path below a member of the other stays.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.combine(|element, ours| match other.nodes.get(element) {
            Some(theirs) => Node {
                member: ours.member && !theirs.member,
                below: ours.below.difference(&theirs.below),
            },
            None => ours.clone(),
        })
    }

    /// What is in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.combine(|element, ours| match other.nodes.get(element) {
            Some(theirs) => Node {
                member: ours.member && theirs.member,
                below: ours.below.intersection(&theirs.below),
            },
            None => Node::default(),
        })
    }

    /// What is in this and neither in the other nor below one of its members.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        self.combine(|element, ours| match other.nodes.get(element) {
            Some(theirs) if theirs.member => Node::default(),
            Some(theirs) => Node {
                member: ours.member,
                below: ours.below.without(&theirs.below),
            },
            None => ours.clone(),
        })
    }

    /// The same paths, and each parent too that `is_named` knows by the path to it.
    #[must_use]
    pub fn with_parents(&self, is_named: &dyn Fn(&[Element]) -> bool) -> Self {
        self.with_parents_at(is_named, &mut Vec::new())
    }

    fn with_parents_at(&self, is_named: &dyn Fn(&[Element]) -> bool, path: &mut Vec<Element>) -> Self {
        let nodes = self.nodes.iter().map(|(element, node)| {
            path.push(element.clone());
            let node = Node {
                member: node.member || is_named(path),
                below: node.below.with_parents_at(is_named, path),
            };
            path.pop();
            (element.clone(), node)
        });
        Self {
            nodes: nodes.collect(),
        }
    }

    fn combine(&self, with: impl Fn(&Element, &Node) -> Node) -> Self {
        let nodes = self
            .nodes
            .iter()
            .map(|(element, node)| (element.clone(), with(element, node)));
        Self {
            nodes: nodes.filter(|(_, node)| !node.is_empty()).collect(),
        }
    }

    /// Every member, parents before what is in them.
    pub fn paths(&self) -> Vec<Vec<Element>> {
        let mut paths = Vec::new();
        self.collect_paths(&mut Vec::new(), &mut paths);
        paths
    }

    fn collect_paths(&self, path: &mut Vec<Element>, paths: &mut Vec<Vec<Element>>) {
        for (element, node) in &self.nodes {
            path.push(element.clone());
            if node.member {
                paths.push(path.clone());
            }
            node.below.collect_paths(path, paths);
            path.pop();
        }
    }

    /// As `fieldsV1`.
    pub fn print(&self) -> Value {
        let fields = self.nodes.iter().map(|(element, node)| {
            let mut below = node.below.print();
            if let (true, false, Value::Object(fields)) = (node.member, node.below.is_empty(), &mut below) {
                fields.insert(".".to_owned(), Value::Object(Map::new()));
            }
            (element.print(), below)
        });
        Value::Object(fields.collect())
    }

    /// Reads a `fieldsV1`.
    pub fn parse(fields: &Value) -> Result<Self, FieldsError> {
        let fields = fields.as_object().ok_or(FieldsError::NotAnObject)?;
        let mut nodes = BTreeMap::new();
        for (name, below) in fields.iter().filter(|(name, _)| name.as_str() != ".") {
            let inside = below.as_object().ok_or(FieldsError::NotAnObject)?;
            let node = Node {
                member: inside.is_empty() || inside.contains_key("."),
                below: Self::parse(below)?,
            };
            nodes.insert(Element::parse(name)?, node);
        }
        Ok(Self { nodes })
    }
}

/// A path as the field of a cause names it.
pub fn path_text(path: &[Element]) -> String {
    path.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn element() -> impl Strategy<Value = Element> {
        prop_oneof![
            "[a-c.:\"{]{1,3}".prop_map(Element::Field),
            prop::collection::btree_map("[a-b\"]{1,2}", "[a-b\"]{0,2}", 1..3).prop_map(|keys| Element::Key(
                keys.into_iter()
                    .map(|(name, value)| (name, Value::from(value).to_string()))
                    .collect()
            )),
            (0..3_i64).prop_map(|value| Element::Value(value.to_string())),
            (0..3_usize).prop_map(Element::Index),
        ]
    }

    fn set() -> impl Strategy<Value = FieldSet> {
        prop::collection::vec(prop::collection::vec(element(), 1..4), 0..8).prop_map(|paths| {
            let mut set = FieldSet::default();
            for path in &paths {
                set.insert(path);
            }
            set
        })
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(set in set()) {
            prop_assert_eq!(FieldSet::parse(&set.print()), Ok(set));
        }

        #[test]
        fn sets_obey_the_laws_of_sets(a in set(), b in set()) {
            prop_assert_eq!(a.union(&b), b.union(&a));
            prop_assert_eq!(a.intersection(&b), b.intersection(&a));
            prop_assert_eq!(a.union(&a), a.clone());
            prop_assert!(a.difference(&a).is_empty());
            prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
            prop_assert!(a.difference(&b).intersection(&b).is_empty());
            prop_assert_eq!(a.without(&b).difference(&a.difference(&b)), FieldSet::default());
        }

        #[test]
        fn a_set_is_its_paths(set in set()) {
            let mut again = FieldSet::default();
            for path in set.paths() {
                again.insert(&path);
            }
            prop_assert_eq!(again, set);
        }
    }

    #[test]
    fn a_real_record_is_read_and_printed_unchanged() {
        let real = json!({
            "f:metadata": {"f:finalizers": {".": {}, "v:\"x/y\"": {}}, "f:labels": {".": {}, "f:a": {}}},
            "f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {".": {}, "f:image": {}, "f:ports": {
                "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}}}}},
        });
        let set = FieldSet::parse(&real).unwrap();
        assert_eq!(set.print(), real);
        let paths: Vec<_> = set.paths().iter().map(|path| path_text(path)).collect();
        assert_eq!(
            paths,
            [
                ".metadata.finalizers",
                ".metadata.finalizers[=\"x/y\"]",
                ".metadata.labels",
                ".metadata.labels.a",
                ".spec.containers[name=\"c\"]",
                ".spec.containers[name=\"c\"].image",
                ".spec.containers[name=\"c\"].ports[containerPort=80,protocol=\"TCP\"]",
                ".spec.containers[name=\"c\"].ports[containerPort=80,protocol=\"TCP\"].containerPort",
            ]
        );
    }

    #[test]
    fn a_difference_keeps_what_is_below_and_without_does_not() {
        let a = FieldSet::of_fields(&["status", "phase"]);
        let status = FieldSet::of_fields(&["status"]);
        assert_eq!(a.difference(&status), a);
        assert!(a.without(&status).is_empty());
    }

    #[test]
    fn nonsense_is_refused() {
        for nonsense in [
            json!([]),
            json!({"a": {}}),
            json!({"f:a": 1}),
            json!({"k:[1]": {}}),
            json!({"i:x": {}}),
        ] {
            assert!(FieldSet::parse(&nonsense).is_err(), "{nonsense}");
        }
    }
}

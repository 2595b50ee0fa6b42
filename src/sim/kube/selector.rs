//! Label and field selectors, parsed from the text of a query.

use std::collections::BTreeMap;

use super::refusal::Refusal;

/// Which labels an object must have. Empty selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<Term>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    DoesNotExist,
    In(Vec<String>),
    NotIn(Vec<String>),
    GreaterThan(i64),
    LessThan(i64),
}

impl LabelSelector {
    /// Parses `a=b,c!=d,e in (f,g),!h,i`.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        split_terms(text)
            .into_iter()
            .map(str::trim)
            .map(Term::parse)
            .collect::<Option<_>>()
            .map(Self)
            .ok_or_else(|| {
                Refusal::bad_request(format!(
                    "unable to parse requirement: invalid label selector \"{text}\""
                ))
            })
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0
            .iter()
            .all(|term| term.matches(labels.get(&term.key).map(String::as_str)))
    }
}

/// Splits at commas outside parentheses.
fn split_terms(text: &str) -> Vec<&str> {
    let (mut terms, mut depth, mut start) = (Vec::new(), 0_i32, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            b',' if depth == 0 => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

impl Term {
    fn parse(text: &str) -> Option<Self> {
        let term = |key: &str, test| {
            is_key(key.trim()).then(|| Self {
                key: key.trim().to_owned(),
                test,
            })
        };
        if let Some((key, values)) = set(text, " notin ") {
            return term(key, Test::NotIn(values?));
        }
        if let Some((key, values)) = set(text, " in ") {
            return term(key, Test::In(values?));
        }
        if let Some(key) = text.strip_prefix('!') {
            return term(key, Test::DoesNotExist);
        }
        for (operator, test) in [
            (
                "!=",
                (|value| Some(Test::NotIn(vec![value]))) as fn(String) -> Option<Test>,
            ),
            ("==", |value| Some(Test::In(vec![value]))),
            ("=", |value| Some(Test::In(vec![value]))),
            (">", |value| value.parse().ok().map(Test::GreaterThan)),
            ("<", |value| value.parse().ok().map(Test::LessThan)),
        ] {
            if let Some((key, value)) = text.split_once(operator) {
                let value = value.trim();
                return if is_value(value) {
                    term(key, test(value.to_owned())?)
                } else {
                    None
                };
            }
        }
        term(text, Test::Exists)
    }

    fn matches(&self, value: Option<&str>) -> bool {
        match (&self.test, value) {
            (Test::Exists, value) => value.is_some(),
            (Test::DoesNotExist, value) => value.is_none(),
            (Test::In(values), Some(value)) => values.iter().any(|wanted| wanted == value),
            (Test::NotIn(values), Some(value)) => values.iter().all(|unwanted| unwanted != value),
            (Test::NotIn(_), None) => true,
            (Test::GreaterThan(than), Some(value)) => value.parse::<i64>().is_ok_and(|value| value > *than),
            (Test::LessThan(than), Some(value)) => value.parse::<i64>().is_ok_and(|value| value < *than),
            (Test::In(_) | Test::GreaterThan(_) | Test::LessThan(_), None) => false,
        }
    }
}

/// `key in (a, b)`; the inner option is `None` when the set itself is malformed.
fn set<'a>(text: &'a str, operator: &str) -> Option<(&'a str, Option<Vec<String>>)> {
    let (key, set) = text.split_once(operator)?;
    let values = set
        .trim()
        .strip_prefix('(')
        .and_then(|set| set.strip_suffix(')'))
        .and_then(|set| {
            set.split(',')
                .map(str::trim)
                .map(|value| is_value(value).then(|| value.to_owned()))
                .collect()
        });
    Some((key, values))
}

fn is_key(key: &str) -> bool {
    let (prefix, name) = key
        .rsplit_once('/')
        .map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let named = |part: &str| {
        !part.is_empty()
            && part.len() <= 63
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
            && part.starts_with(|c: char| c.is_ascii_alphanumeric())
            && part.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    named(name) && prefix.is_none_or(|prefix| !prefix.is_empty() && prefix.split('.').all(named))
}

fn is_value(value: &str) -> bool {
    value.is_empty() || is_key(value) && !value.contains('/')
}

/// Which fields an object must have. Empty selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<FieldTerm>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldTerm {
    field: String,
    value: String,
    equal: bool,
}

impl FieldSelector {
    /// Parses `a=b,c!=d`. Which fields may be named is the kind's affair; see [`FieldSelector::fields`].
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let bad = || Refusal::bad_request(format!("invalid selector: '{text}'; can't understand it"));
        text.split(',')
            .filter(|term| !term.is_empty())
            .map(|term| {
                let (field, value, equal) = match (term.split_once("!="), term.split_once("==")) {
                    (Some((field, value)), _) => (field, value, false),
                    (None, Some((field, value))) => (field, value, true),
                    (None, None) => term
                        .split_once('=')
                        .map(|(field, value)| (field, value, true))
                        .ok_or_else(bad)?,
                };
                Ok(FieldTerm {
                    field: field.to_owned(),
                    value: value.to_owned(),
                    equal,
                })
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The fields it names.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|term| term.field.as_str())
    }

    /// The one name it demands, if it demands one: a list that is really a get.
    pub fn demanded_name(&self) -> Option<&str> {
        self.demanded("metadata.name")
    }

    /// The one value of a field that it demands, if it demands one.
    pub fn demanded(&self, field: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|term| term.equal && term.field == field)
            .map(|term| term.value.as_str())
    }

    /// Whether it selects everything.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an object is selected; `value` gives the object's value of a field, empty where it has none.
    pub fn matches<'a>(&self, value: impl Fn(&str) -> &'a str) -> bool {
        self.0
            .iter()
            .all(|term| (value(&term.field) == term.value) == term.equal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> BTreeMap<String, String> {
        text.split(',')
            .filter_map(|pair| pair.split_once('='))
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect()
    }

    #[test]
    fn label_selectors_select_as_kubernetes_does() {
        let table = [
            ("", "", true),
            ("a=b", "a=b", true),
            ("a==b", "a=c", false),
            ("a!=b", "", true),
            ("a", "a=", true),
            ("!a", "a=b", false),
            ("a in (b, c),d", "a=c,d=x", true),
            ("a in (b,c)", "", false),
            ("a notin (b,c)", "", true),
            ("example.com/a in (b)", "example.com/a=b", true),
            ("n>3", "n=4", true),
            ("n<3", "n=x", false),
        ];
        for (selector, on, selected) in table {
            assert_eq!(
                LabelSelector::parse(selector).unwrap().matches(&labels(on)),
                selected,
                "{selector} on {on}"
            );
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for nonsense in ["a=b c", "=b", "a in b", "a in (b", "a,,/=", "n>x", "a//b=c"] {
            assert_eq!(
                LabelSelector::parse(nonsense).unwrap_err().code(),
                400,
                "{nonsense}"
            );
        }
        assert_eq!(FieldSelector::parse("metadata.name").unwrap_err().code(), 400);
    }

    #[test]
    fn field_selectors_compare_text() {
        let selector = FieldSelector::parse("metadata.name=a,status.phase!=Running").unwrap();
        let value = |field: &str| if field == "metadata.name" { "a" } else { "Pending" };
        assert!(selector.matches(value));
        assert_eq!(selector.demanded_name(), Some("a"));
    }
}

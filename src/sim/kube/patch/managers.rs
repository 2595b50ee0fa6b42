//! The record of who owns which fields, as `metadata.managedFields` keeps it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::compare::Changes;
use super::fieldset::FieldSet;

/// As many managers that update are kept apart; the oldest beyond that become one, as on a real server.
const UPDATERS_MAX: usize = 10;

/// Who owns the fields of updaters that are no longer kept apart.
const ANCIENT: &str = "ancient-changes";

/// How a manager came to own its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// By server-side apply.
    Apply,
    /// By any other write.
    Update,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Who owns fields. Each line of the record has another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Manager {
    /// By its own account.
    pub name: String,
    /// How.
    pub operation: Operation,
    /// `status`, `scale`, or empty.
    pub subresource: String,
    /// In which version of the kind, for updates: an applier is the same in all versions.
    version: String,
}

impl Manager {
    /// A manager that applies.
    pub fn applier(name: &str, subresource: &str) -> Self {
        Self {
            name: name.to_owned(),
            operation: Operation::Apply,
            subresource: subresource.to_owned(),
            version: String::new(),
        }
    }

    /// A manager that updates objects of an API version.
    pub fn updater(name: &str, subresource: &str, api_version: &str) -> Self {
        Self {
            name: name.to_owned(),
            operation: Operation::Update,
            subresource: subresource.to_owned(),
            version: api_version.to_owned(),
        }
    }

    /// The same manager, as it is known among objects of another API version.
    #[must_use]
    pub fn in_version(&self, api_version: &str) -> Self {
        match self.operation {
            Operation::Apply => self.clone(),
            Operation::Update => Self::updater(&self.name, &self.subresource, api_version),
        }
    }

    /// Who it is, for people.
    pub fn describe(&self) -> String {
        let mut text = format!("{:?}", self.name);
        if !self.subresource.is_empty() {
            text = format!("{text} with subresource {:?}", self.subresource);
        }
        match self.operation {
            Operation::Apply => text,
            Operation::Update => format!("{text} using {}", self.version),
        }
    }
}

/// What a manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The fields.
    pub fields: FieldSet,
    /// The API version in which they were written.
    pub api_version: String,
    /// When it last changed the object; never, if all it applied was there already.
    pub time: Option<String>,
}

/// Everybody who owns fields of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managers {
    holdings: BTreeMap<Manager, Holding>,
}

impl Managers {
    /// Reads `managedFields`; `None` if it is not a record of ownership.
    pub fn parse(entries: &Value) -> Option<Self> {
        let mut holdings = BTreeMap::new();
        for entry in entries.as_array()? {
            let text = |name: &str| entry[name].as_str().unwrap_or_default();
            let (api_version, subresource) = (text("apiVersion"), text("subresource"));
            if api_version.is_empty() || text("fieldsType") != "FieldsV1" {
                return None;
            }
            let manager = match text("operation") {
                "Apply" => Manager::applier(text("manager"), subresource),
                "Update" => Manager::updater(text("manager"), subresource, api_version),
                _ => return None,
            };
            let fields = entry.get("fieldsV1").map(FieldSet::parse).transpose().ok()?;
            let holding = Holding {
                fields: fields.unwrap_or_default(),
                api_version: api_version.to_owned(),
                time: entry["time"].as_str().map(str::to_owned),
            };
            holdings.insert(manager, holding);
        }
        Some(Self { holdings })
    }

    /// As `managedFields`: appliers first, then by time and name.
    pub fn print(&self) -> Vec<Value> {
        let mut entries: Vec<(&Manager, &Holding)> = self.holdings.iter().collect();
        entries.sort_by_key(|(manager, holding)| {
            let Manager {
                name,
                operation,
                subresource,
                ..
            } = manager;
            (*operation, &holding.time, name, &holding.api_version, subresource)
        });
        let entry = |(manager, holding): (&Manager, &Holding)| {
            let mut entry = json!({
                "manager": manager.name, "operation": manager.operation.as_str(),
                "apiVersion": holding.api_version, "fieldsType": "FieldsV1", "fieldsV1": holding.fields.print(),
            });
            if let Some(time) = &holding.time {
                entry["time"] = time.as_str().into();
            }
            if !manager.subresource.is_empty() {
                entry["subresource"] = manager.subresource.as_str().into();
            }
            entry
        };
        entries.into_iter().map(entry).collect()
    }

    /// Whether nobody owns anything.
    pub fn is_empty(&self) -> bool {
        self.holdings.is_empty()
    }

    /// What a manager owns.
    pub fn get(&self, manager: &Manager) -> Option<&Holding> {
        self.holdings.get(manager)
    }

    /// Everybody, and what they own.
    pub fn iter(&self) -> impl Iterator<Item = (&Manager, &Holding)> {
        self.holdings.iter()
    }

    /// Lets a manager own these fields and no others; nothing if they are none.
    pub fn set(&mut self, manager: Manager, holding: Holding) {
        if holding.fields.is_empty() {
            self.holdings.remove(&manager);
        } else {
            self.holdings.insert(manager, holding);
        }
    }

    /// Every field that somebody owns.
    pub fn owned(&self) -> FieldSet {
        let sets = self.holdings.values();
        sets.fold(FieldSet::default(), |all, holding| all.union(&holding.fields))
    }

    /// What others than `but` own of some fields.
    pub fn owners_of(&self, fields: &FieldSet, but: &Manager) -> Vec<(&Manager, FieldSet)> {
        let others = self.holdings.iter().filter(|(manager, _)| *manager != but);
        others
            .map(|(manager, holding)| (manager, holding.fields.intersection(fields)))
            .filter(|(_, shared)| !shared.is_empty())
            .collect()
    }

    /// Takes fields that were written or removed from everybody but one; who has none left is forgotten.
    pub fn take(&mut self, changes: &Changes, but: &Manager) {
        for (manager, holding) in &mut self.holdings {
            if manager != but {
                for gone in [&changes.modified, &changes.added, &changes.removed] {
                    holding.fields = holding.fields.difference(gone);
                }
            }
        }
        self.holdings.retain(|_, holding| !holding.fields.is_empty());
    }

    /// Makes the oldest updaters one if there are too many.
    pub fn cap(&mut self) {
        let updaters = |managers: &Self| -> Vec<Manager> {
            let mut updaters: Vec<_> = managers
                .holdings
                .iter()
                .filter(|(manager, _)| manager.operation == Operation::Update)
                .collect();
            updaters.sort_by_key(|(manager, holding)| (&holding.time, *manager));
            updaters.into_iter().map(|(manager, _)| manager.clone()).collect()
        };
        while updaters(self).len() > UPDATERS_MAX {
            let oldest: Vec<Manager> = updaters(self).into_iter().take(2).collect();
            let mut ancient: Option<Holding> = None;
            for manager in oldest {
                let Some(holding) = self.holdings.remove(&manager) else {
                    continue;
                };
                ancient = Some(match ancient {
                    None => holding,
                    Some(older) => Holding {
                        fields: older.fields.union(&holding.fields),
                        ..holding
                    },
                });
            }
            let Some(ancient) = ancient else { return };
            let manager = Manager::updater(ANCIENT, "", &ancient.api_version);
            self.set(manager, ancient);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(fields: &[&str], time: &str) -> Holding {
        let sets = fields.iter().map(|field| FieldSet::of_fields(&["spec", field]));
        Holding {
            fields: sets.fold(FieldSet::default(), |all, set| all.union(&set)),
            api_version: "v1".to_owned(),
            time: Some(time.to_owned()),
        }
    }

    #[test]
    fn a_record_is_read_back_with_appliers_first() {
        let mut managers = Managers::default();
        managers.set(
            Manager::updater("b", "", "v1"),
            holding(&["x"], "2026-11-16T10:00:00Z"),
        );
        managers.set(
            Manager::updater("a", "status", "v1"),
            holding(&["y"], "2026-11-16T10:00:01Z"),
        );
        managers.set(Manager::applier("c", ""), holding(&["z"], "2026-11-16T10:00:02Z"));
        let printed = managers.print();
        let names: Vec<_> = printed
            .iter()
            .map(|entry| entry["manager"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["c", "b", "a"]);
        assert_eq!(Managers::parse(&printed.into()), Some(managers));
    }

    #[test]
    fn what_is_no_record_is_none() {
        for entries in [
            json!({}),
            json!([{}]),
            json!([{"manager": "a", "operation": "Frob", "apiVersion": "v1", "fieldsType": "FieldsV1"}]),
            json!([{"manager": "a", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV2"}]),
            json!([{"manager": "a", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"x": {}}}]),
        ] {
            assert_eq!(Managers::parse(&entries), None, "{entries}");
        }
    }

    #[test]
    fn a_manager_without_fields_disappears() {
        let mut managers = Managers::default();
        let (a, b) = (Manager::updater("a", "", "v1"), Manager::updater("b", "", "v1"));
        managers.set(a.clone(), holding(&["x"], "1"));
        let changes = Changes {
            modified: FieldSet::of_fields(&["spec", "x"]),
            ..Changes::default()
        };
        assert_eq!(managers.owners_of(&changes.written(), &b).len(), 1);
        managers.take(&changes, &a);
        assert!(managers.get(&a).is_some());
        managers.take(&changes, &b);
        assert!(managers.is_empty());
    }

    #[test]
    fn the_oldest_of_many_updaters_become_one() {
        let mut managers = Managers::default();
        for index in 0..12 {
            let name = format!("m{index:02}");
            managers.set(
                Manager::updater(&name, "", "v1"),
                holding(&[&name], &format!("{index:02}")),
            );
        }
        let owned = managers.owned();
        managers.cap();
        assert_eq!(managers.print().len(), 10);
        assert_eq!(managers.owned(), owned);
        let ancient = managers.get(&Manager::updater(ANCIENT, "", "v1")).unwrap();
        assert_eq!(ancient.fields, holding(&["m00", "m01", "m02"], "").fields);
    }
}

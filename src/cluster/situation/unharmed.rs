//! Keeps a mistake of this program to the object that it comes up at, while everything is put together for a plan: whoever
//! cannot be looked at is left out, and nobody else goes without a node because of it.

use k8s_openapi::api::core::v1::{Node, ObjectReference, Pod};
use kube::Resource;

use crate::api::NodeClaim;
use crate::cluster::pods::Seen;
use crate::panics::{Panicked, caught};

/// An object at which looking panicked.
#[derive(Debug)]
pub struct Unfit {
    /// Which one.
    pub object: ObjectReference,
    /// What the panic said.
    pub panicked: Panicked,
}

/// What is seen of the object of that name or uid, or what the panic said.
pub(in crate::cluster) fn unharmed<T>(name: &str, look: impl FnOnce() -> T) -> Result<T, Panicked> {
    caught(|| {
        #[cfg(test)]
        poison::bite(name);
        #[cfg(not(test))]
        let _ = name;
        look()
    })
}

impl Unfit {
    /// A pod.
    pub(in crate::cluster) fn pod(uid: &str, seen: &Seen, panicked: Panicked) -> Self {
        let object = ObjectReference {
            uid: Some(uid.to_owned()),
            ..named::<Pod>(Some(&seen.namespace), &seen.name)
        };
        Self { object, panicked }
    }

    /// A claim, or its node.
    pub(in crate::cluster) fn claim(name: &str, panicked: Panicked) -> Self {
        let object = named::<NodeClaim>(None, name);
        Self { object, panicked }
    }

    /// A node without a claim.
    pub(in crate::cluster) fn node(name: &str, panicked: Panicked) -> Self {
        let object = named::<Node>(None, name);
        Self { object, panicked }
    }
}

/// An object of the API, as events are about it.
pub fn named<K: Resource<DynamicType = ()>>(namespace: Option<&str>, name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        namespace: namespace.map(str::to_owned),
        name: Some(name.to_owned()),
        ..ObjectReference::default()
    }
}

/// What tests let nobody look at.
#[cfg(test)]
pub(super) mod poison {
    use std::cell::RefCell;

    thread_local! {
        static NAMES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    /// Lets looks at these objects panic on this thread.
    pub(in crate::cluster::situation) fn put(names: &[&str]) {
        NAMES.set(names.iter().map(|name| (*name).to_owned()).collect());
    }

    pub(super) fn bite(name: &str) {
        let is_poisoned = NAMES.with_borrow(|names| names.iter().any(|it| it == name));
        assert!(!is_poisoned, "poisoned: {name}");
    }
}

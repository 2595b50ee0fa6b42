//! Resources as columns of numbers.

use std::collections::BTreeSet;

use crate::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources};

/// The resources that somebody asks for, each with its place: processors, memory and pods first.
#[derive(Clone, Debug)]
pub(super) struct Dims {
    names: Vec<String>,
}

impl Dims {
    /// The resources of which any of these lists asks for some.
    pub(super) fn of<'a>(requests: impl Iterator<Item = &'a Resources>) -> Self {
        let mut others = BTreeSet::new();
        for list in requests {
            for (name, amount) in list {
                if *amount > 0 && ![CPU, MEMORY, PODS].contains(&name.as_str()) && !others.contains(name) {
                    others.insert(name.clone());
                }
            }
        }
        let names = [CPU, MEMORY, PODS].map(str::to_owned).into_iter();
        Self {
            names: names.chain(others).collect(),
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// Their names, in order.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether something is asked for that not every machine has, as cards are.
    pub(super) fn is_special(&self, amounts: &[i64]) -> bool {
        let is_common = |name: &String| [CPU, MEMORY, PODS, EPHEMERAL_STORAGE].contains(&name.as_str());
        let mut asked = self.names.iter().zip(amounts);
        asked.any(|(name, amount)| *amount > 0 && !is_common(name))
    }

    /// Amounts in their places.
    pub(super) fn amounts(&self, list: &Resources) -> Vec<i64> {
        self.names.iter().map(|name| list.get(name)).collect()
    }

    /// Amounts with their names again, without those that are zero.
    pub(super) fn named(&self, amounts: &[i64]) -> Resources {
        let mut all = Resources::new();
        for (name, amount) in self.names.iter().zip(amounts) {
            if *amount != 0 {
                all.set(name, *amount);
            }
        }
        all
    }
}

/// Whether there is room for all of these amounts.
pub(super) fn fit(wanted: &[i64], room: &[i64]) -> bool {
    wanted.iter().zip(room).all(|(wanted, room)| wanted <= room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_keep_their_places() {
        let gpu = Resources::new().with("nvidia.com/gpu", 1).with(PODS, 1);
        let dims = Dims::of([&gpu].into_iter());
        assert_eq!(dims.amounts(&gpu), [0, 0, 1, 1]);
        assert_eq!(dims.named(&[0, 0, 1, 1]), gpu);
        assert!(fit(&[1, 1], &[1, 2]) && !fit(&[1, 3], &[1, 2]));
        assert!(dims.is_special(&[0, 0, 1, 1]) && !dims.is_special(&[1, 1, 1, 0]));
    }
}

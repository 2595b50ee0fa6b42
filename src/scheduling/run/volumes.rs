//! Which volumes are attached where, and where no more can be.
//!
//! Each pod of a StatefulSet has volumes of its own, so that thousands of them are as many classes, and none is told where
//! another found no room. So nodes that can attach no other volume, and claims that could not whichever type they became, are
//! passed over 64 at a time, as those are that have no room.

use std::collections::{BTreeMap, BTreeSet};

use super::super::bins::BLOCK;
use super::super::bits;
use super::super::problem::Problem;
use super::super::space::ANYTHING;
use super::Run;
use super::search::Becomes;
use super::shapes::{Before, Step};

/// The volumes of pods that had no place, and what is attached of their drivers.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    /// By name.
    drivers: Vec<Driver>,
    /// For each class its volumes, each once, as number of the driver and of the volume, in order; for none if no class has any.
    of_class: Vec<Vec<(usize, usize)>>,
    /// For each volume the bins to which it is attached.
    on: Vec<BTreeSet<usize>>,
}

/// What is attached of one driver.
#[derive(Debug)]
struct Driver {
    name: String,
    /// For each bin how many volumes there are, and how many there can be.
    there: Vec<(u32, u32)>,
    /// The bins to which no other can be attached.
    full: Vec<u64>,
}

impl Driver {
    /// How many volumes a bin has, and how many it can have.
    fn at(&self, bin: usize) -> (u32, u32) {
        self.there.get(bin).copied().unwrap_or((0, u32::MAX))
    }

    fn set(&mut self, bin: usize, (count, most): (u32, u32)) {
        if self.there.len() <= bin {
            self.there.resize(bin + 1, (0, u32::MAX));
        }
        self.there[bin] = (count, most);
        if count >= most {
            bits::put_growing(&mut self.full, bin);
        } else if bits::has(&self.full, bin) {
            bits::drop(&mut self.full, bin);
        }
    }
}

impl Volumes {
    /// The volumes of a problem that is to be solved, of whose hosts the first so many are bins.
    pub(super) fn of(problem: &Problem<'_>, nodes: usize) -> Self {
        let mut all = Self::default();
        let asked = problem.classes.iter().flat_map(|class| &class.volumes);
        let drivers: BTreeSet<&str> = asked.map(|(driver, _)| driver.as_str()).collect();
        if drivers.is_empty() {
            return all;
        }
        let drivers: Vec<&str> = drivers.into_iter().collect();
        let mut numbers: BTreeMap<(usize, &str), usize> = BTreeMap::new();
        for class in &problem.classes {
            let mut own = Vec::with_capacity(class.volumes.len());
            for (driver, name) in &class.volumes {
                let at = drivers.partition_point(|known| *known < driver.as_str());
                let next = all.on.len();
                let number = *numbers.entry((at, name.as_str())).or_insert(next);
                if number == next {
                    all.on.push(BTreeSet::new());
                }
                own.push((at, number));
            }
            own.sort_unstable();
            own.dedup();
            all.of_class.push(own);
        }
        for (at, name) in drivers.into_iter().enumerate() {
            let mut driver = Driver {
                name: name.to_owned(),
                there: Vec::new(),
                full: Vec::new(),
            };
            for (bin, host) in problem.hosts.iter().enumerate().take(nodes) {
                let node = &problem.snapshot.nodes[host.node];
                let there = node.volumes.get(name);
                let asked = there.into_iter().flatten();
                for number in asked.filter_map(|volume| numbers.get(&(at, volume.as_str()))) {
                    all.on[*number].insert(bin);
                }
                let most = node.volume_limits.get(name).copied().unwrap_or(u32::MAX);
                driver.set(bin, (counted(there.map_or(0, BTreeSet::len)), most));
            }
            all.drivers.push(driver);
        }
        all
    }

    fn of_class(&self, class: usize) -> &[(usize, usize)] {
        self.of_class.get(class).map_or(&[], Vec::as_slice)
    }

    /// How many of these volumes a bin does not have yet.
    fn brought(&self, volumes: &[(usize, usize)], bin: Option<usize>) -> u32 {
        let is_there = |volume: usize| bin.is_some_and(|bin| self.on[volume].contains(&bin));
        counted(volumes.iter().filter(|(_, volume)| !is_there(*volume)).count())
    }

    /// Whether a bin has one of the volumes of a class already.
    pub(super) fn has_some_of(&self, class: usize, bin: usize) -> bool {
        let mut own = self.of_class(class).iter();
        own.any(|(_, volume)| self.on[*volume].contains(&bin))
    }

    /// Which bins of a block can attach nothing that a class would bring. Those that have one of its volumes are not among
    /// them: it depends on what else it brings.
    pub(super) fn full_of(&self, class: usize, block: usize) -> u64 {
        let own = self.of_class(class);
        let full = |driver: usize| self.drivers[driver].full.get(block).copied().unwrap_or_default();
        let mut found = own.iter().fold(0, |found, (driver, _)| found | full(*driver));
        if found != 0 {
            let of_block = || block * BLOCK..(block + 1) * BLOCK;
            let there = own
                .iter()
                .flat_map(|(_, volume)| self.on[*volume].range(of_block()));
            there.for_each(|bin| found &= !(1 << (bin % BLOCK)));
        }
        found
    }

    /// The first driver of which a bin cannot have as many volumes as it would with a pod of a class, and how many it can.
    /// Whoever brings no other volume may come even where there are too many, as for the kube-scheduler. What is refused
    /// stays so: no more than there can be will be attached beside it.
    pub(super) fn exceeded(&self, class: usize, bin: usize) -> Option<(&str, u32)> {
        let mut of_drivers = self.of_class(class).chunk_by(|one, other| one.0 == other.0);
        of_drivers.find_map(|own| {
            let driver = &self.drivers[own[0].0];
            let (count, most) = driver.at(bin);
            let brought = self.brought(own, Some(bin));
            (brought > 0 && count.saturating_add(brought) > most).then_some((driver.name.as_str(), most))
        })
    }

    /// Takes note how many volumes of each driver a claim can attach at most.
    pub(super) fn set_most(&mut self, bin: usize, most: impl Fn(&str) -> u32) {
        for driver in &mut self.drivers {
            let (count, _) = driver.at(bin);
            driver.set(bin, (count, most(&driver.name)));
        }
    }

    /// Attaches the volumes of a class, and says how many more there are now of each driver.
    fn attach(&mut self, class: usize, bin: usize) -> Vec<(usize, u32)> {
        let own = self.of_class.get(class).map_or(&[][..], Vec::as_slice);
        let mut more = Vec::new();
        for own in own.chunk_by(|one, other| one.0 == other.0) {
            let new = own.iter().filter(|(_, volume)| self.on[*volume].insert(bin));
            let new = counted(new.count());
            if new > 0 {
                let driver = &mut self.drivers[own[0].0];
                let (count, most) = driver.at(bin);
                driver.set(bin, (count.saturating_add(new), most));
                more.push((own[0].0, new));
            }
        }
        more
    }
}

fn counted(volumes: usize) -> u32 {
    u32::try_from(volumes).unwrap_or(u32::MAX)
}

impl Run<'_, '_> {
    /// Attaches the volumes of a class to a bin that has just taken a pod of it.
    pub(super) fn attach(&mut self, class: usize, bin: usize) {
        let more = self.volumes.attach(class, bin);
        let Some(claim) = bin.checked_sub(self.nodes()) else {
            return;
        };
        let held = &mut self.claims[claim];
        for (driver, more) in more {
            let becomes = Becomes {
                req: self.bins.req[bin],
                part: ANYTHING,
                kind: held.kind,
                price: held.price,
            };
            let step = Step::Volumes(driver, more);
            held.shape = self.shapes.after(Before::Shape(held.shape), step, becomes);
        }
    }

    /// The driver of which a node cannot attach as many volumes, and how many it can.
    pub(in crate::scheduling) fn volume_limit_hit(&self, class: usize, bin: usize) -> Option<(String, u32)> {
        let (driver, most) = self.volumes.exceeded(class, bin)?;
        Some((driver.to_owned(), most))
    }

    /// How many volumes of each driver a claim would attach with a pod of a class, and without one; none if a claim of
    /// its template may attach as many as it likes.
    pub(in crate::scheduling) fn attached(
        &self,
        template: usize,
        class: Option<usize>,
        bin: Option<usize>,
    ) -> Vec<(&str, u32)> {
        if self.problem.templates[template].attachable.is_empty() {
            return Vec::new();
        }
        let own = class.map_or(&[][..], |class| self.volumes.of_class(class));
        let drivers = self.volumes.drivers.iter().enumerate();
        let all = drivers.map(|(at, driver)| {
            let from = own.partition_point(|(of, _)| *of < at);
            let to = own.partition_point(|(of, _)| *of <= at);
            let there = bin.map_or(0, |bin| driver.at(bin).0);
            let brought = self.volumes.brought(&own[from..to], bin);
            (driver.name.as_str(), there.saturating_add(brought))
        });
        all.filter(|(_, count)| *count > 0).collect()
    }
}

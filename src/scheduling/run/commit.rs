//! Carries out a placement: room, labels, ports, volumes, counts and limits follow.

use super::super::bits;
use super::super::space::{ANYTHING, ReqId};
use super::super::topology::Counted;
use super::search::{Becomes, Spot};
use super::shapes::Before;
use super::{Claim, Run, Turn};

impl Run<'_, '_> {
    pub(super) fn commit(&mut self, turn: &Turn<'_>, pod: usize, spot: &Spot) {
        let bin = match *spot {
            Spot::Node { bin } => {
                self.fill_node(turn.class, bin);
                bin
            }
            Spot::Claim { bin, becomes } => {
                self.fill_claim(turn, bin, becomes);
                bin
            }
            Spot::New { template, becomes } => {
                self.open_claim(template, becomes);
                let bin = self.bins.len() - 1;
                self.fill_claim(turn, bin, becomes);
                bin
            }
        };
        if bin >= self.nodes() {
            let claim = bin - self.nodes();
            self.claims[claim].pods.push(pod);
        }
        self.placed.push((pod, bin));
        let class = &self.problem.classes[turn.class];
        for (left, asked) in self.unplaced.iter_mut().zip(&class.requests) {
            *left = left.saturating_sub(*asked);
        }
        self.bins.ports[bin].extend_from_slice(&class.ports);
        for (driver, name) in &class.volumes {
            self.volumes.insert((bin, driver.clone(), name.clone()));
        }
        self.count(turn.class, bin);
    }

    fn fill_node(&mut self, class: usize, bin: usize) {
        use super::super::bins::Left;
        let of = &self.problem.classes[class];
        let left = self.bins.left(Left::Slack, bin).zip(&of.requests);
        let left: Vec<i64> = left.map(|(left, more)| left - more).collect();
        self.bins.set(bin, &left, &left);
    }

    fn open_claim(&mut self, template: usize, becomes: Becomes) {
        let width = self.problem.dims.len();
        let nothing = vec![0; width];
        let of = &self.problem.templates[template];
        self.bins.push(becomes.req, of.taints, &nothing, &nothing);
        self.claims.push(Claim {
            template,
            kind: usize::MAX,
            price: 0,
            shape: 0,
            used: nothing,
            pods: Vec::new(),
            parts: Vec::new(),
            pins: Vec::new(),
        });
    }

    fn fill_claim(&mut self, turn: &Turn<'_>, bin: usize, becomes: Becomes) {
        let claim = bin - self.nodes();
        let template = self.claims[claim].template;
        self.count_limits(claim, template, becomes.kind);
        self.reckon(claim, turn.class);
        let problem = &mut *self.problem;
        let class = &problem.classes[turn.class];
        let held = &mut self.claims[claim];
        held.used
            .iter_mut()
            .zip(&class.requests)
            .for_each(|(used, more)| *used += more);
        let before = if held.pods.is_empty() {
            Before::Template(template)
        } else {
            Before::Shape(held.shape)
        };
        held.shape = self.shapes.after(before, class.size, becomes);
        self.price = self.price - held.price + becomes.price;
        (held.kind, held.price) = (becomes.kind, becomes.price);
        if becomes.part != ANYTHING && !held.parts.contains(&becomes.part) {
            held.parts.push(becomes.part);
        }
        for column in class.stages[turn.stage].pins.iter().chain(&self.measured.columns) {
            if !held.pins.contains(column) {
                held.pins.push(*column);
            }
        }
        problem.templates[template].row(&problem.space, becomes.req);
        self.bins.req[bin] = becomes.req;
        self.measure(bin);
    }

    /// Says what a claim has left, as it is now.
    pub(super) fn measure(&mut self, bin: usize) {
        let held = &self.claims[bin - self.nodes()];
        let template = &self.problem.templates[held.template];
        let rest = |room: &[i64]| -> Vec<i64> {
            room.iter()
                .zip(&held.used)
                .map(|(room, used)| room - used)
                .collect()
        };
        let slack = rest(template.room(held.kind));
        let reach = rest(&template.known_row(self.bins.req[bin]).most);
        self.bins.set(bin, &slack, &reach);
    }

    pub(super) fn count_limits(&mut self, claim: usize, template: usize, kind: usize) {
        let left = &mut self.left[template];
        if left.is_empty() {
            return;
        }
        let types = &self.problem.templates[template].types;
        for (at, left) in left.iter_mut().enumerate() {
            let before = types
                .get(self.claims[claim].kind)
                .map_or(0, |kind| kind.counted[at]);
            let more = types[kind].counted[at] - before;
            self.freed |= more < 0 && self.met_limit.get();
            *left = left.saturating_sub(more);
        }
    }

    fn count(&mut self, class: usize, bin: usize) {
        let problem = &mut *self.problem;
        let labels: ReqId = self.bins.req[bin];
        let taints = self.bins.taints[bin];
        for group in &problem.classes[class].counted {
            let asked = &problem.groups[*group];
            if asked
                .filter
                .includes(&mut problem.space, &problem.tolerance, (labels, taints))
            {
                let place = (Some(bin), labels);
                self.counts
                    .add(&problem.space, (*group, asked), place, Counted::Selected);
            }
        }
        for group in &problem.classes[class].keeps {
            let asked = (*group, &problem.groups[*group]);
            self.counts
                .add(&problem.space, asked, (Some(bin), labels), Counted::Keeper);
        }
    }

    /// Whether a node can attach the volumes of a class beside those that are there. Of a claim its type decides.
    pub(super) fn volumes_fit(&self, class: usize, bin: usize) -> bool {
        self.volume_limit_hit(class, bin).is_none()
    }

    /// The driver of which a node cannot attach as many volumes, and how many it can.
    pub(in crate::scheduling) fn volume_limit_hit(&self, class: usize, bin: usize) -> Option<(String, u32)> {
        let class = &self.problem.classes[class];
        if class.volumes.is_empty() || bin >= self.nodes() {
            return None;
        }
        let node = &self.problem.snapshot.nodes[self.problem.hosts[bin].node];
        for (driver, limit) in &node.volume_limits {
            let wanted = class.volumes.iter().filter(|(of, _)| of == driver);
            let mut names: std::collections::BTreeSet<&str> = wanted.map(|(_, name)| name.as_str()).collect();
            if names.is_empty() {
                continue;
            }
            names.extend(node.volumes.get(driver).into_iter().flatten().map(String::as_str));
            let planned = self
                .volumes
                .range((bin, driver.clone(), String::new())..)
                .take_while(|(on, of, _)| *on == bin && of == driver);
            names.extend(planned.map(|(_, _, name)| name.as_str()));
            if names.len() > *limit as usize {
                return Some((driver.clone(), *limit));
            }
        }
        None
    }

    /// How many volumes of each driver a claim would attach with a pod of a class, and without one; none if a claim of
    /// its template may attach as many as it likes.
    pub(in crate::scheduling) fn attached(
        &self,
        template: usize,
        class: Option<usize>,
        bin: Option<usize>,
    ) -> Vec<(&str, u32)> {
        let more = class.map_or(&[][..], |class| &self.problem.classes[class].volumes);
        if (more.is_empty() && self.volumes.is_empty())
            || self.problem.templates[template].attachable.is_empty()
        {
            return Vec::new();
        }
        let from = bin.map(|bin| (bin, String::new(), String::new()));
        let there = from.into_iter().flat_map(|from| {
            let bin = from.0;
            self.volumes
                .range(from..)
                .take_while(move |(on, _, _)| *on == bin)
        });
        let all = there
            .map(|(_, driver, name)| (driver, name))
            .chain(more.iter().map(|(driver, name)| (driver, name)));
        let mut all: Vec<(&String, &String)> = all.collect();
        all.sort_unstable();
        all.dedup();
        let of_one = all.chunk_by(|one, other| one.0 == other.0);
        let count = |of: &[(&String, &String)]| u32::try_from(of.len()).unwrap_or(u32::MAX);
        of_one.map(|of| (of[0].0.as_str(), count(of))).collect()
    }

    /// The types that a claim can still be, which its cheapest type alone does not say.
    pub(in crate::scheduling) fn types_of(&self, claim: usize) -> Vec<u64> {
        let held = &self.claims[claim];
        let bin = self.nodes() + claim;
        let template = &self.problem.templates[held.template];
        let mut types = template.known_row(self.bins.req[bin]).types.clone();
        template.keep_fitting(&mut types, &held.used);
        template.keep_without_ports(&mut types, &self.bins.ports[bin]);
        template.keep_attaching(&mut types, &self.attached(held.template, None, Some(bin)));
        debug_assert!(bits::has(&types, held.kind));
        types
    }
}

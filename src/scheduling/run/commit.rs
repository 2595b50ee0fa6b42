//! Carries out a placement: room, labels, ports, volumes, counts and limits follow.

use super::super::bits;
use super::super::space::{ANYTHING, ReqId};
use super::super::topology::Counted;
use super::search::{Becomes, Spot};
use super::shapes::{Before, Step};
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
        self.attach(turn.class, bin);
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
        held.shape = self.shapes.after(before, Step::Pod(class.size), becomes);
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
        let row = template.known_row(self.bins.req[bin]);
        self.bins.set(bin, &slack, &rest(&row.most));
        self.volumes
            .set_most(bin, |driver| template.attaches_at_most(row, driver));
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

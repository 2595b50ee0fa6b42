//! Transcripts: what is told while a scenario is played in a world without faults of its own, line by line with the
//! simulated time. They are compared with files, so they are tests and documentation at once.

use std::time::Duration;

use super::picture::Picture;
use super::player::{Audience, Failure, Line, play};
use super::{Scenario, Scene, stage};
use crate::sim::world::Product;
use crate::sim::world::cluster::{Cluster, InstallError};

/// Why there is no transcript.
#[derive(Debug, thiserror::Error)]
pub enum NoTranscript {
    /// There is no runtime.
    #[error("starting the runtime")]
    Runtime(#[from] std::io::Error),
    /// The stage cannot be set.
    #[error("setting the stage")]
    Install(#[from] InstallError),
    /// A step did not happen; what was told until then.
    #[error("{failure}\n\n{so_far}")]
    Failed {
        /// Which, and why.
        failure: Box<Failure>,
        /// The lines before it.
        so_far: String,
    },
}

/// What was told, and a picture of it.
pub struct Told {
    /// Line by line.
    pub text: String,
    /// Machines and dollars over time.
    pub picture: Picture,
}

impl Audience for Told {
    fn hear(&mut self, line: Line) {
        self.text.push_str(&line.to_string());
        self.text.push('\n');
        self.picture.hear(line);
    }

    fn see(&mut self, at: Duration, scene: &Scene) {
        self.picture.see(at, scene);
    }
}

/// Plays a scenario as fast as it goes, and gives what was told.
pub fn transcript(scenario: &Scenario, seed: u64, product: &Product) -> Result<Told, NoTranscript> {
    // kube draws the jitter of its back-offs from this thread's generator.
    fastrand::seed(seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    let mut told = Told {
        text: String::new(),
        picture: Picture::new(&scenario.about),
    };
    runtime.block_on(async {
        let cluster = Cluster::new(seed, &scenario.region);
        let stage = stage::open(&cluster, &scenario.region, seed, product).await?;
        let played = play(scenario, &stage.hands, &mut told).await;
        played.map_err(|failure| NoTranscript::Failed {
            failure: Box::new(failure),
            so_far: told.text.clone(),
        })
    })?;
    Ok(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::mutants::Mutant;
    use crate::sim::world::product::{mutant, product};

    /// Two pods that no machine of the pool holds both of.
    const TWO: &str = r#"
name: two
about: Two pods, and a machine for each.
objects:
  - apiVersion: karpenter-ibm.sh/v1alpha1
    kind: IBMNodeClass
    metadata: {name: default}
    spec: {region: "${region}", vpc: "${vpc}", image: "${image}", securityGroups: ["${security-group}"]}
  - apiVersion: karpenter.sh/v1
    kind: NodePool
    metadata: {name: default}
    spec:
      template:
        spec:
          nodeClassRef: {group: karpenter-ibm.sh, kind: IBMNodeClass, name: default}
          requirements:
            - {key: node.kubernetes.io/instance-type, operator: In, values: [bxf-4x16]}
steps:
  - at: 30s
    apply:
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: web}
      spec:
        replicas: 2
        selector: {matchLabels: {app: web}}
        template:
          metadata: {labels: {app: web}}
          spec: {containers: [{name: a, image: a, resources: {requests: {cpu: "3"}}}]}
  - at: 2m
    say: Over.
"#;

    #[test]
    fn a_plan_that_is_not_legal_ends_the_play() {
        let scenario = Scenario::parse("two.yaml", TWO).unwrap();
        assert!(transcript(&scenario, 1, &product()).is_ok());
        let failed = transcript(&scenario, 1, &mutant(Mutant::Crowding)).err().unwrap();
        assert!(
            failed.to_string().starts_with("a plan is not legal: "),
            "{failed}"
        );
    }
}

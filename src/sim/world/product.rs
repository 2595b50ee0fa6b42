//! What runs in the world: the operator as it is, or a variant of it.

use std::path::PathBuf;
use std::sync::Arc;

use crate::ibm::secret::Secret;
use crate::operator::{self, ClusterAccess, Factory, RawSettings, SettingError, Settings};
use crate::sim::mutants::Mutant;

/// What a replica is told about where it runs.
#[derive(Clone, Debug)]
pub struct Surroundings {
    /// The region.
    pub region: String,
    /// The namespace that it is installed in.
    pub namespace: String,
    /// Its API key.
    pub api_key: String,
    /// Where machines find the cluster.
    pub cluster: ClusterAccess,
    /// The file that it is configured with.
    pub config_file: Option<PathBuf>,
}

/// Makes the factory of each replica, once it is known what surrounds it.
pub type Product = Arc<dyn Fn(&Surroundings, usize) -> Result<Factory, SettingError> + Send + Sync>;

/// The operator as it is.
pub fn product() -> Product {
    Arc::new(|surroundings, number| Ok(operator::factory(settings(surroundings, number)?)))
}

/// The operator, broken on purpose.
pub fn mutant(mutant: Mutant) -> Product {
    Arc::new(move |surroundings, number| Ok(mutant.factory(settings(surroundings, number)?)))
}

/// What the chart would set for replica `number`.
pub fn settings(surroundings: &Surroundings, number: usize) -> Result<Settings, SettingError> {
    let raw = RawSettings {
        api_key: Some(Secret::new(surroundings.api_key.clone())),
        region: Some(surroundings.region.clone()),
        namespace: Some(surroundings.namespace.clone()),
        pod: Some(format!("karpenter-ibm-{number}")),
        config_file: surroundings.config_file.clone(),
        ..RawSettings::default()
    };
    let mut settings = Settings::validate(&raw)?;
    settings.controllers.cluster = Some(surroundings.cluster.clone());
    Ok(settings)
}

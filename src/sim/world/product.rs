//! What runs in the world: the operator as it is, or a variant of it.
//!
//! Every plan that it makes for pods is looked at a second time, by [`audit`], before it is carried out.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use crate::audit;
use crate::ibm::secret::Secret;
use crate::operator::{
    ClusterAccess, Context, Factory, PriceSource, RawSettings, SettingError, Settings, factory_of,
};
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
    /// The file that it reads that from, if it is not told.
    pub api_key_file: Option<PathBuf>,
    /// Where machines find the cluster.
    pub cluster: ClusterAccess,
    /// The file that it is configured with.
    pub config_file: Option<PathBuf>,
    /// Where its prices come from.
    pub prices: PriceSource,
    /// How many machines there may be in all, if it is told.
    pub machines_max: Option<u64>,
    /// Who hears of plans that are not legal.
    pub alarm: Alarm,
}

/// Hears what is wrong with a plan.
#[derive(Clone)]
pub struct Alarm(pub Arc<dyn Fn(&audit::Finding) + Send + Sync>);

impl Alarm {
    /// Nobody listens.
    pub fn none() -> Self {
        Self(Arc::new(|_| ()))
    }

    /// The same context, every plan of which is looked at a second time.
    fn watch(self, mut context: Context) -> Context {
        let policy = context.settings.planning.min_values;
        context.compute = context.compute.then(move |snapshot, plan| {
            for finding in audit::plan_under(policy, snapshot, &plan) {
                (self.0)(&finding);
            }
            plan
        });
        context
    }
}

/// The first thing that was found to be wrong with a plan.
#[derive(Clone, Debug, Default)]
pub struct Findings(Arc<OnceLock<String>>);

impl Findings {
    /// Tells them what is found.
    pub fn alarm(&self) -> Alarm {
        let first = Arc::clone(&self.0);
        Alarm(Arc::new(move |finding| {
            // What is found later follows from it as often as not.
            let _ = first.set(finding.to_string());
        }))
    }

    /// What was found, if anything.
    pub fn first(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Alarm")
    }
}

/// Makes the factory of each replica, once it is known what surrounds it.
pub type Product = Arc<dyn Fn(&Surroundings, usize) -> Result<Factory, SettingError> + Send + Sync>;

/// The operator as it is.
pub fn product() -> Product {
    Arc::new(|surroundings, number| {
        let (settings, alarm) = (settings(surroundings, number)?, surroundings.alarm.clone());
        Ok(factory_of(
            settings,
            |edges| edges,
            move |context| alarm.clone().watch(context),
        ))
    })
}

/// The operator, broken on purpose.
pub fn mutant(mutant: Mutant) -> Product {
    Arc::new(move |surroundings, number| {
        let (settings, alarm) = (settings(surroundings, number)?, surroundings.alarm.clone());
        Ok(factory_of(
            settings,
            move |edges| mutant.edges(edges),
            move |context| alarm.clone().watch(mutant.context(context)),
        ))
    })
}

/// What the chart would set for replica `number`.
pub fn settings(surroundings: &Surroundings, number: usize) -> Result<Settings, SettingError> {
    let told = surroundings.api_key_file.is_none();
    let raw = RawSettings {
        api_key: told.then(|| Secret::new(surroundings.api_key.clone())),
        api_key_file: surroundings.api_key_file.clone(),
        region: Some(surroundings.region.clone()),
        namespace: Some(surroundings.namespace.clone()),
        pod: Some(format!("karpenter-ibm-{number}")),
        config_file: surroundings.config_file.clone(),
        machines_max: surroundings.machines_max,
        ..RawSettings::default()
    };
    let mut settings = Settings::validate(&raw)?;
    settings.prices = surroundings.prices;
    settings.controllers.cluster = Some(surroundings.cluster.clone());
    Ok(settings)
}

//! The resource group of a class's machines: with their names it marks them as ours.

use crate::api::IBMNodeClass;
use crate::cloud;
use crate::controllers::context::Context;

/// The id of the group: what was recorded when the class was first resolved, and before that what the cloud says. Nothing
/// was ever bought for a class that was never resolved, so one that may not be used is not asked about.
pub async fn group_of(context: &Context, class: &IBMNodeClass) -> Result<Option<String>, cloud::Error> {
    if let Some(recorded) = class.recorded_group() {
        return Ok(Some(recorded.to_owned()));
    }
    if !context.settings.allowed.refusals(&class.spec).is_empty() {
        return Ok(None);
    }
    let written = class.spec.resource_group.as_deref();
    context.cloud.resource_group(written).await
}

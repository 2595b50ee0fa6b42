//! stub
use crate::sim::kube::schema::Cause;
use serde_json::Value;
/// stub
pub fn problems(_object: &Value, _old: Option<&Value>, _subresource: Option<&str>) -> Vec<Cause> {
    Vec::new()
}

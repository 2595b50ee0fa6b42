//! Who owns which field.

use serde_json::Value;

use crate::sim::kube::object;
use crate::sim::kube::request::Ask;
use crate::sim::kube::server::ApiServer;

/// Records the fields of a new object as its creator's.
pub fn created(_ask: &Ask, _server: &ApiServer, _object: &mut Value) {}

/// Records changed fields as their changer's.
pub fn updated(_ask: &Ask, _server: &ApiServer, _old: &Value, _object: &mut Value) {}

/// Whether nothing but the record of ownership differs: a write that changes nothing emits nothing.
pub fn same(old: &Value, new: &Value) -> bool {
    let bare = |object: &Value| {
        let mut object = object.clone();
        object::metadata_mut(&mut object).remove("managedFields");
        object
    };
    bare(old) == bare(new)
}

use serde_json::{Value, json};

use super::*;

fn schema(open_api_v3_schema: &Value) -> Schema {
    Schema::compile(open_api_v3_schema).unwrap()
}

/// A schema whose `spec` is the given one.
fn with_spec(spec: &Value) -> Schema {
    schema(&json!({"type": "object", "properties": {"spec": spec}}))
}

fn causes(schema: &Schema, spec: &Value, old: Option<&Value>) -> Vec<(String, &'static str, String)> {
    let old = old.map(|old| json!({"spec": old}));
    let causes = schema.admit(
        &mut json!({"apiVersion": "v1", "kind": "X", "spec": spec}),
        old.as_ref(),
    );
    causes
        .into_iter()
        .map(|cause| (cause.field, cause.reason.as_str(), cause.message))
        .collect()
}

fn only(schema: &Schema, spec: &Value) -> (String, &'static str, String) {
    let mut causes = causes(schema, spec, None);
    causes.retain(|cause| !cause.2.contains("were not checked"));
    assert_eq!(causes.len(), 1, "{causes:#?}");
    causes.remove(0)
}

fn cause(field: &str, reason: &'static str, message: &str) -> (String, &'static str, String) {
    (field.to_owned(), reason, message.to_owned())
}

#[test]
fn unknown_fields_are_pruned_and_reported_and_metadata_stays() {
    let schema = schema(
        &json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "integer"}}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"p": {"type": "object"}}},
        }}}}),
    );
    let mut object = json!({
        "apiVersion": "v1", "kind": "X", "metadata": {"name": "x", "labels": {"a": "b"}}, "other": 1,
        "spec": {
            "list": [{"a": 1, "b": 2}], "map": {"k": {"a": 1, "b": 2}}, "free": {"x": {"y": 1}, "p": {"q": 1}}, "c": {},
        },
    });
    assert_eq!(
        schema.unknown_fields(&object),
        [
            "other",
            "spec.c",
            "spec.free.p.q",
            "spec.list[0].b",
            "spec.map.k.b"
        ]
    );
    schema.prune(&mut object);
    assert_eq!(
        object,
        json!({
            "apiVersion": "v1", "kind": "X", "metadata": {"name": "x", "labels": {"a": "b"}},
            "spec": {"list": [{"a": 1}], "map": {"k": {"a": 1}}, "free": {"x": {"y": 1}, "p": {}}},
        })
    );
}

#[test]
fn an_embedded_resource_keeps_its_metadata() {
    let schema = with_spec(&json!({"type": "object", "properties": {"template": {
        "type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}},
    }}}));
    let object = json!({"spec": {"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "data": 1}}});
    assert_eq!(schema.unknown_fields(&object), ["spec.template.data"]);
}

#[test]
fn a_null_is_an_absence_unless_the_schema_allows_it() {
    let schema = with_spec(&json!({"type": "object", "required": ["needed"], "properties": {
        "plain": {"type": "string"},
        "defaulted": {"type": "string", "default": "x"},
        "nullable": {"type": "string", "nullable": true, "default": "x"},
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "list": {"type": "array", "items": {"type": "string"}},
        "needed": {"type": "string"},
    }}));
    let mut object = json!({"spec": {
        "plain": null, "defaulted": null, "nullable": null, "map": {"a": null, "b": "c"}, "list": [null], "needed": null,
    }});
    let causes = schema.admit(&mut object, None);
    assert_eq!(
        object["spec"],
        json!({"defaulted": "x", "nullable": null, "map": {"b": "c"}, "list": [null]})
    );
    let fields: Vec<&str> = causes.iter().map(|cause| cause.field.as_str()).collect();
    assert_eq!(fields, ["spec.list[0]", "spec.needed", ""]);
}

#[test]
fn defaults_fill_in_at_every_depth_but_only_where_the_parent_is() {
    let schema = with_spec(&json!({"type": "object", "properties": {
        "whole": {"type": "object", "default": {}, "properties": {"a": {"type": "integer", "default": 1}}},
        "absent": {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}}},
    }}));
    let mut object = json!({"spec": {"list": [{}, {"a": 2}], "map": {"k": {}}}});
    schema.apply_defaults(&mut object);
    assert_eq!(
        object["spec"],
        json!({"whole": {"a": 1}, "list": [{"a": 1}, {"a": 2}], "map": {"k": {"a": 1}}})
    );
}

/// The reason and message about a value at `spec.x` with the given schema.
fn said(keywords: &Value, value: &Value) -> (&'static str, String) {
    let schema = with_spec(&json!({"type": "object", "properties": {"x": keywords}}));
    let (field, reason, message) = only(&schema, &json!({"x": value}));
    assert_eq!(field, "spec.x");
    (reason, message)
}

#[test]
fn texts_are_judged_in_the_words_of_an_api_server() {
    let text = |keyword: &str, bound: Value, value: &str| {
        said(&json!({"type": "string", keyword: bound}), &json!(value))
    };
    let invalid = |message: &str| ("FieldValueInvalid", message.to_owned());
    assert_eq!(
        text("maxLength", json!(1), "äö"),
        (
            "FieldValueTooLong",
            "Too long: may not be more than 1 byte".into()
        )
    );
    let message = r#"Invalid value: "ä": spec.x in body should be at least 2 chars long"#;
    assert_eq!(text("minLength", json!(2), "ä"), invalid(message));
    let message = r#"Invalid value: "b": spec.x in body should match '^a$'"#;
    assert_eq!(text("pattern", json!("^a$"), "b"), invalid(message));
    let message = r#"Invalid value: "b": spec.x in body must be of type date-time: "b""#;
    assert_eq!(
        text("format", json!("date-time"), "b"),
        ("FieldValueTypeInvalid", message.into())
    );
    let message = r#"Unsupported value: "c": supported values: "a", "b""#;
    assert_eq!(
        text("enum", json!(["a", "b"]), "c"),
        ("FieldValueNotSupported", message.into())
    );
}

#[test]
fn numbers_are_judged_in_the_words_of_an_api_server() {
    let invalid = |message: &str| ("FieldValueInvalid", message.to_owned());
    assert_eq!(
        said(&json!({"type": "integer", "minimum": 1}), &json!(0)),
        invalid("Invalid value: 0: spec.x in body should be greater than or equal to 1")
    );
    assert_eq!(
        said(
            &json!({"type": "integer", "maximum": 1, "exclusiveMaximum": true}),
            &json!(1)
        ),
        invalid("Invalid value: 1: spec.x in body should be less than 1")
    );
    assert_eq!(
        said(&json!({"type": "integer", "multipleOf": 2}), &json!(3)),
        invalid("Invalid value: 3: spec.x in body should be a multiple of 2")
    );
}

#[test]
fn lists_and_maps_are_judged_in_the_words_of_an_api_server() {
    let too_many = (
        "FieldValueTooMany",
        "Too many: 2: must have at most 1 item".to_owned(),
    );
    let list = |keyword: &str| json!({"type": "array", keyword: 1, "items": {"type": "integer"}});
    assert_eq!(said(&list("maxItems"), &json!([1, 2])), too_many);
    let few = "Invalid value: 0: spec.x in body should have at least 1 items";
    assert_eq!(
        said(&list("minItems"), &json!([])),
        ("FieldValueInvalid", few.to_owned())
    );
    let map =
        |keyword: &str| json!({"type": "object", keyword: 1, "additionalProperties": {"type": "integer"}});
    assert_eq!(said(&map("maxProperties"), &json!({"a": 1, "b": 2})), too_many);
    let few = "Invalid value: 0: spec.x in body should have at least 1 properties";
    assert_eq!(
        said(&map("minProperties"), &json!({})),
        ("FieldValueInvalid", few.to_owned())
    );
    let required = with_spec(&json!({"type": "object", "required": ["x"]}));
    assert_eq!(
        only(&required, &json!({})),
        cause("spec.x", "FieldValueRequired", "Required value")
    );
}

#[test]
fn a_wrong_type_is_named_beside_the_right_one() {
    for (keywords, value, message) in [
        (
            json!({"type": "integer"}),
            json!("a"),
            r#"Invalid value: "string": spec.x in body must be of type integer: "string""#,
        ),
        (
            json!({"x-kubernetes-int-or-string": true}),
            json!(0.5),
            r#"Invalid value: "number": spec.x in body must be of type integer,string: "number""#,
        ),
        (
            json!({"type": "string", "format": "date-time"}),
            json!(5),
            r#"Invalid value: "int64": spec.x in body must be of type date-time: "int64""#,
        ),
    ] {
        assert_eq!(
            said(&keywords, &value),
            ("FieldValueTypeInvalid", message.to_owned())
        );
    }
}

#[test]
fn whole_floats_are_integers_as_far_as_floats_are_exact() {
    let schema = with_spec(&json!({"type": "integer"}));
    for whole in [
        json!(2.0),
        json!(-3),
        json!(9_007_199_254_740_991.0),
        json!(i64::MAX),
    ] {
        assert_eq!(causes(&schema, &whole, None), [], "{whole}");
    }
    for other in [json!(2.5), json!(1e19), json!(u64::MAX), json!("2")] {
        assert_ne!(causes(&schema, &other, None), [], "{other}");
    }
}

#[test]
fn sets_and_maps_have_no_element_twice() {
    let set =
        with_spec(&json!({"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}));
    assert_eq!(
        only(&set, &json!(["a", "b", "a", "a"])),
        cause("spec[2]", "FieldValueDuplicate", r#"Duplicate value: "a""#)
    );
    let map = with_spec(&json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["n", "p"],
        "items": {"type": "object", "properties": {"n": {"type": "string"}, "p": {"type": "integer"}}},
    }));
    assert_eq!(
        causes(
            &map,
            &json!([{"n": "a", "p": 1}, {"n": "a", "p": 2}, {"n": "a"}]),
            None
        ),
        []
    );
    assert_eq!(
        only(&map, &json!([{"n": "a", "p": 1}, {"p": 1, "n": "a"}])),
        cause(
            "spec[1]",
            "FieldValueDuplicate",
            r#"Duplicate value: {"n":"a","p":1}"#
        )
    );
}

#[test]
fn branches_blame_the_whole_object() {
    let schema = with_spec(&json!({
        "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    }));
    assert_eq!(causes(&schema, &json!({"a": 1}), None), []);
    let message = r#"Invalid value: "": "spec" must validate one and only one schema (oneOf)"#;
    assert_eq!(
        only(&schema, &json!({"a": 1, "b": 2})),
        cause("", "FieldValueInvalid", message)
    );
}

#[test]
fn rules_run_at_their_field_and_say_their_message() {
    let schema = with_spec(&json!({
        "type": "object", "properties": {"a": {"type": "integer"}, "name": {"type": "string"}},
        "x-kubernetes-validations": [
            {"rule": "self.a > 1", "message": "a is small"},
            {"rule": "self.a > 1", "reason": "FieldValueForbidden", "fieldPath": ".a", "message": "not allowed"},
            {"rule": "self.a > 1", "reason": "FieldValueRequired", "message": "more of a"},
        ],
    }));
    assert_eq!(causes(&schema, &json!({"a": 2}), None), []);
    assert_eq!(
        causes(&schema, &json!({"a": 1}), None),
        [
            cause("spec", "FieldValueInvalid", "Invalid value: a is small"),
            cause("spec.a", "FieldValueForbidden", "Forbidden: not allowed"),
            cause("spec", "FieldValueRequired", "Required value: more of a"),
        ]
    );
}

#[test]
fn a_rule_that_cannot_be_evaluated_does_not_hold() {
    let schema = with_spec(&json!({
        "type": "object", "properties": {"a": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.a > 1", "message": "a is small"}],
    }));
    let (field, reason, message) = only(&schema, &json!({}));
    assert_eq!((field.as_str(), reason), ("spec", "FieldValueInvalid"));
    assert!(message.ends_with("evaluating rule: a is small"), "{message}");
}

#[test]
fn rules_do_not_run_on_an_object_of_the_wrong_shape() {
    let schema = with_spec(&json!({
        "type": "object", "required": ["b"], "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.a > 1"}],
    }));
    let causes = causes(&schema, &json!({"a": 1}), None);
    assert_eq!(causes.len(), 2, "{causes:#?}");
    assert!(causes[1].2.contains("some validation rules were not checked"));
}

#[test]
fn transition_rules_compare_with_the_old_value_and_not_on_create() {
    let schema = with_spec(&json!({"type": "object", "properties": {"a": {
        "type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "never less"}],
    }}}));
    assert_eq!(causes(&schema, &json!({"a": 1}), None), []);
    assert_eq!(causes(&schema, &json!({"a": 1}), Some(&json!({}))), []);
    assert_eq!(causes(&schema, &json!({"a": 2}), Some(&json!({"a": 1}))), []);
    let refused = causes(&schema, &json!({"a": 1}), Some(&json!({"a": 2})));
    assert_eq!(
        refused,
        [cause(
            "spec.a",
            "FieldValueInvalid",
            "Invalid value: 1: never less"
        )]
    );
}

#[test]
fn an_update_may_keep_what_breaks_a_rule_unless_the_rule_is_about_changes() {
    let rules = |rule: &str| {
        let item =
            json!({"type": "integer", "x-kubernetes-validations": [{"rule": rule, "message": "broken"}]});
        with_spec(
            &json!({"type": "object", "properties": {"a": item, "all": {"type": "array", "items": item}}}),
        )
    };
    let (old, changed) = (json!({"a": 1, "all": [1, 2]}), json!({"a": 1, "all": [1, 3]}));
    let positive = rules("self > 1");
    assert_eq!(
        causes(&positive, &old, None).len(),
        2,
        "it could not be made any more"
    );
    assert_eq!(causes(&positive, &old, Some(&old)), []);
    assert_eq!(
        causes(&positive, &changed, Some(&old)).len(),
        1,
        "the list is another"
    );
    assert_eq!(causes(&rules("self != oldSelf"), &old, Some(&old)).len(), 1);
}

#[test]
fn elements_of_a_list_map_are_compared_by_key_and_those_of_other_lists_not_at_all() {
    let list = |list_type: &str| {
        with_spec(&json!({
            "type": "array", "x-kubernetes-list-type": list_type, "x-kubernetes-list-map-keys": ["n"],
            "items": {
                "type": "object", "properties": {"n": {"type": "string"}, "v": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": "self.v == oldSelf.v", "message": "immutable"}],
            },
        }))
    };
    let old = json!([{"n": "a", "v": 1}, {"n": "b", "v": 2}]);
    let reordered = json!([{"n": "b", "v": 2}, {"n": "c", "v": 9}, {"n": "a", "v": 1}]);
    assert_eq!(causes(&list("map"), &reordered, Some(&old)), []);
    let changed = json!([{"n": "b", "v": 3}]);
    assert_eq!(
        causes(&list("map"), &changed, Some(&old)),
        [cause("spec[0]", "FieldValueInvalid", "Invalid value: immutable")]
    );
    assert_eq!(causes(&list("atomic"), &changed, Some(&old)), []);
}

#[test]
fn keys_of_a_map_are_in_brackets_where_a_rule_blames_them() {
    let schema = with_spec(&json!({"type": "object", "additionalProperties": {
        "type": "integer", "maximum": 5, "x-kubernetes-validations": [{"rule": "self < 3", "message": "too much"}],
    }}));
    assert_eq!(only(&schema, &json!({"a": 4})).0, "spec[a]");
    assert!(
        causes(&schema, &json!({"a": 6}), None)
            .iter()
            .any(|cause| cause.0 == "spec.a")
    );
}

#[test]
fn the_whole_object_can_be_ruled_by_its_name() {
    let schema = schema(&json!({
        "type": "object", "properties": {"spec": {"type": "object"}},
        "x-kubernetes-validations": [{"rule": "self.metadata.name == 'x'", "message": "only x"}],
    }));
    assert_eq!(schema.admit(&mut json!({"metadata": {"name": "x"}}), None), []);
    let causes = schema.admit(&mut json!({"metadata": {"name": "y"}}), None);
    assert_eq!(causes[0].field, "");
    assert_eq!(causes[0].to_string(), "<nil>: Invalid value: only x");
}

#[test]
fn a_schema_that_cannot_work_is_refused_with_the_place() {
    for (keywords, expected) in [
        (
            json!({"type": "string", "pattern": "("}),
            r#".spec: pattern "(" does not compile"#,
        ),
        (json!({"type": "array", "items": 5}), ".spec[]: not a schema"),
        (
            json!({"type": "string", "x-kubernetes-validations": [{"rule": "self =="}]}),
            ".spec: failed to compile CEL rule",
        ),
    ] {
        let error =
            Schema::compile(&json!({"type": "object", "properties": {"spec": keywords}})).unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}

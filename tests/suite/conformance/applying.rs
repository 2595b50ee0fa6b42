//! Server-side apply: creation, ownership, conflicts, giving up.

use serde_json::{Value, json};

use super::Lab;
use super::objects::{With, config, version_of};
use super::widgets::widget;

fn data(values: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": values})
}

#[tokio::test]
async fn what_is_applied_is_made_changed_and_given_up() {
    let mut lab = Lab::open("applying").await;
    lab.compare_ownership();
    lab.apply("one", "configmaps/a", &data(&json!({"k": "1", "l": "1"})))
        .is("201")
        .await;
    lab.apply("one", "configmaps/a", &data(&json!({"k": "1", "l": "1"})))
        .is("200")
        .await;
    lab.apply("one", "configmaps/a", &data(&json!({"k": "2"})))
        .is("200")
        .await;
    lab.apply("two", "configmaps/a", &data(&json!({"m": "1"})))
        .is("200")
        .await;
    lab.apply("two", "configmaps/a", &data(&json!({"k": "2"})))
        .is("200")
        .await;
    lab.apply("one", "configmaps/a", &data(&json!({})))
        .is("200")
        .await;
    lab.apply("two", "configmaps/a", &data(&json!({})))
        .is("200")
        .await;
    lab.get("configmaps/a").is("200").await;
}

#[tokio::test]
async fn a_field_of_another_owner_is_a_conflict_unless_forced() {
    let mut lab = Lab::open("applying").await;
    lab.compare_ownership();
    lab.apply("one", "configmaps/a", &data(&json!({"k": "1", "l": "1"})))
        .is("201")
        .await;
    lab.apply("two", "configmaps/a", &data(&json!({"k": "2", "l": "2"})))
        .is("409 Conflict .data.k .data.l")
        .await;
    lab.apply("two", "configmaps/a?force=true", &data(&json!({"k": "2"})))
        .is("200")
        .await;
    lab.apply("one", "configmaps/a", &data(&json!({"k": "1", "l": "1"})))
        .is("409 Conflict .data.k")
        .await;
    lab.merge_patch("configmaps/a?fieldManager=three", &json!({"data": {"l": "3"}}))
        .is("200")
        .await;
    lab.apply("one", "configmaps/a", &data(&json!({"l": "1"})))
        .is("409 Conflict .data.l")
        .await;
    lab.apply("one", "configmaps/a", &data(&json!({"l": "3"})))
        .is("200")
        .await;
}

#[tokio::test]
async fn an_update_owns_what_it_changes() {
    let mut lab = Lab::open("applying").await;
    lab.compare_ownership();
    lab.post("configmaps?fieldManager=maker", &config("a"))
        .is("201")
        .await;
    lab.put(
        "configmaps/a?fieldManager=changer",
        &config("a").with("data/l", json!("2")),
    )
    .is("200")
    .await;
    lab.merge_patch(
        "configmaps/a?fieldManager=patcher",
        &json!({"data": {"k": "9"}, "metadata": {"labels": {"a": "b"}}}),
    )
    .is("200")
    .await;
    lab.merge_patch("configmaps/a?fieldManager=patcher", &json!({"data": {"l": null}}))
        .is("200")
        .await;
    lab.apply("one", "configmaps/a", &data(&json!({"k": "9"})))
        .is("200")
        .await;
    lab.merge_patch(
        "configmaps/a?fieldManager=patcher",
        &json!({"metadata": {"managedFields": [{}]}}),
    )
    .is("200")
    .await;
    lab.apply("one", "configmaps/a", &data(&json!({"k": "10"})))
        .compare()
        .await;
}

#[tokio::test]
async fn lists_are_owned_by_their_keys() {
    let mut lab = Lab::with_widgets("applying").await;
    lab.compare_ownership();
    let with_parts = |parts: Value| json!({"apiVersion": "conformance.example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 1, "parts": parts}});
    lab.apply(
        "one",
        "widgets/a",
        &with_parts(json!([{"name": "x"}, {"name": "y", "count": 2}])),
    )
    .is("201")
    .await;
    lab.apply("two", "widgets/a", &with_parts(json!([{"name": "z"}])))
        .is("200")
        .await;
    lab.apply(
        "one",
        "widgets/a",
        &with_parts(json!([{"name": "y", "count": 2}])),
    )
    .is("200")
    .await;
    lab.apply(
        "two",
        "widgets/a",
        &with_parts(json!([{"name": "y", "count": 5}])),
    )
    .is("409 Conflict")
    .await;
    let with_tags = |tags: Value| widget("a").with("spec/tags", tags);
    lab.apply("one", "widgets/a", &with_tags(json!(["p", "q"])))
        .is("200")
        .await;
    lab.apply("two", "widgets/a", &with_tags(json!(["q", "r"])))
        .is("200")
        .await;
    lab.apply("one", "widgets/a", &with_tags(json!(["p"])))
        .is("200")
        .await;
    lab.apply("one", "widgets/a", &widget("a").with("spec/steps", json!(["s"])))
        .is("200")
        .await;
    lab.apply("two", "widgets/a", &widget("a").with("spec/steps", json!(["t"])))
        .is("409 Conflict")
        .await;
    lab.apply(
        "one",
        "widgets/a",
        &with_parts(json!([{"name": "x"}, {"name": "x"}])),
    )
    .compare()
    .await;
    lab.apply("one", "widgets/a", &with_parts(json!([{"count": 1}])))
        .compare()
        .await;
}

#[tokio::test]
async fn containers_are_owned_by_their_names() {
    let mut lab = Lab::open("applying").await;
    lab.compare_ownership();
    let with = |containers: Value| {
        json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "a"},
               "template": {"spec": {"containers": containers}}})
    };
    let path = "podtemplates/a";
    lab.apply(
        "one",
        path,
        &with(json!([{"name": "main", "image": "none", "ports": [{"containerPort": 80}]}])),
    )
    .is("201")
    .await;
    lab.apply("two", path, &with(json!([{"name": "side", "image": "none"}])))
        .is("200")
        .await;
    let image = with(json!([{"name": "main", "image": "new"}]));
    lab.apply("two", path, &image).is("409 Conflict").await;
    lab.apply("two", &format!("{path}?force=true"), &image)
        .is("200")
        .await;
    lab.apply(
        "one",
        path,
        &with(json!([{"name": "main", "ports": [{"containerPort": 81}]}])),
    )
    .is("200")
    .await;
    lab.strategic_patch(
        &format!("{path}?fieldManager=three"),
        &json!({"template": {"spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "1"}]}]}}}),
    )
    .is("200")
    .await;
}

#[tokio::test]
async fn status_is_applied_on_its_own_path() {
    let mut lab = Lab::with_widgets("applying").await;
    lab.compare_ownership();
    lab.apply(
        "one",
        "widgets/a",
        &widget("a").with("status/phase", json!("New")),
    )
    .is("201")
    .await;
    let status = |condition: &str| {
        json!({"apiVersion": "conformance.example.com/v1", "kind": "Widget", "metadata": {"name": "a"},
               "status": {"conditions": [{"type": condition, "status": "True"}]}})
    };
    lab.apply("one", "widgets/a/status", &status("Ready"))
        .is("200")
        .await;
    lab.apply("two", "widgets/a/status", &status("Happy"))
        .is("200")
        .await;
    lab.apply("one", "widgets/a/status", &status("Sad"))
        .is("200")
        .await;
    lab.apply(
        "one",
        "widgets/b/status",
        &status("Ready").with("metadata/name", json!("b")),
    )
    .is("404 NotFound")
    .await;
    lab.get("widgets/a").is("200").await;
}

#[tokio::test]
async fn an_apply_says_who_and_what() {
    let mut lab = Lab::open("applying").await;
    lab.step(
        http::Method::PATCH,
        "configmaps/a",
        data(&json!({})).to_string().into_bytes(),
    )
    .header("content-type", "application/apply-patch+yaml")
    .compare()
    .await;
    lab.apply("one", "configmaps/a", &json!({"metadata": {"name": "a"}}))
        .is("400 BadRequest")
        .await;
    lab.apply(
        "one",
        "configmaps/a",
        &data(&json!({})).with("metadata/name", json!("b")),
    )
    .is("400 BadRequest")
    .await;
    lab.apply(
        "one",
        "configmaps/a",
        &data(&json!({})).with("kind", json!("Secret")),
    )
    .compare()
    .await;
    lab.apply("one", "configmaps/a", &data(&json!({"k": 1})))
        .compare()
        .await;
    lab.apply(
        "one",
        "configmaps/a",
        &data(&json!({})).with("metadata/managedFields", json!([])),
    )
    .compare()
    .await;
    lab.apply(
        "one",
        "configmaps/a",
        &data(&json!({})).with("metadata/managedFields", json!([{"manager": "x"}])),
    )
    .compare()
    .await;
    lab.apply("one", "configmaps/a", &data(&json!({})).with("unknown", json!(1)))
        .compare()
        .await;
}

#[tokio::test]
async fn an_apply_may_name_a_version_and_be_a_dry_run() {
    let mut lab = Lab::open("applying").await;
    lab.apply("one", "configmaps/a", &data(&json!({"k": "1"})))
        .keep("made")
        .is("201")
        .await;
    let versioned = data(&json!({"k": "2"})).with("metadata/resourceVersion", version_of("made"));
    lab.apply("one", "configmaps/a", &versioned).compare().await;
    lab.apply("one", "configmaps/a", &versioned).compare().await;
    lab.apply(
        "one",
        "configmaps/c",
        &versioned.with("metadata/name", json!("c")),
    )
    .compare()
    .await;
    lab.apply(
        "one",
        "configmaps/d?dryRun=All",
        &data(&json!({})).with("metadata/name", json!("d")),
    )
    .compare()
    .await;
    lab.get("configmaps/d").is("404 NotFound").await;
    lab.merge_patch("configmaps/a?force=true", &json!({}))
        .compare()
        .await;
    lab.apply(&"x".repeat(129), "configmaps/a", &data(&json!({})))
        .compare()
        .await;
}

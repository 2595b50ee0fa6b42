"""IBM's official SDK against the simulated IBM Cloud.

The SDK is the judge: its request paths, its authenticator and its pagers were not written by us. Run by
hack/sdk-test, with the simulator's address and the binary as arguments.
"""

import subprocess
import sys
import time
import traceback

from ibm_cloud_sdk_core import ApiException
from ibm_cloud_sdk_core.authenticators import (
    ContainerAuthenticator,
    IAMAuthenticator,
    NoAuthAuthenticator,
)
from ibm_cloud_sdk_core.token_managers.iam_token_manager import IAMTokenManager
from ibm_platform_services import (
    GlobalCatalogV1,
    GlobalSearchV2,
    GlobalTaggingV1,
    ResourceManagerV2,
)
from ibm_vpc import VpcV1
from ibm_vpc.vpc_v1 import InstanceProfilesPager, InstancesPager

URL, BINARY = sys.argv[1:3]
API_KEY = "demo-api-key"


def service(kind, path, authenticator=None, **options):
    made = kind(authenticator=authenticator or IAMAuthenticator(API_KEY, url=URL), **options)
    made.set_service_url(URL + path)
    return made


vpc = service(VpcV1, "/v1")
catalog = service(GlobalCatalogV1, "/api/v1", NoAuthAuthenticator())
tagging = service(GlobalTaggingV1, "")
search = service(GlobalSearchV2, "")
groups = service(ResourceManagerV2, "")


def until(what, read, limit=30.0):
    """Reads until the answer is true; a simulated minute takes a second."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        answer = read()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError(f"never happened: {what}")


def refused(call):
    """The error that a call must end with."""
    try:
        call()
    except ApiException as error:
        return error
    raise AssertionError("the call was not refused")


def code(error):
    return error.http_response.json()["errors"][0]["code"]


def status(instance):
    return vpc.get_instance(instance).get_result()["status"]


def prototype(name, **fields):
    zone = "us-south-1"
    subnet = vpc.list_subnets(zone_name=zone).get_result()["subnets"][0]
    image = vpc.list_images(status=["available"], visibility="public").get_result()["images"][0]
    return {
        "name": name,
        "profile": {"name": "bxf-2x8"},
        "image": {"id": image["id"]},
        "zone": {"name": zone},
        "vpc": {"id": subnet["vpc"]["id"]},
        "primary_network_attachment": {
            "virtual_network_interface": {"auto_delete": True, "subnet": {"id": subnet["id"]}}
        },
        **fields,
    }


def create_spot(name):
    spot = prototype(
        name,
        availability={"class": "spot"},
        availability_policy={"host_failure": "restart", "preemption": "stop"},
        reservation_affinity={"policy": "disabled", "pool": []},
    )
    answer = vpc.create_instance(spot)
    assert answer.get_status_code() == 201
    return answer.get_result()


def delete(instance):
    assert vpc.delete_instance(instance).get_status_code() == 204
    return until("gone", lambda: gone(instance))


def gone(instance):
    try:
        vpc.get_instance(instance)
    except ApiException as error:
        assert error.code == 404 and code(error) == "not_found", error
        return True
    return False


def test_a_token_lives_an_hour():
    token = IAMTokenManager(API_KEY, url=URL).request_token()
    assert token["token_type"] == "Bearer" and token["expires_in"] == 3600


def test_a_wrong_api_key_is_refused_in_iams_own_words():
    wrong = service(VpcV1, "/v1", IAMAuthenticator("wrong", url=URL))
    error = refused(wrong.list_regions)
    assert error.code == 400, error
    assert error.http_response.json()["errorCode"] == "BXNIM0415E"
    assert error.message == "Provided API key could not be found."


def test_a_compute_token_is_exchanged_for_a_trusted_profile():
    from tempfile import NamedTemporaryFile

    with NamedTemporaryFile("w") as file:
        file.write("header.claims.signature")
        file.flush()
        authenticator = ContainerAuthenticator(
            cr_token_filename=file.name, iam_profile_name="demo-profile", url=URL
        )
        assert service(VpcV1, "/v1", authenticator).list_regions().get_status_code() == 200


def test_regions_and_zones():
    names = [region["name"] for region in vpc.list_regions().get_result()["regions"]]
    assert "us-south" in names and "eu-de" in names
    zones = vpc.list_region_zones("us-south").get_result()["zones"]
    assert [zone["name"] for zone in zones] == ["us-south-1", "us-south-2", "us-south-3"]


def test_profiles_come_in_pages():
    first = vpc.list_instance_profiles(limit=100).get_result()
    assert len(first["profiles"]) == 100 and "next" in first
    every = InstanceProfilesPager(client=vpc, limit=100).get_all()
    assert len(every) == first["total_count"]
    flex = next(profile for profile in every if profile["name"] == "bxf-4x16")
    assert flex["availability_class"]["values"] == ["standard", "spot"]
    assert vpc.get_instance_profile("bxf-4x16").get_result() == flex


def test_profiles_of_an_older_version_come_at_once():
    older = service(VpcV1, "/v1", version="2026-04-06")
    answer = older.list_instance_profiles().get_result()
    assert "next" not in answer and len(answer["profiles"]) > 100


def test_a_profile_that_is_missing():
    error = refused(lambda: vpc.get_instance_profile("bxf-3x7"))
    assert error.code == 404 and code(error) == "not_found"
    unknown = prototype("missing-profile", profile={"name": "bxf-3x7"})
    assert refused(lambda: vpc.create_instance(unknown)).code == 404


def test_a_spot_instance_from_birth_to_death():
    made = create_spot("sdk-life")
    instance = made["id"]
    assert made["status"] == "pending" and made["availability"]["class"] == "spot"
    until("running", lambda: status(instance) == "running")
    found = vpc.list_instances(name="sdk-life").get_result()["instances"]
    assert [one["id"] for one in found] == [instance]
    address = found[0]["primary_network_attachment"]["primary_ip"]["address"]
    assert address.startswith("10.240.")

    renamed = vpc.update_instance(instance, {"name": "sdk-life-x1"}).get_result()
    assert renamed["name"] == "sdk-life-x1"
    assert vpc.list_instances(name="sdk-life").get_result()["instances"] == []

    subprocess.run([BINARY, "cloud", "preempt", "sdk-life-x1", "--endpoint", URL], check=True)
    assert status(instance) == "stopping"
    until("stopped", lambda: status(instance) == "stopped")
    reasons = vpc.get_instance(instance).get_result()["status_reasons"]
    assert [reason["code"] for reason in reasons] == ["stopped_by_preemption"]
    delete(instance)


def test_a_list_by_class_over_three_pages():
    made = [create_spot(f"sdk-page-{number}")["id"] for number in range(5)]
    standard = vpc.create_instance(prototype("sdk-page-standard")).get_result()["id"]
    pager = InstancesPager(client=vpc, availability_class="spot", limit=2)
    pages = []
    while pager.has_next():
        pages.append(pager.get_next())
    ids = [one["id"] for page in pages for one in page]
    assert [len(page) for page in pages] == [2, 2, 1], pages
    assert sorted(ids) == sorted(made)
    for instance in [*made, standard]:
        delete(instance)


def test_a_duplicate_name_is_a_400():
    instance = create_spot("sdk-twin")["id"]
    error = refused(lambda: create_spot("sdk-twin"))
    assert error.code == 400 and code(error) == "validation_unique_failed", error
    assert error.http_response.json()["trace"]
    delete(instance)


def test_an_unknown_field_is_refused():
    error = refused(lambda: vpc.create_instance(prototype("sdk-odd", user_tags=["a:b"])))
    assert error.code == 400 and code(error) == "invalid_request_field"


def test_a_stale_etag_is_refused():
    instance = create_spot("sdk-etag")["id"]
    error = refused(lambda: vpc.delete_instance(instance, if_match='W/"stale"'))
    assert error.code == 412
    delete(instance)


def test_actions_and_sub_lists():
    instance = create_spot("sdk-actions")["id"]
    until("running", lambda: status(instance) == "running")
    attachments = vpc.list_instance_network_attachments(instance).get_result()["network_attachments"]
    interface = attachments[0]["virtual_network_interface"]["id"]
    assert vpc.get_virtual_network_interface(interface).get_result()["target"]["id"] == attachments[0]["id"]
    volumes = vpc.list_instance_volume_attachments(instance).get_result()["volume_attachments"]
    assert vpc.get_volume(volumes[0]["volume"]["id"]).get_result()["attachment_state"] == "attached"
    assert vpc.get_instance_initialization(instance).get_result()["keys"] == []
    assert vpc.create_instance_action(instance, "stop").get_status_code() == 201
    until("stopped", lambda: status(instance) == "stopped")
    assert vpc.get_instance(instance).get_result()["status_reasons"] == []
    delete(instance)
    error = refused(lambda: vpc.get_virtual_network_interface(interface))
    assert error.code == 404


def deployment(plan, region, name=None):
    children = catalog.get_child_objects(id=plan, kind="deployment", include="*", q=region, limit=100)
    for child in children.get_result()["resources"]:
        if child["metadata"]["deployment"]["location"] == region and name in (None, child["name"]):
            return child["id"]
    raise AssertionError(f"no deployment of {plan} in {region}")


def plan_of(profile):
    offset, found = 0, None
    while found is None:
        page = catalog.list_catalog_entries(
            include="metadata.other", q="kind:instance.profile", offset=offset, limit=200
        ).get_result()
        found = next((entry for entry in page["resources"] if entry["name"] == profile), None)
        offset += page["resource_count"]
        assert page["resource_count"], f"{profile} is not in the catalogue"
    for measure in found["metadata"]["other"]["profile"]["measures"]:
        for one in measure["deployments"]:
            if measure["component"] == "instance" and one["type"] == "multi-tenant":
                return one["plan"]
    raise AssertionError(f"{profile} has no plan")


def dollars(pricing):
    return {
        metric["charge_unit_name"]: amount["prices"][0]["price"]
        for metric in pricing["metrics"]
        for amount in metric["amounts"]
        if (amount["country"], amount["currency"]) == ("USA", "USD")
    }


def test_prices_on_demand_and_spot():
    plan = plan_of("bxf-4x16")
    prices = dollars(catalog.get_pricing(id=deployment(plan, "us-south")).get_result())
    assert prices["INSTANCE_HOURS_MULTI_TENANT"] == 0.193
    assert prices["INSTANCE_MULTI_TENANT_SPOT"] == 0.04825
    every = catalog.get_pricing_deployments(id=plan).get_result()["resources"]
    assert {one["deployment_region"] for one in every} >= {"us-south", "eu-de", "au-syd"}


def test_a_price_in_parts():
    plan = plan_of("bx2-4x16")
    composite = deployment(plan, "us-south", name="bx2-4x16-us-south")
    prices = dollars(catalog.get_pricing(id=composite).get_result())
    assert round(prices["VCPU_HOURS"] + prices["MEMORY_HOURS"], 6) == 0.201


def test_a_plan_costs_nothing_which_is_a_trap():
    prices = dollars(catalog.get_pricing(id=plan_of("bxf-4x16")).get_result())
    assert set(prices.values()) == {0}


def test_tags_are_folded_checked_and_found():
    made = create_spot("sdk-tags")
    resource = {"resource_id": made["crn"]}
    bad = tagging.attach_tag(resources=[resource], tag_names=["karpenter.sh/nodepool:default"]).get_result()
    assert bad["results"][0]["is_error"] is True
    good = tagging.attach_tag(
        resources=[resource], tag_names=["Karpenter.sh.NodePool:Default"], tag_type="user", update=True
    ).get_result()
    assert good["results"][0]["is_error"] is False
    names = tagging.list_tags(attached_to=made["crn"], tag_type="user").get_result()["items"]
    assert names == [{"name": "karpenter.sh.nodepool:default"}]

    def found():
        items = search.search(
            query='tags:"karpenter.sh.nodepool:default" AND type:instance AND service_name:is',
            fields=["crn", "name", "tags"],
            limit=100,
        ).get_result()["items"]
        return [item["crn"] for item in items] == [made["crn"]]

    until("found by its tag", found)
    delete(made["id"])


def test_resource_groups():
    default = groups.list_resource_groups(default=True).get_result()["resources"]
    assert len(default) == 1 and default[0]["state"] == "ACTIVE"
    again = groups.get_resource_group(id=default[0]["id"]).get_result()
    assert again["name"] == default[0]["name"]


def main():
    tests = [(name, test) for name, test in globals().items() if name.startswith("test_")]
    failed = 0
    for name, test in tests:
        try:
            test()
            print(f"ok      {name}", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED  {name}\n{traceback.format_exc()}", flush=True)
    print(f"{len(tests) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

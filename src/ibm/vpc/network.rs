//! VPCs, subnets, security groups and virtual network interfaces.

use super::types::{SecurityGroup, Subnet, VirtualNetworkInterface, Vpc as VpcResource};
use super::{Vpc, list, on};
use crate::cloud::Error;
use crate::ibm::http::Operation;

const LIST_VPCS: Operation = list("list VPCs");
const GET_VPC: Operation = on("get VPC", "vpc");
const LIST_SUBNETS: Operation = list("list subnets");
const GET_SUBNET: Operation = on("get subnet", "subnet");
const LIST_SECURITY_GROUPS: Operation = list("list security groups");
const GET_SECURITY_GROUP: Operation = on("get security group", "security_group");
const LIST_INTERFACES: Operation = list("list virtual network interfaces");
const GET_INTERFACE: Operation = on("get virtual network interface", "virtual_network_interface");
const DELETE_INTERFACE: Operation = on("delete virtual network interface", "virtual_network_interface");

impl Vpc {
    /// Every VPC of the region.
    pub async fn list_vpcs(&self) -> Result<Vec<VpcResource>, Error> {
        self.list(LIST_VPCS, &["vpcs"], "vpcs", |vpc: &VpcResource| &vpc.id, &[])
            .await
    }

    /// One VPC.
    pub async fn get_vpc(&self, id: &str) -> Result<VpcResource, Error> {
        self.get(GET_VPC, &["vpcs", id], id).await
    }

    /// Every subnet of a VPC. The API has no filter for names or tags.
    pub async fn list_subnets(&self, vpc: &str) -> Result<Vec<Subnet>, Error> {
        self.list(
            LIST_SUBNETS,
            &["subnets"],
            "subnets",
            |subnet: &Subnet| &subnet.id,
            &[("vpc.id", vpc)],
        )
        .await
    }

    /// One subnet.
    pub async fn get_subnet(&self, id: &str) -> Result<Subnet, Error> {
        self.get(GET_SUBNET, &["subnets", id], id).await
    }

    /// Every security group of a VPC.
    pub async fn list_security_groups(&self, vpc: &str) -> Result<Vec<SecurityGroup>, Error> {
        let collection = "security_groups";
        self.list(
            LIST_SECURITY_GROUPS,
            &[collection],
            collection,
            |group: &SecurityGroup| &group.id,
            &[("vpc.id", vpc)],
        )
        .await
    }

    /// One security group.
    pub async fn get_security_group(&self, id: &str) -> Result<SecurityGroup, Error> {
        self.get(GET_SECURITY_GROUP, &["security_groups", id], id).await
    }

    /// Every virtual network interface of a resource group, attached or not.
    pub async fn list_interfaces(&self, resource_group: &str) -> Result<Vec<VirtualNetworkInterface>, Error> {
        let collection = "virtual_network_interfaces";
        let filters = [("resource_group.id", resource_group)];
        self.list(
            LIST_INTERFACES,
            &[collection],
            collection,
            |vni: &VirtualNetworkInterface| &vni.id,
            &filters,
        )
        .await
    }

    /// One virtual network interface.
    pub async fn get_interface(&self, id: &str) -> Result<VirtualNetworkInterface, Error> {
        self.get(GET_INTERFACE, &["virtual_network_interfaces", id], id)
            .await
    }

    /// Asks for deletion of an interface that no machine holds.
    pub async fn delete_interface(&self, id: &str) -> Result<(), Error> {
        self.delete(DELETE_INTERFACE, &["virtual_network_interfaces", id], id)
            .await
    }
}

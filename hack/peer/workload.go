package main

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

// A workload as `cargo bench --bench scheduling -- --write` writes it. Amounts are whole numbers, of processors in
// thousandths; prices are dollars an hour.
type workload struct {
	Pods          []*corev1.Pod `json:"pods"`
	InstanceTypes []struct {
		Name      string              `json:"name"`
		Labels    map[string][]string `json:"labels"`
		Capacity  map[string]int64    `json:"capacity"`
		Overhead  map[string]int64    `json:"overhead"`
		Offerings []struct {
			Zone         string   `json:"zone"`
			CapacityType string   `json:"capacityType"`
			Price        *float64 `json:"price"`
			Available    bool     `json:"available"`
		} `json:"offerings"`
	} `json:"instanceTypes"`
	NodePool struct {
		Name   string           `json:"name"`
		Limits map[string]int64 `json:"limits"`
	} `json:"nodePool"`
}

// What upstream's scheduler takes.
type typed struct {
	pods  []*corev1.Pod
	pool  *v1.NodePool
	types []*cloudprovider.InstanceType
}

func (w *workload) typed() typed {
	pods := make([]*corev1.Pod, len(w.Pods))
	for at, pod := range w.Pods {
		pods[at] = pod.DeepCopy()
	}
	pool := &v1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: w.NodePool.Name, UID: "00000000-0000-4000-8000-000000000000"}}
	pool.Spec.Limits = v1.Limits(amounts(w.NodePool.Limits))
	pool.Spec.Template.Spec.NodeClassRef = &v1.NodeClassReference{Group: "peer", Kind: "NodeClass", Name: "default"}
	pool.Spec.Template.Spec.Requirements = []v1.NodeSelectorRequirementWithMinValues{}
	return typed{pods: pods, pool: pool, types: w.types()}
}

func (w *workload) types() []*cloudprovider.InstanceType {
	keys := sets.New[string]()
	for _, kind := range w.InstanceTypes {
		for key := range kind.Labels {
			keys.Insert(key)
		}
	}
	// A label that types have may be left open by a pool, as with every provider's own labels.
	v1.WellKnownLabels.Insert(sets.List(keys)...)
	all := make([]*cloudprovider.InstanceType, 0, len(w.InstanceTypes))
	for _, kind := range w.InstanceTypes {
		requirements := scheduling.NewRequirements()
		for key := range keys {
			// Upstream wants every well-known label defined; one without values is absent from the node.
			requirements.Add(scheduling.NewRequirement(key, corev1.NodeSelectorOpIn, kind.Labels[key]...))
		}
		zones, capacityTypes := sets.New[string](), sets.New[string]()
		var offerings cloudprovider.Offerings
		for _, offering := range kind.Offerings {
			price := math.MaxFloat64
			if offering.Price != nil {
				price = *offering.Price
			}
			offerings = append(offerings, &cloudprovider.Offering{
				Available: offering.Available,
				Price:     price,
				Requirements: scheduling.NewLabelRequirements(map[string]string{
					v1.CapacityTypeLabelKey:  offering.CapacityType,
					corev1.LabelTopologyZone: offering.Zone,
				}),
			})
			if offering.Available {
				zones.Insert(offering.Zone)
				capacityTypes.Insert(offering.CapacityType)
			}
		}
		requirements.Add(
			scheduling.NewRequirement(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, sets.List(zones)...),
			scheduling.NewRequirement(v1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, sets.List(capacityTypes)...),
		)
		all = append(all, &cloudprovider.InstanceType{
			Name:         kind.Name,
			Requirements: requirements,
			Offerings:    offerings,
			Capacity:     amounts(kind.Capacity),
			Overhead:     &cloudprovider.InstanceTypeOverhead{KubeReserved: amounts(kind.Overhead)},
		})
	}
	return all
}

func amounts(whole map[string]int64) corev1.ResourceList {
	all := corev1.ResourceList{}
	for name, amount := range whole {
		switch corev1.ResourceName(name) {
		case corev1.ResourceCPU:
			all[corev1.ResourceCPU] = *resource.NewMilliQuantity(amount, resource.DecimalSI)
		case corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
			all[corev1.ResourceName(name)] = *resource.NewQuantity(amount, resource.BinarySI)
		default:
			all[corev1.ResourceName(name)] = *resource.NewQuantity(amount, resource.DecimalSI)
		}
	}
	return all
}

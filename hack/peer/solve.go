package main

import (
	"context"
	"errors"
	"math"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/options"
)

// workers is how many candidates upstream's own benchmark has it look at in parallel.
const workers = 5

// What came of a workload.
type outcome struct {
	// From typed objects in memory to the plan.
	Seconds float64 `json:"seconds"`
	// Of that, what Solve took.
	SolveSeconds float64 `json:"solveSeconds"`
	Rounds       int     `json:"rounds"`
	Nodes        int     `json:"nodes"`
	// The cheapest available offering of every claim together, in billionths of a dollar an hour.
	PriceNanos int64 `json:"priceNanos"`
	// The pods without a place, with the reason.
	LeftOut map[string]string `json:"leftOut"`
	Claims  []claim           `json:"claims"`
}

type claim struct {
	InstanceType string   `json:"instanceType"`
	Zone         string   `json:"zone"`
	CapacityType string   `json:"capacityType"`
	PriceNanos   int64    `json:"priceNanos"`
	Pods         []string `json:"pods"`
}

func solve(input typed, ignorePreferences bool) (*outcome, error) {
	ctx := injection.WithControllerName(context.Background(), "provisioner")
	ctx = options.ToContext(ctx, settings())
	how := []scheduling.Options{scheduling.NumConcurrentReconciles(workers)}
	if ignorePreferences {
		how = append(how, scheduling.IgnorePreferences)
	}
	pools := []*v1.NodePool{input.pool}
	types := map[string][]*cloudprovider.InstanceType{input.pool.Name: input.types}
	cluster := state.NewCluster(clock.RealClock{}, nothing{}, cloud{types: input.types})

	begin := time.Now()
	topology, err := scheduling.NewTopology(ctx, nothing{}, cluster, nil, pools, types, input.pods, how...)
	if err != nil {
		return nil, err
	}
	scheduler := scheduling.NewScheduler(ctx, nothing{}, pools, cluster, nil, topology, types, nil, silence{},
		clock.RealClock{}, nil, nil, how...)
	solving := time.Now()
	results, err := scheduler.Solve(ctx, input.pods)
	if err != nil {
		return nil, err
	}
	end := time.Now()

	found := &outcome{
		Seconds:      end.Sub(begin).Seconds(),
		SolveSeconds: end.Sub(solving).Seconds(),
		Nodes:        len(results.NewNodeClaims),
		LeftOut:      map[string]string{},
		Claims:       []claim{},
	}
	for pod, why := range results.PodErrors {
		found.LeftOut[pod.Name] = why.Error()
	}
	for _, made := range results.NewNodeClaims {
		bought := buy(made)
		found.PriceNanos += bought.PriceNanos
		found.Claims = append(found.Claims, bought)
	}
	return found, nil
}

// The cheapest available offering that a claim leaves open.
func buy(made *scheduling.NodeClaim) claim {
	bought := claim{PriceNanos: math.MaxInt64}
	for _, kind := range made.InstanceTypeOptions {
		for _, offering := range kind.Offerings.Available().Compatible(made.Requirements) {
			price := int64(math.Round(offering.Price * 1e9))
			if price < bought.PriceNanos {
				bought = claim{kind.Name, offering.Zone(), offering.CapacityType(), price, nil}
			}
		}
	}
	for _, pod := range made.Pods {
		bought.Pods = append(bought.Pods, pod.Name)
	}
	return bought
}

// Upstream's defaults, as far as scheduling looks at them.
func settings() *options.Options {
	return &options.Options{
		CPURequests:       workers * 1000,
		PreferencePolicy:  options.PreferencePolicyRespect,
		MinValuesPolicy:   options.MinValuesPolicyStrict,
		IgnoreDRARequests: true,
		FeatureGates:      options.FeatureGates{ReservedCapacity: true},
	}
}

// A Kubernetes API with nothing in it, which costs upstream no time.
type nothing struct{ client.Client }

func (nothing) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func (nothing) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("nothing is there")
}

// A cloud that sells these types and does nothing else.
type cloud struct {
	cloudprovider.CloudProvider
	types []*cloudprovider.InstanceType
}

func (c cloud) GetInstanceTypes(context.Context, *v1.NodePool) ([]*cloudprovider.InstanceType, error) {
	return c.types, nil
}

// A recorder of events that nobody reads.
type silence struct{}

func (silence) Publish(...events.Event) {}


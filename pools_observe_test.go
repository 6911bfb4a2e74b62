package ratelimit_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
)

// What a provider reports on a model without a limit of the kind is of the pool that has one, and
// is held back from all its models. A report of a smaller limit is of a bucket that the pool holds
// beside others: that is no reason to stop these.
func TestReportsReachPools(t *testing.T) {
	for _, test := range []struct {
		name   string
		learns bool
		limit  int // that is reported
		ofPool bool
		learnt int // by the model
	}{
		{name: "the pool's limit", limit: 100, ofPool: true},
		{name: "a larger one", limit: 500, ofPool: true},
		{name: "an unknown one", limit: 0, ofPool: true},
		{name: "a smaller one", limit: 20},
		{name: "the pool's limit, learning", learns: true, limit: 100, ofPool: true},
		{name: "a larger one, learning", learns: true, limit: 500, ofPool: true},
		{name: "a smaller one, learning", learns: true, limit: 20, learnt: 20},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := fakestore.New()
				cfg := ratelimit.Config{
					LearnQuotas: test.learns, Quotas: map[string]ratelimit.ModelQuota{"a": {MaxTPM: 1000}, "b": {MaxTPM: 1000}},
					Pools: map[string]ratelimit.Pool{"p": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPM: 100}}},
				}
				shared, _, err := ratelimit.NewOverFake(fake, cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer shared.Close()
				for i, rl := range []*ratelimit.RateLimiter{newLimiterWith(t, cfg), shared} {
					rl.RecordUsage("a", 1, 1)
					report := ratelimit.ProviderLimits{RPM: ratelimit.ProviderLimit{Limit: test.limit, HasRemaining: true, Reset: 30 * time.Second}}
					rl.Observe("a", report)
					said := fake.Len()
					rl.Observe("a", report)
					if fake.Len() != said {
						t.Error("the same report again was written")
					}
					if d := rl.Decide("b", 1); d.Allowed == test.ofPool || test.ofPool && (d.Pool != "p" || d.RetryAfter > 31*time.Second) {
						t.Errorf("%d: another model of the pool: %+v", i, d)
					}
					denied := test.ofPool || test.learnt > 0
					if d := rl.Decide("a", 1); d.Allowed == denied {
						t.Errorf("%d: the model: %+v", i, d)
					}
					if got := rl.Stats("a").MaxRPM; got != test.learnt {
						t.Errorf("%d: the model has learnt %d, want %d", i, got, test.learnt)
					}
					if p, _ := rl.Pool("p"); p.Quota.MaxRPM != 100 {
						t.Errorf("%d: the pool has learnt %d", i, p.Quota.MaxRPM)
					}
				}
			})
		})
	}
}

// With several pools that have a limit of the kind nobody knows which one is reported.
func TestReportsOfUnclearPools(t *testing.T) {
	pools := make(map[string]ratelimit.Pool)
	for i := range 2 {
		pools[fmt.Sprint(i)] = ratelimit.Pool{Models: []string{"a", "b"}, Quota: ratelimit.ModelQuota{MaxRPM: 100}}
	}
	rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"a": {}, "b": {}}, Pools: pools})
	rl.Observe("a", ratelimit.ProviderLimits{RPM: ratelimit.ProviderLimit{Limit: 100, HasRemaining: true}})
	if d := rl.Decide("b", 1); !d.Allowed {
		t.Errorf("%+v", d)
	}
}

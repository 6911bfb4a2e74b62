package ratelimit_test

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
	"dappco.re/go/core/go-ratelimit/money"
)

// TestExplainPool: what is told of a pool, alone and with its models, wherever it is counted.
func TestExplainPool(t *testing.T) {
	for place, open := range eventPlaces {
		t.Run(place, func(t *testing.T) {
			if place == "sqlite" {
				needSQLite(t)
			}
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				cfg := ratelimit.Config{
					Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100}},
					Classes: map[string]ratelimit.Class{"batch": {}, "people": {}},
					Prices:  map[string]money.Price{"*": {Input: money.USD(1)}},
					Pools: map[string]ratelimit.Pool{"org": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{
						MaxRPM: 3, MaxSpendPerDay: money.USD(1), MaxInFlight: 9, AdaptiveFloorInFlight: 2, AdaptiveCeilingInFlight: 8,
					}}, "n": {Models: []string{"n"}}},
				}
				if place == "alone" {
					cfg.FilePath = filepath.Join(dir, "state.yaml")
				} else if place == "sqlite" {
					cfg.FilePath = filepath.Join(dir, "state.db")
				}
				rl := open(t, cfg)
				defer rl.Close()
				testExplainPool(t, rl)
			})
		})
	}
}

func testExplainPool(t *testing.T, rl *ratelimit.RateLimiter) {
	first := reserve(t, rl, "m", 1000, 0)
	second := reserve(t, rl, "other", 500, 0)
	rl.RecordUsage("m", 10, 0)
	if _, d := rl.Reserve("m", 1, 0); d.Pool != "org" {
		t.Errorf("decision %+v", d)
	}
	done := make(chan *ratelimit.Reservation)
	for _, class := range []string{"batch", "people", "batch", "unknown"} {
		go func() {
			r, _ := rl.Acquire(ratelimit.WithClass(t.Context(), class), "m", 1, 0)
			done <- r
		}()
	}
	synctest.Wait()
	is, ok := rl.ExplainPool("org")
	if !ok || is.Pool != "org" || is.InFlight != 2 || is.Waiting != 4 || !is.CooldownUntil.IsZero() {
		t.Fatalf("%t %+v", ok, is)
	}
	if want := map[string]int{"batch": 2, "people": 1, "": 1}; !maps.Equal(is.WaitingByClass, want) {
		t.Errorf("by class %v", is.WaitingByClass)
	}
	limits := make(map[string][2]int)
	for _, l := range is.Limits {
		limits[l.Limit] = [2]int{l.Used, l.Max}
		if l.Origin != "program" {
			t.Errorf("%+v", l)
		}
	}
	if want := map[string][2]int{"max_rpm": {3, 3}, "max_in_flight": {2, 9}}; !maps.Equal(limits, want) {
		t.Errorf("limits %v, want %v", limits, want)
	}
	if f := is.Found; f == nil || f.InFlight != 4 || f.CeilingInFlight != 8 {
		t.Errorf("found %+v", f)
	}
	if b := is.Budgets; len(b) != 2 || b[0].Spent != 1510 || b[0].Max != money.USD(1) || b[1].Spent != 1510 || b[1].Max != 0 {
		t.Errorf("budgets %+v", b)
	}
	e := rl.Explain("m")
	if len(e.Pools) != 1 || !reflect.DeepEqual(e.Pools[0], is) {
		t.Errorf("Explain has %+v, want %+v", e.Pools, is)
	}
	if e.LastRefusal == nil || e.LastRefusal.Pool != "org" {
		t.Errorf("last refusal %+v", e.LastRefusal)
	}
	if want := map[string]int{"batch": 2, "people": 1, "": 1}; !maps.Equal(e.WaitingByClass, want) {
		t.Errorf("of the model by class %v", e.WaitingByClass)
	}
	if text := e.String(); !strings.Contains(text, `waits: the pool "org": requests per minute are used up`) {
		t.Errorf("the text is %s", text)
	}
	text, err := json.Marshal(is)
	for _, want := range []string{`"waiting_by_class":{"":1,"batch":2,"people":1}`, `"budgets":[`, `"found":{`} {
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("JSON %s, %v", text, err)
		}
	}
	for range 4 {
		time.Sleep(2 * time.Minute)
		(<-done).Cancel()
	}
	first.Cancel()
	second.Cancel()
	if is, _ := rl.ExplainPool("org"); is.Waiting != 0 || is.WaitingByClass != nil || is.InFlight != 0 {
		t.Errorf("at the end %+v", is)
	}
	if is, ok := rl.ExplainPool("n"); !ok || len(is.Limits) > 0 || is.Budgets != nil {
		t.Errorf("without limits: %t %+v", ok, is)
	}
	for _, name := range []string{"", "m", "none"} {
		if is, ok := rl.ExplainPool(name); ok || !reflect.DeepEqual(is, ratelimit.PoolState{}) {
			t.Errorf("%q: %+v", name, is)
		}
	}
}

// TestExplainPoolOfOthers: what other processes have charged is told.
func TestExplainPoolOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := fakestore.New()
		cfg := ratelimit.Config{Pools: map[string]ratelimit.Pool{"org": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPM: 3}}}}
		one, other := overStore(t, store, cfg), overStore(t, store, cfg)
		defer one.Close()
		defer other.Close()
		other.RecordUsage("m", 1, 1)
		if is, _ := one.ExplainPool("org"); len(is.Limits) != 1 || is.Limits[0].Used != 1 {
			t.Errorf("%+v", is)
		}
	})
}

// TestHealthNamesThePool: where a pool refuses nearly all calls, the warning says which.
func TestHealthNamesThePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{
			FilePath: filepath.Join(t.TempDir(), "state.yaml"), Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1000}},
			Pools: map[string]ratelimit.Pool{"org": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPM: 1}}},
		})
		defer rl.Close()
		rl.RecordUsage("m", 1, 1)
		for range 200 {
			rl.Reserve("m", 1, 1)
		}
		warnings := rl.Health().Warnings
		if len(warnings) != 1 || !strings.Contains(warnings[0].Error(), `of "m" in the last minute were refused, the last because the pool "org": requests per minute are used up`) {
			t.Errorf("warnings %q", warnings)
		}
	})
}

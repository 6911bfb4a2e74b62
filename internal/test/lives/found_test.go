package lives

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// What lives have found: each as short as it gets, on each kind of limiter.
func TestFound(t *testing.T) {
	all := ratelimit.Pool{Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPD: 1000}}
	for _, tt := range []struct {
		name string
		cfg  ratelimit.Config
		live func(t *testing.T, h *house)
	}{
		{"a call of yesterday is not charged to today", ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPD: 10, DayZone: "UTC"}},
		}, yesterday},
		{
			"Health warns of models, and not of what counts a pool",
			ratelimit.Config{MaxModels: 1, Quotas: map[string]ratelimit.ModelQuota{"m": {}}, Pools: map[string]ratelimit.Pool{"p": all}}, warnings,
		},
		{
			"events name the model that has no place", ratelimit.Config{
				MaxModels: 1, Quotas: map[string]ratelimit.ModelQuota{"m": {}}, Pools: map[string]ratelimit.Pool{"p": all},
			}, placeless,
		},
		{"a limiter that opens a file anew keeps the minute for its margin", reopened, opensAnew},
		{"a look frees no place of a model with a call in a slot", ratelimit.Config{
			MaxModels: 1, Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPD: 30, MaxInFlight: 2}}, LeaseTTL: 48 * time.Hour,
		}, keepsItsPlace},
		{"a report on two pools is noted before those that wait for one go", ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"m": {}},
			Pools: map[string]ratelimit.Pool{
				"in":  {Models: []string{"m"}, Quota: ratelimit.ModelQuota{MaxOTPM: 100}},
				"out": {Models: []string{"m"}, Quota: ratelimit.ModelQuota{MaxITPM: 100}},
			},
		}, reportsOnTwo},
	} {
		for _, kind := range []string{private, file, inLog} {
			t.Run(tt.name+", "+kind, func(t *testing.T) {
				needKinds(t, kind)
				folder := t.TempDir()
				synctest.Test(t, func(t *testing.T) {
					h, err := newHouse(kind, folder, tt.cfg)
					if err != nil {
						t.Fatal(err)
					}
					defer func() { h.rl.Close() }()
					tt.live(t, h)
				})
			})
		}
	}
}

func reserve(t *testing.T, h *house, model string, tokens int) *ratelimit.Reservation {
	t.Helper()
	r, d := h.rl.Reserve(model, tokens, 0)
	if r == nil {
		t.Fatalf("%s: %+v", model, d)
	}
	return r
}

func yesterday(t *testing.T, h *house) {
	first, second := reserve(t, h, "m", 10), reserve(t, h, "m", 10)
	time.Sleep(48 * time.Hour)
	first.Commit(100, 0) // 90 above its estimate, which are of today
	second.Arrived(time.Now().Add(-5 * time.Second))
	if s := h.rl.Stats("m"); s.RPD != 0 || s.TPD != 90 {
		t.Errorf("the day has %d requests and %d tokens, want 0 and 90", s.RPD, s.TPD)
	}
}

func warnings(t *testing.T, h *house) {
	taken := reserve(t, h, "a", 1)
	for range 40 {
		reserve(t, h, "b", 1000).Commit(1, 0)
	}
	for _, warning := range h.rl.Health().Warnings {
		t.Error(warning)
	}
	taken.Commit(1, 0)
}

func placeless(t *testing.T, h *house) {
	taken := reserve(t, h, "a", 1)
	h.take()
	reserve(t, h, "b", 2).Commit(2, 0)
	synctest.Wait()
	told := h.take()
	for _, kind := range []ratelimit.EventKind{ratelimit.EventAdmitted, ratelimit.EventSettled} {
		if !slices.ContainsFunc(told, func(e ratelimit.Event) bool { return e.Kind == kind && e.Model == "b" && e.Requested == "b" }) {
			t.Errorf("no %s of b: %s", kind, render(told))
		}
	}
	taken.Commit(1, 0)
}

var reopened = ratelimit.Config{Margin: time.Second, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10}}}

func opensAnew(t *testing.T, h *house) {
	reserve(t, h, "m", 1).Commit(1, 0)
	time.Sleep(time.Minute + time.Second)
	if err := h.reopen(reopened); err != nil {
		t.Fatal(err)
	}
	if is := h.rl.Stats("m").RPM; is != 1 {
		t.Errorf("%d requests count, want 1", is)
	}
}

func reportsOnTwo(t *testing.T, h *house) {
	left := func(n int) ratelimit.ProviderLimit { return ratelimit.ProviderLimit{HasRemaining: true, Remaining: n} }
	h.rl.Observe("m", ratelimit.ProviderLimits{OTPM: left(0)})
	done := make(chan struct{})
	go func() {
		defer close(done)
		if r, err := h.rl.Acquire(t.Context(), "m", 5, 5); err != nil {
			t.Error(err)
		} else {
			r.Commit(5, 5)
		}
	}()
	synctest.Wait()
	h.rl.Observe("m", ratelimit.ProviderLimits{OTPM: left(50), ITPM: left(40)})
	if is := h.rl.PoolStats("out").ExternalITPM; is != 60 {
		t.Errorf("others use %d tokens, want 60", is)
	}
	<-done
}

func keepsItsPlace(t *testing.T, h *house) {
	r, d := h.rl.Reserve("one", 1, 1)
	if r == nil {
		t.Fatal(d)
	}
	time.Sleep(25 * time.Hour)
	h.rl.Stats("one")
	if d := h.rl.Decide("another", 1); d.Code != ratelimit.DecisionTooManyModels {
		t.Errorf("another model is decided on with %+v", d)
	}
	r.Cancel()
	if d := h.rl.Decide("another", 1); !d.Allowed {
		t.Errorf("after the end of the call another model is decided on with %+v", d)
	}
}

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
					defer h.rl.Close()
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

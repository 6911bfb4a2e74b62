package engine_test

import (
	"bytes"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/money"
)

// A call whose end makes no difference at any moment leads to the same state, whether it ends at
// the last moment or later: within the minute, after it, and on another day.
func TestEndsAnytime(t *testing.T) {
	plain := state.Quota{MaxRPM: 10, MaxTPM: 1000, MaxRPD: 10, MaxTPD: 5000, MaxInFlight: 3}
	paced, found, priced := plain, plain, plain
	paced.Burst = 10 * time.Second
	found.AdaptiveFloorRPM = 60
	priced.MaxSpendPerDay = money.USD(1)
	estimate := state.Count{Input: 90, Output: 30}
	for _, tt := range []struct {
		name  string
		quota state.Quota
		used  state.Count
		cost  money.Amount
		hold  time.Duration
		want  bool
	}{
		{"as estimated", plain, estimate, 0, 0, true},
		{"less", plain, state.Count{Input: 50, Output: 30}, 0, 0, true},
		{"nothing", plain, state.Count{}, 0, 0, true},
		{"unlimited", state.Quota{}, state.Count{Input: 1}, 0, 0, true},
		{"more output", plain, state.Count{Input: 50, Output: 31}, 0, 0, false},
		{"with a cost", plain, estimate, 1, 0, false},
		{"with a time to live", plain, estimate, 0, time.Hour, false},
		{"paced", paced, state.Count{}, 0, 0, false},
		{"of a found rate", found, estimate, 0, 0, false},
		{"of limited spend", priced, estimate, 0, 0, false},
	} {
		for _, later := range []float64{0, 1, 29.5, 30.5, 61, 86_399, 86_401, 200_000} {
			images := [2][]byte{}
			for i := range images {
				e := engine.New(1, nil)
				e.Say(engine.Program, func(c *catalog.Catalog) []catalog.Change { return c.SetQuota("m", tt.quota) }, at(0))
				by := engine.By{Span: account.Minute, HoldTTL: int64(tt.hold)}
				r := engine.Request{Target: e.Resolve("m", "m"), Tokens: estimate, Priced: true}
				calls, v := e.Admit(nil, &by, []engine.Request{r}, at(0))
				if !v.Allowed {
					t.Fatal(v)
				}
				e.Record(&r.Target, account.Minute, state.Count{Input: 7}, 0, at(30))
				if is := e.EndsAnytime(calls[0], tt.used, tt.cost); is != tt.want {
					t.Fatalf("%s: %t, want %t", tt.name, is, tt.want)
				}
				if !tt.want {
					continue
				}
				ends := e.Last()
				if i > 0 {
					ends = at(30 + later)
				}
				e.Settle(calls[0], account.Committed, tt.used, tt.cost, ends)
				e.Record(&r.Target, account.Minute, state.Count{Output: 5}, 0, at(30+later))
				images[i] = e.AppendImage(nil)
			}
			if !bytes.Equal(images[0], images[1]) {
				t.Errorf("%s: another state where the call ends %g s later", tt.name, later)
			}
		}
	}
}

package ratelimit_test

import (
	"context"
	"testing"
	"testing/synctest"

	"dappco.re/go/core/go-ratelimit"
)

// ReserveContext admits and denies as ReserveAll does, for no, one and several requests.
func TestReserveContextIsReserveAll(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	one := ratelimit.Request{Model: "a", PromptTokens: 10, OutputTokens: 5}
	for _, test := range []struct {
		name string
		reqs []ratelimit.Request
	}{
		{"none", nil},
		{"one", []ratelimit.Request{one}},
		{"one that never passes", []ratelimit.Request{{Model: "a", PromptTokens: 1000}}},
		{"one of negative tokens", []ratelimit.Request{{Model: "a", PromptTokens: -1}}},
		{"one without a quota", []ratelimit.Request{{Model: "none", PromptTokens: 1}}},
		{"two", []ratelimit.Request{one, {Model: "b"}}},
		{"twice the same", []ratelimit.Request{one, one}},
		{"one of two never passes", []ratelimit.Request{one, {Model: "b", PromptTokens: 1000}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				quota := ratelimit.ModelQuota{MaxRPM: 3, MaxTPM: 100, MaxInFlight: 3}
				quotas := map[string]ratelimit.ModelQuota{"a": quota, "b": quota}
				all := newLimiterWith(t, ratelimit.Config{Quotas: quotas})
				with := newLimiterWith(t, ratelimit.Config{Quotas: quotas})
				for range 4 { // the last one finds the quota used up
					want, wantDecision := all.ReserveAll(test.reqs...)
					got, d := with.ReserveContext(ended, test.reqs...)
					if len(got) != len(want) || (got == nil) != (want == nil) || d != wantDecision {
						t.Fatalf("got %v, %+v, want %v, %+v", got, d, want, wantDecision)
					}
					for i := range got {
						if got[i].Model() != want[i].Model() {
							t.Errorf("%d is of %q", i, got[i].Model())
						}
					}
				}
				for _, model := range []string{"a", "b", "none"} {
					if got, want := with.Stats(model), all.Stats(model); got != want {
						t.Errorf("%s has %+v, want %+v", model, got, want)
					}
				}
			})
		})
	}
}

// One request takes no more memory than Reserve.
func TestReserveContextAllocates(t *testing.T) {
	rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxTPM: 1 << 30, MaxInFlight: 10}}})
	ctx := t.Context()
	plain := testing.AllocsPerRun(1000, func() {
		r, _ := rl.Reserve("m", 10, 5)
		r.Commit(10, 5)
	})
	with := testing.AllocsPerRun(1000, func() {
		rs, _ := rl.ReserveContext(ctx, ratelimit.Request{Model: "m", PromptTokens: 10, OutputTokens: 5})
		rs[0].Commit(10, 5)
	})
	if with > plain {
		t.Errorf("%v allocations, Reserve has %v", with, plain)
	}
}

// Places: models without a quota of their own, over processes.

package ratelimit_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/sharedlogtest"
)

// A model whose only call of the day was cancelled gives its place to another one, whoever was told
// before that there is none.
func TestCancelledCallLeavesItsPlace(t *testing.T) {
	for _, limiters := range []int{0, 1, 2} {
		for _, asked := range []bool{false, true} {
			for _, quota := range []ratelimit.ModelQuota{{MaxRPD: 10}, {MaxTPD: 10}, {MaxRPM: 10, MaxRPD: 10}} {
				t.Run(fmt.Sprintf("%d share it, asked %t, %+v", limiters, asked, quota), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { leavePlace(t, limiters, asked, quota) })
				})
			}
		}
	}
}

func leavePlace(t *testing.T, limiters int, asked bool, quota ratelimit.ModelQuota) {
	cfg := ratelimit.Config{MaxModels: 2, Quotas: map[string]ratelimit.ModelQuota{"*": quota}}
	var all []*ratelimit.RateLimiter
	fake := sharedlogtest.NewFake()
	for range limiters {
		rl, _, err := ratelimit.NewOverFake(fake, cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer rl.Close()
		all = append(all, rl)
	}
	if limiters == 0 {
		all = append(all, newLimiterWith(t, cfg))
	}
	all[0].RecordUsage("a", 1, 0)
	r, _ := all[0].Reserve("b", 1, 0)
	if asked {
		for _, rl := range all {
			if d := rl.Decide("c", 1); d.Code != ratelimit.DecisionTooManyModels {
				t.Errorf("beside a call of b: %+v", d)
			}
		}
	}
	r.Cancel()
	time.Sleep(time.Second)
	for i, rl := range all {
		if d := rl.Decide("c", 1); !d.Allowed {
			t.Errorf("limiter %d: %s for %v", i, d.Code, d.RetryAfter)
		}
	}
}

// Store: a limiter that asked nothing for long.

package ratelimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
)

// A limiter that asked nothing for long catches up, although events that it never heard of were
// deleted meanwhile.
func TestStoreAfterIdleness(t *testing.T) {
	for name, ask := range map[string]func(*ratelimit.RateLimiter){
		"a question": func(rl *ratelimit.RateLimiter) { rl.Stats("m") },
		"a decision": func(rl *ratelimit.RateLimiter) { rl.Reserve("other", 1, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := fakestore.New()
				cfg := ratelimit.Config{
					Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxRPD: 10_000}, "other": {}},
					OnError: func(err error) { t.Errorf("reported: %v", err) },
				}
				idle, busy := overStore(t, fake, cfg), overStore(t, fake, cfg)
				const charges = 8000 // more than fit between two images
				for range charges - 1 {
					busy.RecordUsage("m", 1, 1)
					time.Sleep(5 * time.Second)
				}
				busy.RecordUsage("m", 1, 1)
				if fake.Len() >= charges {
					t.Fatal("nothing was deleted")
				}
				ask(idle)
				if got, want := idle.Stats("m"), busy.Stats("m"); got != want || got.RPD != charges {
					t.Errorf("the idle limiter says %+v, the busy one %+v", got, want)
				}
				if err := idle.Err(); err != nil {
					t.Error(err)
				}
				synctest.Wait()
			})
		})
	}
}

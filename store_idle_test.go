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
	synctest.Test(t, func(t *testing.T) {
		fake := fakestore.New()
		fake.Contact = time.Hour // an idle limiter seldom asks
		cfg := ratelimit.Config{
			Quotas:  map[string]ratelimit.ModelQuota{"m": {MaxRPD: 10_000}, "other": {}},
			OnError: func(err error) { t.Errorf("reported: %v", err) },
		}
		questioned, decides, busy := overStore(t, fake, cfg), overStore(t, fake, cfg), overStore(t, fake, cfg)
		const charges = 8000 // more than fit between two images
		for range charges - 1 {
			busy.RecordUsage("m", 1, 1)
			time.Sleep(5 * time.Second)
		}
		busy.RecordUsage("m", 1, 1)
		if fake.Len() >= charges {
			t.Fatal("nothing was deleted")
		}
		questioned.Stats("m")
		decides.Reserve("other", 1, 1)
		want := busy.Stats("m")
		for name, idle := range map[string]*ratelimit.RateLimiter{"a question": questioned, "a decision": decides} {
			if got := idle.Stats("m"); got != want || got.RPD != charges {
				t.Errorf("after %s the idle limiter says %+v, the busy one %+v", name, got, want)
			}
			if err := idle.Err(); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
	})
}

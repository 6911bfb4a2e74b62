// Forgetting: background pruning, storage that is given back.

package ratelimit_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

func TestBackgroundPruneStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{})
		rl.BackgroundPrune(0)()
		rl.BackgroundPrune(-time.Second)()

		rl.RecordUsage("m", 1, 1)
		stop := rl.BackgroundPrune(time.Second)
		time.Sleep(1500 * time.Millisecond)
		stop()
		stop()
		time.Sleep(48 * time.Hour)
		if len(rl.State) != 1 {
			t.Error("a stopped prune ran")
		}

		// The bubble ends only when no goroutine is left: Close stops this one.
		rl.BackgroundPrune(time.Second)
		if err := rl.Close(); err != nil {
			t.Error(err)
		}
		rl.BackgroundPrune(time.Second)
	})
}

func TestStorageOfAnEmptiedWindowIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1 << 30})
		for range 50_000 {
			rl.RecordUsage("m", 1, 1)
		}
		time.Sleep(30 * time.Second)
		rl.RecordUsage("m", 1, 1)
		time.Sleep(30*time.Second + 1)
		rl.CanSend("m", 1)
		if s := rl.State["m"]; len(s.Requests) != 1 || cap(s.Requests) > 10 || cap(s.Tokens) > 10 {
			t.Errorf("one entry keeps room for %d and %d", cap(s.Requests), cap(s.Tokens))
		}
		time.Sleep(time.Minute)
		rl.CanSend("m", 1)
		if s := rl.State["m"]; cap(s.Requests) != 0 || cap(s.Tokens) != 0 {
			t.Errorf("an emptied window keeps room for %d and %d", cap(s.Requests), cap(s.Tokens))
		}
	})
}

func TestManyModelsWithoutQuotaDoNotStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{})
		for i := range 10_000 {
			rl.RecordUsage(fmt.Sprint("model-", i), 1, 1)
		}
		if n := len(rl.AllStats()); n != 10_001 {
			t.Errorf("AllStats has %d models", n)
		}
		time.Sleep(25 * time.Hour)
		if n := len(rl.AllStats()); n != 10_001 {
			t.Errorf("AllStats has %d models on the way to forget them", n)
		}
		if len(rl.State) != 0 {
			t.Errorf("%d models keep state", len(rl.State))
		}
	})
}

//go:build !nosqlite

// Shared: the outbox of a limiter whose file is down.

package ratelimit

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog/sharedlogtest"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// However long the file is down, the outbox stays short, and the day is right in the end.
func TestOutboxIsBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state.db")
	synctest.Test(t, func(t *testing.T) {
		open := func() *RateLimiter {
			rl, err := NewWithSQLiteConfig(path, Config{Shared: true, LeaseTTL: time.Hour, Quotas: map[string]ModelQuota{
				"m": {MaxRPM: 1_000_000, MaxRPD: 10_000_000}, "other": {MaxTPD: 10_000_000},
			}})
			if err != nil {
				t.Fatal(err)
			}
			return rl
		}
		rl := open()
		requests, tokens := 0, 0
		open1, _ := rl.Reserve("m", 7, 0) // which is never settled
		requests, tokens = requests+1, tokens+7
		if err := os.Rename(path, path+".away"); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		open2, _ := rl.Reserve("m", 7, 0)
		requests, tokens = requests+1, tokens+7
		const calls = 100_000 / min(racetest.Factor, 4) // more events by far than may be kept
		longest := 0
		for i := range calls {
			r, _ := rl.Reserve("m", 5, 5)
			switch i % 4 {
			case 0:
				r.Commit(3, 0)
				requests, tokens = requests+1, tokens+3
			case 1:
				r.Cancel()
			case 2:
				r.Commit(5, 5)
				requests, tokens = requests+1, tokens+10
			case 3:
				r.Commit(20, 5)
				requests, tokens = requests+1, tokens+25
			}
			rl.RecordUsage("other", 2, 0)
			time.Sleep(20 * time.Millisecond)
			rl.mu.Lock()
			longest = max(longest, len(rl.ledger.outbox.Events()))
			rl.mu.Unlock()
		}
		// In two minutes there are 18,000 events.
		if longest > 60_000 {
			t.Errorf("the outbox had %d events", longest)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".away", path); err != nil {
			t.Fatal(err)
		}
		if err := rl.Persist(); err != nil {
			t.Fatal(err)
		}
		reader := open()
		for name, rl := range map[string]*RateLimiter{"itself": rl, "another": reader} {
			if got := rl.Stats("m"); got.RPD != requests || got.TPD != tokens || got.InFlight != 2 {
				t.Errorf("%s counts %+v, want %d requests, %d tokens, 2 in flight", name, got, requests, tokens)
			}
			if got := rl.Stats("other"); got.RPD != calls || got.TPD != 2*calls {
				t.Errorf("%s counts %+v of the other", name, got)
			}
		}
		runtime.KeepAlive(open1)
		runtime.KeepAlive(open2)
		rl.Close()
		reader.Close()
	})
}

// What a reset has forgotten does not come off what was used since, however long the log is down.
func TestOutboxAcrossReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := sharedlogtest.NewFake()
		rl, _, err := NewOverFake(fake, Config{LeaseTTL: time.Hour, Quotas: map[string]ModelQuota{
			"m": {MaxRPD: 100}, "other": {MaxRPD: 1_000_000},
		}})
		if err != nil {
			t.Fatal(err)
		}
		fake.Fail(errors.New("down"))
		rl.RecordUsage("other", 1, 0) // finds that out
		r, _ := rl.Reserve("m", 7, 0)
		rl.Reset("m")
		rl.RecordUsage("m", 5, 0)
		r.Cancel()
		time.Sleep(3 * time.Minute) // until none of this counts in the minute
		const many = 11_000         // events, which are packed
		for range many {
			rl.RecordUsage("other", 1, 0)
		}
		fake.Fail(nil)
		if err := rl.Persist(); err != nil {
			t.Fatal(err)
		}
		if got := rl.Stats("m"); got.RPD != 1 || got.TPD != 5 {
			t.Errorf("%d requests, %d tokens of the model that was reset; want 1 and 5", got.RPD, got.TPD)
		}
		if got := rl.Stats("other"); got.RPD != many+1 {
			t.Errorf("%d requests of the other, want %d", got.RPD, many+1)
		}
		rl.Close()
	})
}

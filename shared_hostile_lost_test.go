//go:build !nosqlite

package ratelimit

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
)

// aged makes all that a limiter knows of minutes older, and has it deleted.
func aged(rl *RateLimiter) {
	rl.mu.Lock()
	for _, e := range rl.ledger.tail.Live() {
		e.At -= 3 * minute
	}
	rl.mu.Unlock()
	for range sharedlog.SweepFrom + 1 {
		rl.RecordUsage("other", 0, 0)
	}
	rl.mu.Lock()
	for _, e := range rl.ledger.tail.Live() {
		e.At -= 3 * minute
	}
	rl.mu.Unlock()
	rl.RecordUsage("other", 0, 0)
}

func removeFile(t *testing.T, path string) {
	t.Helper()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		os.Remove(path + suffix)
	}
}

// What is older than the events that a limiter remembers must get into a file that takes
// the place of the one that was lost, too.
func TestSharedLostFileKeepsWhatIsOld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	a := openHostile(t, path, withQuota("m", ModelQuota{MaxInFlight: 1}), withQuota("q", ModelQuota{MaxRPM: 7}))
	r, _ := a.Reserve("m", 1, 1)
	if r == nil {
		t.Fatal("denied")
	}
	until := time.Now().Add(time.Hour)
	a.Cooldown("cold", until)
	aged(a)
	removeFile(t, path)
	a.Persist() // fails
	deadline := time.Now().Add(10 * time.Second)
	for a.Persist() != nil || a.Err() != nil {
		if time.Now().After(deadline) {
			t.Fatal(a.Err())
		}
		time.Sleep(10 * time.Millisecond)
	}
	b := openHostile(t, path)
	if d := b.Decide("cold", 1); d.Code != DecisionCooldown {
		t.Errorf("in the cooldown: %+v", d)
	}
	if d := a.Decide("cold", 1); d.Code != DecisionCooldown {
		t.Errorf("in the cooldown, for who set it: %+v", d)
	}
	if _, q, _ := b.QuotaFor("q"); q.MaxRPM != 7 {
		t.Errorf("the quota is %+v", q)
	}
	if d := b.Decide("m", 1); d.Code != DecisionInFlightLimit {
		t.Errorf("while the slot is taken: %+v", d)
	}
	r.Commit(1, 1)
	if d := b.Decide("m", 1); !d.Allowed {
		t.Errorf("when the slot is free: %+v", d)
	}
}

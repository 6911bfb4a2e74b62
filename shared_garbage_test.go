//go:build !nosqlite

package ratelimit

import (
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// A reservation that is garbage holds no slot once another limiter says that slots are
// limited.
func TestSharedGarbageHoldsNoSlot(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	a, b := openHostile(t, path), openHostile(t, path)
	a.Reserve("new", 1, 1)
	for deadline := time.Now().Add(30 * time.Second); ; {
		runtime.GC()
		a.mu.Lock()
		n := len(a.ledger.garbage.reservations)
		a.mu.Unlock()
		if n == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Skip("the garbage was not collected")
		}
		time.Sleep(time.Millisecond)
	}
	if n := b.Stats("new").InFlight; n != 1 {
		t.Fatalf("%d are in flight before anybody asks for slots", n)
	}
	b.SetQuota("new", ModelQuota{MaxInFlight: 1})
	a.RecordUsage("other", 1, 1)
	if r, d := b.Reserve("new", 1, 1); r == nil {
		t.Errorf("denied: %+v", d)
	}
}

//go:build !nosqlite

package ratelimit

import (
	"path/filepath"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
)

// A process that was taken for dead, and is not, goes on: all count what it uses.
func TestSharedTakenForDead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.db")
	a, b := openHostile(t, path), openHostile(t, path)
	more, _ := a.Reserve("m", 10, 0)
	moved, _ := a.Reserve("moved", 10, 0)
	b.Stats("m")
	b.ledger.do(background, func(p *plan) { p.addNow(&sharedlog.Event{Kind: sharedlog.Gone, Ref: a.ledger.id}) })
	a.Stats("m")
	more.Commit(90, 0)
	moved.Arrived(time.Now())
	moved.Commit(10, 0)
	late := openHostile(t, path)
	for name, rl := range map[string]*RateLimiter{"itself": a, "another": b, "one that came late": late} {
		if s := rl.Stats("m"); s.TPM != 90 || s.RPM != 1 || s.InFlight != 0 || s.TPD != 90 {
			t.Errorf("%s: %+v", name, s)
		}
		if s := rl.Stats("moved"); s.TPM != 10 || s.RPM != 1 || s.InFlight != 0 {
			t.Errorf("%s: moved: %+v", name, s)
		}
	}
}

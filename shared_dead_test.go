//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

// Processes that die while another one opens the file.
package ratelimit

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
)

// die makes a limiter look as if its process had been killed: its life file stays, unlocked.
func die(t *testing.T, rl *RateLimiter) {
	t.Helper()
	path := rl.ledger.lifePath(rl.ledger.id)
	if err := errors.Join(os.Rename(path, path+".away"), rl.ledger.life.Release(), os.Rename(path+".away", path)); err != nil {
		t.Fatal(err)
	}
}

func TestSharedDeathDuringAnOpenEndsWhatWasHeld(t *testing.T) {
	for _, when := range []string{"before", "meanwhile"} {
		t.Run(when, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s.db")
			slots := func(cfg *Config) {
				cfg.LeaseTTL = time.Hour
				cfg.Quotas = map[string]ModelQuota{"m": {MaxInFlight: 1}}
			}
			victim, other := openHostile(t, path, slots), openHostile(t, path, slots)
			held, d := victim.Reserve("m", 1, 1)
			if held == nil {
				t.Fatalf("%+v", d)
			}
			if d := other.Decide("m", 1); d.Code != DecisionInFlightLimit {
				t.Fatalf("%+v", d)
			}
			opens := openHostile(t, path, slots).ledger
			if when == "before" {
				die(t, victim)
			}
			<-opens.turn
			if err := opens.lock.Lock(lockedFor); err != nil {
				t.Fatal(err)
			}
			err := opens.enter(func() {
				if when == "meanwhile" { // the file has been read, and nothing has been removed
					die(t, victim)
				}
			})
			opens.lock.Unlock()
			opens.turn <- struct{}{}
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			for other.Decide("m", 1).Code == DecisionInFlightLimit {
				if time.Since(began) > 5*time.Second {
					t.Fatal("the slot did not come back")
				}
				time.Sleep(time.Millisecond)
			}
			wantLife(t, victim.ledger.lifePath(victim.ledger.id), fsx.Unknown)
		})
	}
}

//go:build (linux || darwin || freebsd || netbsd || openbsd || dragonfly) && !nosqlite

// Processes that die while another one opens the file.

package ratelimit

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/fsx"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
)

// die makes a limiter look as if its process had been killed: its life file stays, unlocked.
func die(t *testing.T, path string, rl *RateLimiter) {
	t.Helper()
	<-rl.ledger.writer // its own goroutines end with it
	defer func() { rl.ledger.writer <- struct{}{} }()
	rl.ledger.closed.Store(true)
	life := lifePath(path, rl)
	if err := errors.Join(os.Rename(life, life+".away"), rl.ledger.log.Close(), os.Rename(life+".away", life)); err != nil {
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
				die(t, path, victim)
			}
			<-opens.writer
			_, err := opens.attempt(background, sharedlog.Everything, func(*plan) {
				if when == "meanwhile" { // the file has been read, and nothing has been removed
					die(t, path, victim)
				}
			})
			opens.writer <- struct{}{}
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
			wantLife(t, lifePath(path, victim), fsx.Unknown)
			runtime.KeepAlive(held) // garbage is settled
		})
	}
}

//go:build !nosqlite

// Shared: gaps in the log.

package ratelimit

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// Events are deleted some minutes after they were written, before an idle limiter has read them.
func TestSharedWhoWasIdleMissesNothing(t *testing.T) {
	for _, how := range []string{"asks", "reserves"} {
		t.Run(how, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s.db")
			synctest.Test(t, func(t *testing.T) {
				open := func() *RateLimiter {
					rl, err := NewWithSQLiteConfig(path, Config{Shared: true, Quotas: map[string]ModelQuota{
						"m": {MaxRPD: 100, MaxInFlight: 1}, "closed": {MaxRPM: 5}, "changed": {MaxRPM: 5}, "forgotten": {MaxRPD: 1},
					}})
					if err != nil {
						t.Fatal(err)
					}
					return rl
				}
				busy, idle := open(), open()
				defer busy.Close()
				defer idle.Close()
				busy.RecordUsage("forgotten", 1, 1)
				r, _ := busy.Reserve("m", 1, 1)
				if d := idle.Decide("m", 1); d.Code != DecisionInFlightLimit {
					t.Fatalf("while the other has the slot: %+v", d)
				}
				r.Commit(1, 1)
				busy.Reset("forgotten")
				busy.SetQuota("changed", ModelQuota{MaxRPM: 7})
				for range 59 {
					busy.RecordUsage("m", 1, 1)
				}
				busy.Cooldown("closed", time.Now().Add(time.Hour))
				for range 3 {
					time.Sleep(3 * time.Minute)
					busy.RecordUsage("other", 1, 1) // deletes
				}
				if how == "reserves" {
					if r, d := idle.Reserve("m", 1, 1); r == nil {
						t.Errorf("Reserve: %+v", d)
					} else {
						r.Cancel()
					}
				}
				if d := idle.Decide("m", 1); !d.Allowed || d.Stats.RPD != 60 {
					t.Errorf("the slot is free, and the day has 60: %+v", d)
				}
				if d := idle.Decide("forgotten", 1); !d.Allowed {
					t.Errorf("after Reset: %+v", d)
				}
				if d := idle.Decide("closed", 1); d.Allowed {
					t.Errorf("in the cooldown: %+v", d)
				}
				if d := idle.Decide("changed", 1); d.Stats.MaxRPM != 7 {
					t.Errorf("after SetQuota: %+v", d)
				}
				if err := idle.Err(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

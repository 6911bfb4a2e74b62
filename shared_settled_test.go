// Shared: what is settled stays so, and what was charged stays charged, whoever makes memory anew.

package ratelimit

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog/sharedlogtest"
)

// The event of a reservation that is open for more than a minute outlasts those around it, and is
// deleted once it is settled, by whichever limiter writes next. Else it would come back when the
// settlement is deleted, too, and its slot would never be free again.
func TestSharedWhatIsSettledDoesNotComeBack(t *testing.T) {
	for _, tt := range []struct {
		name     string
		oneBatch bool // the settlement is in the batch that deletes what is around
		reads    bool // the other limiter reads between that batch and the settlement
		cooldown bool // the other limiter has read late of a cooldown, which seems young to it
		anew     bool // the other limiter makes its memory anew after the settlement
	}{
		{name: "in one batch", oneBatch: true},
		{name: "read at once"},
		{name: "a cooldown read late", cooldown: true, reads: true},
		{name: "memory made anew", reads: true, anew: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := sharedlogtest.NewFake()
				open := func() *RateLimiter { return openOver(t, fake, ModelQuota{MaxInFlight: 1}) }
				first, second := open(), open()
				if tt.cooldown {
					first.Cooldown("other", time.Now().Add(time.Second))
				}
				r, _ := first.Reserve("m", 1, 1)
				for range sharedlog.SweepFrom {
					first.RecordUsage("other", 1, 1)
				}
				time.Sleep(3 * time.Minute)
				second.Stats("m")
				if !tt.oneBatch {
					first.RecordUsage("other", 1, 1)
				}
				if tt.reads {
					second.Stats("m")
				}
				r.Cancel()
				if tt.anew {
					fake.Fail(errors.New("made up"))
					second.Stats("m")
					recoverOver(fake, second)
				}
				// The first writes no more. The second deletes the settlement.
				for range sharedlog.SweepFrom {
					second.RecordUsage("other", 1, 1)
				}
				time.Sleep(3 * time.Minute)
				second.RecordUsage("other", 1, 1)
				if n := open().Stats("m").InFlight; n != 0 {
					t.Errorf("%d calls are in flight", n)
				}
			})
		})
	}
}

// While the log was down, the first charge of a day was made. When it is back, nobody else has
// charged the model, and its window begins then. The charge is of the same day in the zone.
func TestSharedChargeBeginsDayInZoneWhileLogIsDown(t *testing.T) {
	for _, tt := range []struct {
		name string
		down time.Duration
		want int
	}{
		{"on the same day", 2 * time.Hour, 1},
		{"on the day before", 26 * time.Hour, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := sharedlogtest.NewFake()
				rl := openOver(t, fake, ModelQuota{MaxRPD: 5, DayZone: "UTC"})
				fake.Fail(errors.New("made up"))
				rl.RecordUsage("m", 1, 1)
				time.Sleep(tt.down)
				recoverOver(fake, rl)
				if n := rl.Stats("m").RPD; n != tt.want {
					t.Errorf("%d requests on this day, want %d", n, tt.want)
				}
			})
		})
	}
}

// openOver returns a limiter over a fake, with a quota of the model m.
func openOver(t *testing.T, fake *sharedlogtest.Fake, q ModelQuota) *RateLimiter {
	t.Helper()
	rl, _, err := NewOverFake(fake, Config{LeaseTTL: time.Hour, Quotas: map[string]ModelQuota{"m": q, "other": {}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rl.Close() })
	return rl
}

// recoverOver has a limiter use the fake again.
func recoverOver(fake *sharedlogtest.Fake, rl *RateLimiter) {
	fake.Fail(nil)
	for rl.Err() != nil {
		rl.Persist()
	}
}

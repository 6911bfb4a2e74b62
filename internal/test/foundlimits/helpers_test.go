// Helpers of the tests of limits that are found.

package foundlimits

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/sqlitestate"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
)

// adaptiveBoth finds both limits: from 120 a minute, and from 20 calls in flight.
var adaptiveBoth = ratelimit.ModelQuota{
	AdaptiveFloorRPM: 60, AdaptiveCeilingRPM: 6000, AdaptiveFloorInFlight: 10, AdaptiveCeilingInFlight: 1000,
}

// adaptiveFixed is a quota whose rate is known: there is nothing between floor and ceiling.
func adaptiveFixed(rpm int) ratelimit.ModelQuota {
	return ratelimit.ModelQuota{AdaptiveFloorRPM: rpm, AdaptiveCeilingRPM: rpm}
}

// adaptiveGroups are the ways in which limiters can be made: alone, and three of one file or store.
var adaptiveGroups = func() []string {
	groups := []string{"alone", "of a store"}
	if sqlitestate.Enabled {
		groups = append(groups, "of a file")
	}
	return groups
}()

// adaptiveGroup returns the limiters of a group, and what opens one more of it.
func adaptiveGroup(t *testing.T, group string, cfg ratelimit.Config) ([]*ratelimit.RateLimiter, func() *ratelimit.RateLimiter) {
	t.Helper()
	n := 3
	switch group {
	case "alone":
		n = 1
		cfg.FilePath = filepath.Join(t.TempDir(), "state")
	case "of a store":
		fake := fakestore.New()
		fake.Contact, cfg.Store = time.Hour, fake // idle limiters seldom ask
	default:
		cfg.Shared, cfg.Backend, cfg.FilePath = true, "sqlite", filepath.Join(t.TempDir(), "state.db")
	}
	open := func() *ratelimit.RateLimiter { return adaptiveOpen(t, cfg) }
	var all []*ratelimit.RateLimiter
	for range n {
		all = append(all, open())
	}
	return all, open
}

// adaptiveOpen opens a limiter, which is closed at the end.
func adaptiveOpen(t *testing.T, cfg ratelimit.Config) *ratelimit.RateLimiter {
	t.Helper()
	if cfg.Store == nil {
		rl := limitertest.With(t, cfg)
		t.Cleanup(func() { rl.Close() })
		return rl
	}
	return limitertest.OverStore(t, cfg.Store, cfg)
}

// adaptiveCatchUp lets limiters learn what the others have done.
func adaptiveCatchUp(t *testing.T, all ...*ratelimit.RateLimiter) {
	t.Helper()
	for _, rl := range all {
		if err := rl.Persist(); err != nil {
			t.Fatal(err)
		}
	}
}

// adaptiveRefuse reports a refusal of a call of which is not known when it was sent.
func adaptiveRefuse(rl *ratelimit.RateLimiter, model, problem string) {
	rl.ObserveRefusal(context.Background(), ratelimit.ProviderRefusal{Model: model, Problem: problem})
}

// adaptiveFound returns what was found of a model, as "rate/calls in flight".
func adaptiveFound(rl *ratelimit.RateLimiter, model string) string {
	s := rl.Stats(model)
	return fmt.Sprintf("%d/%d", s.AdaptiveRPM, s.AdaptiveInFlight)
}

// adaptiveNear reports whether what was found is a text of adaptiveFound, but for one a
// minute: what is not used ages, and Stats rounds.
func adaptiveNear(got, want string) bool {
	var rate, slots, wantRate, wantSlots int
	fmt.Sscanf(got, "%d/%d", &rate, &slots)
	fmt.Sscanf(want, "%d/%d", &wantRate, &wantSlots)
	return slots == wantSlots && max(rate-wantRate, wantRate-rate) <= 1
}

// adaptiveDrive makes calls that take no time as fast as they pass, and returns how many did.
func adaptiveDrive(t *testing.T, rl *ratelimit.RateLimiter, model string, lasts time.Duration) (passed int) {
	t.Helper()
	for end := time.Now().Add(lasts); ; {
		r, d := rl.Reserve(model, 0, 0)
		switch {
		case r != nil:
			r.Commit(0, 0)
			passed++
			continue
		case d.RetryAfter <= 0:
			t.Fatalf("a call is denied without end: %+v", d)
		case !time.Now().Add(d.RetryAfter).Before(end):
			time.Sleep(time.Until(end))
			return passed
		}
		time.Sleep(d.RetryAfter)
	}
}

// adaptiveFill keeps all slots full with calls of a second, and returns how many passed.
func adaptiveFill(rl *ratelimit.RateLimiter, model string, lasts time.Duration) (passed int) {
	for end := time.Now().Add(lasts); time.Now().Before(end); {
		var open []*ratelimit.Reservation
		for {
			r, _ := rl.Reserve(model, 0, 0)
			if r == nil {
				break
			}
			open = append(open, r)
		}
		time.Sleep(time.Second)
		for _, r := range open {
			r.Commit(0, 0)
		}
		passed += len(open)
	}
	return passed
}

// adaptiveLate is by how much a call may start late without those behind it starting later.
const adaptiveLate = 5 * time.Millisecond

// adaptiveGap returns the longest gap of a rate that Stats rounds to rpm. Rates are whole numbers
// of calls in 10^9 seconds, and no rate is below one a minute.
func adaptiveGap(rpm int) time.Duration {
	gap := 2*time.Minute/time.Duration(max(2*rpm-1, 2)) + 1
	return gap + gap/10_000_000 + 1
}

// adaptiveTooClose reports whether two calls are closer than at any such rate.
func adaptiveTooClose(apart time.Duration, rpm int) bool {
	apart += adaptiveLate
	return apart < time.Minute && apart*time.Duration(rpm+1) < time.Minute
}

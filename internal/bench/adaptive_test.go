package bench

import (
	"testing"

	"dappco.re/go/core/go-ratelimit/adaptive"
	"dappco.re/go/core/go-ratelimit/limit"
	"golang.org/x/time/rate"
)

// newAdaptive returns a Rate that admits every call, and one that admits one in an hour.
func newAdaptive(b *testing.B, open bool) *adaptive.Rate {
	c := adaptive.RateConfig{Floor: limit.PerSecond(openRate), Burst: openBurst, Seed: 1}
	if !open {
		c.Floor, c.Burst = limit.Rate{Count: 1, Per: 3600e9}, 1
	}
	c.Ceiling = c.Floor
	return must(adaptive.NewRate(c))(b)
}

// BenchmarkAdaptiveRatio has the ratios to x/time's Allow of which the first two are held at
// 1.0 at most.
func BenchmarkAdaptiveRatio(b *testing.B) {
	xtime := rate.NewLimiter(openRate, openBurst)
	b.Run("Allow", func(b *testing.B) {
		l := newAdaptive(b, true)
		compareWith(b, "xtime", func() { xtime.Allow() }, func() { l.Allow() })
	})
	b.Run("Take", func(b *testing.B) {
		l := newAdaptive(b, true)
		compareWith(b, "xtime", func() { xtime.Allow() }, func() { l.Take(1) })
	})
	b.Run("Take-denied", func(b *testing.B) {
		l := newAdaptive(b, false)
		l.Take(1)
		compareWith(b, "xtime", func() { xtime.Allow() }, func() { l.Take(1) })
	})
	b.Run("Refused", func(b *testing.B) {
		l := newAdaptive(b, true)
		compareWith(b, "xtime", func() { xtime.Allow() }, func() { l.Refused(adaptive.Refusal{}) })
	})
	b.Run("TryAcquire-Release", func(b *testing.B) {
		l := must(adaptive.NewConcurrency(adaptive.ConcurrencyConfig{Floor: 10, Ceiling: 10}))(b)
		compareWith(b, "xtime", func() { xtime.Allow() }, func() {
			s, _ := l.TryAcquire()
			s.Release()
		})
	})
	b.Run("Throttle", func(b *testing.B) {
		l := must(adaptive.NewThrottle(adaptive.ThrottleConfig{}))(b)
		compareWith(b, "xtime", func() { xtime.Allow() }, func() {
			if l.Allow() {
				l.Accepted()
			}
		})
	})
}

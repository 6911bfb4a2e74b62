package adaptive

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// RateConfig is what a Rate is made of. Floor and Ceiling are required; the zero value of any
// other field stands for its default. They come from the sweep that
// go run ./internal/test/adaptivesim/figure -sweep prints.
type RateConfig struct {
	// Floor is the least rate: a Rate that is refused again and again still tries so often.
	// It must be at least one unit in 31 years.
	Floor limit.Rate
	// Ceiling is the largest rate, at least Floor and at most one unit in a nanosecond.
	Ceiling limit.Rate
	// Start is the rate before anything is known, from Floor to Ceiling. The default is
	// Floor.
	Start limit.Rate
	// Burst is how many units may pass at once. The default is 1: calls are spaced evenly,
	// because the burst of a provider is not known either.
	Burst int
	// CoolDown is the time after a decrease in which refusals decrease nothing more. The
	// default is 2 seconds. It should be more than the time that a refusal takes to come
	// back, unless Refusal.Sent is set.
	CoolDown time.Duration
	// Window is the least length of a clean window. The default is 2 seconds. It varies by
	// up to a quarter, so that clients do not move in step, and is no shorter than refusals
	// take to come back, as far as Refusal.Sent tells.
	Window time.Duration
	// WindowUnits is how many units a clean window has at least, unless it lasts 5 seconds.
	// The default is 10. Where other clients share the quota a third of them is enough, and
	// windows are half as long again.
	WindowUnits int
	// Decrease is what the first refusal takes off the rate, in thousandths, at most 500.
	// The default is 50. Refusals that follow without a clean window between take more. Where
	// other clients share the quota it is less below 5 units a second, down to a half.
	Decrease int
	// Increase is the first step above a rate that was refused, in thousandths of it, at most
	// 1000. The default is 2. Each step after it is three times the one before.
	Increase int
	// HalfLife is the time in which what Restore restores loses half of its distance to
	// Floor. The default is 1 hour.
	HalfLife time.Duration
	// Seed makes the jitter that of every other Rate with this Seed. The default, 0, is a
	// random one.
	Seed uint64
}

// The defaults of RateConfig.
const (
	defaultCoolDown    = 2 * time.Second
	defaultWindow      = 2 * time.Second
	defaultWindowUnits = 10
	defaultDecrease    = 50
	defaultIncrease    = 2
	defaultHalfLife    = time.Hour
	longestWindow      = 5 * time.Second
	longestLag         = 2 * time.Minute
)

// perSpan is the time in which a rate is counted: 10^9 seconds.
const perSpan = int64(1e9 * time.Second)

// longest is the longest time that a setting may say: 36 years, as in package limit. Sums of
// a few of them fit an int64 of nanoseconds.
const longest = time.Duration(1 << 60)

// countOf returns a valid rate in units in perSpan.
func countOf(r limit.Rate) (count int64, ok bool) {
	if r.Count < 1 || r.Per < 1 {
		return 0, false
	}
	hi, lo := bits.Mul64(uint64(r.Count), uint64(perSpan))
	if hi >= uint64(r.Per) {
		return 0, false
	}
	q, _ := bits.Div64(hi, lo, uint64(r.Per))
	if q < 1 || q > uint64(perSpan) {
		return 0, false
	}
	return int64(q), true
}

// complete returns the config with its defaults and the search at its start, or an error that
// names the field that is out of range.
func (c RateConfig) complete() (RateConfig, search, error) {
	fail := func(format string, args ...any) (RateConfig, search, error) {
		return c, search{}, fmt.Errorf("%w: "+format, append([]any{limit.ErrInvalid}, args...)...)
	}
	floor, ok := countOf(c.Floor)
	if !ok {
		return fail("Floor is %v, want one unit in a nanosecond to 31 years", c.Floor)
	}
	ceiling, ok := countOf(c.Ceiling)
	if !ok || ceiling < floor {
		return fail("Ceiling is %v, want Floor to one unit in a nanosecond", c.Ceiling)
	}
	start := floor
	if c.Start != (limit.Rate{}) {
		if start, ok = countOf(c.Start); !ok || start < floor || start > ceiling {
			return fail("Start is %v, want Floor to Ceiling", c.Start)
		}
	}
	c.Burst = or(c.Burst, 1)
	c.CoolDown, c.Window = or(c.CoolDown, defaultCoolDown), or(c.Window, defaultWindow)
	c.WindowUnits, c.Decrease = or(c.WindowUnits, defaultWindowUnits), or(c.Decrease, defaultDecrease)
	c.Increase, c.HalfLife = or(c.Increase, defaultIncrease), or(c.HalfLife, defaultHalfLife)
	if c.Seed == 0 {
		c.Seed = rand.Uint64()
	}
	switch most := int64(longest) / gapOf(floor); {
	case c.Burst < 1 || int64(c.Burst) > most:
		return fail("Burst is %d, want 1 to %d at this Floor", c.Burst, most)
	case c.WindowUnits < 1:
		return fail("WindowUnits is %d, want 1 or more", c.WindowUnits)
	}
	if err := validSearch(c.Decrease, c.Increase, c.CoolDown, c.Window, c.HalfLife); err != nil {
		return fail("%w", err)
	}
	return c, search{
		floor: floor, ceiling: ceiling, level: start, keep: int64(1000 - c.Decrease), grow: int64(c.Increase),
		shares: true,
	}, nil
}

// gapOf returns the time between units at a count in perSpan, rounded up to a nanosecond.
func gapOf(count int64) int64 { return (perSpan-1)/count + 1 }

func or[N int | time.Duration](value, otherwise N) N {
	if value == 0 {
		return otherwise
	}
	return value
}

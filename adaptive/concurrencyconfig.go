package adaptive

import (
	"fmt"
	"math/rand/v2"
	"time"

	"dappco.re/go/core/go-ratelimit/limit"
)

// ConcurrencyConfig is what a Concurrency is made of. Floor and Ceiling are required; the zero
// value of any other field stands for its default.
type ConcurrencyConfig struct {
	// Floor is the least limit of calls in flight, 1 or more.
	Floor int
	// Ceiling is the largest one, from Floor to 1,000,000.
	Ceiling int
	// Start is the limit before anything is known, from Floor to Ceiling. The default is
	// Floor.
	Start int
	// CoolDown is the time after a decrease in which overload decreases nothing more. The
	// default is 2 seconds.
	CoolDown time.Duration
	// Window is the least length of a clean window, in which also as many calls have to end
	// as may be in flight. The default is 2 seconds. It varies by up to a quarter.
	Window time.Duration
	// Decrease is what the first overload takes off the limit, in thousandths, at most 500.
	// The default is 50. Overload that follows without a clean window between takes more, and
	// each at least one slot.
	Decrease int
	// Increase is the first step above a limit that was too high, in thousandths of it, at
	// most 1000. The default is 10. Each step after it is three times the one before.
	Increase int
	// HalfLife is the time in which what Restore restores loses half of its distance to
	// Floor. The default is 1 hour.
	HalfLife time.Duration
	// Seed makes the jitter that of every other Concurrency with this Seed. The default, 0,
	// is a random one.
	Seed uint64
}

// The defaults of ConcurrencyConfig; the other ones are those of RateConfig.
const (
	defaultSlotsDecrease = 50
	defaultSlotsIncrease = 10
	mostSlots            = 1_000_000
)

// complete returns the config with its defaults and the search at its start, or an error that
// names the field that is out of range.
func (c ConcurrencyConfig) complete() (ConcurrencyConfig, search, error) {
	fail := func(format string, args ...any) (ConcurrencyConfig, search, error) {
		return c, search{}, fmt.Errorf("%w: "+format, append([]any{limit.ErrInvalid}, args...)...)
	}
	c.Start = or(c.Start, c.Floor)
	c.CoolDown, c.Window = or(c.CoolDown, defaultCoolDown), or(c.Window, defaultWindow)
	c.Decrease, c.Increase = or(c.Decrease, defaultSlotsDecrease), or(c.Increase, defaultSlotsIncrease)
	c.HalfLife = or(c.HalfLife, defaultHalfLife)
	if c.Seed == 0 {
		c.Seed = rand.Uint64()
	}
	switch {
	case c.Floor < 1 || c.Floor > mostSlots:
		return fail("Floor is %d, want 1 to %d", c.Floor, mostSlots)
	case c.Ceiling < c.Floor || c.Ceiling > mostSlots:
		return fail("Ceiling is %d, want Floor to %d", c.Ceiling, mostSlots)
	case c.Start < c.Floor || c.Start > c.Ceiling:
		return fail("Start is %d, want Floor to Ceiling", c.Start)
	}
	if err := validSearch(c.Decrease, c.Increase, c.CoolDown, c.Window, c.HalfLife); err != nil {
		return fail("%w", err)
	}
	return c, search{
		floor: int64(c.Floor) * 1000, ceiling: int64(c.Ceiling) * 1000, level: int64(c.Start) * 1000,
		keep: int64(1000 - c.Decrease), grow: int64(c.Increase), unit: 1000,
	}, nil
}

// validSearch returns an error that names the setting of a search that is out of range.
func validSearch(decrease, increase int, coolDown, window, halfLife time.Duration) error {
	for _, n := range []struct {
		name        string
		value, most int
	}{{"Decrease", decrease, 500}, {"Increase", increase, 1000}} {
		if n.value < 1 || n.value > n.most {
			return fmt.Errorf("%s is %d, want 1 to %d", n.name, n.value, n.most)
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"CoolDown", coolDown}, {"Window", window}, {"HalfLife", halfLife}} {
		if d.value < 1 || d.value > longest {
			return fmt.Errorf("%s is %v, want more than 0 and at most %v", d.name, d.value, longest)
		}
	}
	return nil
}

package notice

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Cooldowns are those that were told to have begun and not to have ended, by the names of what
// cools. Their number is bounded as that of all cooldowns is. The zero value has none. It is not
// safe for concurrent use.
type Cooldowns struct {
	causes  map[string]string
	looksAt int64 // where there are any
}

// Cooldown is one of them.
type Cooldown struct{ Name, Cause string }

// never is the instant that does not come.
const never = int64(math.MaxInt64)

// mostSleep bounds how long the end of a cooldown is waited for at once: it follows the wall clock,
// and timers do not.
const mostSleep = int64(time.Minute)

// Begin notes at an instant that one was told, of which so much is left.
func (c *Cooldowns) Begin(name, cause string, left, instant int64) {
	looksAt := c.LooksAt()
	if c.causes == nil {
		c.causes = make(map[string]string)
	}
	c.causes[name] = cause
	c.looksAt = min(looksAt, lookAt(left, instant))
}

// LooksAt returns the instant at which to look whether one has ended; the last there is for none.
func (c *Cooldowns) LooksAt() int64 {
	if len(c.causes) == 0 {
		return never
	}
	return c.looksAt
}

// Look notes at an instant that End was asked. left tells how much is left of one.
func (c *Cooldowns) Look(instant int64, left func(name string) int64) {
	c.looksAt = never
	for name := range c.causes {
		c.looksAt = min(c.looksAt, lookAt(left(name), instant))
	}
}

func lookAt(left, instant int64) int64 { return instant + min(max(left, 0), mostSleep) }

// End takes out those of which nothing is left, sorted by name.
func (c *Cooldowns) End(left func(name string) int64) (ended []Cooldown) {
	for name, cause := range c.causes {
		if left(name) <= 0 {
			ended = append(ended, Cooldown{name, cause})
			delete(c.causes, name)
		}
	}
	slices.SortFunc(ended, func(a, b Cooldown) int { return cmp.Compare(a.Name, b.Name) })
	return ended
}

// Rename follows changes of names. Of two that have one name now, one stays.
func (c *Cooldowns) Rename(nameOf func(string) string) {
	for name, cause := range c.causes {
		if to := nameOf(name); to != name {
			delete(c.causes, name)
			if _, told := c.causes[to]; !told {
				c.causes[to] = cause
			}
		}
	}
}

// Clear forgets all.
func (c *Cooldowns) Clear() { c.causes = nil }

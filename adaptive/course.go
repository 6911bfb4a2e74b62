package adaptive

import (
	"math"
	"time"
)

// course is what a RateSearch and a SlotSearch have in common: the level, the window, and when
// the level was last lowered. Instants may be any, and sums of them are saturated.
type course struct {
	search
	coolDown int64
	window   int64
	halfLife int64
	chance   chance

	begun   bool
	lowered int64 // when the level was last lowered
	opened  int64 // when the window began
	length  int64 // of the window
}

// never is when a level that was not lowered was lowered.
const never = math.MinInt64

// fresh is the age below which the steps and the row of refusals are taken over. They are of
// the last windows, so they say nothing about what a provider does later.
const fresh = int64(time.Minute)

// openFrom begins a window, of at least a length.
func (c *course) openFrom(at, least int64) {
	c.begun, c.opened = true, at
	c.length = least + c.chance.below(least/4)
}

// lasted returns how long the window has lasted.
func (c *course) lasted(at int64) int64 { return sub(at, c.opened) }

// lower lowers the level after a refusal of a call that was sent took before, unless that is
// one of an event that has lowered it. A late refusal is of a call that was sent before the
// level was lowered.
func (c *course) lower(at, took int64) (lowered, late bool) {
	if c.lowered != never {
		if took > 0 && sub(at, took) <= c.lowered && c.lowered <= at {
			return false, true
		}
		// A clock that was set back by more than the cool-down must not bring another long one.
		if since := sub(at, c.lowered); since < c.coolDown && since > -c.coolDown {
			return false, false
		}
	}
	c.refused()
	c.lowered = at
	return true, false
}

// state returns where the search stands.
func (c *course) state(at int64) SearchState {
	s := SearchState{Level: c.level, Knee: c.knee, Step: c.step, Raised: c.raised, Streak: c.streak}
	if c.lowered != never {
		s.Lowered = max(sub(at, c.lowered), 1)
	}
	return s
}

// resume takes over a state of a positive level, aged towards the floor.
func (c *course) resume(s SearchState, at, age int64) {
	age = max(age, 0)
	level := min(max(s.Level, c.floor), c.ceiling)
	c.knee = 0
	if s.Knee > 0 {
		c.knee = min(max(s.Knee, c.floor), c.ceiling)
	}
	c.step, c.raised, c.streak = 0, 0, 0
	if age >= fresh {
		c.rivals, c.top = 0, 0
	} else {
		c.step, c.raised = min(max(s.Step, 0), level), min(max(s.Raised, 0), level)
		c.streak = min(max(s.Streak, 0), lost)
	}
	if age > 0 && c.knee > 0 {
		c.knee = max(c.knee, level) // the level is lowered by its age, and was not refused
	}
	c.level = c.floor + aged(level-c.floor, age, c.halfLife)
	c.step, c.raised = min(c.step, c.level), min(c.raised, c.level)
	c.lowered = never
	if s.Lowered > 0 {
		c.lowered = max(sub(sub(at, age), s.Lowered), never+1)
	}
}

// shift makes the instant by the new origin.
func (c *course) shift(by int64) {
	c.opened = sub(c.opened, by)
	if c.lowered != never {
		c.lowered = sub(c.lowered, by)
	}
}

// Package cooldown keeps until when the limiter admits nothing, by model, because a provider said
// to wait, and why. The limiter's package uses it, and the packages that explain its decisions.
package cooldown

import (
	"maps"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Times are the cooldowns of models, by the names under which they are counted. They follow the
// wall clock. Nil has none. Times are not safe for concurrent use.
type Times map[string]state.Cooldown

// Set notes a cooldown, whether there is another one or not. Its cause is kept as Cause says.
func (ts *Times) Set(name string, c state.Cooldown) {
	if *ts == nil {
		*ts = make(Times)
	}
	c.Cause = Cause(c.Cause)
	(*ts)[name] = c
}

// Rises reports whether a cooldown until the given time is not over, and ends later than the one
// there is.
func (ts Times) Rises(name string, until, now time.Time) bool {
	return until.After(now) && until.After(ts[name].Until)
}

// Raise notes a cooldown that Rises, and reports whether it did. Of two that end at the same time
// the first stays, with its cause.
func (ts *Times) Raise(name string, c state.Cooldown, now time.Time) bool {
	if !ts.Rises(name, c.Until, now) {
		return false
	}
	ts.Set(name, c)
	return true
}

// Of returns the end of the cooldown of a model in UnixNano, and its cause; 0 where there is
// none. It drops one that is over at wall.
func (ts Times) Of(name string, wall int64) (until int64, cause string) {
	c, cools := ts[name]
	if !cools {
		return 0, ""
	}
	if until = clock.UnixNano(c.Until); until <= wall {
		delete(ts, name)
	}
	return until, c.Cause
}

// HasRoom reports whether there is room for the cooldown of a model, where most models may have
// one. If need be, it drops those that are over.
func (ts Times) HasRoom(name string, most int, now time.Time) bool {
	if _, cools := ts[name]; cools || len(ts) < most {
		return true
	}
	ts.DropOver(now)
	return len(ts) < most
}

// DropOver drops the cooldowns that are over.
func (ts Times) DropOver(now time.Time) {
	maps.DeleteFunc(ts, func(_ string, c state.Cooldown) bool { return !c.Until.After(now) })
}

// Rename follows a change of the names under which models are counted, as nameOf tells them. Of
// two cooldowns the one that ends later stays.
func (ts Times) Rename(nameOf func(name string) string) {
	for name, c := range ts {
		if now := nameOf(name); now != name {
			delete(ts, name)
			if c.Until.After(ts[now].Until) {
				ts[now] = c
			}
		}
	}
}

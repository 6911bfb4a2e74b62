// Package cooldown keeps until when the limiter admits nothing, by model, because a provider said
// to wait.
package cooldown

import (
	"maps"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
)

// Times are the ends of the cooldowns of models, by the names under which they are counted. They
// follow the wall clock. Nil has none. Times are not safe for concurrent use.
type Times map[string]time.Time

// Set notes a cooldown, whether there is another one or not.
func (ts *Times) Set(name string, until time.Time) {
	if *ts == nil {
		*ts = make(Times)
	}
	(*ts)[name] = until
}

// Rises reports whether a cooldown is not over, and ends later than the one there is.
func (ts Times) Rises(name string, until, now time.Time) bool {
	return until.After(now) && until.After(ts[name])
}

// Raise notes a cooldown that Rises, and reports whether it did.
func (ts *Times) Raise(name string, until, now time.Time) bool {
	if !ts.Rises(name, until, now) {
		return false
	}
	ts.Set(name, until)
	return true
}

// Of returns the end of the cooldown of a model in UnixNano, and 0 where there is none. It drops
// one that is over at wall.
func (ts Times) Of(name string, wall int64) int64 {
	end, cools := ts[name]
	if !cools {
		return 0
	}
	until := clock.UnixNano(end)
	if until <= wall {
		delete(ts, name)
	}
	return until
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
	maps.DeleteFunc(ts, func(_ string, until time.Time) bool { return !until.After(now) })
}

// Rename follows a change of the names under which models are counted, as nameOf tells them. Of
// two cooldowns the one that ends later stays.
func (ts Times) Rename(nameOf func(name string) string) {
	for name, until := range ts {
		if now := nameOf(name); now != name {
			delete(ts, name)
			if until.After(ts[now]) {
				ts[now] = until
			}
		}
	}
}

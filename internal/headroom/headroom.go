// Package headroom tells how much more may be charged to a model before one of its waiters cannot
// pass by its deadline, even alone. As long as there is headroom, a charge needs no look at the
// waiters. Each line of the limiter has a [Line], and each waiter with a deadline a [Slack] in it.
package headroom

import (
	"math"

	"dappco.re/go/core/go-ratelimit/internal/pace"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// Slack is how far the charges of a model may go before a waiter could not pass by its deadline,
// even alone. It may be too small, never too large.
type Slack struct {
	Load [state.InFlight]int // the most that the load of the line may grow to
	Full [pace.Units]int64   // the instant until which each bucket may have something in it
}

// Unbounded returns the slack of a waiter that passes whatever is charged.
func Unbounded() *Slack {
	s := new(Slack)
	for of := range s.Load {
		s.Load[of] = math.MaxInt
	}
	for of := range s.Full {
		s.Full[of] = math.MaxInt64
	}
	return s
}

// join makes s the less of both.
func (s *Slack) join(other *Slack) {
	for of := range s.Load {
		s.Load[of] = min(s.Load[of], other.Load[of])
	}
	for of := range s.Full {
		s.Full[of] = min(s.Full[of], other.Full[of])
	}
}

// Line is the headroom of all waiters in a line. The zero value is that of a line in which nobody
// has a deadline. A Line is not safe for concurrent use.
type Line struct {
	least *Slack              // of any waiter; nil for none
	load  [state.InFlight]int // the charges since somebody had a deadline
}

// LoadWith returns the load of the line after so much more is charged in a dimension.
func (l *Line) LoadWith(more int, of state.Dimension) int {
	return tokens.AddSaturated(l.load[of], more)
}

// Join notes the slack of a waiter in the line.
func (l *Line) Join(s *Slack) {
	if l.least == nil {
		l.least = Unbounded()
	}
	l.least.join(s)
}

// Forget forgets the slack of all waiters, which then Join again. Their load stays.
func (l *Line) Forget() { l.least = nil }

// Charge notes a charge of the model, which has the buckets p or none. It reports whether a waiter
// may come too late by that.
func (l *Line) Charge(c *state.Cost, p *pace.Buckets) (late bool) {
	if l.least == nil {
		return false
	}
	for of := range state.InFlight {
		l.load[of] = l.LoadWith(c.Of(of), of)
	}
	return !l.Holds(l.least, p)
}

// Holds reports whether a waiter with the slack s need not be looked at.
func (l *Line) Holds(s *Slack, p *pace.Buckets) bool {
	for of := range s.Load {
		if l.load[of] > s.Load[of] {
			return false
		}
	}
	if p != nil {
		for of := range pace.Units {
			if p.Empty(of) > s.Full[of] {
				return false
			}
		}
	}
	return true
}

package ratelimit

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog/combine"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// timeoutProblem is ProviderRefusal.Problem of a call without an answer.
const timeoutProblem = "timeout"

// foundRefusal is a refusal as the search for the limits of a model sees it.
type foundRefusal struct {
	overload bool
	took     int64 // how long ago the call was sent, in nanoseconds; 0 where that is not known
}

// foundRefusalOf returns what a refusal tells of limits that are searched for, and whether it tells
// anything.
func (r *ProviderRefusal) foundRefusalOf(now time.Time) (f foundRefusal, tells bool) {
	switch r.Problem {
	case string(CauseRateLimited):
	case string(CauseOverloaded), timeoutProblem:
		f.overload = true
	default:
		return f, false
	}
	if took := now.Sub(r.SentAt); !r.SentAt.IsZero() && took >= 0 {
		f.took = max(int64(took), 1)
	}
	return f, true
}

// refuse searches on after a refusal. It returns which of the windows begin anew, and whether a
// limit was lowered.
func (f *found) refuse(r foundRefusal, instant int64) (anew int64, lowered bool) {
	switch {
	case r.overload:
		if f.bounds.floorRPM > 0 {
			f.rate.Failed(instant) // so that it does not grow while nothing is answered
			anew = state.RateAnew
		}
		if f.bounds.floorSlots > 0 {
			lowered = f.slots.Overloaded(instant, r.took)
			anew |= state.SlotsAnew
		}
	case f.bounds.floorRPM > 0 && !f.told:
		lowered = f.rate.Refused(instant, r.took)
		f.follow(instant)
		anew = state.RateAnew
	}
	return anew, lowered
}

// findByRefusal has the search for the limits of a model go on after a refusal.
func (rl *RateLimiter) findByRefusal(model string, r *ProviderRefusal) {
	tells := false
	spread := func() (name string, refusal foundRefusal, spreads bool) {
		rl.mu.Lock()
		defer rl.mu.Unlock()
		var q ModelQuota
		if name, _ = rl.findRLocked(model, &q); !q.adapts() {
			return name, refusal, false
		}
		instant := rl.clock.Sync()
		own := *r
		if !own.SentAt.IsZero() {
			own.SentAt = rl.clock.Own(own.SentAt)
		}
		if refusal, tells = own.foundRefusalOf(rl.clock.At(instant)); !tells {
			return name, refusal, false
		}
		f := rl.foundLocked(name, &q, instant, true)
		if f == nil {
			return name, refusal, false
		}
		if rl.ledger != nil {
			next := *f
			if _, lowered := next.refuse(refusal, instant); lowered || instant-f.spreadAt >= spreadEvery {
				return name, refusal, true
			}
		}
		if _, lowered := f.refuse(refusal, instant); lowered {
			rl.lowerLocked(name)
		}
		return name, refusal, false
	}
	if name, refusal, spreads := spread(); spreads {
		rl.ledger.update(combine.Apart, func(p *plan) { p.findByRefusal(name, refusal) })
	}
}

// lowerLocked follows a found limit that was lowered: waiters may be too late now.
func (rl *RateLimiter) lowerLocked(name string) {
	rl.changedNowLocked()
	if rl.lines.waiting > 0 {
		l := rl.linesLocked()
		l.reviewAllLaterLocked(l.allSlots[name])
		l.settleLocked()
	}
}


package limit

import (
	"math"
	"time"
)

// Take is TakeAt time.Now.
func (b *TokenBucket) Take(n int) Decision { return b.TakeAt(time.Now(), n) }

// TakeAt takes n tokens at now if they are there. AllowN admits up to a nanosecond early,
// as x/time does; TakeAt only a thousandth of that, for rounding, and RetryAfter is exact
// for this arithmetic. Remaining is in whole tokens, and the largest int at Inf. ResetAfter
// is rounded up, and InfDuration if the bucket is never full again. A request is also
// refused with Never if its tokens take longer than a Duration can hold, as at limit 0.
func (b *TokenBucket) TakeAt(now time.Time, n int) Decision {
	b.mu.Lock()
	defer b.mu.Unlock()
	d, at, tokens := b.decideLocked(now, n)
	if d.OK && n > 0 && b.limit != Inf {
		b.tokens, b.last, b.event = tokens, at, at
	}
	return d
}

func (b *TokenBucket) peekAt(now time.Time, n int) Decision {
	b.mu.Lock()
	defer b.mu.Unlock()
	d, _, _ := b.decideLocked(now, n)
	return d
}

// HoldAt sets n tokens aside at now if they are there. Unlike in the other limiters, Commit
// takes them as of the latest instant at which tokens were taken or set aside, which may be
// after now, because a sum of floats cannot be taken apart again. That loses the tokens
// that would have come to a full bucket since, and gains none. At Inf nothing is set aside,
// and the Hold does nothing.
func (b *TokenBucket) HoldAt(now time.Time, n int) (Hold, Decision) {
	b.mu.Lock()
	defer b.mu.Unlock()
	d, at, _ := b.decideLocked(now, n)
	if !d.OK || n == 0 || b.limit == Inf {
		return Hold{}, d
	}
	b.tokens, b.last = b.tokensLocked(at), at
	id := b.holds.add(0, n, struct{}{})
	d, _, _ = b.decideLocked(now, 0)
	return Hold{b, id}, d
}

func (b *TokenBucket) end(id uint64, commit bool) {
	b.mu.Lock()
	o, _, ok := b.holds.remove(id)
	if ok && commit {
		b.tokens -= float64(o.n)
	}
	b.mu.Unlock()
	if ok {
		b.changed()
	}
}

// decideLocked returns the decision on n tokens at now, the instant as which now counts,
// and the tokens that are left then if it is OK.
func (b *TokenBucket) decideLocked(now time.Time, n int) (d Decision, at time.Time, tokens float64) {
	if b.limit == Inf {
		return Decision{OK: n >= 0, Remaining: math.MaxInt, Never: n < 0}, now, 0
	}
	at = now
	elapsed := now.Sub(b.last)
	early := time.Duration(0)
	if elapsed < 0 {
		at, elapsed, early = b.last, 0, b.last.Sub(now)
	}
	tokens = b.filledLocked(elapsed)
	switch {
	case n == 0:
		d.OK = true
	case n < 0 || n > b.burst:
		d.Never = true
	case n > b.burst-b.holds.units: // only the end of a hold helps
	case b.passesLocked(tokens, n):
		d.OK = true
		tokens -= float64(n)
	default:
		if wait, ok := b.untilLocked(elapsed, n); ok && wait <= InfDuration-early {
			d.RetryAfter = early + wait
		} else {
			d.Never = float64(n)-tokens > b.slackLocked() // otherwise the end of a hold helps
		}
	}
	d.Remaining = b.remainingLocked(tokens)
	d.ResetAfter = postponed(b.resetLocked(tokens), early)
	return d, at, tokens
}

// slackLocked returns how many tokens may be missing because sums were rounded: those of a
// thousandth of a nanosecond.
func (b *TokenBucket) slackLocked() float64 { return max(float64(b.limit), 0) * 1e-12 }

// passesLocked reports whether n of tokens can be taken beside those on hold.
func (b *TokenBucket) passesLocked(tokens float64, n int) bool {
	return b.heldLocked()-(tokens-float64(n)) <= b.slackLocked()
}

// remainingLocked returns how many whole tokens can be taken of tokens.
func (b *TokenBucket) remainingLocked(tokens float64) int {
	free := tokens - b.heldLocked() + b.slackLocked()
	if b.burst <= b.holds.units || free < 0 {
		return 0
	}
	if most := b.burst - b.holds.units; free >= float64(most) {
		return most
	}
	return int(free)
}

// resetLocked returns how long a bucket with tokens takes to fill.
func (b *TokenBucket) resetLocked(tokens float64) time.Duration {
	missing := float64(b.burst) - tokens
	if missing <= 0 {
		return 0
	}
	return whole(math.Ceil(b.limit.nanoseconds(missing)))
}

// untilLocked returns how long it takes, from elapsed after last on, until n tokens can be
// taken, which they cannot yet. It is not ok if that is longer than a Duration. A division
// gives the time but for rounding; since the tokens never fall with time, a search around
// that finds the very nanosecond.
func (b *TokenBucket) untilLocked(elapsed time.Duration, n int) (wait time.Duration, ok bool) {
	passes := func(wait time.Duration) bool {
		return b.passesLocked(b.filledLocked(elapsed+min(wait, InfDuration-elapsed)), n)
	}
	low, high := time.Duration(0), b.limit.wait(b.heldLocked()-(b.filledLocked(elapsed)-float64(n)))
	for step := time.Duration(1); !passes(high); step *= 2 {
		if high == InfDuration {
			return 0, false
		}
		low, high = high, high+min(step, InfDuration-high)
	}
	step := time.Duration(1)
	for ; step < high-low && passes(high-step); step *= 2 {
		high -= step
	}
	low = max(low, high-step)
	for high-low > 1 {
		if middle := low + (high-low)/2; passes(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high, true
}

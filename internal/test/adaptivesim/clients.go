package adaptivesim

import (
	"time"

	"dappco.re/go/core/go-ratelimit/adaptive"
	"dappco.re/go/core/go-ratelimit/limit"
)

// Rate is a client behind an adaptive.Rate. Its level is in calls a second.
type Rate struct {
	Limiter *adaptive.Rate
	// Lowered counts the decreases.
	Lowered int
}

// Try implements Client.
func (c *Rate) Try(now time.Time) (any, bool, time.Duration) {
	d := c.Limiter.TakeAt(now, 1)
	return nil, d.OK, d.RetryAfter
}

// Ended implements Client. An outage is reported as a refusal, as by a provider that answers
// 429 to everything.
func (c *Rate) Ended(now time.Time, call Call) {
	if call.Outcome == Refused || call.Outcome == Down {
		if c.Limiter.RefusedAt(now, adaptive.Refusal{Sent: call.Sent, RetryAfter: call.RetryAfter}) {
			c.Lowered++
		}
	}
}

// Level implements Client.
func (c *Rate) Level(now time.Time) float64 { return float64(c.Limiter.StateAt(now).Units) / 1e9 }

// PerEvent is additive increase and multiplicative decrease as the source document has it:
// each success adds, and each refusal multiplies.
type PerEvent struct {
	rate, floor, ceiling, add, factor float64
	bucket                            *limit.TokenBucket
}

// NewPerEvent returns a PerEvent that begins at its floor, in calls a second. Each success
// adds a thousandth of the ceiling, and each refusal halves.
func NewPerEvent(floor, ceiling float64) *PerEvent {
	return &PerEvent{
		rate: floor, floor: floor, ceiling: ceiling, add: ceiling / 1000, factor: 0.5,
		bucket: limit.NewTokenBucket(limit.Limit(floor), 1),
	}
}

// Try implements Client.
func (c *PerEvent) Try(now time.Time) (any, bool, time.Duration) {
	d := c.bucket.TakeAt(now, 1)
	return nil, d.OK, d.RetryAfter
}

// Ended implements Client.
func (c *PerEvent) Ended(now time.Time, call Call) {
	if call.Outcome == Answered {
		c.rate = min(c.rate+c.add, c.ceiling)
	} else {
		c.rate = max(c.rate*c.factor, c.floor)
	}
	c.bucket.SetLimitAt(now, limit.Limit(c.rate))
}

// Level implements Client.
func (c *PerEvent) Level(time.Time) float64 { return c.rate }

// Slots is a client behind an adaptive.Concurrency. Its level is in calls in flight.
type Slots struct {
	Limiter *adaptive.Concurrency
	// Lowered counts the decreases.
	Lowered int
}

// Try implements Client.
func (c *Slots) Try(now time.Time) (any, bool, time.Duration) {
	slot, ok := c.Limiter.TryAcquireAt(now)
	if !ok && c.Limiter.InFlight() == 0 { // the gate is closed
		return nil, false, 100 * time.Millisecond
	}
	return slot, ok, 0
}

// Ended implements Client.
func (c *Slots) Ended(now time.Time, call Call) {
	slot := call.Permit.(adaptive.Slot)
	if call.Outcome == Overloaded || call.Outcome == Down {
		if slot.OverloadedAt(now, call.RetryAfter) {
			c.Lowered++
		}
		return
	}
	slot.ReleaseAt(now)
}

// Level implements Client.
func (c *Slots) Level(time.Time) float64 { return float64(c.Limiter.Limit()) }

// Throttled is a client behind an adaptive.Throttle. Its level is the share that is rejected.
type Throttled struct{ Limiter *adaptive.Throttle }

// Drops implements Dropper.
func (c *Throttled) Drops() {}

// Try implements Client.
func (c *Throttled) Try(now time.Time) (any, bool, time.Duration) {
	return nil, c.Limiter.AllowAt(now), 0
}

// Ended implements Client.
func (c *Throttled) Ended(now time.Time, call Call) {
	if call.Outcome == Down {
		c.Limiter.FailedAt(now)
	} else {
		c.Limiter.AcceptedAt(now)
	}
}

// Level implements Client.
func (c *Throttled) Level(now time.Time) float64 {
	return float64(c.Limiter.RejectionAt(now)) / 1000
}

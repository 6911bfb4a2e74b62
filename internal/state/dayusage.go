package state

import (
	"math"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
)

// DayUsage is a day of a model as databases store it. The zero value is a day without
// anything in it.
type DayUsage struct {
	Start  int64 // in UnixNano
	Count  int64 // of requests
	Tokens int64 // of those requests

	// Generation tells a day in a database from the one that took its place: the next day,
	// or what a reset left of it.
	Generation int64
}

// Same reports whether two days are the same, whatever their generation.
func (d DayUsage) Same(other DayUsage) bool {
	return d.Start == other.Start && d.Count == other.Count && d.Tokens == other.Tokens
}

// Empty reports whether there is nothing in the day.
func (d DayUsage) Empty() bool { return d.Count <= 0 && d.Tokens <= 0 }

// LastsIn reports whether the day is not over at an instant in UnixNano. It ends at
// midnight of the zone, or after 24 hours where zone is nil.
func (d DayUsage) LastsIn(zone *time.Location, now int64) bool {
	if zone == nil {
		return d.Start > now-int64(24*time.Hour)
	}
	_, end := clock.Day(time.Unix(0, d.Start), zone)
	return clock.UnixNano(end) > now
}

// CurrentIn reports whether there is something in the day, and it is not over.
func (d DayUsage) CurrentIn(zone *time.Location, now int64) bool {
	return !d.Empty() && d.LastsIn(zone, now)
}

// Plus returns the day with the given counts added, which may be negative. The sums stop
// at zero and at the largest int64.
func (d DayUsage) Plus(count, tokens int64) DayUsage {
	d.Count, d.Tokens = addCounts(d.Count, count), addCounts(d.Tokens, tokens)
	return d
}

func addCounts(count, more int64) int64 {
	if more > 0 && count > math.MaxInt64-more {
		return math.MaxInt64
	}
	return max(count+more, 0)
}

// DayTime is the time that clock.UnixNano stored: the first instant of its range stands
// for the zero time.
func DayTime(nanos int64) time.Time {
	if nanos == math.MinInt64 {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}

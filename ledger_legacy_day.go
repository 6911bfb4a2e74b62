package ratelimit

import (
	"math"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
)

// busyFor is how long opening keeps trying while other processes hold the file.
const busyFor = 10 * time.Second

// usageDay is a day as the database stores it, in UnixNano.
type usageDay struct {
	start         int64
	count, tokens int64 // of requests, and what these used

	// generation tells a day in the database from one that took its place: the
	// next day, or what a reset left of it.
	generation int64
}

// usageDayOf returns the day in memory.
func usageDayOf(w *window) usageDay {
	return usageDay{start: w.dayBegin, count: int64(w.dayCount()), tokens: int64(w.dayTokens())}
}

// same reports whether two days are the same, whatever their generation.
func (d usageDay) same(other usageDay) bool {
	return d.start == other.start && d.count == other.count && d.tokens == other.tokens
}

// empty reports whether there is nothing in the day.
func (d usageDay) empty() bool { return d.count <= 0 && d.tokens <= 0 }

// lastsIn reports whether the day is not over, which is so until midnight of a
// zone, or for 24 hours without one.
func (d usageDay) lastsIn(zone *time.Location, now int64) bool {
	if zone == nil {
		return d.start > now-day
	}
	_, end := clock.Day(time.Unix(0, d.start), zone)
	return clock.UnixNano(end) > now
}

// currentIn reports whether there is something in the day, and it is not over.
func (d usageDay) currentIn(zone *time.Location, now int64) bool {
	return !d.empty() && d.lastsIn(zone, now)
}

// plus returns the day with what was counted more, or less. A count never falls
// below zero.
func (d usageDay) plus(count, tokens int64) usageDay {
	d.count, d.tokens = addCounts(d.count, count), addCounts(d.tokens, tokens)
	return d
}

// addCounts adds what is to be added, which may be negative, to a count.
func addCounts(count, more int64) int64 {
	if more > 0 && count > math.MaxInt64-more {
		return math.MaxInt64
	}
	return max(count+more, 0)
}

// dayTime is the reverse of unixNano, which stores the zero time, where a model
// was never used, as the first instant that there is.
func dayTime(nanos int64) time.Time {
	if nanos == math.MinInt64 {
		return time.Time{}
	}
	return time.Unix(0, nanos)
}

// snapshot is quotas, usage and cooldowns as the file has them.
type snapshot struct {
	quotas    map[string]ModelQuota
	state     map[string]*UsageStats
	cooldowns map[string]time.Time
}

func newSnapshot() *snapshot {
	return &snapshot{
		quotas:    make(map[string]ModelQuota),
		state:     make(map[string]*UsageStats),
		cooldowns: make(map[string]time.Time),
	}
}

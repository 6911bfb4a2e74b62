package ratelimit

import (
	"math"
	"sync/atomic"
	"time"
)

const (
	minute = int64(time.Minute)
	day    = int64(24 * time.Hour)
	never  = int64(math.MaxInt64)
)

// window is what the limiter keeps beside one UsageStats so that a decision
// never has to scan it: the same entries in order, on the limiter's own time
// line, with the sums of their tokens.
//
// UsageStats stays the truth. The window remembers which slices and which day
// it was made from; where they are others now, it is made anew.
type window struct {
	home     *RateLimiter // whose time line and span it is on
	stats    *UsageStats
	requests timedQueue[time.Time]
	tokens   timedQueue[TokenEntry]
	counts   sums  // the token counts, parallel to tokens
	leaveAt  int64 // until this instant, included, no entry leaves
	ahead    bool  // an entry was from the future when the window was made

	dayStart         time.Time // as in stats
	dayBegin, dayEnd int64     // the day in UnixNano, dayEnd excluded
}

// newWindow indexes stats, whose slices it replaces by sorted copies: they may
// come from a caller, who may have others that share their storage. Entries
// from the future count as of now, negative counts as 0.
func (rl *RateLimiter) newWindow(stats *UsageStats, now time.Time, instant int64) *window {
	w := &window{home: rl, stats: stats}
	instantOf := func(t *time.Time) int64 {
		age := now.Sub(*t)
		if age < 0 {
			*t, age, w.ahead = now, 0, true
		}
		return instant - int64(age)
	}
	w.requests.fill(withRoom(stats.Requests), func(t *time.Time) int64 { return instantOf(t) })
	w.tokens.fill(withRoom(stats.Tokens), func(e *TokenEntry) int64 {
		e.Count = max(e.Count, 0)
		return instantOf(&e.Time)
	})
	counts := make([]int, len(w.tokens.vals), cap(w.tokens.vals))
	for i, e := range w.tokens.vals {
		counts[i] = e.Count
	}
	w.counts.fill(counts)
	w.settleDay(now)
	w.mirror(rl.span())
	stats.window = w
	return w
}

// mirrors reports whether the window still belongs to stats as it is now. An
// entry that a program took over from another limiter has a window of that one.
func (w *window) mirrors(stats *UsageStats, rl *RateLimiter) bool {
	return w != nil && w.stats == stats && w.home == rl && stats.DayStart == w.dayStart &&
		sameSlice(stats.Requests, w.requests.vals[w.requests.head:]) &&
		sameSlice(stats.Tokens, w.tokens.vals[w.tokens.head:])
}

// pin keeps the entries that stats shows where they are as long as reading says
// that somebody reads them without the lock.
func (w *window) pin(reading *atomic.Bool) { w.requests.pinned, w.tokens.pinned = reading, reading }

func sameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// mirror shows the entries in stats and works out when the next one leaves.
func (w *window) mirror(span int64) {
	w.stats.Requests, w.stats.Tokens = w.requests.live(), w.tokens.live()
	w.leaveAt = never
	if w.requests.len() > 0 {
		w.leaveAt = w.requests.when(0) + span
	}
	if w.tokens.len() > 0 {
		w.leaveAt = min(w.leaveAt, w.tokens.when(0)+span)
	}
}

// prune drops what was charged more than span before instant.
func (w *window) prune(instant, span int64) {
	if instant <= w.leaveAt {
		return
	}
	w.requests.drop(w.requests.before(instant - span))
	n := w.tokens.before(instant - span)
	w.tokens.drop(n)
	w.counts.drop(n)
	w.mirror(span)
}

// charge adds one request and its tokens.
func (w *window) charge(instant int64, now time.Time, tokens int, span int64) {
	w.requests.push(instant, now)
	w.tokens.push(instant, TokenEntry{Time: now, Count: tokens})
	w.counts.push(tokens)
	w.stats.Requests, w.stats.Tokens = w.requests.live(), w.tokens.live()
	w.leaveAt = min(w.leaveAt, instant+span)
	if w.stats.DayCount <= 0 {
		w.stats.DayCount = 0
		w.startDay(now)
	}
	w.stats.DayCount = addSaturated(w.stats.DayCount, 1)
}

// rollDay ends a day that is over: 24 hours of the wall clock from its first
// request. A day that lies in the future, because the wall clock stepped back,
// begins now.
func (w *window) rollDay(now time.Time) {
	switch wall := now.UnixNano(); {
	case wall < w.dayBegin:
		w.startDay(now)
	case wall >= w.dayEnd:
		w.stats.DayCount = 0
		w.startDay(now)
	}
}

// settleDay takes the day over from stats; one from the future begins now.
func (w *window) settleDay(now time.Time) {
	w.dayStart, w.dayBegin = w.stats.DayStart, unixNano(w.stats.DayStart)
	if w.dayBegin > now.UnixNano() {
		w.startDay(now)
	}
	w.dayEnd = w.dayBegin + day
}

// startDay begins a day at now, without its monotonic reading: a day follows
// the wall clock.
func (w *window) startDay(now time.Time) {
	w.stats.DayStart = now.Round(0)
	w.dayStart, w.dayBegin = w.stats.DayStart, now.UnixNano()
	w.dayEnd = w.dayBegin + day
}

// dayCount is the count of the day; a caller may have made it negative.
func (w *window) dayCount() int { return max(w.stats.DayCount, 0) }

// empty reports whether nothing is counted any more.
func (w *window) empty() bool {
	return w.requests.len() == 0 && w.tokens.len() == 0 && w.stats.DayCount <= 0
}

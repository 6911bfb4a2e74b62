package ratelimit

import (
	"math"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/ring"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
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
	gate     *gate // the model's, if it has one
	gone     bool  // State has another one for the model, or none
	era      int   // which State the last charge of a reservation found it in
	requests ring.Queue[time.Time]
	tokens   ring.Queue[TokenEntry]
	sums     ring.Sums // the tokens of each entry, parallel to tokens
	leaveAt  int64     // until this instant, included, no entry leaves
	usedAt   int64     // the instant of the last charge
	ahead    bool      // an entry was from the future when the window was made

	zone             string         // whose midnight ends the day
	quotaEra         int            // when that was looked up
	location         *time.Location // the same; nil for a day of 24 hours
	badZone          bool           // there is no such zone
	days             int32          // how often the count of the day began anew
	dayWas           int            // the count of the day when the limiter last changed it
	dayStart         time.Time      // as in stats
	dayBegin, dayEnd int64          // the day in UnixNano, dayEnd excluded

	history *history // nil as long as no window continues it, nor Persist has saved it
	round   uint16   // how often Persist has saved it, or tried to

	pace *pace // nil where the quota spreads nothing, or nobody has asked since it does

	owes int64 // before this instant the database may show what is not so any more
}

// newWindow indexes stats, whose slices it replaces by sorted copies: they may
// come from a caller, who may have others that share their storage. Entries
// from the future count as of now, counts are held in their range.
func (rl *RateLimiter) newWindow(stats *UsageStats, zone string, instant int64, now time.Time) *window {
	if old := stats.window; old != nil {
		noticeDay(stats, old.dayWas)
	}
	w := &window{home: rl, stats: stats, usedAt: instant, dayWas: stats.DayCount}
	instantOf := func(t *time.Time) int64 {
		age := now.Sub(*t)
		if age < 0 {
			*t, age, w.ahead = now, 0, true
		}
		return instant - int64(age)
	}
	w.requests.Fill(stats.Requests, func(t *time.Time) int64 { return instantOf(t) })
	w.tokens.Fill(stats.Tokens, func(e *TokenEntry) int64 {
		e.Count = max(e.Count, 0)
		e.Input = min(max(e.Input, 0), e.Count)
		return instantOf(&e.Time)
	})
	counts := make([]tokens.Count, w.tokens.Len())
	for i, e := range w.tokens.Values() {
		counts[i] = e.tokens()
	}
	w.sums.Fill(counts)
	w.setZone(zone)
	w.settleDay(now)
	w.mirror(rl.span())
	stats.window = w
	return w
}

func (e *TokenEntry) tokens() tokens.Count {
	return tokens.Count{Input: e.Input, Output: e.Count - e.Input}
}

// mirrors reports whether the window still belongs to stats as it is now. An
// entry that a program took over from another limiter has a window of that one.
func (w *window) mirrors(stats *UsageStats, rl *RateLimiter) bool {
	return w != nil && w.stats == stats && w.home == rl && stats.DayStart == w.dayStart &&
		w.requests.Backs(stats.Requests) && w.tokens.Backs(stats.Tokens)
}

// pin keeps the entries that stats shows where and as they are as long as
// reading says that somebody reads them without the lock.
func (w *window) pin(reading *atomic.Bool) { w.requests.Pin(reading); w.tokens.Pin(reading) }

func sameSlice[T any](a, b []T) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// mirror shows the entries in stats and works out when the next one leaves.
func (w *window) mirror(span int64) {
	w.stats.Requests, w.stats.Tokens = w.requests.Values(), w.tokens.Values()
	w.leaveAt = never
	if w.requests.Len() > 0 {
		w.leaveAt = w.requests.When(0) + span
	}
	if w.tokens.Len() > 0 {
		w.leaveAt = min(w.leaveAt, w.tokens.When(0)+span)
	}
}

// prune drops what was charged more than span before instant.
func (w *window) prune(instant, span int64) {
	requests, tokens := w.requests.Before(instant-span), w.tokens.Before(instant-span)
	w.requests.Drop(requests)
	w.tokens.Drop(tokens)
	w.sums.Drop(tokens)
	if w.pace != nil {
		w.pace.drop(requests, tokens)
	}
	w.mirror(span)
}

// charge adds one request and its tokens.
func (w *window) charge(instant int64, now time.Time, c tokens.Count, span int64) {
	c = c.Clamp()
	w.requests.Push(instant, now)
	w.tokens.Push(instant, TokenEntry{Time: now, Count: c.Total(), Input: c.Input})
	w.sums.Push(c)
	if w.pace != nil {
		w.pace.pushRequest(instant)
		w.pace.pushTokens(instant, c)
	}
	w.stats.Requests, w.stats.Tokens = w.requests.Values(), w.tokens.Values()
	w.leaveAt = min(w.leaveAt, instant+span)
	w.usedAt = instant
	w.chargeDay(now, 1, c.Total())
}

// chargeTokens adds tokens without a request.
func (w *window) chargeTokens(instant int64, now time.Time, c tokens.Count) {
	c = c.Clamp()
	w.tokens.Push(instant, TokenEntry{Time: now, Count: c.Total(), Input: c.Input})
	w.sums.Push(c)
	if w.pace != nil {
		w.pace.pushTokens(instant, c)
	}
	w.usedAt = instant
	w.mirror(w.home.span())
}

// setTokens changes the i-th oldest tokens, which are those of a reservation.
func (w *window) setTokens(i int, r *Reservation, c tokens.Count) {
	c = c.Clamp()
	w.sums.Set(i, c)
	if w.pace != nil && !r.isPaid(w.pace) {
		w.pace.setTokens(i, w.tokens.When(i), c)
	}
	e := w.tokens.Values()[i]
	w.tokens.Set(i, TokenEntry{Time: e.Time, Count: c.Total(), Input: c.Input})
	w.stats.Tokens = w.tokens.Values()
}

// moveCharge is removeCharge for what insertCharge then puts elsewhere. It notes which
// buckets keep the charge although it is removed.
func (w *window) moveCharge(r *Reservation, request, token int) {
	switch p := w.pace; {
	case p == nil || request < 0 && token < 0:
		r.payIn(nil)
	case p.sealed(request, token):
		r.payIn(p)
	}
	w.removeCharge(request, token)
}

// removeCharge takes a request and tokens out, each unless it is negative.
func (w *window) removeCharge(request, token int) {
	if request >= 0 {
		w.requests.Remove(request)
		if w.pace != nil {
			w.pace.removeRequest(request)
		}
	}
	if token >= 0 {
		w.tokens.Remove(token)
		w.sums.Remove(token)
		if w.pace != nil {
			w.pace.removeTokens(token)
		}
	}
	w.mirror(w.home.span())
}

// insertCharge puts a request, if there is one, and tokens where they belong by their
// instant, and returns which they then are; -1 for none. r is the reservation that they
// are of, if there is one.
func (w *window) insertCharge(r *Reservation, instant int64, when time.Time, requests int, c tokens.Count) (request, token int) {
	request = -1
	paid := w.pace != nil && r.isPaid(w.pace)
	if requests > 0 {
		request = w.requests.Insert(instant, when)
		if w.pace != nil {
			w.pace.insertRequest(request, instant, paid)
		}
	}
	token = w.tokens.Insert(instant, TokenEntry{Time: when, Count: c.Total(), Input: c.Input})
	w.sums.Insert(token, c)
	if w.pace != nil {
		w.pace.insertTokens(token, instant, c, paid)
	}
	w.usedAt = max(w.usedAt, instant)
	w.mirror(w.home.span())
	return request, token
}

// owe notes that a change has to get into the database, if there is one, before
// the window may be forgotten: of a charge of the given instant, and of the day.
func (w *window) owe(instant int64) {
	if w.tokens.Log().Known() || w.requests.Log().Known() {
		w.owes = max(w.owes, instant+w.home.span()+1, w.dayEnd-w.home.clock.wall)
	}
}

// chargeDay adds requests and tokens to the day, or begins one.
func (w *window) chargeDay(now time.Time, requests, used int) {
	if w.dayCount() == 0 && w.dayTokens() == 0 {
		w.days++
		w.startDay(now)
	}
	w.setDay(tokens.AddSaturated(w.dayCount(), requests), tokens.AddSaturated(w.dayTokens(), used))
}

func (w *window) setDay(requests, tokens int) {
	w.stats.DayCount, w.stats.DayTokens, w.dayWas = requests, tokens, requests
}

// noticeDay notices that a program has forgotten the requests of the day by
// hand, of which there were some: it means the tokens, too.
func noticeDay(stats *UsageStats, were int) {
	if stats.DayCount != were && stats.DayCount <= 0 {
		stats.DayTokens = 0
	}
}

// rollDay ends a day that is over. A day that lies in the future, because the
// wall clock stepped back, begins now.
func (w *window) rollDay(now time.Time) {
	noticeDay(w.stats, w.dayWas)
	w.dayWas = w.stats.DayCount
	switch wall := now.UnixNano(); {
	case wall < w.dayBegin:
		w.startDay(now)
	case wall >= w.dayEnd:
		w.setDay(0, 0)
		w.days++
		if w.gate != nil {
			w.gate.dayEnded = w.dayEnd
		}
		w.startDay(now)
	}
}

// setZone notes in which zone the day ends at midnight.
func (w *window) setZone(zone string) {
	var err error
	w.zone = zone
	w.location, err = loadZone(zone)
	w.badZone = err != nil
}

// settleDay takes the day over from stats; one from the future begins now.
func (w *window) settleDay(now time.Time) {
	w.dayStart, w.dayBegin = w.stats.DayStart, unixNano(w.stats.DayStart)
	switch {
	case w.dayBegin > now.UnixNano():
		w.startDay(now)
	case w.location != nil:
		_, end := dayOf(w.dayStart, w.location)
		w.dayEnd = unixNano(end)
	default:
		w.dayEnd = w.dayBegin + day
	}
}

// startDay begins a day at now, or at the midnight before it, without a
// monotonic reading: a day follows the wall clock.
func (w *window) startDay(now time.Time) {
	begin, end := now.Round(0), now.Add(time.Duration(day))
	if w.location != nil {
		begin, end = dayOf(begin, w.location)
	}
	w.stats.DayStart, w.dayStart = begin, begin
	w.dayBegin, w.dayEnd = begin.UnixNano(), end.UnixNano()
}

// dayCount is the count of the day; a caller may have made it negative.
func (w *window) dayCount() int { return max(w.stats.DayCount, 0) }

// dayTokens is the tokens of the day; a caller may have made them negative.
func (w *window) dayTokens() int { return max(w.stats.DayTokens, 0) }

// empty reports whether nothing is counted any more.
func (w *window) empty() bool {
	return w.requests.Len() == 0 && w.tokens.Len() == 0 && w.stats.DayCount <= 0 && w.stats.DayTokens <= 0
}

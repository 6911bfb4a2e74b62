package ratelimit

import (
	"math"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/audit"
	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/eviction"
	"dappco.re/go/core/go-ratelimit/internal/history"
	"dappco.re/go/core/go-ratelimit/internal/opencalls"
	"dappco.re/go/core/go-ratelimit/internal/pace"
	"dappco.re/go/core/go-ratelimit/internal/ring"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

const (
	minute = int64(time.Minute)
	day    = int64(24 * time.Hour)
	never  = int64(math.MaxInt64)
)

// window is the index of one UsageStats, so that a decision never has to scan it: the same
// entries in order, on the limiter's own time line, with the sums of their tokens.
//
// UsageStats stays the truth. The window remembers the slices and the day that it was made from;
// when they differ, it is made anew.
type window struct {
	home         *RateLimiter // whose time line and span it is on
	stats        *UsageStats
	slots        *slots          // the model's, if it has one
	unlisted     *eviction.Model // the model among those without a quota of their own; nil where it is not indexed
	gone         bool            // State has another one for the model, or none
	stateVersion int             // which State the last charge of a reservation found it in
	requests     ring.Queue[time.Time]
	tokens       ring.Queue[TokenEntry]
	sums         ring.Sums // the tokens of each entry, parallel to tokens
	leaveAt      int64     // until this instant, included, no entry leaves
	usedAt       int64     // the instant of the last charge
	ahead        bool      // an entry was from the future when the window was made

	period       clock.Period // the day, which starts as in stats
	quotaVersion int          // when the zone of the day was looked up,
	adapts       bool         // and whether the quota searches for limits
	days         int32        // how often the count of the day began anew
	dayWas       int          // the count of the day when the limiter last changed it

	history *history.History // nil as long as no window continues it, nor Persist has saved it
	round   uint16           // how often Persist has saved it, or tried to

	audit *audit.Sums // what Audit adds up; nil before the first RecordUsage

	open *opencalls.Sum // the charges that a settlement may give back; nil before the first

	pace *pace.Buckets // nil where the quota spreads nothing, or no call has asked since it does

	pools *poolList // the model's pools, as far as poolLists.serial is theirs; nil before they were looked up

	owes int64 // before this instant the database may still hold superseded rows
}

// newWindow indexes stats and replaces its slices by sorted copies, because a caller may have
// others that share their storage. Entries from the future count as of now; counts are clamped to
// their range.
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
	w.period.SetZone(zone)
	w.settleDay(now)
	w.mirror(rl.span())
	stats.window = w
	return w
}

func (e *TokenEntry) tokens() tokens.Count {
	return tokens.Count{Input: e.Input, Output: e.Count - e.Input}
}

// mirrors reports whether the window still matches stats. An entry that a program took over from
// another limiter has the window of that limiter.
func (w *window) mirrors(stats *UsageStats, rl *RateLimiter) bool {
	return w != nil && w.stats == stats && w.home == rl && stats.DayStart == w.period.Start &&
		w.requests.Backs(stats.Requests) && w.tokens.Backs(stats.Tokens)
}

// pin keeps the storage of the entries in stats unchanged while pinned is true, because it is read
// without the lock.
func (w *window) pin(pinned *atomic.Bool) { w.requests.Pin(pinned); w.tokens.Pin(pinned) }

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

// prune drops the charges that are more than span older than instant.
func (w *window) prune(instant, span int64) {
	requests, tokens := w.requests.Before(instant-span), w.tokens.Before(instant-span)
	w.requests.Drop(requests)
	w.tokens.Drop(tokens)
	w.sums.Drop(tokens)
	w.pace.Drop(requests, tokens)
	w.mirror(span)
}

// charge adds one request and its tokens.
func (w *window) charge(instant int64, now time.Time, c tokens.Count, span int64) {
	c = c.Clamp()
	w.requests.Push(instant, now)
	w.tokens.Push(instant, TokenEntry{Time: now, Count: c.Total(), Input: c.Input})
	w.sums.Push(c)
	w.pace.PushRequest(instant)
	w.pace.PushTokens(instant, c)
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
	w.pace.PushTokens(instant, c)
	w.usedAt = instant
	w.mirror(w.home.span())
}

// setTokens changes the i-th oldest tokens, which are those of a reservation.
func (w *window) setTokens(i int, r *Reservation, c tokens.Count) {
	c = c.Clamp()
	w.sums.Set(i, c)
	if !r.isPrepaid(w.pace) {
		w.pace.SetTokens(i, w.tokens.When(i), c)
	}
	e := w.tokens.Values()[i]
	w.tokens.Set(i, TokenEntry{Time: e.Time, Count: c.Total(), Input: c.Input})
	w.stats.Tokens = w.tokens.Values()
}

// moveCharge is removeCharge for a charge that insertCharge then puts elsewhere. It notes the
// buckets that keep the charge although it is removed.
func (w *window) moveCharge(r *Reservation, request, token int) {
	switch p := w.pace; {
	case p == nil || request < 0 && token < 0:
		r.prepayIn(nil)
	case p.Priced(request, token):
		r.prepayIn(p)
	}
	w.removeCharge(request, token)
}

// removeCharge removes a request and tokens; a negative place removes nothing.
func (w *window) removeCharge(request, token int) {
	if request >= 0 {
		w.requests.Remove(request)
		w.pace.RemoveRequest(request)
	}
	if token >= 0 {
		w.tokens.Remove(token)
		w.sums.Remove(token)
		w.pace.RemoveTokens(token)
	}
	w.mirror(w.home.span())
}

// insertCharge inserts a request, if there is one, and tokens at the places of their instant, and
// returns these places; -1 for none. r is the reservation that they belong to, if any.
func (w *window) insertCharge(r *Reservation, instant int64, when time.Time, requests int, c tokens.Count) (request, token int) {
	request = -1
	prepaid := r.isPrepaid(w.pace)
	if requests > 0 {
		request = w.requests.Insert(instant, when)
		if prepaid {
			w.pace.InsertPrepaidRequest(request, instant)
		} else {
			w.pace.InsertRequest(request, instant)
		}
	}
	token = w.tokens.Insert(instant, TokenEntry{Time: when, Count: c.Total(), Input: c.Input})
	w.sums.Insert(token, c)
	if prepaid {
		w.pace.InsertPrepaidTokens(token, instant)
	} else {
		w.pace.InsertTokens(token, instant, c)
	}
	w.usedAt = max(w.usedAt, instant)
	w.mirror(w.home.span())
	return request, token
}

// owe notes that a change, of a charge of the given instant and of the day, has to get into the
// database, if that has the window, before the window may be forgotten. It may have the day alone.
func (w *window) owe(instant int64) {
	if w.tokens.Log() != nil {
		w.owes = max(w.owes, instant+w.home.span()+1, w.home.clock.Instant(w.period.End))
	}
}

// chargeDay adds requests and tokens to the day, or begins one.
func (w *window) chargeDay(now time.Time, requests, used int) {
	if w.dayCount() == 0 && w.dayTokens() == 0 {
		w.days++
		w.startDay(now)
		w.openDay()
	}
	w.setDay(tokens.AddSaturated(w.dayCount(), requests), tokens.AddSaturated(w.dayTokens(), used))
}

func (w *window) setDay(requests, tokens int) {
	w.stats.DayCount, w.stats.DayTokens, w.dayWas = requests, tokens, requests
}

// noticeDay notices that a program has cleared the requests of the day by hand: it means the
// tokens, too.
func noticeDay(stats *UsageStats, were int) {
	if stats.DayCount != were && stats.DayCount <= 0 {
		stats.DayTokens = 0
	}
}

// rollDay ends an expired day. A day that lies in the future, because the wall clock stepped
// back, begins now.
func (w *window) rollDay(now time.Time) {
	noticeDay(w.stats, w.dayWas)
	w.dayWas = w.stats.DayCount
	switch wall := now.UnixNano(); {
	case wall < w.period.Begin:
		w.startDay(now)
	case wall >= w.period.End:
		w.setDay(0, 0)
		w.days++
		if w.slots != nil {
			w.slots.dayEnded = w.period.End
		}
		w.startDay(now)
		w.openDay()
	}
}

// settleDay takes the day over from stats; one from the future begins now.
func (w *window) settleDay(now time.Time) {
	w.period.Resume(w.stats.DayStart)
	if w.period.Begin > now.UnixNano() {
		w.startDay(now)
	}
}

// startDay begins a day at now, or at the midnight before it.
func (w *window) startDay(now time.Time) {
	w.period.StartAt(now)
	w.stats.DayStart = w.period.Start
}

// dayCount is the count of the day; a caller may have made it negative.
func (w *window) dayCount() int { return max(w.stats.DayCount, 0) }

// dayTokens is the tokens of the day; a caller may have made them negative.
func (w *window) dayTokens() int { return max(w.stats.DayTokens, 0) }

// empty reports whether nothing counts any more.
func (w *window) empty() bool {
	return w.requests.Len() == 0 && w.tokens.Len() == 0 && w.stats.DayCount <= 0 && w.stats.DayTokens <= 0
}

// usedOf returns the usage of a dimension, by a window in order.
func (w *window) usedOf(of state.Dimension) int {
	switch of {
	case state.RPM:
		return w.requests.Len()
	case state.RPD:
		return w.dayCount()
	case state.TPD:
		return w.dayTokens()
	default:
		return w.sums.Total().Of(state.Limits[of].Tokens)
	}
}

package ratelimit

import (
	"math"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// settle replaces the estimate by what was used, or takes the whole charge back.
func (r *Reservation) settle(used tokens.Count, refund bool) {
	if r == nil || r.gate == nil {
		return
	}
	rl := r.gate.home
	if rl.ledger != nil {
		rl.update(func() { rl.settleLocked(r, used, refund) })
		return
	}
	rl.mu.Lock()
	rl.settleLocked(r, used, refund)
	rl.mu.Unlock()
}

func (rl *RateLimiter) settleLocked(r *Reservation, used tokens.Count, refund bool) {
	if r.settled {
		return
	}
	if refund {
		rl.refundLocked(r)
		rl.changedNowLocked()
	} else if used != r.estimate {
		rl.correctLocked(r, used)
		rl.changedNowLocked()
	}
	if rl.ledger != nil {
		rl.ledger.noteSettledLocked(r, used, refund)
	}
	rl.releaseLocked(r)
	switch {
	case rl.waiting == 0:
	case rl.crowdedLocked():
		rl.serveAllLocked()
	default:
		rl.serveLocked(r.gate)
	}
}

// releaseLocked gives the slot of a reservation back.
func (rl *RateLimiter) releaseLocked(r *Reservation) {
	r.settled = true
	if r.extra != nil && r.extra.hold != nil {
		rl.holds.Remove(r.extra.hold)
		r.extra.hold = nil
	}
	g := r.gate
	if !r.isSlotless() {
		g.inFlight--
	}
	g.closeLocked()
	rl.guests.fullUntil = 0
}

// windowOfLocked returns the window of the reservation's model as it is now; nil
// when there is none. It is another one than that of the charge after Reset, after
// Load, and when a program put another entry into State.
func (rl *RateLimiter) windowOfLocked(r *Reservation) *window {
	if w := r.window; !w.gone && w.era == rl.era && w.stats.window == w && w.mirrors(w.stats, rl) {
		return w
	}
	stats := rl.State[r.gate.name]
	if stats == nil {
		return nil
	}
	if w := stats.window; w.mirrors(stats, rl) {
		return w
	}
	return rl.orderLocked(r.gate.name, rl.clock.sync())
}

// tokensOf returns which of the tokens are those of a reservation; -1 where they are gone. In another
// window than that of the charge they are among those that it was made from, if it continues that
// one. Entries of the same instant and the same tokens are alike, so any will do.
func (w *window) tokensOf(r *Reservation) int {
	matches := func(e *TokenEntry) bool { return e.tokens() == r.estimate }
	switch {
	case w == r.window:
		if i := w.tokens.Placed(r.tokenAt, r.instant); i >= 0 && matches(&w.tokens.Values()[i]) {
			return i
		}
		return w.tokens.Find(r.instant, matches)
	case w.continues(r):
		return w.tokens.FindFilled(r.instant, matches)
	}
	return -1
}

// requestOf is tokensOf for the request.
func (w *window) requestOf(r *Reservation) int {
	any := func(*time.Time) bool { return true }
	switch {
	case w == r.window:
		if i := w.requests.Placed(r.requestAt, r.instant); i >= 0 {
			return i
		}
		return w.requests.Find(r.instant, any)
	case w.continues(r):
		return w.requests.FindFilled(r.instant, any)
	}
	return -1
}

// findLocked returns the window of the reservation's model, and where in it the
// charge is.
func (rl *RateLimiter) findLocked(r *Reservation) (w *window, request, token int) {
	if w = rl.windowOfLocked(r); w == nil {
		return nil, -1, -1
	}
	return w, w.requestOf(r), w.tokensOf(r)
}

// orderLocked brings the window of a model in order; nil when it has no state.
func (rl *RateLimiter) orderLocked(name string, instant int64) *window {
	stats := rl.State[name]
	if stats == nil {
		return nil
	}
	return rl.windowLocked(name, stats, instant)
}

// newChargeLocked returns the window of a model in order, made where it has no
// state; nil when there is no place for that.
func (rl *RateLimiter) newChargeLocked(name string, instant int64, now time.Time) *window {
	stats := rl.stateLocked(name, false, instant, now)
	if stats == nil {
		return nil
	}
	return rl.windowLocked(name, stats, instant)
}

// inDay reports whether a charge belongs to the day that lasts.
func (w *window) inDay(r *Reservation) bool {
	if w == r.window {
		return w.days == r.days
	}
	wall := r.instant + w.home.clock.wall
	return w.dayBegin <= wall && wall < w.dayEnd
}

// dayTokensWithout returns the tokens of the day without those of a reservation, of
// which some are in the minute now. A saturated count says nothing of the rest, which
// then is at least what else is in the minute.
func (w *window) dayTokensWithout(r *Reservation, now tokens.Count) int {
	tokens := w.dayTokens()
	rest := max(tokens-r.estimate.Total(), 0)
	if tokens == math.MaxInt {
		rest = max(rest, w.sums.Total().Total()-now.Total())
	}
	return rest
}

// refundLocked takes the charge of a reservation back.
func (rl *RateLimiter) refundLocked(r *Reservation) {
	w, request, token := rl.findLocked(r)
	if w == nil || w != r.window && request < 0 && token < 0 {
		return // forgotten
	}
	sameDay := w.inDay(r)
	w.removeCharge(request, token)
	if sameDay {
		w.setDay(max(w.dayCount()-1, 0), w.dayTokensWithout(r, tokens.Count{}))
	}
	w.owe(r.instant)
}

// correctLocked replaces the estimate of a reservation by what was used. The
// clock is read only where something has to be charged: an entry that is due to
// leave may as well be corrected.
func (rl *RateLimiter) correctLocked(r *Reservation, used tokens.Count) {
	excess := used.Over(r.estimate)
	exceeds, left := excess != (tokens.Count{}), false
	var instant int64
	if exceeds {
		instant = rl.clock.sync()
		left = instant-r.instant > rl.span()
		rl.orderLocked(r.gate.name, instant)
	}
	w, token := rl.windowOfLocked(r), -1
	if w != nil {
		token = w.tokensOf(r)
	}
	known := w != nil && (w == r.window || token >= 0)
	if !known && !left {
		return // forgotten
	}
	var now time.Time
	if exceeds {
		now = rl.clock.at(instant)
	}
	switch {
	case token >= 0:
		w.setTokens(token, r, used)
	case left:
		if w = rl.newChargeLocked(r.gate.name, instant, now); w == nil {
			return
		}
		w.chargeTokens(instant, now, excess)
		if rl.ledger != nil {
			rl.ledger.noteLocked(&event{kind: eventUse, ref: r.entry(), model: r.gate.name, at: instant, Count: excess.Clamp()}, nil)
		}
	}
	switch {
	case known && w.inDay(r):
		w.setDay(w.dayCount(), tokens.AddSaturated(w.dayTokensWithout(r, used), used.Total()))
	case exceeds:
		w.chargeDay(now, 0, excess.Total())
	}
	w.owe(r.instant)
}

// Arrived says when the provider counted the call at the latest: when the
// request was written, or when the headers of the response came. The charge moves
// there, so that it leaves the window no sooner than the provider forgets the
// call. It never moves backwards, and not into the future. If it has left the
// window already it is charged anew. After Commit or Cancel it does nothing.
func (r *Reservation) Arrived(at time.Time) {
	if r == nil || r.gate == nil {
		return
	}
	rl := r.gate.home
	rl.update(func() { rl.arriveLocked(r, at) })
}

func (rl *RateLimiter) arriveLocked(r *Reservation, at time.Time) {
	if r.settled {
		return
	}
	instant := rl.clock.sync()
	now := rl.clock.at(instant)
	age := max(int64(now.Sub(at)), 0)
	arrived := instant - age
	if arrived <= r.instant {
		return
	}
	rl.changedLocked(instant)
	rl.orderLocked(r.gate.name, instant)
	w, request, token := rl.findLocked(r)
	if left := instant-r.instant > rl.span(); request < 0 && token < 0 && !left {
		return // forgotten
	}
	sameDay := w != nil && (w == r.window || request >= 0 || token >= 0) && w.inDay(r)
	if w == nil {
		if w = rl.newChargeLocked(r.gate.name, instant, now); w == nil {
			return
		}
	}
	w.moveCharge(r, request, token)
	if age <= rl.span() {
		request, token = w.insertCharge(r, arrived, rl.clock.at(arrived), 1, r.estimate)
	}
	w.owe(r.instant)
	r.more().delay += arrived - r.instant
	r.placeLocked(w, arrived, request, token)
	wall := arrived + rl.clock.wall
	switch {
	case sameDay:
		r.days = w.days
	case wall >= r.gate.dayEnded && (w.location == nil || wall >= w.dayBegin || w.dayCount() == 0):
		w.chargeDay(rl.clock.at(arrived), 1, r.estimate.Total())
		r.days = w.days
		w.rollDay(now) // the day that this began may be over, too
	default:
		r.days = w.days - 1 // a day that is over
	}
	if rl.ledger != nil {
		rl.ledger.noteMovedLocked(r, w)
	}
}

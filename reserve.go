package ratelimit

import (
	"container/list"
	"runtime"
	"strings"
	"time"
	"weak"
)

// Reservation is room that was charged before a call: one request, its
// estimated tokens, and a slot among the calls in flight. Settle it once, with
// Commit when the call was made, or with Cancel when it was not.
//
// A nil Reservation is one that was denied: its methods do nothing. All methods
// are safe for concurrent use.
type Reservation struct {
	gate      *gate   // nil when nothing was counted, because there was no place
	window    *window // where the charge went,
	requestAt uint32  // as the entries that these were of all ever pushed, in their last bits
	tokenAt   uint32
	instant   int64 // when it counts
	amount    amount
	extra     *extra // what few reservations have
	days      int32  // which of the window's days it is in
	settled   bool
	limited   bool // the model limits the calls in flight
}

// extra is kept apart from Reservation, one of which is allocated for each call.
type extra struct {
	model string        // where it is not the name under which the model is counted
	delay int64         // how much later the charge counts than it was admitted
	hold  *list.Element // in holds, with Config.HoldTTL
}

// more returns what few reservations have, to be changed.
func (r *Reservation) more() *extra {
	if r.extra == nil {
		r.extra = new(extra)
	}
	return r.extra
}

// Reserve checks all limits of model and charges them, in one step: one request,
// the estimated tokens, one request of the day, one of the calls in flight. If
// any of them denies it charges nothing, returns nil, and the Decision says why.
// A model without a quota, or with one that is all zero, is charged and never
// denied but by a cooldown.
//
// While others wait for the model in Acquire it is denied with DecisionQueued.
// Reserve is safe for concurrent use.
func (rl *RateLimiter) Reserve(model string, promptTokens, outputTokens int) (r *Reservation, d Decision) {
	r = rl.reserve(&d, model, &ask{1, amount{promptTokens, outputTokens}})
	return r, d
}

func (rl *RateLimiter) reserve(d *Decision, model string, a *ask) *Reservation {
	var r reading
	d.Model = model
	rl.mu.Lock()
	name := model
	q, known := rl.Quotas[name]
	if !known || rl.aliases != nil {
		name, known = rl.resolveRLocked(model, &q)
	}
	r.instant = rl.clock.sync()
	rl.readToChargeLocked(name, &q, known, &r)
	r.modelStats(&d.Stats, &q)
	decide(d, &q, known, &r, a)
	if r.gate.waiting() > 0 {
		d.queue()
	}
	if !d.Allowed {
		rl.mu.Unlock()
		return nil
	}
	made := Reservation{amount: a.amount}
	rl.chargeLocked(&made, model, name, &q, known, &r)
	rl.mu.Unlock()

	reservation := new(Reservation) // without the lock, which others want
	*reservation = made
	rl.watch(reservation)
	return reservation
}

// chargeLocked charges a reservation that was decided upon, as of the instant of
// a reading.
func (rl *RateLimiter) chargeLocked(made *Reservation, model, name string, q *ModelQuota, known bool, r *reading) {
	now := rl.clock.at(r.instant)
	w := r.window
	if w == unused {
		stats := rl.stateLocked(name, known, r.instant, now)
		if stats == nil {
			made.more().model = strings.Clone(model)
			return
		}
		w = rl.windowLocked(name, stats, r.instant)
		r.window = w
	}
	if w.gate == nil {
		rl.gateLocked(name)
	}
	w.gate.inFlight++
	w.charge(r.instant, now, made.amount, r.span)
	if model != w.gate.name {
		made.more().model = model
	}
	made.gate, made.days, made.limited = w.gate, w.days, q.MaxInFlight > 0
	made.placeLocked(w, r.instant, w.requests.len()-1, w.tokens.len()-1)
}

// placeLocked notes where the charge is: the request-th oldest of the requests,
// the token-th oldest of the tokens.
func (r *Reservation) placeLocked(w *window, instant int64, request, token int) {
	r.window, r.instant = w, instant
	r.requestAt, r.tokenAt = uint32(w.requests.dropped+request), uint32(w.tokens.dropped+token)
}

// Commit settles the reservation: what was really used takes the place of the
// estimate, at the time of admission. If that has left the window meanwhile, what
// exceeds the estimate is charged now. Negative counts count as zero.
//
// Only the first Commit or Cancel of a reservation counts.
func (r *Reservation) Commit(promptTokens, outputTokens int) {
	r.settle(amount{max(promptTokens, 0), max(outputTokens, 0)}, false)
}

// Cancel settles the reservation of a call that was never sent: everything that
// was charged is given back. A call that was sent and failed has been counted by
// the provider; Commit it.
//
// Only the first Commit or Cancel of a reservation counts.
func (r *Reservation) Cancel() { r.settle(amount{}, true) }

// Model returns the model that the reservation was made for, by the name that
// the caller used.
func (r *Reservation) Model() string {
	switch {
	case r == nil:
		return ""
	case r.gate == nil:
		return r.extra.model
	}
	rl := r.gate.home
	rl.mu.RLock()
	defer rl.mu.RUnlock()
	if r.extra != nil && r.extra.model != "" {
		return r.extra.model
	}
	return r.gate.name
}

// ReservedAt returns when the reservation was admitted; the zero time when it is
// nil or was not counted, see Config.MaxModels.
func (r *Reservation) ReservedAt() time.Time {
	if r == nil || r.gate == nil {
		return time.Time{}
	}
	rl := r.gate.home
	rl.mu.RLock()
	defer rl.mu.RUnlock()
	admitted := r.instant
	if r.extra != nil {
		admitted -= r.extra.delay
	}
	return rl.clock.at(admitted)
}

// settle replaces the estimate by what was used, or takes the whole charge back.
func (r *Reservation) settle(used amount, refund bool) {
	if r == nil || r.gate == nil {
		return
	}
	rl := r.gate.home
	rl.mu.Lock()
	rl.settleLocked(r, used, refund)
	rl.mu.Unlock()
}

func (rl *RateLimiter) settleLocked(r *Reservation, used amount, refund bool) {
	if r.settled {
		return
	}
	if refund {
		rl.refundLocked(r)
	} else if used != r.amount {
		rl.correctLocked(r, used)
	}
	rl.releaseLocked(r)
	switch {
	case rl.crowdedLocked():
		rl.serveAllLocked()
	case r.gate.line.Len() > 0:
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
	g.inFlight--
	g.closeLocked()
	rl.guests.fullUntil = 0
}

// windowOfLocked returns the window of the reservation's model as it is now; nil
// when there is none. It is another one than that of the charge after Reset, after
// Load, and when a program put another entry into State.
func (rl *RateLimiter) windowOfLocked(r *Reservation) *window {
	stats := rl.State[r.gate.name]
	if stats == nil {
		return nil
	}
	if w := stats.window; w.mirrors(stats, rl) {
		return w
	}
	return rl.orderLocked(r.gate.name, rl.clock.sync())
}

// tokensOf returns which of the tokens are those of a reservation; -1 where they
// are gone. In another window than that of the charge only the entries that it was
// made from can be, those of a file, say: later ones are of others. Entries of the
// same instant and the same amount are alike, so any will do.
func (w *window) tokensOf(r *Reservation) int {
	return w.tokens.find(w == r.window, r.tokenAt, r.instant, func(e *TokenEntry) bool { return e.amount() == r.amount })
}

// requestOf is tokensOf for the request.
func (w *window) requestOf(r *Reservation) int {
	return w.requests.find(w == r.window, r.requestAt, r.instant, func(*time.Time) bool { return true })
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

// refundLocked takes the charge of a reservation back.
func (rl *RateLimiter) refundLocked(r *Reservation) {
	w, request, token := rl.findLocked(r)
	if w == nil || w != r.window && request < 0 && token < 0 {
		return // forgotten
	}
	sameDay := w.inDay(r)
	w.removeCharge(request, token)
	if sameDay {
		w.setDay(max(w.dayCount()-1, 0), max(w.dayTokens()-r.amount.total(), 0))
	}
	w.owe(r.instant)
}

// correctLocked replaces the estimate of a reservation by what was used. The
// clock is read only where something has to be charged: an entry that is due to
// leave may as well be corrected.
func (rl *RateLimiter) correctLocked(r *Reservation, used amount) {
	excess := used.over(r.amount)
	exceeds, left := excess != (amount{}), false
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
		w.setTokens(token, used)
	case left:
		if w = rl.newChargeLocked(r.gate.name, instant, now); w == nil {
			return
		}
		w.chargeTokens(instant, now, excess)
	}
	switch {
	case known && w.inDay(r):
		w.setDay(w.dayCount(), addSaturated(max(w.dayTokens()-r.amount.total(), 0), used.total()))
	case exceeds:
		w.chargeDay(now, 0, excess.total())
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
	rl.mu.Lock()
	defer rl.mu.Unlock()
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
	w.removeCharge(request, token)
	if age <= rl.span() {
		request, token = w.insertCharge(arrived, rl.clock.at(arrived), r.amount)
	}
	w.owe(r.instant)
	r.more().delay += arrived - r.instant
	r.placeLocked(w, arrived, request, token)
	wall := arrived + rl.clock.wall
	switch {
	case sameDay:
		r.days = w.days
	case wall >= w.lastEnd && (w.location == nil || wall >= w.dayBegin || w.dayCount() == 0):
		w.chargeDay(rl.clock.at(arrived), 1, r.amount.total())
		r.days = w.days
		w.rollDay(now) // the day that this began may be over, too
	default:
		r.days = w.days - 1 // a day that is over
	}
}

// watch makes sure that a reservation which is never settled gives its slot
// back: when it is garbage, and with Config.HoldTTL when that time is over. To
// watch costs more than the rest of Reserve, so it is done only where slots are
// limited.
func (rl *RateLimiter) watch(r *Reservation) {
	if r.gate == nil || !r.limited && rl.holdTTL == 0 {
		return
	}
	runtime.SetFinalizer(r, (*Reservation).abandon)
	if rl.holdTTL == 0 {
		return
	}
	rl.mu.Lock()
	defer rl.mu.Unlock()
	if r.settled {
		return
	}
	r.more().hold = rl.holds.PushBack(hold{weak.Make(r), r.instant})
	if rl.holds.Len() == 1 {
		rl.settleHeldLocked()
	}
}

// hold is a reservation that is settled when its time is over. It does not keep
// the reservation from being garbage.
type hold struct {
	reservation weak.Pointer[Reservation]
	since       int64 // instant
}

// settleHeldLocked settles the reservations whose time is over, and sleeps until
// that of the next one is.
func (rl *RateLimiter) settleHeldLocked() {
	instant := rl.clock.sync()
	for {
		oldest := rl.holds.Front()
		if oldest == nil {
			return
		}
		h := oldest.Value.(hold)
		if left := h.since + int64(rl.holdTTL) - instant; left > 0 {
			if rl.holdTimer == nil {
				rl.holdTimer = time.AfterFunc(time.Duration(left), rl.settleHeld)
			} else {
				rl.holdTimer.Reset(time.Duration(left))
			}
			return
		}
		if r := h.reservation.Value(); r != nil {
			rl.settleLocked(r, r.amount, false)
		} else {
			rl.holds.Remove(oldest) // abandon is about to settle it
		}
	}
}

func (rl *RateLimiter) settleHeld() {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	rl.settleHeldLocked()
}

// abandon settles a reservation that is garbage at its estimate.
//
// It runs outside of a bubble of testing/synctest, also for a reservation that
// was made in one. There it must not touch what belongs to the bubble: the clock,
// timers and channels. It knows by the limiter's clock, which has no monotonic
// reading in a bubble, and leaves those who wait to the next call.
func (r *Reservation) abandon() {
	rl := r.gate.home
	rl.mu.Lock()
	defer rl.mu.Unlock()
	switch {
	case r.settled:
	case rl.clock.ref == rl.clock.ref.Round(0):
		rl.releaseLocked(r)
	default:
		rl.settleLocked(r, r.amount, false)
	}
}

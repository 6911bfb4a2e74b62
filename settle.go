package ratelimit

import (
	"math"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog/combine"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
	"dappco.re/go/core/go-ratelimit/money"
)

// Commit settles the reservation: the real usage replaces the estimate, at the time of admission.
// If the charge has left the window, the usage above the estimate is charged as of now. Negative
// counts count as zero.
//
// Only the first Commit or Cancel of a reservation counts.
func (r *Reservation) Commit(promptTokens, outputTokens int) {
	r.commit(tokens.Count{Input: max(promptTokens, 0), Output: max(outputTokens, 0)}, nil)
}

// commit is Commit with what is billed of the usage; nil for the usage as it is.
func (r *Reservation) commit(used tokens.Count, bill *money.Usage) {
	if r == nil || r.home == nil {
		return
	}
	rl := r.home
	if rl.ledger != nil { // before the function is made, which takes an allocation
		rl.ledger.commit(r, used, billed(used, bill))
		return
	}
	rl.mu.Lock()
	if !r.settled {
		r.slots().settledLocked(r.estimate, used)
	}
	if rl.pricing != nil {
		r.priceLocked(billed(used, bill))
	}
	r.commitLocked(used)
	e := rl.teller.endedLocked(r, EventSettled, used)
	rl.mu.Unlock()
	if e != nil {
		rl.teller.tell(e)
	}
}

// Cancel settles the reservation of a call that was never sent, and gives the whole charge back.
// The provider has counted a call that was sent and failed: Commit it.
//
// Only the first Commit or Cancel of a reservation counts.
func (r *Reservation) Cancel() {
	if r == nil || r.home == nil {
		return
	}
	rl := r.home
	if rl.ledger.update(combine.Appended, func(p *plan) { p.cancel(r) }) {
		rl.teller.tellEnded(r)
		return
	}
	rl.mu.Lock()
	r.cancelLocked()
	e := rl.teller.endedLocked(r, EventReleased, tokens.Count{})
	rl.mu.Unlock()
	if e != nil {
		rl.teller.tell(e)
	}
}

// commitLocked replaces the estimate by the real usage, and serves the waiters.
func (r *Reservation) commitLocked(used tokens.Count) {
	if r.settled {
		return
	}
	for part := r; part != nil; part = part.pool {
		part.commitPartLocked(used)
	}
	r.serveNextLocked()
}

func (r *Reservation) commitPartLocked(used tokens.Count) {
	if a := r.slots().audit; r.extra == nil && a != nil {
		a.Estimated.Count(r.estimate)
		a.Settled.Count(used)
		if c := r.home.audits.classes.Marked(r.mark); c != nil {
			c.Settle(r.estimate, 0, used, 0)
		}
	} else {
		r.endMoneyLocked(EventSettled, used)
	}
	if used != r.estimate {
		r.correctLocked(used)
		r.home.changedNowLocked()
	}
	if r.home.lines.waiting > 0 {
		r.keptLocked(used)
	}
	if len(r.home.found) > 0 {
		r.endFoundLocked()
	}
	r.releaseLocked()
}

// expireLocked leaves the estimate charged, and serves the waiters.
func (r *Reservation) expireLocked() {
	if r.settled {
		return
	}
	for part := r; part != nil; part = part.pool {
		part.endMoneyLocked(EventExpired, part.estimate)
		part.keptLocked(part.estimate)
		part.endFoundLocked()
		part.releaseLocked()
	}
	r.serveNextLocked()
}

// cancelLocked takes the whole charge back, and serves the waiters.
func (r *Reservation) cancelLocked() {
	if r.settled {
		return
	}
	for part := r; part != nil; part = part.pool {
		part.endMoneyLocked(EventReleased, tokens.Count{})
		part.refundLocked()
		part.home.changedNowLocked()
		part.keptLocked(tokens.Count{})
		part.releaseLocked()
	}
	r.serveNextLocked()
}

// serveNextLocked serves those that wait for what a reservation gave back to its model and its
// pools. The model's come first: the next of them may come before those that its pools keep.
func (r *Reservation) serveNextLocked() {
	if r.home.lines.waiting > 0 {
		r.home.linesLocked().serveEndedLocked(r)
	}
}

// serveEndedLocked is apart from serveNextLocked so that this is inlined.
func (l *waitLines) serveEndedLocked(r *Reservation) {
	for ; r != nil; r = r.pool {
		l.serveLineLocked(r.slots())
	}
	l.settleLocked()
}

// releaseLocked gives the slot of the reservation back.
func (r *Reservation) releaseLocked() {
	rl := r.home
	r.settled = true
	if s := r.share(); s != nil {
		s.Close()
	}
	rl.expiry.forget(r)
	g := r.slots()
	if !r.isSlotless() {
		g.inFlight--
		r.shutLocked()
	}
	if rl.lines.waiting > 0 {
		rl.linesLocked().shutLocked(g, r.window)
	}
	g.closeLocked()
	if rl.unlisted.state != nil {
		rl.unlistedLocked().easeLocked(g.name)
	}
}

// currentWindowLocked returns the present window of the reservation's model; nil when there is
// none. After Reset, after Load, and when a program has put another entry into State, it is not
// the window that was charged.
func (r *Reservation) currentWindowLocked() *window {
	rl := r.home
	if w := r.window; !w.gone && w.stateVersion == rl.stateVersion && w.stats.window == w && w.mirrors(w.stats, rl) {
		return w
	}
	stats := rl.statsRLocked(r.slots().name)
	if stats == nil {
		return nil
	}
	if w := stats.window; w.mirrors(stats, rl) {
		return w
	}
	return rl.existingWindowLocked(r.slots().name, rl.clock.Sync())
}

// tokensOf returns the place of a reservation's tokens among those of w; -1 where they are gone.
// Where w is not the window that was charged, but continues it, they are among the entries that w
// was made from. Entries of the same instant and the same tokens are alike, so any will do.
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
	matches := func(*time.Time) bool { return true }
	switch {
	case w == r.window:
		if i := w.requests.Placed(r.requestAt, r.instant); i >= 0 {
			return i
		}
		return w.requests.Find(r.instant, matches)
	case w.continues(r):
		return w.requests.FindFilled(r.instant, matches)
	}
	return -1
}

// findLocked returns the present window of the reservation's model, and the places of the charge
// in it.
func (r *Reservation) findLocked() (w *window, request, token int) {
	if w = r.currentWindowLocked(); w == nil {
		return nil, -1, -1
	}
	return w, w.requestOf(r), w.tokensOf(r)
}

// inDay reports whether a charge belongs to the day that lasts.
func (w *window) inDay(r *Reservation) bool {
	if w == r.window {
		return w.days == r.days
	}
	wall := w.home.clock.UnixNano(r.instant)
	return w.period.Holds(wall)
}

// dayTokensWithout is restOfDay for the day of the window itself.
func (w *window) dayTokensWithout(r *Reservation, now tokens.Count) int {
	return w.restOfDay(w.dayTokens(), r, now)
}

// restOfDay returns a day's tokens without the charge of a reservation, which makes up now of the
// tokens in the minute of w. Of a saturated count, the rest is at least the other tokens in the
// minute.
func (w *window) restOfDay(dayTokens int, r *Reservation, now tokens.Count) int {
	rest := max(dayTokens-r.estimate.Total(), 0)
	if dayTokens == math.MaxInt {
		rest = max(rest, w.sums.Total().Total()-now.Total())
	}
	return rest
}

// refundLocked takes the charge of a reservation back.
func (r *Reservation) refundLocked() {
	r.share().Refund()
	w, request, token := r.findLocked()
	if w == nil || w != r.window && request < 0 && token < 0 {
		return // forgotten
	}
	sameDay := w.inDay(r)
	w.removeCharge(request, token)
	r.uncountFoundLocked()
	if sameDay {
		w.setDay(max(w.dayCount()-1, 0), w.dayTokensWithout(r, tokens.Count{}))
	}
	w.owe(r.instant)
}

// correctLocked replaces the estimate of a reservation by the real usage. It reads the clock only
// if something has to be charged: an entry that is due to leave may as well be corrected.
func (r *Reservation) correctLocked(used tokens.Count) {
	if s := r.share(); s != nil {
		s.Settle(used)
	}
	rl := r.home
	excess := used.Over(r.estimate)
	exceeds, left := excess != (tokens.Count{}), false
	var instant int64
	if exceeds {
		instant = rl.clock.Sync()
		left = instant-r.instant > rl.span()
		rl.existingWindowLocked(r.slots().name, instant)
	}
	w, token := r.currentWindowLocked(), -1
	if w != nil {
		token = w.tokensOf(r)
	}
	known := w != nil && (w == r.window || token >= 0)
	if !known && !left {
		return // forgotten
	}
	var now time.Time
	if exceeds {
		now = rl.clock.At(instant)
	}
	switch {
	case token >= 0:
		w.setTokens(token, r, used)
	case left:
		if w = rl.windowToChargeLocked(r.slots().name, instant, now); w == nil {
			return
		}
		w.chargeTokens(instant, now, excess)
	}
	switch {
	case known && w.inDay(r):
		w.setDay(w.dayCount(), tokens.AddSaturated(w.dayTokensWithout(r, used), used.Total()))
	case exceeds:
		w.chargeDay(now, 0, excess.Total())
	}
	w.owe(r.instant)
}

// keptLocked notes that a charge became final, with the real usage. The waiters may have hoped for
// all of the estimate, so what was given back counts as well: that only has them looked at sooner.
func (r *Reservation) keptLocked(used tokens.Count) {
	if rl := r.home; rl.lines.waiting > 0 {
		most := tokens.Count{Input: max(used.Input, r.estimate.Input), Output: max(used.Output, r.estimate.Output)}
		rl.linesLocked().loadedLocked(r.slots(), r.window, cost{Requests: 1, Count: most})
	}
}

// Arrived gives the latest time at which the provider counted the call: after the request was
// written, or when the headers of the response came. The charge moves there, so that it leaves
// the window no sooner than the provider forgets the call. It never moves backwards, nor into the
// future. A charge that has left the window is charged anew. After Commit or Cancel it does
// nothing. A call that has arrived counts as a request, whatever it used, so waiters that only
// its cancellation would help in time are refused at once.
func (r *Reservation) Arrived(at time.Time) {
	if r == nil || r.home == nil {
		return
	}
	rl := r.home
	if !rl.ledger.update(combine.AppendedApart, func(p *plan) { p.arrive(r, at) }) {
		rl.mu.Lock()
		r.arriveLocked(at)
		rl.mu.Unlock()
	}
}

// moveLocked moves the charge of a call that arrived at a time, and reports whether it did. The
// charge is not among those of open calls.
func (r *Reservation) moveLocked(at time.Time) (moved bool) {
	rl := r.home
	instant := rl.clock.Sync()
	now := rl.clock.At(instant)
	age := max(int64(now.Sub(at)), 0)
	arrived := instant - age
	if arrived <= r.instant {
		return false
	}
	rl.changedLocked(instant)
	rl.existingWindowLocked(r.slots().name, instant)
	w, request, token := r.findLocked()
	if left := instant-r.instant > rl.span(); request < 0 && token < 0 && !left {
		return false // forgotten
	}
	sameDay := w != nil && (w == r.window || request >= 0 || token >= 0) && w.inDay(r)
	if w == nil {
		if w = rl.windowToChargeLocked(r.slots().name, instant, now); w == nil {
			return false
		}
	}
	w.moveCharge(r, request, token)
	if age <= rl.span() {
		request, token = w.insertCharge(r, arrived, rl.clock.At(arrived), 1, r.estimate)
	}
	w.owe(r.instant)
	r.more().delay += arrived - r.instant
	was := r.slots()
	if w.slots == nil { // the model has lost its place since, and got another
		rl.linesLocked().slotsLocked(was.name)
	}
	r.placeLocked(w, arrived, request, token)
	wall := rl.clock.UnixNano(arrived)
	switch {
	case sameDay:
		r.days = w.days
	case wall >= was.dayEnded && (w.period.Location == nil || wall >= w.period.Begin || w.dayCount() == 0 && w.dayTokens() == 0):
		w.chargeDay(rl.clock.At(arrived), 1, r.estimate.Total())
		r.days = w.days
		w.rollDay(now) // the day that this began may be over, too
	default:
		r.days = w.days - 1 // a day that is over
	}
	return true
}

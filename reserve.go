package ratelimit

import (
	"container/list"
	"context"
	"runtime"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/audit"
	"dappco.re/go/core/go-ratelimit/internal/classuse"
	"dappco.re/go/core/go-ratelimit/internal/pace"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// Reservation is room that was charged before a call: one request, its estimated tokens, and a
// slot among the calls in flight. Settle it once, with Commit after the call, or with Cancel if
// the call was never sent.
//
// A nil Reservation stands for a denied one: its methods do nothing. All methods are safe for
// concurrent use.
type Reservation struct {
	home      *RateLimiter // nil when nothing was counted, because there was no place; never changes
	window    *window      // that was charged, and has the slots of the model
	requestAt uint32       // the entries of the charge in it: see ring.Queue.Place
	tokenAt   uint32
	instant   int64 // when the charge counts
	estimate  tokens.Count
	pool      *Reservation // what it charged to the first of the model's pools, which has that of the next; nil for none
	extra     *extra       // the rare fields
	call      *openCall    // what Config.Events is told of it; nil where nothing is, and once it has ended
	days      int32        // the window's days when it was charged
	settled   bool
	mark      audit.Mark // its class; with audit.Watched it is settled at its estimate when it is lost
	round     uint16     // the window's round when it was charged
}

// extra is the fields that few reservations need, kept apart because each call allocates a
// Reservation.
type extra struct {
	model   string           // as the caller named it, where it is counted under another name
	delay   int64            // how much later the charge counts than it was admitted
	arrived bool             // the provider counted the call, so its request is not given back
	expires *list.Element    // in expiry.open, with Config.HoldTTL
	share   *classuse.Charge // what is counted to a class with a reserve
	charged                  // the money; without prices nothing
	class   *audit.Sums      // of the call, to be added up; nil for one with a mark, and for none
	prepaid *pace.Buckets    // they hold the charge at its price under another quota, apart from its place

	// With Config.Shared:
	entry    int64 // the number of the event that made it: Event.N
	plan     int64 // the serial of the plan that settles it
	slotless bool  // its slot was given to others, because this process was taken for dead
}

// entry returns the number of the event that made the reservation; 0 without Config.Shared. Other
// events name the reservation by it.
func (r *Reservation) entry() int64 {
	if r.extra == nil {
		return 0
	}
	return r.extra.entry
}

// slots returns those of the model. The reservation was counted.
func (r *Reservation) slots() *slots { return r.window.slots }

// isSlotless reports whether the slot of the reservation was given to others.
func (r *Reservation) isSlotless() bool { return r.extra != nil && r.extra.slotless }

// isPrepaid reports whether buckets hold the charge apart from its place.
func (r *Reservation) isPrepaid(in *pace.Buckets) bool {
	return r != nil && r.extra != nil && in != nil && r.extra.prepaid == in
}

// prepayIn notes which buckets hold the charge apart from its place; nil for none.
func (r *Reservation) prepayIn(p *pace.Buckets) {
	if p != nil || r.extra != nil {
		r.more().prepaid = p
	}
}

// more returns the rare fields of a reservation, to be changed. The lock of its limiter is held.
func (r *Reservation) more() *extra {
	switch {
	case r.extra != nil:
	case r.home == nil:
		r.extra = new(extra)
	default:
		r.extra = r.home.unused.extraLocked()
	}
	return r.extra
}

// Reserve checks all limits of model and charges them in one step: one request, the estimated
// tokens, one request of the day, one slot. If any of them denies, it charges nothing and returns
// nil and the reason. A model without a quota, or with an all-zero one, is charged, and denied
// only by a cooldown.
//
// While others wait for the model in Acquire, it is denied with DecisionQueued. Reserve is safe
// for concurrent use.
func (rl *RateLimiter) Reserve(model string, promptTokens, outputTokens int) (r *Reservation, d Decision) {
	c := &cost{Requests: 1, Count: tokens.Count{Input: promptTokens, Output: outputTokens}}
	r, _ = rl.reserveOne(background, &caller{ctx: background}, &d, model, c)
	return r, d
}

// reserveOne is Reserve for a caller. It fails only with Config.Shared, where ctx ends before
// anything was decided.
func (rl *RateLimiter) reserveOne(ctx context.Context, by *caller, d *Decision, model string, c *cost) (made *Reservation, err error) {
	if rl.ledger != nil {
		return rl.reserveShared(ctx, by, d, model, c)
	}
	var e *telling
	rl.mu.Lock()
	made = rl.reserveLocked(by, d, model, c)
	if rl.teller != nil {
		e = rl.teller.reservedLocked(by, made, d, c)
	}
	rl.mu.Unlock()
	if e != nil || made != nil && made.mark.IsWatched() {
		rl.teller.tellAndWatch(e, made)
	}
	return made, nil
}

func (rl *RateLimiter) reserveLocked(by *caller, d *Decision, model string, c *cost) *Reservation {
	var r view
	name := model
	q, known := rl.Quotas[name] // findRLocked in line, as in CanSend
	if !known || rl.naming.Aliases != nil {
		name, known = rl.resolveRLocked(model, &q)
	}
	if !rl.readRLocked(name, &q, &r) || r.window == unused {
		r.instant = rl.clock.Sync()
		rl.checkAgeRLocked(name)
		rl.readToChargeLocked(name, &q, known, &r)
	}
	d.Model = model
	r.modelStats(&d.Stats, &q)
	r.class = by.class
	if rl.reserves != nil {
		r.keepLocked(rl, &q, c, by.class, true)
	}
	if rl.pricing != nil {
		rl.mostRLocked(c, name, model)
	}
	wait := decide(d, &q, known, &r, c)
	if !known {
		rl.judgeUnknownRLocked(d, model)
	}
	var in []*pool
	if rl.pools.count > 0 {
		in = rl.decidePoolsLocked(d, name, model, &r, c, wait, true)
	}
	if r.slots.hasLine() && r.slots.queuesClass(by.class) {
		d.queue()
	}
	if !d.Allowed {
		if !by.tentative {
			rl.refusedLocked(name, r.instant, d)
		}
		return nil
	}
	made := rl.chargeLocked(model, name, &q, &r, c.Count, rl.watches(&q) || in != nil && anyLimitsSlots(in))
	if made.extra != nil || rl.pricing != nil || made.slots().audit == nil {
		rl.madeLocked(made, &q, c.Money, r.instant)
	} else {
		made.slots().audit.Reserved.Count(made.estimate)
		if a := rl.audits.classes.Marked(made.mark); a != nil {
			a.Reserved.Count(made.estimate)
		}
	}
	if in != nil {
		made = rl.chargePoolsLocked(made, model, in, &r, c.Count, c.Money)
	}
	if rl.lines.waiting > 0 {
		rl.linesLocked().passedLocked(by.class, made)
	}
	return made
}

// unusedReservations were allocated together, and are handed out one by one, as their rare fields
// are.
type unusedReservations struct {
	reservations []Reservation
	extras       []extra
}

// newLocked returns an empty reservation. Only one that is not watched for garbage collection is
// allocated together with others, which saves a fifth of the time of Reserve. Those that are
// observed are watched together: nothing must be kept for ever for the events of one that is lost.
func (u *unusedReservations) newLocked(watch, observed bool) *Reservation {
	if watch {
		return &Reservation{mark: audit.Watched}
	}
	switch {
	case len(u.reservations) > 0:
	case observed:
		together := new(reservationsTogether)
		runtime.SetFinalizer(together, (*reservationsTogether).abandon)
		u.reservations = together[:]
	default:
		u.reservations = make([]Reservation, 38) // 3 KiB, which the allocator has pieces of
	}
	r := &u.reservations[0]
	u.reservations = u.reservations[1:]
	return r
}

// extraLocked returns empty rare fields.
func (u *unusedReservations) extraLocked() *extra {
	if len(u.extras) == 0 {
		u.extras = make([]extra, 16)
	}
	x := &u.extras[0]
	u.extras = u.extras[1:]
	return x
}

// watches reports whether a reservation is to be watched, because a lost one would keep its slot,
// or because of Config.HoldTTL. The pools of the model may want the same.
func (rl *RateLimiter) watches(q *ModelQuota) bool { return q.limitsSlots() || rl.expiry.ttl > 0 }

// chargeLocked charges a request that was allowed, as of the instant of its view, and returns its
// reservation.
func (rl *RateLimiter) chargeLocked(model, name string, q *ModelQuota, r *view, c tokens.Count, watched bool) *Reservation {
	made := rl.unused.newLocked(watched, rl.teller != nil)
	made.estimate = c.Clamp()
	w, instant := r.window, r.instant
	if w == unused {
		// Without a place, a limited model was denied. An unlimited one goes uncounted.
		stats := rl.stateLocked(name, instant, rl.clock.At(instant))
		if stats == nil {
			made.more().model = strings.Clone(model)
			return made
		}
		w = rl.windowLocked(name, stats, instant)
		w.followPacing(q, instant)
		r.window = w
	}
	if w.slots == nil {
		rl.linesLocked().slotsLocked(name)
	}
	w.stateVersion = rl.stateVersion
	w.slots.inFlight++
	w.charge(instant, rl.clock.At(instant), c, rl.span())
	if q.adapts() {
		rl.findOnLocked(rl.foundLocked(name, q, instant, true), w, instant)
	}
	if w.unlisted != nil {
		rl.unlistedLocked().chargedLocked(w, instant)
	}
	if rl.lines.waiting > 0 {
		rl.linesLocked().openedLocked(w)
	}
	rl.changedLocked(instant)
	made.home, made.days = rl, w.days
	made.placeLocked(w, instant, w.requests.Len()-1, w.tokens.Len()-1)
	made.openLocked()
	if r.class != "" {
		made.classLocked(r.class)
	}
	if (rl.naming.Aliases != nil || rl.naming.MatchVersions) && model != w.slots.name {
		made.more().model = model
	}
	return made
}

// placeLocked notes where the charge is: the request-th oldest of the requests of w, and the
// token-th oldest of its tokens.
func (r *Reservation) placeLocked(w *window, instant int64, request, token int) {
	r.window, r.instant, r.round = w, instant, w.round
	r.requestAt, r.tokenAt = w.requests.Place(request), w.tokens.Place(token)
}

// Model returns the model of the reservation, by the name that the caller used.
func (r *Reservation) Model() string {
	switch {
	case r == nil:
		return ""
	case r.home == nil:
		return r.extra.model
	}
	rl := r.home
	rl.mu.RLock()
	defer rl.mu.RUnlock()
	if r.extra != nil && r.extra.model != "" {
		return r.extra.model
	}
	return r.slots().name
}

// ReservedAt returns the time of the admission; the zero time for a nil reservation, and for one
// that was not counted, see Config.MaxModels.
func (r *Reservation) ReservedAt() time.Time {
	if r == nil || r.home == nil {
		return time.Time{}
	}
	rl := r.home
	rl.mu.RLock()
	defer rl.mu.RUnlock()
	admitted := r.instant
	if r.extra != nil {
		admitted -= r.extra.delay
	}
	return rl.clock.At(admitted)
}

package ratelimit

import (
	"context"
	"runtime"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
)

// Reservation is room that was charged before a call: one request, its estimated tokens, and a
// slot among the calls in flight. Settle it once, with Commit after the call, or with Cancel if
// the call was never sent.
//
// A nil Reservation stands for a denied one: its methods do nothing. All methods are safe for
// concurrent use.
type Reservation struct {
	home    *RateLimiter  // nil in one that was not made by a limiter
	call    *account.Call // the engine's, which uses it again after the end
	serial  int64         // of the call: it is another one's when this differs
	model   string        // as the caller named it
	at      int64         // the instant of the admission
	watched bool          // it is settled at its estimate as soon as it is garbage
	claimed uint32        // 1 once somebody ends the call of a shared limiter
}

// live returns the call of a reservation that is not settled; nil for another.
func (r *Reservation) liveRLocked() *account.Call {
	if r.call == nil || r.call.Serial != r.serial || r.call.Ended {
		return nil
	}
	return r.call
}

// Reserve checks all limits of model and charges them in one step: one request, the estimated
// tokens, one request of the day, one slot. If any of them denies, it charges nothing and returns
// nil and the reason. A model without a quota, or with an all-zero one, is charged, and denied
// only by a cooldown.
//
// While others wait for the model in Acquire, it is denied with DecisionQueued. Reserve is safe
// for concurrent use.
func (rl *RateLimiter) Reserve(model string, promptTokens, outputTokens int) (r *Reservation, d Decision) {
	req := Request{Model: model, PromptTokens: promptTokens, OutputTokens: outputTokens}
	return rl.reserveOne(&caller{ctx: background}, &d, &req), d
}

// reserveOne is Reserve for a caller.
func (rl *RateLimiter) reserveOne(by *caller, d *Decision, req *Request) (made *Reservation) {
	if rl.shared != nil {
		return rl.shared.reserveOne(by, req, d)
	}
	var e *telling
	rl.mu.Lock()
	var asked [1]engine.Request
	r := &asked[0]
	now := rl.enterForLocked(req.Model, &r.Target)
	rl.askForRLocked(r, req, now)
	var of engine.By
	rl.fillBy(&of, &by.asking)
	d.Stats.count(r.Account, rl.span(), now)
	c := rl.engine.AdmitOne(&of, r, now)
	if c != nil {
		d.pass(r.Account)
	} else if !d.deny(rl.engine, &r.Target, r.Tokens, rl.span(), rl.engine.Last()) {
		clear(rl.charged[:])
		c = d.admit(rl.engine, rl.charged[:0], &of, asked[:], now)
	}
	d.Model = req.Model
	if c != nil {
		made = rl.reservationLocked(c)
	} else if !by.tentative {
		rl.refusals.use(r.Counted, rl.Quotas).refused(now, d)
	}
	if rl.teller != nil {
		e = rl.teller.reservedLocked(by, made, d, r.Tokens)
	}
	rl.leaveLocked(now)
	rl.mu.Unlock()
	if e != nil || made != nil && made.watched {
		rl.teller.tellAndWatch(e, made)
	}
	return made
}

// reservationLocked returns the reservation of a call that was admitted.
func (rl *RateLimiter) reservationLocked(c *account.Call) *Reservation {
	if !c.IsCounted() {
		return &Reservation{model: c.Asked}
	}
	made := rl.unused.newLocked(rl.holdTTL > 0 || c.LimitsSlots())
	made.home, made.call, made.serial, made.model, made.at = rl, c, c.Serial, c.Asked, c.At.Instant
	if c.Class != "" { // one that is not in Config.Classes now is none, also if it is there when the call ends
		c.Class = rl.engine.KnownClass(c.Class)
	}
	rl.ledger.Reserved(audited{rl}, c)
	rl.saver.ChangedAt(c.At.Instant)
	return made
}

// unusedReservations were allocated together, and are handed out one by one.
type unusedReservations struct {
	all  *together
	left int
}

// together is what is allocated and watched for the price of one. It fills a size class of 3,456.
type together [61]Reservation

// newLocked returns an empty reservation. One that is watched for itself gives its slot back as
// soon as it is garbage, and takes a fifth more time. The others are watched together, because the
// engine keeps each call until it has ended.
func (u *unusedReservations) newLocked(watched bool) *Reservation {
	if watched {
		return &Reservation{watched: true}
	}
	if u.left == 0 {
		u.all, u.left = new(together), len(together{})
		runtime.SetFinalizer(u.all, (*together).abandon)
	}
	u.left--
	return &u.all[len(u.all)-1-u.left]
}

// abandon settles reservations that were allocated together, when the last of them is garbage.
func (all *together) abandon() {
	made := make([]*Reservation, 0, len(all))
	for i := range all {
		if r := &all[i]; r.home != nil {
			made = append(made, r)
		}
	}
	abandon(made)
}

// watch makes sure that a reservation which limits others is settled when it is garbage.
func (r *Reservation) watch() {
	if r != nil && r.watched && r.home != nil {
		runtime.SetFinalizer(r, (*Reservation).abandon)
	}
}

// abandon settles a reservation that is garbage.
func (r *Reservation) abandon() { abandon([]*Reservation{r}) }

// abandon settles garbage-collected reservations of one limiter at their estimates.
//
// It runs outside of a bubble of testing/synctest, also for a reservation that was made in one.
// There it must not touch the bubble's clock, timers and channels. It recognises a bubble by the
// limiter's clock, which has no monotonic reading there, and leaves the waiters to the next call.
func abandon(all []*Reservation) {
	rl := all[0].home
	inBubble := rl.clock.InBubble()
	if !inBubble {
		defer rl.shared.tell()
	}
	rl.mu.Lock()
	defer rl.mu.Unlock()
	for _, r := range all {
		r.abandonLocked(inBubble)
	}
}

func (r *Reservation) abandonLocked(inBubble bool) {
	rl, c := r.home, r.liveRLocked()
	switch {
	case c == nil || rl.shared != nil && !r.claim():
	case inBubble:
		e := rl.endedLocked(c, account.Lost, c.Tokens, rl.engine.Last())
		if e != nil {
			e.Held = 0 // the clock here is not that of the admission
		}
		rl.teller.postLaterRLocked(e)
		if rl.shared != nil {
			rl.shared.lostLocked(c)
		} else {
			rl.engine.Lose(c)
		}
	case rl.shared != nil:
		rl.shared.endLocked(c, account.Lost, c.Tokens, 0, rl.nowLocked())
	default:
		now := rl.nowLocked()
		rl.teller.postRLocked(rl.endedLocked(c, account.Lost, c.Tokens, now))
		rl.engine.Settle(c, account.Lost, c.Tokens, 0, now)
		rl.leaveLocked(now)
	}
}

// Model returns the model of the reservation, by the name that the caller used.
func (r *Reservation) Model() string {
	if r == nil {
		return ""
	}
	return r.model
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
	if rl.shared != nil {
		return rl.shared.now().TimeAt(r.at)
	}
	return rl.clock.At(r.at)
}

// ReserveAll is Reserve for several requests, which may name a model more than once: all of them
// are charged, or none. In a denial, Model is the model that denied, and RetryAfter is when all
// pass. Without requests it succeeds. More than 4,096 never pass with Config.Shared and
// Config.Store.
//
// It is safe for concurrent use.
func (rl *RateLimiter) ReserveAll(reqs ...Request) (Reservations, Decision) {
	by := caller{ctx: background}
	by.ask(background, reqs, rl.classed.Load())
	return rl.reserveAll(&by, reqs)
}

func (rl *RateLimiter) reserveAll(by *caller, reqs []Request) (reservations Reservations, d Decision) {
	if rl.shared != nil {
		is := &reserving{s: rl.shared, by: *by, reqs: reqs}
		is.reserve()
		return is.made, is.d
	}
	rl.mu.Lock()
	now, asked := rl.enterAllLocked(reqs)
	of := rl.by(by.asking)
	if len(asked) == 1 {
		d.Stats.count(asked[0].Account, rl.span(), now)
	}
	calls, v := rl.engine.Admit(nil, &of, asked, now)
	switch {
	case !v.Allowed:
		d.follow(&v, rl.engine.Items(), rl.span(), now)
	default:
		reservations = rl.reservationsLocked(calls)
		d.explain(&v, rl.engine.Items())
		if d.Model = ""; len(reqs) == 1 {
			d.Model = reqs[0].Model
		}
	}
	e := rl.reservedLocked(by, reservations, &d, reqs, now)
	rl.leaveLocked(now)
	rl.mu.Unlock()
	rl.teller.tell(e)
	reservations.watch()
	return reservations, d
}

// enterAllLocked is enterLocked for requests that were made together.
func (rl *RateLimiter) enterAllLocked(reqs []Request) (now account.Now, asked []engine.Request) {
	now = rl.nowLocked()
	for i := range reqs {
		rl.adoptLocked(reqs[i].Model, now)
	}
	asked = make([]engine.Request, len(reqs))
	for i := range reqs {
		model := reqs[i].Model
		asked[i].Target = rl.engine.Resolve(rl.nameRLocked(model), model)
		rl.askForRLocked(&asked[i], &reqs[i], now)
	}
	return now, asked
}

// reservationsLocked returns the reservations of calls that were admitted together.
func (rl *RateLimiter) reservationsLocked(calls []*account.Call) Reservations {
	rs := make(Reservations, len(calls))
	for i, c := range calls {
		rs[i] = rl.reservationLocked(c)
	}
	return rs
}

// Reservations are reservations that were made together, in the order of the requests; nil when
// they were denied.
type Reservations []*Reservation

// Cancel cancels all unsettled reservations in one step. It is safe for concurrent use.
func (rs Reservations) Cancel() {
	var limiters []*RateLimiter // one, unless the program has put the reservations of several together
	for _, r := range rs {
		if r != nil && r.home != nil && !slices.Contains(limiters, r.home) {
			limiters = append(limiters, r.home)
		}
	}
	for _, rl := range limiters {
		var e *telling
		rl.mu.Lock()
		now := rl.nowLocked()
		for _, r := range rs {
			if r != nil && r.home == rl {
				e = e.then(r.endLocked(account.Cancelled, state.Count{}, 0, now))
			}
		}
		rl.leaveLocked(now)
		rl.mu.Unlock()
		rl.shared.send()
		rl.teller.tell(e)
	}
}

func (rs Reservations) watch() {
	for _, r := range rs {
		r.watch()
	}
}

// ReserveContext is ReserveAll with the context that the events of the reservations get, those of
// their settlement included: see Config.Events. It does not wait, and succeeds also when ctx has
// ended. If it ends while a shared quota is asked, that is a DecisionStoreError.
//
// It is safe for concurrent use.
func (rl *RateLimiter) ReserveContext(ctx context.Context, reqs ...Request) (rs Reservations, d Decision) {
	// It is short enough to be inlined, so that one reservation in rs takes no memory of its own.
	if one := rl.reserveContext(ctx, reqs, &rs, &d); one != nil {
		rs = Reservations{one}
	}
	return
}

// reserveContext is ReserveContext. It returns the reservation of a single request, and sets rs for
// more.
func (rl *RateLimiter) reserveContext(ctx context.Context, reqs []Request, rs *Reservations, d *Decision) *Reservation {
	by := callerOf(ctx)
	by.ask(ctx, reqs, rl.classed.Load())
	if len(reqs) == 1 {
		req := reqs[0]
		return rl.reserveOne(&by, d, &req)
	}
	*rs, *d = rl.reserveAll(&by, slices.Clone(reqs)) // which keeps them on the heap
	return nil
}

// ReserveAny is Reserve for a call that one of several models can serve: it charges the first of
// the candidates that passes. Reservation.Model says which. If none passes, it returns nil and the
// decision on the one that opens first, by the smallest RetryAfter; where no time says when any
// does, on the first. Without requests it returns nil and a Decision that allows.
//
// It is safe for concurrent use.
func (rl *RateLimiter) ReserveAny(requests ...Request) (r *Reservation, d Decision) {
	if len(requests) == 0 {
		return nil, Decision{Allowed: true, Code: DecisionAllowed, Reason: "within the quota"}
	}
	by := caller{ctx: background, tentative: true}
	for i := range requests {
		var decided Decision
		by.ask(background, requests[i:i+1], rl.classed.Load())
		if r = rl.reserveOne(&by, &decided, &requests[i]); r != nil {
			return r, decided
		}
		if i == 0 || decided.opensBefore(&d) {
			d = decided
		}
	}
	by.tentative = false
	rl.mu.Lock()
	e := rl.reservedLocked(&by, nil, &d, requests, rl.nowLocked())
	rl.mu.Unlock()
	rl.teller.tell(e)
	return nil, d
}

// opensBefore reports whether a denial ends before another one, as far as time tells. One that
// never ends is after all.
func (d *Decision) opensBefore(other *Decision) bool {
	v, o := verdict.Verdict{Retry: d.RetryAfter, Never: d.Never}, verdict.Verdict{Retry: other.RetryAfter, Never: other.Never}
	return v.OpensBefore(&o)
}

package ratelimit

import "time"

// ReserveAll is Reserve for several requests, which may name a model more than
// once: all of them are charged, or none. In a denial Model is who denied, and
// RetryAfter is when all pass. Without requests it succeeds.
//
// It is safe for concurrent use.
func (rl *RateLimiter) ReserveAll(reqs ...Request) (Reservations, Decision) {
	var b *batch
	var reservations Reservations
	rl.change(background, func() {
		b = rl.weighLocked(reqs)
		b.queuedLocked()
		if b.Allowed {
			reservations = rl.chargeAllLocked(reqs, b)
		}
	})
	rl.watchAll(reservations)
	return reservations, b.Decision
}

// Reservations are those that were made together, in the order of the requests; nil
// when they were denied.
type Reservations []*Reservation

// Cancel cancels all of them, but those that are settled already. It is safe for
// concurrent use.
func (rs Reservations) Cancel() {
	for _, r := range rs {
		r.Cancel()
	}
}

func (rl *RateLimiter) watchAll(rs Reservations) {
	for _, r := range rs {
		rl.watch(r)
	}
}

// batch is what some requests ask for together, by model, and the decision on
// it.
type batch struct {
	Decision
	wait    time.Duration // how long the limits deny that end with time
	event   bool          // some of them are denied until a call in flight ends
	demands []demand
	of      []int // which of the demands each request belongs to
}

// demand is what is asked of one model.
type demand struct {
	name    string // under which the model is counted
	model   string // as the first request calls it
	quota   ModelQuota
	known   bool
	ask     ask
	reading reading
}

// weighLocked decides on requests that are to pass together, as of now and as if
// nobody waited.
func (rl *RateLimiter) weighLocked(reqs []Request) *batch {
	b := rl.demandsRLocked(reqs)
	b.Allowed, b.Code, b.Reason = true, DecisionAllowed, "within the quota"
	instant := rl.clock.Sync()
	for i := range b.demands {
		dem := &b.demands[i]
		dem.reading.instant = instant
		rl.readToChargeLocked(dem.name, &dem.quota, dem.known, &dem.reading)
		d := Decision{Model: dem.model}
		dem.reading.modelStats(&d.Stats, &dem.quota)
		wait := decide(&d, &dem.quota, dem.known, &dem.reading, &dem.ask)
		b.merge(&d, wait)
	}
	if n := rl.newcomersRLocked(b); n > 1 && b.Allowed && !rl.roomLocked(n, b.demands, instant) {
		b.Decision = Decision{
			Code: DecisionTooManyModels, Reason: tooManyModels,
			Never: n > rl.mostModels(), Model: b.demands[0].model,
		}
	}
	if len(reqs) == 1 && b.Allowed {
		b.Model = reqs[0].Model
	}
	if rl.ledger != nil {
		if rl.ledger.overrule(&b.Decision); b.Code == DecisionStoreError || b.Code == DecisionClosed {
			b.wait, b.event = 0, true
		}
	}
	return b
}

// demandsRLocked works out what requests ask for of each model.
func (rl *RateLimiter) demandsRLocked(reqs []Request) *batch {
	b := &batch{of: make([]int, len(reqs))}
	for i := range reqs {
		b.of[i] = b.add(rl, &reqs[i])
	}
	return b
}

// newcomersRLocked counts the models that need a place for their state. Each was
// weighed as if it were the only one.
func (rl *RateLimiter) newcomersRLocked(b *batch) (n int) {
	for i := range b.demands {
		if dem := &b.demands[i]; dem.known && dem.reading.window == unused {
			if _, own := rl.Quotas[dem.name]; !own {
				n++
			}
		}
	}
	return n
}

// add counts a request to the demand on its model.
func (b *batch) add(rl *RateLimiter, req *Request) int {
	var q ModelQuota
	name, known := rl.findRLocked(req.Model, &q)
	i := 0
	for i < len(b.demands) && b.demands[i].name != name {
		i++
	}
	if i == len(b.demands) {
		b.demands = append(b.demands, demand{name: name, model: req.Model, quota: q, known: known})
	}
	a := &b.demands[i].ask
	if a.requests++; min(req.PromptTokens, req.OutputTokens) < 0 {
		a.amount = amount{-1, -1}
	} else if a.input >= 0 {
		a.amount = a.plus(amount{req.PromptTokens, req.OutputTokens})
	}
	return i
}

// merge takes the decision on one demand into the one on all. The first that
// denies names it, or the first that will never pass; the longest wait counts.
func (b *batch) merge(d *Decision, wait time.Duration) {
	if b.Never {
		return
	}
	b.wait = max(b.wait, wait)
	b.event = b.event || d.Code == DecisionInFlightLimit
	switch {
	case d.Never:
		b.wait = 0
		b.Decision = *d
	case b.Allowed && !d.Allowed:
		b.Decision = *d
	case b.Allowed && len(b.demands) == 1:
		b.Decision = *d
		b.Model = ""
	}
	if b.RetryAfter = b.wait; b.event {
		b.RetryAfter = 0
	}
}

// queuedLocked denies the requests where others wait.
func (b *batch) queuedLocked() (queued bool) {
	for i := range b.demands {
		dem := &b.demands[i]
		if dem.reading.gate.waiting() == 0 {
			continue
		}
		if b.queue(); !b.Never {
			b.Model, b.Stats = dem.model, ModelStats{}
			dem.reading.modelStats(&b.Stats, &dem.quota)
		}
		return true
	}
	return false
}

// chargeAllLocked makes the reservations of requests that pass.
func (rl *RateLimiter) chargeAllLocked(reqs []Request, b *batch) Reservations {
	rs := make(Reservations, len(reqs))
	charge := func(i int) {
		dem, req := &b.demands[b.of[i]], &reqs[i]
		rs[i] = rl.chargeLocked(req.Model, dem.name, &dem.quota, dem.known, &dem.reading, amount{req.PromptTokens, req.OutputTokens})
	}
	// Those with state first, so that it is not idle when another needs a place.
	for i := range reqs {
		if b.demands[b.of[i]].reading.window != unused {
			charge(i)
		}
	}
	for i := range reqs {
		if rs[i] == nil {
			charge(i)
		}
	}
	return rs
}

package ratelimit

import (
	"math"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/provenance"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
)

// applyNewsLocked applies the events that others have written since.
func (s *ledger) applyNewsLocked(news *sharedlog.News) {
	instant, machine := s.rl.clock.Sync(), s.log.Clock()
	floor := s.seenAt
	if s.remote != nil {
		floor = math.MinInt64 // one clock dates all events, and what was heard last was old already
	}
	s.keep = max(s.keep, news.Span)
	s.tail.Trim(s.peers, sharedlog.Horizon(instant, s.keep), news.Folded)
	for _, e := range news.Events {
		switch {
		case e.Seq <= s.seen: // by another reader
			continue
		case e.Process == s.id && s.writtenAsLocked(e, instant):
			continue
		}
		e.Date(&s.rl.clock, machine, instant, floor)
		s.asOf(instant).apply(e)
		s.tail.Meet(s.peers, e, news.Folded)
		s.seen = e.Seq
		s.lines.stirs++
	}
	s.seenAt = instant
	s.seenSoFar.Store(s.seen)
}

// writtenAsLocked is writtenLocked for an own event that a reader has met.
func (s *ledger) writtenAsLocked(read *sharedlog.Event, instant int64) bool {
	own := s.outbox.Events()
	if s.pending != nil {
		own = slices.Concat(own, s.pending.events)
	}
	for _, e := range own {
		if e.Key() == read.Key() {
			e.Wall, e.Day, e.HasDay = read.Wall, read.Day, read.HasDay
			s.writtenLocked(e, read.Seq, instant)
			return true
		}
	}
	return false
}

// effect applies events as of an instant. Its methods are called with RateLimiter.mu held.
type effect struct {
	s       *ledger
	rl      *RateLimiter
	instant int64
	joins   bool // memory is made anew, from what all have done
}

func (s *ledger) asOf(instant int64) effect { return effect{s: s, rl: s.rl, instant: instant} }

// dayChange is the change of a model's day by an event.
type dayChange struct {
	window           *window
	requests, tokens int
}

// apply does in memory what an event says. An own event concerns the reservation or
// the waiter that own has for it.
func (f effect) apply(e *sharedlog.Event) {
	f.do(e)
	if e.HasDay {
		w := f.window(e.Model)
		requests, total := w.dayCount(), w.dayTokens()
		f.setDay(e.Model, e.Day)
		if w.dayCount()-requests > e.Requests || w.dayTokens()-total > e.Total() {
			f.rl.linesLocked().reviewAllLaterLocked(w.slots)
		}
	}
	if e.Process == f.s.id && e.Kind != sharedlog.Use && e.Kind != sharedlog.Reserve && e.Kind != sharedlog.Wait {
		f.s.lines.stirs++
	}
}

// merge is apply for an event that others do not know yet: what it adds to the
// day comes on top of what they have counted meanwhile.
func (f effect) merge(e *sharedlog.Event) {
	change := f.do(e)
	if added, known := f.s.outbox.Added(e); known {
		change = dayChange{}
		if e.HasDay {
			added = added.At(f.rl.clock.UnixNano(f.instant))
			change = dayChange{f.window(e.Model), added.Requests, added.Tokens}
		}
	}
	e.Day, e.HasDay = state.DayUsage{}, false // that was the day as this limiter alone knew it
	w := change.window
	if w == nil {
		return
	}
	switch {
	case change.requests > 0 && f.dayIsOver(w, e.At):
	case change.requests > 0 || change.tokens > 0:
		w.chargeDay(f.rl.clock.At(e.At), change.requests, change.tokens)
		n := e.N
		if e.Kind == sharedlog.Move {
			n = e.Ref
		}
		if r := f.openReservation(e.Process, n); r != nil {
			r.days = w.days // which it may have begun
		}
	default:
		w.setDay(max(w.dayCount()+change.requests, 0), max(w.dayTokens()+change.tokens, 0))
		f.rl.unlistedLocked().easeLocked(e.Model)
	}
	e.Day, e.HasDay = dayOf(w), true
}

// dayIsOver reports whether a charge surely was made in a day that is over. Without a zone
// the day may have begun with the charge, be it that others began one later. With a zone a day
// that nothing was charged to may be of a window that was made just now, and begin with it.
func (f effect) dayIsOver(w *window, at int64) bool {
	switch {
	case w.period.Location == nil:
		return f.instant-at >= day
	case w.dayCount() == 0 && w.dayTokens() == 0:
		_, end := clock.Day(f.rl.clock.At(at), w.period.Location)
		return f.rl.clock.UnixNano(f.instant) >= clock.UnixNano(end)
	}
	return f.rl.clock.UnixNano(at) < w.period.Begin
}

// do applies an event, except to the day of its model. It returns the change of that day.
func (f effect) do(e *sharedlog.Event) (change dayChange) {
	switch e.Kind {
	case sharedlog.Use, sharedlog.Reserve:
		w, request, token := f.insert(e, nil)
		if e.Kind == sharedlog.Reserve {
			f.open(e, e.N, w, request, token)
		}
		f.countFound(e, w)
		if e.Kind == sharedlog.Use && f.instant-e.At <= f.rl.span() {
			f.rl.linesLocked().loadedLocked(w.slots, w, cost{Requests: e.Requests, Count: e.Count})
		}
		if e.Ref != 0 {
			return change // what settled the reservation counts to the day, or it was counted
		}
		return dayChange{w, e.Requests, e.Total()}
	case sharedlog.Move:
		f.move(e)
	case sharedlog.Amend, sharedlog.Release, sharedlog.Cancel:
		return f.settle(e)
	case sharedlog.ReleaseAll:
		numbers, _ := sharedlog.ParseNumbers(e.Text) // what is not a list releases nothing
		for _, n := range numbers {
			f.settle(&sharedlog.Event{Kind: sharedlog.Release, Process: e.Process, Ref: n})
		}
	case sharedlog.Reset:
		f.reset(e)
	case sharedlog.Cooldown:
		f.cool(e.Model, e.Cooldown(), f.rl.clock.At(f.instant))
	case sharedlog.Quota:
		if saying, err := sharedlog.ParseSaying(e.Text); err == nil {
			f.setQuota(e.Model, f.sayerOf(e, &saying), e.At, &saying)
		}
	case sharedlog.Wait:
		f.standIn(e)
	case sharedlog.Leave:
		if w := f.s.peers.RemoveWaiter(e.Process, e.Ref); w != nil {
			f.rl.linesLocked().leaveLinesLocked(w)
		}
	case sharedlog.Gone:
		f.removeDead(e.Ref)
	case sharedlog.Evict:
		f.evict(e.Ref)
	case sharedlog.Found, sharedlog.Pool, sharedlog.Classes, sharedlog.Spend, sharedlog.Answers:
		f.learn(e)
	case sharedlog.Tally:
		return dayChange{f.window(e.Model), e.Requests, e.Total()}
	case sharedlog.Day:
		return dayChange{window: f.window(e.Model)}
	}
	return dayChange{}
}

// reset forgets the usage of a model.
func (f effect) reset(e *sharedlog.Event) {
	f.rl.forgetUsageLocked(e.Model)
	if ended := f.rl.teller.thawedLocked(); e.Process == f.s.id {
		f.rl.teller.pendLocked(ended)
	} else {
		f.rl.teller.postRLocked(ended)
	}
}

func (f effect) cool(model string, c state.Cooldown, now time.Time) {
	if len(f.rl.cooldowns) >= f.rl.mostModels() {
		f.rl.cooldowns.DropOver(now) // those whose models nobody asks for here
	}
	if f.rl.cooldowns.Raise(model, c, now) {
		f.s.lines.reviews++
	}
}

// sayerOf returns the value of Event.By for an event that changes a quota.
func (f effect) sayerOf(e *sharedlog.Event, saying *sharedlog.Saying) string {
	switch {
	case e.Process != f.s.id:
		return byProcess
	case saying.Origin == state.Account:
		return byAccount
	}
	return byProgram
}

func (f effect) setQuota(model, by string, instant int64, saying *sharedlog.Saying) {
	said := saying.After(f.s.quotas[model])
	f.rl.sayAtLocked(model, by, instant, func(p *provenance.Quotas) { p.Tell(model, said, saying.Origin) })
	f.s.noteQuota(model, said)
	f.rl.followQuotasLocked()
	f.s.lines.reviews++
	f.s.garbage.wanted = true // slots may be limited now
}

// noteQuota notes what the processes say of a quota, with RateLimiter.mu held.
func (s *ledger) noteQuota(model string, said state.Said) {
	if said.IsEmpty() {
		delete(s.quotas, model)
	} else {
		s.quotas[model] = said
	}
}

// window returns the window of the models that are counted under a name, and makes a missing one.
func (f effect) window(name string) *window {
	rl := f.rl
	stats := rl.mustStateLocked(name, f.instant, rl.clock.At(f.instant))
	w := rl.windowLocked(name, stats, f.instant)
	if w.slots == nil {
		rl.linesLocked().slotsLocked(name)
	}
	w.stateVersion = rl.stateVersion
	var q ModelQuota
	rl.coverRLocked(name, &q)
	w.followPacing(&q, f.instant)
	return w
}

// insert puts the charge of an event into its window, unless it counts no more. r is the
// reservation of the charge; nil if that is not known.
func (f effect) insert(e *sharedlog.Event, r *Reservation) (w *window, request, token int) {
	w, request, token = f.window(e.Model), -1, -1
	if f.instant-e.At > f.rl.span() {
		return w, request, token
	}
	request, token = w.insertCharge(r, e.At, f.rl.clock.At(e.At), e.Requests, e.Count)
	return w, request, token
}

// open opens the reservation of a charge. n is the number of the reservation's first event in its
// process.
func (f effect) open(e *sharedlog.Event, n int64, w *window, request, token int) {
	if f.s.peers.Reservation(e.Process, n) != nil {
		return // a log that somebody else wrote; it would never be settled
	}
	r := f.s.own.reservation(e, f.s.id, n)
	if r != nil {
		r.more().entry = n
		f.s.peers.OpenOwn(e, n, r)
	} else {
		r = &Reservation{home: f.rl, estimate: e.Count}
		f.s.peers.Open(e, n, r)
	}
	if r.isSlotless() {
		r.extra.slotless = false
	}
	if e.Kind == sharedlog.Move {
		r.more().arrived = true
	}
	r.days = w.days
	r.placeLocked(w, e.At, request, token)
	if e.Process == f.s.id && f.s.own.forgotten[n] {
		r.window = &window{slots: w.slots, gone: true}
	} else {
		r.openLocked()
		if f.rl.reserves != nil {
			r.countLocked(e.Text)
		}
	}
	f.rl.linesLocked().openedLocked(w)
	w.slots.inFlight++
	if e.Process == f.s.id {
		f.s.lease.Keep()
		w.slots.admittedLocked(f.instant)
	}
}

// openReservation returns an open reservation; nil if it is not open, or garbage.
func (f effect) openReservation(process, n int64) *Reservation {
	if h := f.s.peers.Reservation(process, n); h != nil {
		return h.Get()
	}
	return nil
}

// move moves the charge of a reservation. Where that is not known any more, its
// event has been deleted: it counted no more when it was moved.
func (f effect) move(e *sharedlog.Event) {
	r := f.openReservation(e.Process, e.Ref)
	if r == nil {
		w, request, token := f.insert(e, nil)
		f.open(e, e.Ref, w, request, token)
		return
	}
	isOpen := !r.isSlotless()
	if isOpen {
		r.shutLocked()
	}
	if w, request, token := r.findLocked(); w != nil {
		w.moveCharge(r, request, token)
	}
	w, request, token := f.insert(e, r)
	r.placeLocked(w, e.At, request, token)
	r.more().arrived = true
	if r.days = w.days; isOpen {
		r.openLocked()
	}
	f.rl.linesLocked().arrivedLocked(r)
}

// settle settles a reservation.
func (f effect) settle(e *sharedlog.Event) (change dayChange) {
	h := f.s.peers.CloseReservation(e.Process, e.Ref)
	if h == nil {
		return change
	}
	r := h.Get()
	if r == nil || r.settled {
		return change
	}
	// What a reset has forgotten does not come off what was charged since, and what was
	// charged yesterday not off today.
	if w, request, token := r.findLocked(); w != nil {
		inDay := w.inDay(r)
		switch e.Kind {
		case sharedlog.Amend:
			r.share().Settle(e.Count)
			if token >= 0 {
				w.setTokens(token, r, e.Count)
			}
			if inDay && (w == r.window || token >= 0) {
				change = dayChange{w, 0, e.Total() - r.estimate.Total()}
			}
		case sharedlog.Cancel:
			r.share().Refund()
			w.removeCharge(request, token)
			r.uncountFoundLocked()
			if inDay && (w == r.window || request >= 0 || token >= 0) {
				change = dayChange{w, -1, -r.estimate.Total()}
			}
		}
	}
	r.keptLocked(e.Count)
	if e.Kind != sharedlog.Cancel {
		r.endFoundLocked()
	}
	r.releaseLocked()
	return change
}

// setDay makes the day of a model the one that an event says.
func (f effect) setDay(name string, d state.DayUsage) {
	w := f.window(name)
	if d.Start != w.period.Begin {
		if d.Start >= w.period.End {
			w.days++
		}
		w.stats.DayStart = state.DayTime(d.Start)
		w.settleDay(f.rl.clock.At(f.instant))
		w.openDay()
	}
	w.setDay(tokens.SaturatedInt(d.Count), tokens.SaturatedInt(d.Tokens))
	f.rl.unlistedLocked().easeLocked(name) // a cancelled call's day was the last that kept its place
}

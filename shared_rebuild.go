package ratelimit

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/provenance"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/spend"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// ownState is what this limiter itself has under way, by the numbers of its events, while
// these are yet to be applied: to a step that is being written, or to memory that is made
// anew.
type ownState struct {
	reservations map[int64]*Reservation
	waits        map[int64]*waiter

	// forgotten are the reservations whose charges a reset had forgotten before memory was
	// made anew: the log may not have that reset any more.
	forgotten map[int64]bool
	// yesterday are those that were charged in a day that is over: no event says so.
	yesterday map[int64]bool
}

func newOwnState() ownState {
	return ownState{reservations: make(map[int64]*Reservation), waits: make(map[int64]*waiter), forgotten: make(map[int64]bool), yesterday: make(map[int64]bool)}
}

// reservation returns the reservation that an event is to open, if it is one of process id.
func (o *ownState) reservation(e *sharedlog.Event, id, n int64) *Reservation {
	if e.Process != id {
		return nil
	}
	if r := o.reservations[n]; r != nil && !r.settled {
		return r
	}
	return nil
}

func (o *ownState) clear() {
	clear(o.reservations)
	clear(o.waits)
	clear(o.forgotten)
	clear(o.yesterday)
}

// lostLog is the content of a replaced log beyond the events in the tail.
type lostLog struct {
	days      map[string]state.DayUsage
	cooldowns map[string]state.Cooldown
	quotas    map[string]state.Said
	pools     map[string][]string
	spends    spend.Book
}

// rebuild makes memory anew as of an instant. Its methods are called with RateLimiter.mu held.
type rebuild struct {
	effect
	img     *sharedlog.Image
	folded  int64 // see sharedlog.News
	machine clock.Machine
}

// rebuildLocked makes memory what the log says, and what this limiter knows beyond that:
// what is in the outbox, and, when the log is another one than before, all that it does not
// have. What has to be written is in the outbox then.
func (s *ledger) rebuildLocked(news *sharedlog.News) {
	b := &rebuild{s.asOf(s.rl.clock.Sync()), news.Image, news.Folded, s.log.Clock()}
	s.keep = max(s.rl.span(), news.Span)
	s.usedUntil = b.img.UsedUntil(&s.rl.clock, b.machine, b.instant, s.rl.span())
	missing := b.missing()
	s.rl.teller.rebuildLocked()
	defer s.rl.teller.rebuiltLocked()
	b.joins = true
	b.takeDown()
	b.load()
	for _, e := range missing {
		e.Seq = 0
		b.merge(e)
	}
	s.outbox.Replace(missing)
	b.raiseDays()
	b.putBack()
	b.restore()
	s.rl.followQuotasLocked() // the log has names as they were written
	s.own.clear()
	s.identity = b.img.Identity
	s.seenAt = b.instant
	s.seenSoFar.Store(s.seen)
	s.lines.stirs++
	s.lines.reviews++
}

// missing returns the events that the log does not have.
func (b *rebuild) missing() []*sharedlog.Event {
	known := b.s.outbox.Events()
	if b.s.identity != "" && b.s.identity != b.img.Identity {
		b.s.lost = b.remember()
		known = slices.Concat(b.s.tail.Counting(b.s.peers, sharedlog.Horizon(b.instant, b.s.keep), b.folded), known)
	}
	return b.img.Missing(known)
}

// load makes memory the content of the log.
func (b *rebuild) load() {
	rl := b.s.rl
	b.loadQuotas()
	b.loadPools()
	b.loadClasses()
	rl.forgetAllStatsLocked()
	rl.stateVersion++
	rl.unlisted = unlistedModels{}
	rl.cooldowns = nil
	b.s.peers = b.s.newPeers()
	b.s.tail = sharedlog.Tail{}
	b.s.seen = 0
	b.loadFound()
	b.loadSpend()
	for _, e := range b.img.Events {
		e.Date(&rl.clock, b.machine, b.instant, math.MinInt64)
		switch e.Kind {
		case sharedlog.Quota, sharedlog.Cooldown, sharedlog.Found, sharedlog.Pool, sharedlog.Spend, sharedlog.Classes:
			// the image has those
		default:
			b.do(e)
		}
		b.s.tail.Meet(b.s.peers, e, b.folded)
		b.s.seen = e.Seq
	}
	b.loadLines()
	rl.answers.Merge(b.img.Answers, rl.mostModels())
	for model, c := range b.img.Cooldowns {
		b.cool(model, c, rl.clock.At(b.instant))
	}
	for model, day := range b.img.Days {
		b.setDay(model, day)
	}
	for n, r := range b.s.own.reservations {
		if b.s.own.yesterday[n] && r.window != nil {
			r.days = r.window.days - 1
		}
	}
}

// loadQuotas takes over what the log has of quotas. That wins over what was said before, because
// that was written there. What the log has no more was taken back, unless the log is another one:
// it is told then.
func (b *rebuild) loadQuotas() {
	before := b.s.quotas
	b.s.quotas = make(map[string]state.Said, len(b.img.Quotas))
	for model, q := range b.img.Quotas {
		if said := provenance.Shared(q, b.img.Said[model]); !said.IsEmpty() && said == before[model] {
			b.s.noteQuota(model, said) // to say it again would forget what was learned since
			continue
		}
		b.rl.sayLocked(model, byProcess, func(p *provenance.Quotas) {
			b.s.noteQuota(model, p.Share(model, q, b.img.Said[model]))
		})
	}
	for model := range before {
		if _, still := b.img.Quotas[model]; !still && b.s.lost == nil {
			b.rl.sayLocked(model, byProcess, func(p *provenance.Quotas) { p.Tell(model, state.Said{}, state.Program) })
		}
	}
}

// takeDown empties all lines and slots.
func (b *rebuild) takeDown() {
	for n, h := range b.s.peers.Reservations(b.s.id) {
		if r := h.Get(); r != nil && !h.IsKept() {
			b.s.own.reservations[n] = r
			w := r.window
			b.s.own.yesterday[n] = !w.inDay(r) || b.rl.clock.UnixNano(b.instant) >= w.period.End
			b.s.own.forgotten[n] = w.gone || w.stateVersion != b.rl.stateVersion || w.stats.window != w
		}
	}
	maps.Copy(b.s.own.waits, b.s.peers.Waiters(b.s.id))
	for process := range b.s.peers.Processes() {
		for _, w := range b.s.peers.Waiters(process) {
			b.rl.linesLocked().leaveLinesLocked(w)
		}
	}
	for _, g := range b.rl.lines.allSlots {
		g.inFlight, g.bare = 0, true
	}
}

// putBack handles this limiter's open reservations and waiters that the log lacks. A replaced log
// gets them again. In the same log other processes have ended them, because they took this one for
// dead.
func (b *rebuild) putBack() {
	for n, r := range b.s.own.reservations {
		switch {
		case r.settled || b.s.peers.Reservation(b.s.id, n) != nil:
		case b.s.lost != nil:
			g := b.rl.linesLocked().slotsLocked(r.slots().name)
			g.inFlight++
			r.window.slots = g
			if r.isSlotless() {
				r.more().slotless = false
			}
			// It refers to itself: it is in the day already.
			e := &sharedlog.Event{
				Kind: sharedlog.Reserve, N: n, Ref: n, Model: g.name, At: r.instant, Requests: 1, Count: r.estimate,
			}
			b.emit(e)
			b.s.peers.OpenOwn(e, n, r)
		default:
			r.more().slotless = true
		}
	}
	waiters := slices.SortedFunc(maps.Values(b.s.own.waits), func(a, b *waiter) int { return cmp.Compare(a.seq, b.seq) })
	for _, w := range waiters {
		if !b.s.peers.HasWaiter(b.s.id, w.ticket) && !w.over {
			w.ticket = 0
			b.s.lines.evicted = append(b.s.lines.evicted, w)
		}
	}
	for _, g := range b.rl.lines.allSlots {
		g.closeLocked()
	}
}

// emit puts an event into the outbox that is in memory already.
func (b *rebuild) emit(e *sharedlog.Event) {
	n := e.N
	if n == 0 {
		b.s.lastN++
		n = b.s.lastN
	}
	b.s.stampLocked(e, n, b.s.log.Clock())
	b.s.outbox.Put(e)
}

// remember returns what counts for longer than the tail remembers events.
func (b *rebuild) remember() *lostLog {
	lost := &lostLog{
		days:      make(map[string]state.DayUsage, len(b.rl.State)),
		cooldowns: b.rl.cooldowns,
		quotas:    b.s.quotas,
		pools:     b.s.pools,
		spends:    b.rl.spends,
	}
	for model, stats := range b.rl.allStatsRLocked {
		if w := stats.window; w != nil {
			lost.days[model] = dayOf(w)
		}
	}
	return lost
}

// restore writes the cooldowns and quotas that the log does not have.
func (b *rebuild) restore() {
	if b.s.lost == nil {
		return
	}
	for model := range b.rl.answers.All() {
		if _, has := b.img.Answers[model]; !has {
			b.s.learntLocked(model, 1)
		}
	}
	b.restoreFound()
	b.restoreClasses()
	b.restoreSpend()
	now, restored := b.rl.clock.At(b.instant), false
	for model, c := range b.s.lost.cooldowns {
		if b.rl.cooldowns.Rises(model, c.Until, now) {
			b.cool(model, c, now)
			b.emit(sharedlog.CooldownOf(model, c, b.instant))
		}
	}
	b.restorePools()
	for model, said := range b.s.lost.quotas {
		if b.s.quotas[model] == (state.Said{}) && said.Validate(model) == nil {
			for _, o := range [...]state.Origin{state.Program, state.Account} {
				if q, ok := said.Get(o); ok {
					saying := sharedlog.Saying{Holds: provenance.Of(said), Origin: o, Is: q}
					b.setQuota(model, byProcess, b.instant, &saying)
					b.emit(&sharedlog.Event{Kind: sharedlog.Quota, Model: model, At: b.instant, Text: saying.Text()})
				}
			}
			restored = true
		}
	}
	for model := range b.rl.allStatsRLocked {
		if !restored {
			break
		}
		// The model's day may end elsewhere now. A process that reads the log later could not tell.
		day := dayOf(b.window(model))
		b.emit(&sharedlog.Event{Kind: sharedlog.Day, Model: model, At: b.instant, Day: day, HasDay: true})
	}
}

// raiseDays makes days no less than they were.
func (b *rebuild) raiseDays() {
	if b.s.lost == nil {
		return
	}
	now := b.rl.clock.UnixNano(b.instant)
	for model, was := range b.s.lost.days {
		w := b.window(model)
		is := dayOf(w)
		if !was.CurrentIn(w.period.Location, now) || is.Count >= was.Count && is.Tokens >= was.Tokens {
			continue
		}
		b.setDay(model, is.AtLeast(was))
		b.emit(&sharedlog.Event{Kind: sharedlog.Day, Model: model, At: b.instant, Day: dayOf(w), HasDay: true})
	}
}

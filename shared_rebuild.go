package ratelimit

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
	"weak"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
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
}

func newOwnState() ownState {
	return ownState{reservations: make(map[int64]*Reservation), waits: make(map[int64]*waiter), forgotten: make(map[int64]bool)}
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
}

// lostLog is what a log that was replaced said beyond the events that the tail has.
type lostLog struct {
	days      map[string]state.DayUsage
	cooldowns map[string]time.Time
	quotas    map[string]ModelQuota
}

// rebuildLocked makes memory what the log says, and what this limiter knows beyond that:
// what is in the outbox, and, when the log is another one than before, all that it does not
// have. What has to be written is in the outbox then.
func (s *ledger) rebuildLocked(news *sharedlog.News) {
	rl, img := s.rl, news.Image
	instant, machine := rl.clock.Sync(), s.log.Clock()
	s.keep = max(rl.span(), news.Span)
	s.usedUntil = s.usedUntilLocked(img, machine, instant)
	inLog := make(map[sharedlog.Key]bool, len(img.Events))
	for _, e := range img.Events {
		s.dateLocked(e, machine, instant, math.MinInt64)
		inLog[e.Key()] = true
	}
	var missing []*sharedlog.Event
	if s.identity != "" && s.identity != img.Identity {
		s.lost = s.lostLocked()
		for _, e := range s.tail.live() {
			if !inLog[e.Key()] && e.Process != 0 {
				missing = append(missing, e)
			}
		}
	}
	for _, e := range s.outbox.events {
		if !inLog[e.Key()] {
			missing = append(missing, e)
		}
	}
	s.takeDownLocked()
	s.loadLocked(img, instant)
	s.outbox.events = nil
	for _, e := range missing {
		e.Seq = 0
		s.mergeLocked(e, instant)
		s.outbox.events = append(s.outbox.events, e)
	}
	s.raiseDaysLocked(instant)
	s.putBackLocked()
	s.restoreLocked(instant)
	rl.followQuotasLocked() // the log has names as they were written
	s.own.clear()
	s.identity = img.Identity
	s.seenAt = instant
	s.lines.stirs++
	s.lines.reviews++
}

// loadLocked makes memory what the log says.
func (s *ledger) loadLocked(img *sharedlog.Image, instant int64) {
	rl := s.rl
	quotas := make(map[string]ModelQuota, len(img.Quotas))
	clear(s.quotas)
	for model, q := range img.Quotas {
		quotas[model], s.quotas[model] = ModelQuota(q), true
	}
	// They win over those of profiles, and over what was said before, because that was
	// written there.
	rl.supplyLocked(quotas)
	rl.State = make(map[string]*UsageStats)
	rl.era++
	rl.guests = guests{}
	rl.cooldowns = nil
	s.peers = make(peers)
	s.tail = tail{}
	s.seen = 0
	for _, e := range img.Events {
		if e.Kind != sharedlog.Quota && e.Kind != sharedlog.Cooldown { // the image has those
			s.effectLocked(e, instant)
		}
		s.tail.push(e)
		s.seen = e.Seq
	}
	for model, until := range img.Cooldowns {
		s.coolLocked(model, time.Unix(0, until), rl.clock.At(instant))
	}
	for model, day := range img.Days {
		s.setDayLocked(model, day, instant)
	}
}

// takeDownLocked empties all lines and slots.
func (s *ledger) takeDownLocked() {
	for process, p := range s.peers {
		if process == s.id {
			for n, h := range p.open {
				if r := h.reservation(); r != nil && h.other == nil {
					s.own.reservations[n] = r
					w := r.window
					s.own.forgotten[n] = w.gone || w.era != s.rl.era || w.stats.window != w
				}
			}
			maps.Copy(s.own.waits, p.waits)
		}
		for _, w := range p.waits {
			w.offTail = 0 // that was a place in what may be another log
			s.rl.standDownLocked(w)
		}
	}
	for _, g := range s.rl.gates {
		g.inFlight, g.bare = 0, true
	}
}

// putBackLocked looks after what this limiter has under way and the log does not have. Where
// the log is another one it is told. In the same log others have ended it, because they
// took this process for dead.
func (s *ledger) putBackLocked() {
	for n, r := range s.own.reservations {
		h := s.peers.reservation(s.id, n)
		switch {
		case h != nil || r.settled:
		case s.lost != nil:
			g := s.rl.gateLocked(r.gate.name)
			g.inFlight++
			r.gate = g
			s.peers.of(s.id).open[n] = &openReservation{own: weak.Make(r)}
			if r.isSlotless() {
				r.more().slotless = false
			}
			// It refers to itself: it is in the day already.
			s.emitLocked(&sharedlog.Event{
				Kind: sharedlog.Reserve, N: n, Ref: n, Model: g.name, At: r.instant, Requests: 1, Count: r.estimate,
			})
		default:
			r.more().slotless = true
		}
	}
	waiters := slices.SortedFunc(maps.Values(s.own.waits), func(a, b *waiter) int { return cmp.Compare(a.seq, b.seq) })
	for _, w := range waiters {
		if !s.peers.hasWaiter(s.id, w.ticket) && !w.over {
			w.ticket = 0
			s.lines.evicted = append(s.lines.evicted, w)
		}
	}
	for _, g := range s.rl.gates {
		g.closeLocked()
	}
}

// emitLocked puts an event into the outbox that is in memory already.
func (s *ledger) emitLocked(e *sharedlog.Event) {
	n := e.N
	if n == 0 {
		s.lastN++
		n = s.lastN
	}
	s.stampLocked(e, n, s.log.Clock())
	s.outbox.events = append(s.outbox.events, e)
}

// lostLocked notes what counts for longer than the tail remembers events.
func (s *ledger) lostLocked() *lostLog {
	lost := &lostLog{
		days:      make(map[string]state.DayUsage, len(s.rl.State)),
		cooldowns: s.rl.cooldowns,
		quotas:    make(map[string]ModelQuota, len(s.quotas)),
	}
	for model, stats := range s.rl.State {
		if w := stats.window; w != nil {
			lost.days[model] = dayOf(w)
		}
	}
	for model := range s.quotas {
		lost.quotas[model], _ = s.rl.saidRLocked(model) // what was learned is not for others
	}
	return lost
}

// restoreLocked writes the cooldowns and quotas that the log does not have.
func (s *ledger) restoreLocked(instant int64) {
	if s.lost == nil {
		return
	}
	now, restored := s.rl.clock.At(instant), false
	for model, until := range s.lost.cooldowns {
		if until.After(now) && until.After(s.rl.cooldowns[model]) {
			s.coolLocked(model, until, now)
			s.emitLocked(&sharedlog.Event{Kind: sharedlog.Cooldown, Model: model, At: instant, Wall: clock.UnixNano(until)})
		}
	}
	for model, q := range s.lost.quotas {
		if !s.quotas[model] && q.validate(model) == nil {
			s.setQuotaLocked(model, q)
			s.emitLocked(&sharedlog.Event{
				Kind: sharedlog.Quota, Model: model, At: instant, Text: sharedlog.QuotaText(state.Quota(q)),
			})
			restored = true
		}
	}
	for model := range s.rl.State {
		if !restored {
			break
		}
		// Its day may end elsewhere, and one that reads the log later could not tell.
		day := dayOf(s.windowLocked(model, instant))
		s.emitLocked(&sharedlog.Event{Kind: sharedlog.Day, Model: model, At: instant, Day: day, HasDay: true})
	}
}

// raiseDaysLocked makes days no less than they were.
func (s *ledger) raiseDaysLocked(instant int64) {
	if s.lost == nil {
		return
	}
	now := s.rl.clock.UnixNano(instant)
	for model, was := range s.lost.days {
		w := s.windowLocked(model, instant)
		is := dayOf(w)
		if !was.CurrentIn(w.location, now) || is.Count >= was.Count && is.Tokens >= was.Tokens {
			continue
		}
		if is.Empty() {
			is.Start = was.Start
		}
		is.Start = min(is.Start, was.Start)
		is.Count, is.Tokens = max(is.Count, was.Count), max(is.Tokens, was.Tokens)
		s.setDayLocked(model, is, instant)
		s.emitLocked(&sharedlog.Event{Kind: sharedlog.Day, Model: model, At: instant, Day: dayOf(w), HasDay: true})
	}
}

// usedUntilLocked returns until when the minutes count as used because a log was lost; 0
// when they do not.
func (s *ledger) usedUntilLocked(img *sharedlog.Image, machine clock.Machine, instant int64) int64 {
	e := sharedlog.Event{Wall: img.UsedWall, Mono: img.UsedMono}
	if e.Wall == 0 {
		return 0
	}
	s.dateLocked(&e, machine, instant, math.MinInt64)
	if until := e.At + s.rl.span() + 1; until > instant {
		return until
	}
	return 0
}

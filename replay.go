package ratelimit

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"
	"weak"
)

// dayChange is what an event adds to a model's day.
type dayChange struct {
	window           *window
	requests, tokens int
}

// applyLocked does in memory what an event of another process says.
func (s *ledger) applyLocked(e *event, instant int64) {
	s.effectLocked(e, instant)
	if e.hasDay {
		s.setDayLocked(e.model, e.day, instant)
	}
}

// mergeLocked is applyLocked for an event that others do not know yet: what it adds to
// the day comes on top of what they have counted meanwhile.
func (s *ledger) mergeLocked(e *event, instant int64) {
	change := s.effectLocked(e, instant)
	e.day, e.hasDay = usageDay{}, false // that was the day as this limiter alone knew it
	if w := change.window; w != nil {
		switch {
		case change.requests > 0 && s.dayIsOver(w, e.at, instant):
		case change.requests > 0 || change.tokens > 0:
			w.chargeDay(s.rl.clock.at(e.at), change.requests, change.tokens)
			if h := s.heldLocked(e.process, e.n); h != nil && h.other != nil {
				h.other.days = w.days // which it may have begun
			}
		default:
			w.setDay(max(w.dayCount()+change.requests, 0), max(w.dayTokens()+change.tokens, 0))
		}
		e.day, e.hasDay = usageDayOf(w), true
	}
}

// dayIsOver reports whether a charge surely was made in a day that is over. Without a zone
// the day may have begun with the charge, be it that others began one later.
func (s *ledger) dayIsOver(w *window, at, instant int64) bool {
	if w.location != nil {
		return at+s.rl.clock.wall < w.dayBegin
	}
	return instant-at >= day
}

// effectLocked does what an event says, but for the day. It returns what that is to
// change by it.
func (s *ledger) effectLocked(e *event, instant int64) (change dayChange) {
	switch e.kind {
	case eventUse, eventReserve:
		w, request, token := s.insertLocked(e, instant, nil)
		if e.kind == eventReserve {
			s.holdLocked(e, e.n, w, request, token)
		}
		if e.ref != 0 {
			return change // what settled the reservation counts to the day, or it was counted
		}
		return dayChange{w, e.requests, e.Total()}
	case eventMove:
		s.moveLocked(e, instant)
	case eventAmend, eventRelease, eventCancel:
		return s.settleOtherLocked(e)
	case eventReleaseAll:
		entries, _ := entriesOf(e.text) // what is not a list releases nothing
		for _, n := range entries {
			s.settleOtherLocked(&event{kind: eventRelease, process: e.process, ref: n})
		}
	case eventReset:
		s.rl.forgetUsageLocked(e.model)
	case eventCooldown:
		until := time.Unix(0, e.wall)
		now := s.rl.clock.at(instant)
		if !until.After(now) || !until.After(s.rl.cooldowns[e.model]) {
			break
		}
		if len(s.rl.cooldowns) >= s.rl.mostModels() {
			s.rl.thawLocked(now) // those whose models nobody asks for here
		}
		s.rl.setCooldownLocked(e.model, until)
	case eventQuota:
		if q, err := quotaOf(e.text); err == nil {
			s.rl.supplyLocked(map[string]ModelQuota{e.model: q})
			s.quotas[e.model] = true
			s.rl.quotaEra++
			s.requoted = true
			s.wanted = true // slots may be limited now
		}
	case eventWait:
		s.standInLocked(e)
	case eventLeave:
		if w := s.closeWaitLocked(e.process, e.ref); w != nil {
			s.rl.standDownLocked(w)
		}
	case eventGone:
		s.buryLocked(e.ref)
	case eventEvict:
		s.evictLocked(e.ref)
	case eventTally:
		return dayChange{s.windowLocked(e.model, instant), e.requests, e.Total()}
	case eventDay:
		return dayChange{window: s.windowLocked(e.model, instant)}
	}
	return dayChange{}
}

// windowLocked returns the window that an event of a model goes to.
func (s *ledger) windowLocked(model string, instant int64) *window {
	rl := s.rl
	stats := rl.stateLocked(model, true, instant, rl.clock.at(instant))
	w := rl.windowLocked(model, stats, instant)
	if w.gate == nil {
		rl.gateLocked(model)
	}
	w.era = rl.era
	return w
}

// insertLocked puts the charge of an event into its window, unless it counts no more. r
// is the reservation that it is of, if that is known.
func (s *ledger) insertLocked(e *event, instant int64, r *Reservation) (w *window, request, token int) {
	w, request, token = s.windowLocked(e.model, instant), -1, -1
	if instant-e.at > s.rl.span() {
		return w, request, token
	}
	request, token = w.insertCharge(r, e.at, s.rl.clock.at(e.at), e.requests, e.Count)
	return w, request, token
}

// holdLocked notes that the charge is that of a reservation which is open.
func (s *ledger) holdLocked(e *event, n int64, w *window, request, token int) {
	if s.heldLocked(e.process, n) != nil {
		return // a file that somebody else wrote; it would never be settled
	}
	r := &Reservation{gate: w.gate, estimate: e.Count, days: w.days}
	r.placeLocked(w, e.at, request, token)
	w.gate.inFlight++
	s.peerLocked(e.process).open[n] = &held{other: r, seq: e.seq}
}

// moveLocked moves the charge of a reservation. Where that is not known any more, its
// event has been deleted: it counted no more when it was moved.
func (s *ledger) moveLocked(e *event, instant int64) {
	h := s.heldLocked(e.process, e.ref)
	if h == nil || h.reservation() == nil {
		w, request, token := s.insertLocked(e, instant, nil)
		s.holdLocked(e, e.ref, w, request, token)
		return
	}
	r := h.reservation()
	if w, request, token := s.rl.findLocked(r); w != nil {
		w.moveCharge(r, request, token)
	}
	w, request, token := s.insertLocked(e, instant, r)
	r.placeLocked(w, e.at, request, token)
	r.days = w.days
}

// settleOtherLocked settles the reservation of another process as that has done.
func (s *ledger) settleOtherLocked(e *event) (change dayChange) {
	h := s.closeHeldLocked(e.process, e.ref)
	if h == nil {
		return change
	}
	r := h.reservation()
	if r == nil || r.settled {
		return change
	}
	// What a reset has forgotten does not come off what was charged since, and what was
	// charged yesterday not off today, as in refundLocked and correctLocked.
	if w, request, token := s.rl.findLocked(r); w != nil {
		inDay := w.inDay(r)
		switch e.kind {
		case eventAmend:
			if token >= 0 {
				w.setTokens(token, r, e.Count)
			}
			if inDay && (w == r.window || token >= 0) {
				change = dayChange{w, 0, e.Total() - r.estimate.Total()}
			}
		case eventCancel:
			w.removeCharge(request, token)
			if inDay && (w == r.window || request >= 0 || token >= 0) {
				change = dayChange{w, -1, -r.estimate.Total()}
			}
		}
	}
	s.rl.releaseLocked(r)
	return change
}

// setDayLocked makes the day of a model the one that the file says.
func (s *ledger) setDayLocked(model string, d usageDay, instant int64) {
	w := s.windowLocked(model, instant)
	if d.start != w.dayBegin {
		if d.start >= w.dayEnd {
			w.days++
		}
		w.stats.DayStart = dayTime(d.start)
		w.settleDay(s.rl.clock.at(instant))
	}
	w.setDay(saturatedInt(d.count), saturatedInt(d.tokens))
}

// buryLocked ends what a process held.
func (s *ledger) buryLocked(process int64) {
	s.evictLocked(process)
	if process == s.id {
		s.renewAt = math.MinInt64 // it lives, and says so
	}
	p := s.peers[process]
	if p == nil {
		return
	}
	// It may live, and have been taken for dead. Its calls go on then, without their slots,
	// and what they use is settled as long as their charges count.
	for _, n := range slices.Collect(maps.Keys(p.open)) {
		h := p.open[n]
		r := h.reservation()
		if r != nil && !r.settled && !r.isSlotless() {
			r.more().slotless = true
			r.gate.inFlight--
			r.gate.closeLocked()
			s.rl.guests.fullUntil = 0
		}
		if r == nil || r.settled || h.passed {
			s.closeHeldLocked(process, n)
		}
	}
}

// adoptLocked makes memory what the file says, and what this limiter knows beyond that:
// what is in the outbox, and, when the file is another one than before, all of the trail
// that it does not have. It leaves in the outbox what has to be written, and reports
// whether the file is another one.
func (s *ledger) adoptLocked(img *image) (moved bool) {
	rl := s.rl
	instant := rl.clock.sync()
	inFile := make(map[eventKey]bool, len(img.events))
	for _, e := range img.events {
		s.dateLocked(e, instant, math.MinInt64)
		inFile[e.key()] = true
	}
	var missing []*event
	moved = s.follows != "" && s.follows != img.facts[factFile]
	var days map[string]usageDay // that a file which took the place of another may have lost,
	var old oldFacts             // and so much else that is older than the trail
	if moved {
		days, old = s.daysLocked(), s.oldFactsLocked()
		for _, e := range s.trail.live() {
			if !inFile[e.key()] && e.process != 0 {
				missing = append(missing, e)
			}
		}
	}
	for _, e := range s.outbox {
		if !inFile[e.key()] {
			missing = append(missing, e)
		}
	}
	own := s.takeDownLocked()

	s.adoptQuotasLocked(img.quotas)
	rl.State = make(map[string]*UsageStats)
	rl.era++
	rl.guests = guests{}
	rl.cooldowns = nil
	s.peers = make(map[int64]*peer)
	s.trail = trail{}
	s.dropable = nil
	s.seen = 0
	s.adopting = own
	for _, e := range img.events {
		if e.kind != eventQuota && e.kind != eventCooldown { // the tables have those
			s.effectLocked(e, instant)
		}
		s.trail.push(e)
		s.seen = e.seq
	}
	for model, until := range img.cooldowns {
		s.effectLocked(&event{kind: eventCooldown, model: model, wall: unixNano(until)}, instant)
	}
	for model, stats := range img.state {
		s.setDayLocked(model, usageDay{start: unixNano(stats.DayStart), count: int64(stats.DayCount), tokens: int64(stats.DayTokens)}, instant)
	}
	s.outbox = nil
	for _, e := range missing {
		e.seq = 0
		s.mergeLocked(e, instant)
		s.outbox = append(s.outbox, e)
	}
	s.raiseDaysLocked(days, instant)
	s.putBackLocked(own, moved)
	s.restoreLocked(old, instant)
	s.adopting = nil
	s.follows = img.facts[factFile]
	s.seenAt = instant
	s.requoted, s.stirred = true, true
	return moved
}

// belongings are what this limiter itself has under way while memory is made anew.
type belongings struct {
	reservations map[int64]*Reservation
	waits        map[int64]*waiter
}

// takeDownLocked empties all lines and slots.
func (s *ledger) takeDownLocked() *belongings {
	own := &belongings{make(map[int64]*Reservation), make(map[int64]*waiter)}
	for process, p := range s.peers {
		if process == s.id {
			for n, h := range p.open {
				if r := h.reservation(); r != nil {
					own.reservations[n] = r
				}
			}
			maps.Copy(own.waits, p.waits)
			for _, w := range own.waits {
				w.passed = 0 // that was a place in what may be another file now
			}
		}
		for _, w := range p.waits {
			s.rl.standDownLocked(w)
		}
	}
	for _, g := range s.rl.gates {
		g.inFlight, g.bare = 0, true
	}
	return own
}

// putBackLocked gives the reservations of this limiter the places that their charges
// have now, and removes gates where nobody is. Of what the file does not have, a file
// that took the place of another is told; in the same file others have ended it, because
// they took this process for dead.
func (s *ledger) putBackLocked(own *belongings, moved bool) {
	p := s.peerLocked(s.id)
	for n, r := range own.reservations {
		h := p.open[n]
		switch {
		case r.settled:
			continue // what settled it is in the outbox
		case h != nil:
			was := h.other
			r.gate, r.days = was.gate, was.days
			r.window, r.instant, r.requestAt, r.tokenAt, r.round = was.window, was.instant, was.requestAt, was.tokenAt, was.round
			h.other, h.own = nil, weak.Make(r)
			if r.isSlotless() != was.isSlotless() {
				r.more().slotless = was.isSlotless()
			}
		case moved:
			g := s.rl.gateLocked(r.gate.name)
			g.inFlight++
			r.gate = g
			p.open[n] = &held{own: weak.Make(r)}
			if r.isSlotless() {
				r.more().slotless = false
			}
			// It refers to itself: it is in the day already.
			s.noteLocked(&event{kind: eventReserve, n: n, ref: n, model: g.name, at: r.instant, requests: 1, Count: r.estimate}, nil)
		default:
			r.more().slotless = true
		}
	}
	lost := slices.SortedFunc(maps.Values(own.waits), func(a, b *waiter) int { return cmp.Compare(a.seq, b.seq) })
	for _, w := range lost {
		if p.waits[w.ticket] == nil { // the file has lost it, or others have taken it out
			s.standAgainLocked(w)
		}
	}
	for _, g := range s.rl.gates {
		g.closeLocked()
	}
}

// oldFacts is what counts for longer than events are remembered.
type oldFacts struct {
	cooldowns map[string]time.Time
	quotas    map[string]ModelQuota // those of the file
}

func (s *ledger) oldFactsLocked() oldFacts {
	old := oldFacts{cooldowns: s.rl.cooldowns, quotas: make(map[string]ModelQuota)}
	for model := range s.quotas {
		old.quotas[model], _ = s.rl.saidRLocked(model) // what was learned is not for others
	}
	return old
}

// restoreLocked notes what a file that took the place of another does not have.
func (s *ledger) restoreLocked(old oldFacts, instant int64) {
	now := s.rl.clock.at(instant)
	for model, until := range old.cooldowns {
		if until.After(now) && until.After(s.rl.cooldowns[model]) {
			e := &event{kind: eventCooldown, model: model, wall: unixNano(until)}
			s.effectLocked(e, instant)
			s.noteNowLocked(e, nil)
		}
	}
	for model, q := range old.quotas {
		if !s.quotas[model] {
			s.noteQuotaLocked(model, q)
		}
	}
}

// daysLocked returns the days as they are known.
func (s *ledger) daysLocked() map[string]usageDay {
	days := make(map[string]usageDay, len(s.rl.State))
	for model, stats := range s.rl.State {
		if w := stats.window; w != nil {
			days[model] = usageDayOf(w)
		}
	}
	return days
}

// raiseDaysLocked makes days no less than they were.
func (s *ledger) raiseDaysLocked(days map[string]usageDay, instant int64) {
	now := instant + s.rl.clock.wall
	for model, was := range days {
		w := s.windowLocked(model, instant)
		is := usageDayOf(w)
		if !was.currentIn(w.location, now) || is.count >= was.count && is.tokens >= was.tokens {
			continue
		}
		if is.empty() {
			is.start = was.start
		}
		is.start = min(is.start, was.start)
		is.count, is.tokens = max(is.count, was.count), max(is.tokens, was.tokens)
		s.setDayLocked(model, is, instant)
		s.noteLocked(&event{kind: eventDay, model: model, at: instant}, w)
	}
}

// adoptQuotasLocked takes over the quotas of the file. They win over those of profiles,
// and over what was said before, because that was written there.
func (s *ledger) adoptQuotasLocked(quotas map[string]ModelQuota) {
	s.rl.supplyLocked(quotas)
	clear(s.quotas)
	for model := range quotas {
		s.quotas[model] = true
	}
}

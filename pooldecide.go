package ratelimit

import (
	"strconv"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/errtext"
)

// inPools takes the decisions on the pools of a request into that on its model.
type inPools struct {
	d     *Decision
	wait  time.Duration // how long the limits deny that end with time
	event bool          // some are denied until something ends that no time tells
	cools bool          // a cooldown of the model denies, which is there to be waited for
}

// newInPools begins with the decision on the model, which the limits that end with time deny for
// wait.
func newInPools(d *Decision, wait time.Duration) inPools {
	return inPools{d: d, wait: wait, event: d.awaitsEvent(), cools: d.Code == DecisionCooldown}
}

// merge takes in the decision on one pool, in the line of which others may come first. The first
// that denies names the denial, after the model.
func (m *inPools) merge(p *pool, on *Decision, wait time.Duration, queued bool) {
	isLonger := wait > m.wait
	m.wait, m.event = max(m.wait, wait), m.event || on.awaitsEvent()
	if queued {
		on.queue()
	}
	if on.Allowed {
		return
	}
	d := m.d
	switch {
	case d.Allowed, on.Never && d.Code == DecisionQueued: // none waits for what never passes
		d.Allowed, d.Code, d.Reason, d.Never, d.Cause = false, on.Code, p.says(on), on.Never, on.Cause
		d.Pool = p.name
	case on.Never && !d.Never:
		d.Never, d.Reason = true, p.says(on)
	}
	d.OverBudget = d.OverBudget || on.OverBudget
	if d.RetryAfter = m.wait; m.event && !m.cools || d.Never {
		d.RetryAfter = 0
	}
	if isLonger && !queued && d.Pool != p.name && !d.Never && (d.RetryAfter > 0 || on.OverBudget) {
		d.Reason = errtext.Longest(d.Reason, p.label(), on.Reason)
	}
}

// says returns the reason of a denial with the name of the pool.
func (p *pool) says(d *Decision) string {
	reason := d.Reason
	if d.Code == DecisionQueued {
		reason = "others wait for its models and come first"
	}
	return p.label() + reason
}

func (p *pool) label() string { return "the pool " + strconv.Quote(errtext.Clip(p.name)) + ": " }

// isPlain reports whether nothing but the window says whether a request passes.
func (r *view) isPlain() bool {
	return r.cool <= r.wall && r.external == nil && r.used == 0 && !r.adapts && !r.shareless && !r.full && r.slotsKept == 0
}

// lookPoolRLocked is lookRLocked for a pool, as of an instant at which the clocks were compared.
func (rl *RateLimiter) lookPoolRLocked(p *pool, q *ModelQuota, instant int64) *window {
	if len(rl.cooldowns) > 0 || len(rl.external) > 0 {
		if _, cools := rl.cooldowns[p.counted]; cools || rl.external[p.counted] != nil {
			return nil
		}
	}
	if q.adapts() || q.limitsSpend() || rl.ledger.maybeUsed() || rl.ledger.divides() {
		return nil
	}
	stats := p.stats
	if stats == nil {
		if q.DayZone != "" || rl.lines.allSlots[p.counted] != nil {
			return nil
		}
		return unused
	}
	w := stats.window
	if !w.mirrors(stats, rl) || instant > w.leaveAt || !w.period.Holds(rl.clock.UnixNano(instant)) ||
		stats.DayCount != w.dayWas || w.period.Zone != q.DayZone || w.empty() || q.paces() && w.paceOf(q) == nil {
		return nil
	}
	return w
}

// poolsAdmitRLocked decides on a request by the pools of its model, as of an instant. ok is false
// where something has to be brought in order first.
func (rl *RateLimiter) poolsAdmitRLocked(name, model string, of *window, c *cost, instant int64) (admits, ok bool) {
	in, ok := rl.poolsRLocked(name, model, of)
	if len(in) > 0 && rl.lines.waiting > 0 && rl.ledger.shares() {
		return false, false // see wakeForPoolsLocked
	}
	if of == unused && len(in) > 0 { // which was looked at without the time
		if instant = rl.clock.Now(); rl.clock.Due(instant) {
			return false, false
		}
	}
	for _, p := range in {
		q := &p.quota
		w := rl.lookPoolRLocked(p, q, instant)
		switch {
		case w == nil:
			return false, false
		case !w.admitsPool(q, c, instant, ""):
			return false, ok
		}
	}
	return true, ok
}

// admitsPool reports whether a request fits a pool whose window is in order, and in whose line
// nobody comes first.
func (w *window) admitsPool(q *ModelQuota, c *cost, instant int64, class string) bool {
	return w.admits(q, w.slots, c) && !w.period.BadZone && !w.slots.queues(class) && (q.Burst == 0 || w.admitsNow(q, c, instant))
}

// decidePoolsRLocked takes the decisions on the pools of a model into that on the model, the view
// of which is of, and which the limits that end with time deny for wait. It reports false where
// something has to be brought in order first.
func (rl *RateLimiter) decidePoolsRLocked(d *Decision, name, model string, of *view, c *cost, wait time.Duration) (ok bool) {
	in, ok := rl.poolsRLocked(name, model, of.window)
	if !ok || d.Never || len(in) == 0 {
		return ok
	}
	if rl.lines.waiting > 0 && rl.ledger.shares() {
		return false // see wakeForPoolsLocked
	}
	instant := of.instant
	if of.window == unused { // which was looked at without the time
		if instant = rl.clock.Now(); rl.clock.Due(instant) {
			return false
		}
	}
	m := newInPools(d, wait)
	for _, p := range in {
		w := rl.lookPoolRLocked(p, &p.quota, instant)
		if w == nil {
			return false
		}
		if w.admitsPool(&p.quota, c, instant, of.class) {
			continue
		}
		r := view{instant: instant, wall: rl.clock.UnixNano(instant), span: rl.span(), class: of.class}
		r.take(w)
		m.decide(p, &p.quota, &r, c)
	}
	return true
}

// decide decides on one pool by its usage.
func (m *inPools) decide(p *pool, q *ModelQuota, r *view, c *cost) {
	queued := r.slots.queues(r.class)
	if !queued && r.isPlain() && !q.limitsSpend() && r.window != unused && r.admitsPool(q, c, r.instant, r.class) {
		return
	}
	var on Decision
	wait := decide(&on, q, true, r, c)
	m.merge(p, &on, wait, queued)
}

// decidePoolsLocked is decidePoolsRLocked where the lock is held for writing. It returns the pools
// of the model. With charges it keeps their windows in order, empty ones, too.
func (rl *RateLimiter) decidePoolsLocked(d *Decision, name, model string, of *view, c *cost, wait time.Duration, charges bool) (in []*pool) {
	instant := of.instant
	in = rl.poolsLocked(name, model, of.window)
	if d.Never || len(in) == 0 {
		return in
	}
	if rl.lines.waiting > 0 {
		rl.linesLocked().wakeForPoolsLocked()
	}
	var m inPools
	for _, p := range in {
		w := rl.lookPoolRLocked(p, &p.quota, instant)
		if w == nil || w == unused && charges || rl.reserves != nil || !w.admitsPool(&p.quota, c, instant, of.class) {
			if m.d == nil {
				m = newInPools(d, wait)
			}
			rl.decidePoolLocked(&m, p, w, c, of, charges)
		}
	}
	return in
}

// decidePoolLocked decides on one pool, after bringing its window in order, unless w is that.
func (rl *RateLimiter) decidePoolLocked(m *inPools, p *pool, w *window, c *cost, of *view, charges bool) {
	q, r := p.quota, view{instant: of.instant, class: of.class}
	switch {
	case w != nil && w != unused:
		r.wall, r.span = rl.clock.UnixNano(r.instant), rl.span()
		r.take(w)
	case charges:
		rl.readToChargeLocked(p.counted, &q, true, &r)
	default:
		rl.readLocked(p.counted, &q, true, &r)
	}
	if rl.reserves != nil {
		r.keepLocked(rl, &q, c, of.class, charges)
	}
	m.decide(p, &q, &r, c)
}

package replica

import "time"

// limit is one of the quota.
type limit struct {
	max   int
	of    func(*hit) int // what a call counts,
	slots bool           // while it is in flight, or else for a minute
}

func (w *world) limits() []limit {
	one := func(*hit) int { return 1 }
	all := []limit{{max: w.quota.MaxRPM, of: one}}
	if w.quota.MaxTPM > 0 {
		all = append(all, limit{max: w.quota.MaxTPM, of: func(h *hit) int { return h.tokens }})
	}
	if w.quota.MaxInFlight > 0 {
		all = append(all, limit{max: w.quota.MaxInFlight, of: one, slots: true})
	}
	return all
}

// usage is the most that was used of a limit at once, and the span of the calls that used it.
type usage struct {
	share    float64
	from, to time.Time
}

// most returns the most that was used of a limit.
func (w *world) most(l *limit, counts func(*hit) bool) (u usage) {
	sum, from := 0, 0
	for to, last := range w.hits {
		at := last.at
		if l.slots {
			sum = 0
			for i := to; i >= 0; i-- {
				if w.hits[i].until.After(at) {
					sum, from = sum+1, i
				}
			}
		} else {
			if counts(last) {
				sum += l.of(last)
			}
			for ; !w.hits[from].at.After(at.Add(-time.Minute)); from++ {
				if counts(w.hits[from]) {
					sum -= l.of(w.hits[from])
				}
			}
		}
		if share := float64(sum) / float64(l.max); share > u.share {
			u = usage{share, w.hits[from].at, at}
		}
	}
	return u
}

// worst returns the most that was used of the quota, of requests and tokens in a minute and of
// slots; and the same of requests and tokens without the calls of processes that were cut off,
// which others may not have known of. Calls that were lost count in neither.
func (w *world) worst() (all, told float64) {
	for _, l := range w.limits() {
		all = max(all, w.most(&l, (*hit).counts).share)
		if !l.slots {
			told = max(told, w.most(&l, (*hit).isTold).share)
		}
	}
	return all, told
}

// breaks reports whether more was used of a limit than the rules say.
func (w *world) breaks() bool {
	for _, l := range w.limits() {
		if u := w.most(&l, (*hit).counts); u.share > w.bound(&l, &u) {
			return true
		}
	}
	return false
}

// bound returns how much of a limit may be used in a span at most.
func (w *world) bound(l *limit, u *usage) float64 {
	switch {
	case w.kind.oneAway:
		return 1 + 1/float64(w.began)
	case w.kind.unheard:
		return 1 + w.unheard(l, u)
	default:
		return 1
	}
}

// view is what a process that is cut off goes by.
type view struct {
	shares int       // by which it divides the quota; zero for a process that is not cut off
	since  time.Time // when it was cut off
	until  time.Time // its last call
}

// view returns what a process goes by.
func (p *process) view() view {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	if p.r.status != cutOff {
		return view{}
	}
	now := time.Now()
	return view{p.r.alone.shares, now.Add(-time.Duration(p.r.clock.expected() - p.r.alone.since)), now}
}

// unheard returns how much of a limit processes have used at most in a span because each of them
// had not heard, when it was cut off, of what others had: of calls, each of which adds its part of
// that to its share, and of newcomers, without which its share is greater.
func (w *world) unheard(l *limit, u *usage) (share float64) {
	views := make(map[*process]view)
	shares := 0
	for _, h := range w.hits {
		if v := h.alone; v.shares > 0 && !h.at.Before(u.from) && !h.at.After(u.to) {
			shares = max(shares, v.shares)
			if first, is := views[h.by]; is {
				v = view{min(v.shares, first.shares), first.since, v.until}
			}
			views[h.by] = v
		}
	}
	for p, v := range views {
		missed := 0
		for _, h := range w.hits {
			heard := w.known.heard[p][h.keys[0]]
			counted := h.at.After(v.since.Add(-time.Minute-margin)) && (!l.slots || h.until.After(v.since))
			if h.by != p && h.alone.shares == 0 && counted && h.at.Before(v.until) && (heard.IsZero() || heard.After(v.since)) {
				missed += l.of(h)
			}
		}
		if !l.slots { // it leaves each slot that is taken to its holder
			missed = (missed + v.shares - 1) / v.shares
		}
		share += float64(missed)/float64(l.max) + 1/float64(v.shares) - 1/float64(shares)
	}
	return share
}

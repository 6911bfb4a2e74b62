package batch

import (
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// amounts are what a call asks of a quota.
type amounts struct{ requests, tokens, prompt, output int }

// timetable tells when a run sends its lines, one after the other, from an unused quota. Each time
// is since the beginning of the run.
type timetable struct {
	limiter *ratelimit.RateLimiter
	models  map[string]*queue
	pools   map[string][]*meter
	waiting []time.Duration // when the last lines that were read are sent, in order
}

// queue is the lines of one model, which are sent in the order of IN.
type queue struct {
	meters []*meter // of the model and of its pools
	last   time.Duration
}

func newTimetable(rl *ratelimit.RateLimiter) *timetable {
	return &timetable{limiter: rl, models: make(map[string]*queue), pools: make(map[string][]*meter)}
}

// of returns the queue of a model.
func (t *timetable) of(name string) *queue {
	q := t.models[name]
	if q == nil {
		q = &queue{meters: metersOf(t.limiter.Stats(name))}
		for _, pool := range t.limiter.PoolsOf(name) {
			if _, known := t.pools[pool]; !known {
				t.pools[pool] = metersOf(t.limiter.PoolStats(pool))
			}
			q.meters = append(q.meters, t.pools[pool]...)
		}
		t.models[name] = q
	}
	return q
}

// limits reports whether anything limits a model.
func (t *timetable) limits(name string) bool { return len(t.of(name).meters) > 0 }

// admit returns when the next line is sent.
func (t *timetable) admit(name string, asks amounts) time.Duration {
	q, at := t.of(name), time.Duration(0)
	if len(t.waiting) == maxWaiting { // it is read once one of those before it is sent
		at, t.waiting = t.waiting[0], t.waiting[1:]
	}
	at = max(at, q.last)
	for _, m := range q.meters {
		at = m.next(at, m.of(asks))
	}
	for _, m := range q.meters {
		m.add(at, m.of(asks))
	}
	q.last = at
	i, _ := slices.BinarySearch(t.waiting, at)
	t.waiting = slices.Insert(t.waiting, i, at)
	return at
}

// meter is one limit, in a window that slides.
type meter struct {
	limit  int
	window time.Duration
	of     func(amounts) int // what a call asks of it
	used   int
	spent  []spending
}

type spending struct {
	at time.Duration
	n  int
}

// lag is the time in which a request may arrive: it counts for so much longer.
const lag = 250 * time.Millisecond

// metersOf returns those of the limits of a model or a pool that are set.
func metersOf(s ratelimit.ModelStats) []*meter {
	minute, day := time.Minute+lag, 24*time.Hour+lag
	requests, tokens := func(a amounts) int { return a.requests }, func(a amounts) int { return a.tokens }
	all := []*meter{
		{limit: s.MaxRPM, window: minute, of: requests}, {limit: s.MaxTPM, window: minute, of: tokens},
		{limit: s.MaxITPM, window: minute, of: func(a amounts) int { return a.prompt }},
		{limit: s.MaxOTPM, window: minute, of: func(a amounts) int { return a.output }},
		{limit: s.MaxRPD, window: day, of: requests}, {limit: s.MaxTPD, window: day, of: tokens},
	}
	return slices.DeleteFunc(all, func(m *meter) bool { return m.limit <= 0 })
}

// next returns the first time, at or after one, at which n fit.
func (m *meter) next(at time.Duration, n int) time.Duration {
	for m.used+n > m.limit && len(m.spent) > 0 {
		at = max(at, m.spent[0].at+m.window)
		m.used -= m.spent[0].n
		m.spent = m.spent[1:]
	}
	return at
}

// add counts what was sent at a time. What comes within a thousandth of the window is one, so that
// any number of lines takes little memory.
func (m *meter) add(at time.Duration, n int) {
	m.used += n
	if last := len(m.spent) - 1; last >= 0 && at-m.spent[last].at < m.window/1000 {
		m.spent[last].n += n
		return
	}
	m.spent = append(m.spent, spending{at, n})
}

package sharedoracle

import (
	"sync"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// mark is a moment, by its place in the order of all moments. The zero value has not come yet.
type mark struct {
	n  int64
	at time.Time
}

// before reports whether m has come, and came before o. A moment that has not come is after all
// others.
func (m mark) before(o mark) bool { return m.n != 0 && (o.n == 0 || m.n < o.n) }

// charge is what a call has charged. It took effect between asked and answered, and its settlement
// between settling and settled.
type charge struct {
	model             string
	asked, answered   mark
	settling, settled mark
	reserved          bool      // by a reservation, and not by RecordUsage
	at                time.Time // ReservedAt
	estimate, used    int       // tokens
	cancelled         bool
}

// denial is a Reserve that was denied at a moment between asked and answered.
type denial struct {
	model           string
	tokens          int
	code            ratelimit.DecisionCode
	asked, answered mark
}

// usage is how much is used of a model.
type usage struct{ requests, tokens, slots int }

// exceeds names the limit of a quota that u exceeds; empty for none.
func (u usage) exceeds(q ratelimit.ModelQuota) string {
	for _, limit := range []struct {
		name      string
		used, max int
	}{
		{"MaxRPM", u.requests, q.MaxRPM},
		{"MaxTPM", u.tokens, q.MaxTPM},
		{"MaxInFlight", u.slots, q.MaxInFlight},
	} {
		if limit.max > 0 && limit.used > limit.max {
			return limit.name
		}
	}
	return ""
}

func (u *usage) add(o usage) {
	u.requests, u.tokens, u.slots = u.requests+o.requests, u.tokens+o.tokens, u.slots+o.slots
}

// least is what a charge surely uses after the moment from and until the moment to, its place in
// the minute apart.
func (c *charge) least(from, to mark) (u usage) {
	switch {
	case !c.answered.before(from) && c.answered != from:
		return usage{}
	case !c.reserved:
		return usage{1, c.used, 0}
	case !c.settling.before(to):
		return usage{1, c.estimate, 1}
	case c.cancelled:
		return usage{}
	case c.settled.before(from):
		return usage{1, c.used, 0}
	}
	return usage{1, min(c.estimate, c.used), 0}
}

// most is what a charge may use between two moments.
func (c *charge) most(from, to mark) usage {
	switch {
	case !c.asked.before(to):
		return usage{}
	case !c.reserved:
		return usage{1, c.used, 0}
	case !c.settled.before(from):
		if c.settling.before(to) {
			return usage{1, max(c.estimate, c.used), 1}
		}
		return usage{1, c.estimate, 1}
	case c.cancelled:
		return usage{}
	}
	return usage{1, c.used, 0}
}

// dated returns when a charge counts at the earliest and at the latest.
func (c *charge) dated(near time.Duration) (earliest, latest time.Time) {
	if c.reserved {
		return c.at.Add(-near), c.at.Add(near)
	}
	return c.asked.at.Add(-near), c.answered.at.Add(near)
}

// truth is what was admitted and denied, as the callers saw it. It is safe for concurrent use.
type truth struct {
	near   time.Duration
	quotas map[string]ratelimit.ModelQuota

	mu      sync.Mutex
	n       int64
	charges map[string][]*charge // by model
	denials []denial
}

func newTruth(near time.Duration, quotas map[string]ratelimit.ModelQuota) *truth {
	return &truth{near: near, quotas: quotas, charges: make(map[string][]*charge)}
}

// now returns a mark of this moment.
func (h *truth) now() mark {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n++
	return mark{h.n, time.Now()}
}

func (h *truth) charged(c *charge) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.charges[c.model] = append(h.charges[c.model], c)
}

func (h *truth) denied(d denial) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.denials = append(h.denials, d)
}

// checkAdmissions tells of reservations that exceed their quota: at the moment of each answer what
// surely was admitted by then, and for each decision what surely came before it.
func (h *truth) checkAdmissions(t *testing.T) {
	for model, charges := range h.charges {
		q := h.quotas[model]
		for _, c := range charges {
			if !c.reserved {
				continue
			}
			var together, before usage
			var day struct{ together, before int }
			for _, o := range charges {
				earliest, _ := o.dated(h.near)
				counts := c.answered.at.Sub(earliest) <= time.Minute
				if u := o.least(c.answered, c.answered); o.reserved {
					day.together += u.requests
					if !counts {
						u = usage{slots: u.slots}
					}
					u.tokens = min(u.tokens, o.estimate)
					together.add(u)
				}
				if o != c {
					u := o.least(c.asked, c.answered)
					day.before += u.requests
					if !counts {
						u = usage{slots: u.slots}
					}
					before.add(u)
				}
			}
			before.add(usage{1, c.estimate, 1})
			if limit := together.exceeds(q); limit != "" {
				t.Errorf("%s: %+v were admitted together at %v, beyond %s of %+v", model, together, c.answered.at, limit, q)
			}
			if limit := before.exceeds(q); limit != "" {
				t.Errorf("%s: with %+v admitted at %v is %+v, beyond %s of %+v", model, *c, c.at, before, limit, q)
			}
			if most := max(day.together, day.before+1); q.MaxRPD > 0 && most > q.MaxRPD {
				t.Errorf("%s: %d were admitted in a day, the quota is %+v", model, most, q)
			}
		}
	}
}

// checkDenials tells of requests that were denied while there was room for them. No charge may have
// left its minute.
func (h *truth) checkDenials(t *testing.T) {
	for _, d := range h.denials {
		q := h.quotas[d.model]
		used := usage{1, d.tokens, 1}
		for _, c := range h.charges[d.model] {
			used.add(c.most(d.asked, d.answered))
		}
		if used.exceeds(q) == "" && (q.MaxRPD == 0 || used.requests <= q.MaxRPD) {
			t.Errorf("%s: %+v was denied where at most %+v would be used, the quota is %+v", d.model, d, used, q)
		}
	}
}

// checkStats compares what a limiter says of all models with what was charged. All is settled.
func (h *truth) checkStats(t *testing.T, name string, rl *ratelimit.RateLimiter) {
	for model := range h.quotas {
		from := time.Now()
		got := rl.Stats(model)
		to := time.Now()
		var least, most, day usage
		for _, c := range h.charges[model] {
			if c.cancelled {
				continue
			}
			day.add(usage{1, c.used, 0})
			earliest, latest := c.dated(h.near)
			if to.Sub(earliest) <= time.Minute {
				least.add(usage{1, c.used, 0})
			}
			if from.Sub(latest) <= time.Minute {
				most.add(usage{1, c.used, 0})
			}
		}
		switch {
		case got.RPM < least.requests || got.RPM > most.requests,
			got.TPM < least.tokens || got.TPM > most.tokens:
			t.Errorf("%s says of %s %+v, want %+v to %+v", name, model, got, least, most)
		case got.RPD != day.requests || got.TPD != day.tokens:
			t.Errorf("%s says of %s %+v, in the day want %+v", name, model, got, day)
		case got.InFlight != 0 || got.Waiting != 0:
			t.Errorf("%s: all calls of %s are over, and it says %+v", name, model, got)
		}
	}
}

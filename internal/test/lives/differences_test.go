package lives

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// difference is one between the private limiter and the shared kinds that is known. It is taken out
// of what both say before that is compared, or steps that would meet it are not made.
//
// A shared limiter is to do by construction what a private one would: issue 31 empties this table,
// but for the rows that the documentation promises.
type difference struct {
	what string
	why  string
	// until is when the row goes.
	until string
	sight func(l *life, s *sight)
	event func(l *life, e *ratelimit.Event) (leaveOut bool)
	// decision is for decisions, also those in events and explanations.
	decision func(l *life, d *ratelimit.Decision)
}

const (
	untilLog   = "issue 31"
	documented = "never: it is documented"
)

var differences = []difference{
	{
		what: "LimitState.Open of limits per day", until: untilLog,
		why: "it is known by pieces of time, and a shared limiter counts a call that Arrived moved to a day that is over " +
			"neither to that day nor to the present one",
		sight: func(_ *life, s *sight) {
			forget := func(limits []ratelimit.LimitState) {
				for i := range limits {
					if is := &limits[i]; is.Limit == "max_rpd" || is.Limit == "max_tpd" {
						is.Open = 0
					}
				}
			}
			eachExplanation(s, func(is *ratelimit.Explanation) { forget(is.Limits) })
			eachPoolState(s, func(is *ratelimit.PoolState) { forget(is.Limits) })
		},
	},
	{
		what: "Arrived no later than the admission", until: untilLog, // see arrive
		why: "it moves nothing, so nothing is written, and a shared limiter goes on hoping that the call gives its request back",
	},
	{
		what: "DenialsError", until: untilLog,
		why: "a shared limiter counts what it admitted by pieces of the minute",
		sight: func(_ *life, s *sight) {
			s.Health.Warnings = slices.DeleteFunc(s.Health.Warnings, func(err error) bool {
				_, is := err.(*ratelimit.DenialsError)
				return is
			})
		},
	},
	{
		what: "Audit of models that only a pattern covers, under Config.MaxModels", until: untilLog,
		why: "a model that was forgotten keeps its entry for another time, so another one is counted among the others",
		sight: func(l *life, s *sight) {
			maps.DeleteFunc(s.Audit.Models, func(model string, _ ratelimit.AuditEntry) bool {
				return l.crowd && !slices.Contains(l.own, model)
			})
		},
	},
	{
		what: "EventEvicted", until: documented,
		why: "a private limiter forgets a model of which nothing counts when somebody looks, and then there is nothing to " +
			"evict; a look at a shared one changes nothing",
		event: func(_ *life, e *ratelimit.Event) bool { return e.Kind == ratelimit.EventEvicted },
	},
	{
		what: loads, until: documented,
		why: "a shared limiter has nothing to load. Load of a private one forgets what the provider reported, and to " +
			"which reservations charges belong that had left the minute",
	},
	{
		what: "Explanation.Origin", until: documented,
		why: `a quota that a process has written to the store is "shared", whoever set it`,
		sight: func(_ *life, s *sight) {
			eachExplanation(s, func(is *ratelimit.Explanation) {
				if is.Origin == "shared" {
					is.Origin = "program"
				}
			})
		},
	},
	{
		what: guests, until: untilLog,
		why: "a plan gives places under MaxModels to several models at once, where a private limiter fills them one " +
			"after the other: it may count one more",
	},
	{
		what: "Config.MaxModels and RemoveQuota", until: untilLog, // see setQuota
		why: "to a private limiter a model whose quota is removed is used then, to a shared one when it was called last: " +
			"they forget another one",
	},
	{
		what: "Class.ReservePercent", until: untilLog, // only limiters alone have it: see live
		why: "a shared limiter keeps a reserve for a nanosecond longer, and of a day that a pool counts it keeps more once " +
			"the pool has another quota",
	},
	{
		what: "RemovePool of a pool with a zone that counts money", until: "issue 30: the money", // see setPool
		why: "its spend follows UTC while it is gone. Where the month of its zone ends meanwhile, that becomes too long to be " +
			"stored, so it begins anew: what is settled of the one before is not given back, and counts to it",
	},
	{
		what: "DecisionQueued beside waiters of classes", until: untilLog,
		why: "a shared limiter may name another line, or that the call is queued where a private one says what else denies: " +
			"where the head of a line waits for more than a minute, and where the request can never pass. The decision that " +
			"a wait ends with may be that of an earlier moment",
		decision: func(l *life, d *ratelimit.Decision) {
			if l.fair && l.queued && !d.Allowed {
				*d = ratelimit.Decision{Code: "denied"}
			}
		},
		sight: func(l *life, s *sight) {
			eachExplanation(s, func(is *ratelimit.Explanation) {
				if l.fair {
					is.LastRefusal = nil
				}
			})
		},
		event: func(l *life, e *ratelimit.Event) bool {
			if l.fair && l.queued && e.Decision != nil {
				e.Pool, e.Model, e.Requested, e.Estimated = "", "", "", ratelimit.Usage{}
				e.Err = l.hideError(e.Err)
			}
			return false
		},
	},
	{
		what: "waiting for a place under Config.MaxModels", until: untilLog, // see oneGuest
		why: "a shared limiter looks for a place at other times",
	},
	{
		what: "waiting for pools", until: untilLog, // only limiters alone have waiters and pools: see live
		why: "a shared limiter queues a call in the line of a pool although who waits there waits for another pool, or " +
			"longer than a minute, or looks at the line again only with the next change",
	},
	{
		what: "Explanation.Line of several classes", until: untilLog,
		why: "the next one of the line is another one where the head of a class waits for about a minute",
		sight: func(l *life, s *sight) {
			eachExplanation(s, func(is *ratelimit.Explanation) {
				if l.fair {
					slices.SortFunc(is.Line, func(a, b ratelimit.Waiter) int { return strings.Compare(render(a), render(b)) })
				}
			})
		},
	},
	{
		what: "Reset of a model that searches for a limit", until: untilLog, // see reset
		why: "what a call gives back after it, over a store gives room to the search, too",
	},
	{
		what: "the end of a wait", until: untilLog, // the life ends with it: see isLate
		why: "a shared limiter looks at its waiters again after one to 20 ms where a plan left it open whether they pass",
	},
	{
		what: "a quota with another DayZone in the middle of a day", until: untilLog, // only limiters alone have it: see live
		why: "the day that lasts then begins at its first request, or where it did in the zone",
	},
	{
		what: "Decision.Stats.Waiting", until: untilLog,
		why:      "of waits that end at the same time, the one that is refused may count the one that is served, or not",
		decision: func(_ *life, d *ratelimit.Decision) { d.Stats.Waiting = 0 },
	},
	{
		what: "which model is forgotten under Config.MaxModels", until: untilLog, // beside others there is one place: see live
		why: "of idle models a shared limiter forgets another one than the least recently used",
	},
	{
		what: expiries, until: untilLog,
		why: "a shared limiter ends together what expires within a millisecond, to write once",
		event: func(_ *life, e *ratelimit.Event) bool {
			if e.Kind == ratelimit.EventExpired {
				e.Held = e.Held.Truncate(2 * time.Millisecond)
			}
			return false
		},
	},
}

// expiries is that calls expire to a millisecond: see rest.
const expiries = "Config.HoldTTL"

// guests is several models without a quota of their own in one call: see oneGuest.
const guests = "Config.MaxModels in ReserveAll"

// loads is the step that only a limiter alone makes.
const loads = "Load"

// eachExplanation changes the explanations of a sight.
func eachExplanation(s *sight, change func(is *ratelimit.Explanation)) {
	for model, is := range s.Explain {
		change(&is)
		s.Explain[model] = is
	}
}

// eachPoolState changes all that a sight says of pools.
func eachPoolState(s *sight, change func(is *ratelimit.PoolState)) {
	for model := range s.Explain {
		for i := range s.Explain[model].Pools {
			change(&s.Explain[model].Pools[i])
		}
	}
	for pool, is := range s.OfPools {
		change(&is)
		s.OfPools[pool] = is
	}
}

// hideError takes out of the error of a wait the decision, where that is known to differ.
func (l *life) hideError(err error) error {
	var limit *ratelimit.LimitError
	if l.fair && errors.As(err, &limit) {
		return limit.Err
	}
	return err
}

// hide takes out of a sight what is known to differ.
func (l *life) hide(s *sight) *sight {
	if l.alone {
		return s
	}
	for i := range differences {
		if d := &differences[i]; d.sight != nil {
			d.sight(l, s)
		}
	}
	eachExplanation(s, func(is *ratelimit.Explanation) { l.hideDecision(&is.Next) })
	return s
}

// hideEvent takes out of an event what is known to differ; nil is nothing left.
func (l *life) hideEvent(e *ratelimit.Event) *ratelimit.Event {
	if l.alone {
		return e
	}
	for i := range differences {
		if d := &differences[i]; d.event != nil && d.event(l, e) {
			return nil
		}
	}
	if e.Decision != nil {
		l.hideDecision(e.Decision)
	}
	return e
}

// hideDecision takes out of a decision what is known to differ.
func (l *life) hideDecision(d *ratelimit.Decision) {
	for i := range differences {
		if hide := differences[i].decision; hide != nil && !l.alone {
			hide(l, d)
		}
	}
}

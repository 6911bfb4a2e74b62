package lives

import (
	"errors"
	"slices"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// difference is one between the private limiter and the shared kinds that the documentation
// promises. It is taken out of what both say before that is compared.
type difference struct {
	what  string
	why   string
	only  string // the kind that differs; empty for all shared ones
	sight func(s *sight)
	event func(e *ratelimit.Event) (leaveOut bool)
}

var differences = []difference{
	{
		what: "EventEvicted",
		why: "a private limiter forgets a model of which nothing counts when somebody looks, and then there is nothing to " +
			"evict; a look at a shared one changes nothing",
		event: func(e *ratelimit.Event) bool { return e.Kind == ratelimit.EventEvicted },
	},
	{
		what: loads,
		why: "a shared limiter has nothing to load. Load of a private one forgets what the provider reported, and to " +
			"which reservations charges belong that had left the minute",
	},
	{
		what: "DenialsError",
		why:  "that of a shared limiter counts the calls that it admitted itself, and not what is recorded",
		sight: func(s *sight) {
			is := &s.Health.Warnings
			*is = slices.DeleteFunc(*is, func(err error) bool { return errors.As(err, new(*ratelimit.DenialsError)) })
			if len(*is) == 0 {
				*is = nil
			}
		},
	},
	{
		what: "Explanation.Origin",
		why:  `a quota that a process has written to the store is "shared", whoever set it`,
		sight: func(s *sight) {
			for model, is := range s.Explain {
				if is.Origin == "shared" {
					is.Origin = "program"
					s.Explain[model] = is
				}
			}
		},
	},
	{
		what:  "EventQuotaChanged by a process",
		only:  three,
		why:   "each process tells of what another one has said",
		event: func(e *ratelimit.Event) bool { return e.Kind == ratelimit.EventQuotaChanged && e.By == "process" },
	},
	{
		what:  "EventUnknownModel",
		only:  three,
		why:   "each process tells of a model once a day",
		event: func(e *ratelimit.Event) bool { return e.Kind == ratelimit.EventUnknownModel },
	},
	{
		what:  "EventCooldownEnded",
		only:  three,
		why:   "each process tells of the end of the cooldown that it has begun, also where another one has prolonged it, and when it hears of that",
		event: func(e *ratelimit.Event) bool { return e.Kind == ratelimit.EventCooldownEnded },
	},
	{
		what: "EstimateError and LastRefusal",
		only: three,
		why:  "those of a process are of its own calls",
		sight: func(s *sight) {
			s.Health.Warnings = nil
			for model, is := range s.Explain {
				is.LastRefusal = nil
				s.Explain[model] = is
			}
		},
	},
}

// loads is the step that only a limiter alone makes.
const loads = "Load"

// hide takes out of a sight what is known to differ.
func (l *life) hide(s *sight) *sight {
	if l.alone {
		return s
	}
	for name := range s.Audit.Models { // each process has room for as many as there are places
		if l.crowd && l.has(three) && (name == "other" || l.modelOf(name).unlisted) {
			delete(s.Audit.Models, name)
		}
	}
	if l.raced {
		for model, is := range s.Explain {
			is.LastRefusal = nil
			s.Explain[model] = is
		}
	}
	for i := range differences {
		if d := &differences[i]; d.sight != nil && l.has(d.only) {
			d.sight(s)
		}
	}
	return s
}

// hides reports whether an event is known to differ.
func (l *life) hides(e *ratelimit.Event) bool {
	for i := range differences {
		if d := &differences[i]; !l.alone && l.has(d.only) && d.event != nil && d.event(e) {
			return true
		}
	}
	return false
}

// has reports whether a limiter is of a kind; all are of the empty one.
func (l *life) has(kind string) bool {
	return kind == "" || slices.ContainsFunc(l.houses, func(h *house) bool { return h.kind == kind || kind == three && h.kind == redis })
}

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
}

// loads is the step that only a limiter alone makes.
const loads = "Load"

// hide takes out of a sight what is known to differ.
func (l *life) hide(s *sight) *sight {
	if l.alone {
		return s
	}
	if l.raced {
		for model, is := range s.Explain {
			is.LastRefusal = nil
			s.Explain[model] = is
		}
	}
	for i := range differences {
		if d := &differences[i]; d.sight != nil {
			d.sight(s)
		}
	}
	return s
}

// hides reports whether an event is known to differ.
func (l *life) hides(e *ratelimit.Event) bool {
	for i := range differences {
		if d := &differences[i]; !l.alone && d.event != nil && d.event(e) {
			return true
		}
	}
	return false
}

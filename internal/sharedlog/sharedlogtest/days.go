package sharedlogtest

import (
	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// fold brings days up to an event.
func fold(days map[string]state.DayUsage, e *sharedlog.Event) {
	switch {
	case e.Kind == sharedlog.Reset && e.Model == "":
		clear(days)
	case e.Kind == sharedlog.Reset:
		delete(days, e.Model)
	case e.HasDay:
		days[e.Model] = e.Day
	}
}

package verdict

import (
	"fmt"
	"time"
)

// search is one of the limits that are searched for, as a line tells of it. The zero value is none.
type search struct {
	level, floor, ceiling int
	refusedAt             int
	loweredAt             time.Time
}

func (f *Found) rate() search {
	return search{f.RPM, f.FloorRPM, f.CeilingRPM, f.RefusedRPM, f.RateLoweredAt}
}

func (f *Found) slots() search {
	return search{f.InFlight, f.FloorInFlight, f.CeilingInFlight, f.OverloadedInFlight, f.InFlightLoweredAt}
}

// findsCalls reports whether a limit of the calls in flight is searched for.
func (u *Use) findsCalls() bool { return u.Found != nil && u.Found.CeilingInFlight > 0 }

// foundBlocker says why the first in line waits if no other limit says so.
func (f *Facts) foundBlocker() string {
	if found := f.Found; found != nil && !found.Told && found.CeilingRPM > 0 && f.Next.RetryAfter > 0 {
		return "requests are spaced by the rate that was found; "
	}
	return ""
}

// found is the lines on limits that are searched for, with so many calls in flight, behind the name
// of a pool.
func (w *lines) found(f *Found, inFlight int, of string) {
	if f.Told {
		w.add("%sfound: no rate, because the provider says its limits", of)
	} else if f.CeilingRPM > 0 {
		w.add("%sfound: %s", of, w.search(f.rate(), "requests per minute, evenly spaced", "the provider last refused"))
	}
	if f.CeilingInFlight > 0 {
		what := fmt.Sprintf("calls in flight (%d now)", inFlight)
		w.add("%sfound: %s", of, w.search(f.slots(), what, "the provider was last overloaded"))
	}
}

// search says where a search for a limit stands.
func (w *lines) search(s search, what, refused string) string {
	text := fmt.Sprintf("%d %s, between %d and %d", s.level, what, s.floor, s.ceiling)
	if s.refusedAt > 0 {
		text += fmt.Sprintf("; %s at %d", refused, s.refusedAt)
	}
	if !s.loweredAt.IsZero() {
		text += fmt.Sprintf("; lowered %s ago", short(w.facts.At.Sub(s.loweredAt)))
	}
	return text
}

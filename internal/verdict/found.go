package verdict

import (
	"fmt"
	"time"
)

// Found is limits that are searched for.
type Found struct {
	Rate  Search // requests per minute
	Slots Search // calls in flight
	Told  bool   // the provider says its limits, so the rate does not apply
}

// Search is a limit that is searched for. The zero value is one that is not.
type Search struct {
	Level, Floor, Ceiling int
	RefusedAt             int       // the level that was last refused; 0 if that is not known
	LoweredAt             time.Time // zero for never
}

// findsCalls reports whether a limit of the calls in flight is searched for.
func (u *Use) findsCalls() bool { return u.Found != nil && u.Found.Slots.Ceiling > 0 }

// foundBlocker says why the first in line waits if no other limit says so.
func (f *Facts) foundBlocker() string {
	if found := f.Found; found != nil && !found.Told && found.Rate.Ceiling > 0 && f.Next.RetryAfter > 0 {
		return "requests are spaced by the rate that was found; "
	}
	return ""
}

// found is the lines on limits that are searched for, with so many calls in flight, behind the name
// of a pool.
func (w *lines) found(f *Found, inFlight int, of string) {
	if f.Told {
		w.add("%sfound: no rate, because the provider says its limits", of)
	} else if f.Rate.Ceiling > 0 {
		w.add("%sfound: %s", of, w.search(&f.Rate, "requests per minute, evenly spaced", "the provider last refused"))
	}
	if f.Slots.Ceiling > 0 {
		what := fmt.Sprintf("calls in flight (%d now)", inFlight)
		w.add("%sfound: %s", of, w.search(&f.Slots, what, "the provider was last overloaded"))
	}
}

// search says where a search for a limit stands.
func (w *lines) search(s *Search, what, refused string) string {
	text := fmt.Sprintf("%d %s, between %d and %d", s.Level, what, s.Floor, s.Ceiling)
	if s.RefusedAt > 0 {
		text += fmt.Sprintf("; %s at %d", refused, s.RefusedAt)
	}
	if !s.LoweredAt.IsZero() {
		text += fmt.Sprintf("; lowered %s ago", short(w.facts.At.Sub(s.LoweredAt)))
	}
	return text
}

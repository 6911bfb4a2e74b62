package debugpage

import (
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// foundView is a limit that is searched for, as the templates show it. Its maximum is what was
// found. Told replaces all of it where the provider says its limits.
type foundView struct {
	limitView
	Of          string // what the numbers are
	Least, Most string // between which the search is
	Refused     string // where the provider last refused, in words; empty if that is not known
	Lowered     moment // when the limit was last lowered; zero for never
	Told        bool
}

// stateSpaced is the state of a model whose next request waits for its turn at the found rate.
const stateSpaced = "spaced"

// The keys of limits that are searched for, in the page alone.
const (
	foundRPM      = "adaptive_rpm"
	foundInFlight = "adaptive_in_flight"
)

// foundOf returns the limits that are searched for.
func foundOf(e *ratelimit.Explanation, now time.Time) (all []foundView) {
	return searches(e.Found, e.InFlight, e.Next.Stats.RPM, now)
}

// searches returns the limits that are searched for, with the calls in flight and in the last
// minute; the latter below zero if they are not known.
func searches(f *ratelimit.FoundLimits, inFlight, rpm int, now time.Time) (all []foundView) {
	if f == nil {
		return nil
	}
	if f.CeilingInFlight > 0 {
		v := search(foundInFlight, f.FloorInFlight, f.CeilingInFlight, f.OverloadedInFlight, moment{f.InFlightLoweredAt, now})
		v.fill(inFlight, f.InFlight, "open")
		v.Level = levelOf(&ratelimit.LimitState{Max: f.InFlight, Left: f.InFlight - inFlight})
		all = append(all, v)
	}
	if f.CeilingRPM > 0 || f.Told {
		v := search(foundRPM, f.FloorRPM, f.CeilingRPM, f.RefusedRPM, moment{f.RateLoweredAt, now})
		v.fill(rpm, f.RPM, "used") // which is not full: requests at the rate are as it should be
		v.Told = f.Told
		all = append(all, v)
	}
	return all
}

// search returns the view of a search between two limits.
func search(key string, least, most, refused int, lowered moment) foundView {
	v := foundView{Least: number(least), Most: number(most), Lowered: lowered}
	v.Key, v.Words, v.Of = key, limitText(key), limitText("max_rpm")
	verb := "refused at "
	if key == foundInFlight {
		v.Of, verb = limitText("max_in_flight"), "overloaded at "
	}
	said := []string{"found by the provider's refusals, between " + v.Least + " and " + v.Most}
	if refused > 0 {
		v.Refused = verb + number(refused)
		said = append(said, v.Refused)
	}
	v.Title = strings.Join(said, ", ")
	return v
}

// fill fills in what is used of what was found.
func (v *foundView) fill(used, found int, class string) {
	if v.Used, v.Max = number(used), number(found); used < 0 {
		v.Used = "?"
	}
	v.Parts = bar(found, []string{class}, []int{used})
}

// foundBlock says for which of the found limits the next call waits, if for nothing else.
func foundBlock(e *ratelimit.Explanation) (state, why string) {
	switch f := e.Found; {
	case f == nil:
	case f.InFlight > 0 && e.InFlight >= f.InFlight:
		return stateWords[ratelimit.DecisionInFlightLimit], "calls in flight are at the limit that was found"
	case f.RPM > 0 && e.Next.RetryAfter > 0:
		return stateSpaced, "requests are spaced by the rate that was found"
	}
	return "", ""
}

// sameFound compares what is shown of two searches.
func sameFound(a, b *ratelimit.FoundLimits) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	x.RateLoweredAt, x.InFlightLoweredAt, y.RateLoweredAt, y.InFlightLoweredAt = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return x == y && near(a.RateLoweredAt, b.RateLoweredAt, jitter, true) && near(a.InFlightLoweredAt, b.InFlightLoweredAt, jitter, true)
}

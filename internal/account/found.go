package account

import (
	"cmp"
	"math"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// Found is the limits that a quota searches for: the rate of requests, and the calls in flight.
type Found struct {
	bounds SearchBounds
	limits *FoundLimits // nil before the first call
	fresh  *FoundLimits // the beginning of a search, for readers before the first call: it never ages
	seed   uint64       // of what is random in the search
}

// Limits returns what was found, to be changed. It is nil for a quota that is invalid.
func (f *Found) Limits(now Now) *FoundLimits {
	if f == nil || f.bounds == (SearchBounds{}) {
		return nil
	}
	if f.limits == nil {
		f.limits = newFoundLimits(f.bounds, now.Instant, f.seed)
	}
	return f.limits
}

// HasBegun reports whether anything was found, or is searched for.
func (f *Found) HasBegun() bool { return f != nil && f.limits != nil }

// View is Limits for a reader.
func (f *Found) View() *FoundLimits {
	switch {
	case f == nil || f.bounds == (SearchBounds{}):
		return nil
	case f.limits == nil:
		return f.fresh
	}
	return f.limits
}

func bindFound(a *Account, _ *Zone, now Now) {
	if askFor(a, &a.Found, a.Has(Adapts)) == nil {
		return
	}
	a.Found.seed = a.Seed
	b := SearchBoundsOf(&a.Quota)
	if a.Found.bind(b); a.Found.limits != nil && b != (SearchBounds{}) && a.Found.limits.Bounds() != b {
		a.Found.limits.bind(b, now.Instant, now.Wall)
	}
}

// bind bounds the search by a quota; what was found stays as it is.
func (f *Found) bind(b SearchBounds) {
	if b != (SearchBounds{}) && b != f.bounds {
		f.fresh = newFoundLimits(b, Never/2, f.seed)
	}
	f.bounds = b
}

// AdoptFound takes over what a file or another process has found.
func (a *Account) AdoptFound(known state.Found, now Now) {
	if a.Found == nil {
		return
	}
	a.Found.limits = storedFoundLimits(known, a.Seed)
	a.Found.limits.bind(a.Found.bounds, now.Instant, now.Wall)
}

// SlotLimit returns how many calls may be in flight now; 0 for no limit.
func (a *Account) SlotLimit(now Now) int {
	most := a.Quota.MaxInFlight
	if l := a.Found.View(); l != nil {
		if f := l.mostSlots(a.InFlight, now.Instant); f > 0 && (most == 0 || f < most) {
			return f
		}
	}
	return most
}

// MostSlots returns how many calls may ever be in flight.
func (a *Account) MostSlots() int {
	if a.Found != nil && a.Found.bounds.CeilingSlots > 0 {
		return min(cmp.Or(a.Quota.MaxInFlight, math.MaxInt), a.Found.bounds.CeilingSlots)
	}
	return a.Quota.MaxInFlight
}

// Deny denies requests until the rate that was found lets the next one start.
func (f *Found) Deny(_ Ask, now Now) (d Denial) {
	if opens := f.View().opens(); opens > now.Instant {
		d.Add(&Refusal{
			Rank: ByRate, Code: state.Limits[state.RPM].Code,
			Reason: "requests are spaced by the rate that was found", Wait: opens - now.Instant,
		})
	}
	return d
}

// Charge has the search go on with a request. It reports whether a limit was raised.
func (f *Found) Charge(b Bill, now Now) (eased bool) {
	l := f.Limits(now)
	if l == nil {
		return false
	}
	eased = l.isDue(now.Instant) && l.goOn(now.Instant) != 0
	l.count(now.Instant, 1, b.InFlight, 0)
	return eased
}

// End notes that a call has ended, and takes back the request of one that was not sent.
func (f *Found) End(b Bill, how How, now Now) {
	switch l := f.limits; {
	case l == nil:
	case how != Cancelled:
		l.ended(now.Instant)
	case !b.Forgot:
		l.uncount(b.At)
	}
}

// MayPass reports whether the rate, and calls in flight that end, may let a call start in time.
func (f *Found) MayPass(h Hope, now Now) bool {
	return f.View().opensAtBest(h.InFlight-h.Open.Arrived) <= now.Instant+h.Left
}

// Lasts is how long the last request keeps others waiting. What was found is kept beside the usage.
func (f *Found) Lasts(now Now) int64 { return f.limits.keepsFor(now.Instant) }

// Forget forgets the requests of the search.
func (f *Found) Forget(bool, Now) {
	if f.limits != nil {
		f.limits.Forget()
	}
}

// keptFound returns a search that has begun.
func keptFound(a *Account) Extra {
	if !a.Found.HasBegun() {
		return nil
	}
	return a.Found
}

func readFound(a *Account, r *wire.Reader, _ *As, has bool) {
	if askFor(a, &a.Found, a.Has(Adapts)) != nil {
		a.Found.seed = a.Seed
		a.Found.bind(SearchBoundsOf(&a.Quota))
	}
	if !has {
		return
	}
	limits := readFoundLimits(r)
	if a.Found == nil {
		r.Fail("search that the quota does not ask for")
		return
	}
	a.Found.limits = limits
}

// AppendImage appends the whole state of the search, which has begun.
func (f *Found) AppendImage(to []byte) []byte { return f.limits.appendImage(to) }

// SeeksRate reports whether the rate of requests is searched for.
func (f *Found) SeeksRate() bool { return f.bounds.FloorRPM != 0 }

// IsTold reports whether the provider says its limits of the minute, so that the rate does not
// apply.
func (f *Found) IsTold() bool { return f.limits != nil && f.limits.IsTold() }

// ForgetTold has the rate be searched for again, whatever the provider says.
func (f *Found) ForgetTold() {
	if f != nil && f.limits != nil {
		f.limits.Tell(false)
	}
}

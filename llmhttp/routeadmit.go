package llmhttp

import (
	"cmp"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// routed is what the flight of a Route has beside that of a Transport.
type routed struct {
	way      *way
	backend  *backend      // where the call is sent; the first one that it may be before one was chosen
	bare     string        // the name under which the call is counted, without that of the backend
	standing *model        // of it at the backend, also where several are counted together
	tried    []*backend    // that have refused or failed the call
	rerouted int           // how many of the tries before this one were sent elsewhere without Retry
	maxWait  time.Duration // bounds the wait beside MaxWait; zero does not
}

// backend returns where the call is sent; nil without a Route.
func (f *flight) backend() *backend {
	if f.routed == nil {
		return nil
	}
	return f.routed.backend
}

// retries returns how many of the tries before this one Retry has repeated.
func (f *flight) retries() int {
	if f.routed == nil {
		return f.attempt
	}
	return f.attempt - f.routed.rerouted
}

// again returns what the next try has, after the backend refused or failed this one.
func (r *routed) again() *routed {
	next := *r
	next.maxWait = 0
	if !slices.Contains(r.tried, r.backend) {
		next.tried = append(slices.Clip(r.tried), r.backend)
	}
	return &next
}

// admitAtOne is admit for a call that may go to several backends.
func (t *Transport) admitAtOne(f *flight) error {
	began := f.began
	offers := f.routed.way.route.offers(f)
	at, d := f.reserveOne(offers)
	got := offers[at]
	if !d.Allowed {
		if began.IsZero() {
			began = time.Now()
		}
		var err error
		if got, err = t.wait(f, offers); err != nil {
			return err
		}
	}
	f.countAt(got.backend, got.name)
	f.estimated, f.counted = got.estimated, t.Limiter.Stats(got.name)
	f.admitted(began, got.prompt, got.output)
	return nil
}

// reserveOne charges the first offer for which there is room, and returns its index. Without room
// it returns that of the offer whose denial ends first, as far as that is known, and the denial.
func (f *flight) reserveOne(offers []offer) (at int, denial ratelimit.Decision) {
	for i, o := range offers {
		d := f.reserve(o.name, o.prompt, o.output)
		if d.Allowed {
			return i, d
		}
		if i == 0 || sooner(&d, &denial) {
			at, denial = i, d
		}
	}
	return at, denial
}

// sooner reports whether a denial ends before another one.
func sooner(d, than *ratelimit.Decision) bool {
	if d.Never != than.Never {
		return than.Never
	}
	return d.RetryAfter < than.RetryAfter
}

// offers returns the backends at which a call may be made, that with the most room first.
func (r *Route) offers(f *flight) []offer {
	now := time.Now()
	offers := r.choice(f.routed, now)
	before, name, billed := f.routed.backend, f.name, 0
	for i := range offers {
		o := &offers[i]
		f.routed.backend, f.name = o.backend, o.name // for which the estimate is
		limits := r.limits(o.name)
		if i == 0 || r.Estimate == nil {
			o.prompt, o.output = r.estimate(f)
			billed = max(billed, f.billedOutput)
			o.estimated = ratelimit.Usage{PromptTokens: o.prompt, OutputTokens: o.output}
			if r.Estimate == nil {
				o.prompt, o.output = cutToQuotas(limits, o.prompt, o.output)
			}
		} else {
			o.prompt, o.output, o.estimated = offers[0].prompt, offers[0].output, offers[0].estimated
		}
		o.own = shareLeft(&limits[0], o.prompt, o.output, now)
		o.share = o.own
		for j := range limits[1:] {
			o.share = min(o.share, shareLeft(&limits[1+j], o.prompt, o.output, now))
		}
	}
	f.routed.backend, f.name, f.billedOutput = before, name, billed
	slices.SortStableFunc(offers, func(a, b offer) int {
		// Where one pool is the scarcest for several, they go by their own limits.
		return cmp.Or(cmp.Compare(b.share, a.share), cmp.Compare(b.own, a.own))
	})
	return offers
}

// choice returns the backends that a call may go to: those that it was not tried at, and of these
// the ones that are not set aside, as far as there are any. Each call begins with another one.
func (r *Route) choice(f *routed, now time.Time) []offer {
	if b := f.way.only; b != nil {
		return []offer{{backend: b, name: r.countAs(b, f.bare)}}
	}
	all := r.backends
	begin := int(r.turn.Add(1) % uint32(len(all)))
	left := make([]offer, 0, len(all))
	for i := range all {
		b := all[(begin+i)%len(all)]
		if len(f.tried) == len(all) || !slices.Contains(f.tried, b) {
			left = append(left, offer{backend: b, name: r.countAs(b, f.bare)})
		}
	}
	return r.models.withoutAside(left, f.bare, now)
}

// shareLeft returns the share that a call would leave of the scarcest limit: 1 without limits, a
// negative number where there is no room now.
func shareLeft(s *ratelimit.ModelStats, prompt, output int, now time.Time) float64 {
	if s.CooldownUntil.After(now) {
		return -1
	}
	least := 1.0
	for _, l := range [...]struct {
		limit      int
		used, cost float64
	}{
		{s.MaxRPM, float64(s.RPM) + float64(s.ExternalRPM), 1},
		{s.AdaptiveRPM, float64(s.RPM) + float64(s.ExternalRPM), 1},
		{s.MaxRPD, float64(s.RPD) + float64(s.ExternalRPD), 1},
		{s.MaxITPM, float64(s.ITPM) + float64(s.ExternalITPM), float64(prompt)},
		{s.MaxOTPM, float64(s.OTPM) + float64(s.ExternalOTPM), float64(output)},
		{s.MaxTPM, float64(s.TPM) + float64(s.ExternalTPM), float64(prompt) + float64(output)},
		{s.MaxTPD, float64(s.TPD) + float64(s.ExternalTPD), float64(prompt) + float64(output)},
		{s.MaxTokensPerMonth, float64(s.TokensMonth), float64(prompt) + float64(output)},
		{s.MaxInFlight, float64(s.InFlight), 1},
		{s.AdaptiveInFlight, float64(s.InFlight), 1},
	} {
		if l.limit > 0 {
			least = min(least, 1-(l.used+l.cost)/float64(l.limit))
		}
	}
	for _, b := range [...]struct{ limit, spent money.Amount }{
		{s.MaxSpendPerTenMinutes, s.SpendTenMinutes}, {s.MaxSpendPerDay, s.SpendDay}, {s.MaxSpendPerMonth, s.SpendMonth},
	} {
		if b.limit > 0 {
			least = min(least, 1-float64(b.spent)/float64(b.limit))
		}
	}
	return least
}

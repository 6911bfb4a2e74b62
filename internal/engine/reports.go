package engine

import (
	"maps"
	"slices"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Cool has a model admit nothing before a time, in UnixNano. Of two cooldowns the one that ends
// later holds. It reports whether this one does.
func (e *Engine) Cool(counted, asked string, until int64, cause string, now account.Now) bool {
	now = e.begin(now, 0)
	a := e.accounts[counted]
	if until <= now.Wall || a != nil && until <= a.CoolUntil ||
		!e.Catalog.IsListed(counted) && (a == nil || a.CoolUntil <= now.Wall) && !e.hasRoom(cooling, now) {
		return false
	}
	a = e.need(counted)
	a.Cool(until, cause)
	e.observer.Cooled(a, asked)
	e.lines.Review(a, now)
	e.lines.Mark(a)
	e.lines.Serve(now)
	return true
}

// Reset forgets the usage of a counted name, what others use of it, and its cooldown; "" stands for
// all. Calls in flight stay in flight. Those that wait are served.
func (e *Engine) Reset(counted string, now account.Now) {
	now = e.begin(now, 0)
	if a := e.accounts[counted]; a != nil {
		e.reset(a, now)
	}
	if counted == "" {
		for _, name := range slices.Sorted(maps.Keys(e.accounts)) {
			e.reset(e.accounts[name], now)
		}
	}
	e.lines.Review(nil, now)
	e.lines.MarkAll()
	e.lines.Serve(now)
}

func (e *Engine) reset(a *account.Account, now account.Now) {
	a.Cool(0, "")
	a.Report(nil)
	if l := a.Found.View(); l != nil {
		l.Forget()
	}
	e.hide(a, false)
	e.drop(a, now)
}

// Report is what a provider says of the limits of an account.
type Report struct {
	Limits    state.ReportedLimits
	Uncounted state.Cost          // of calls that the provider may not have counted yet
	Counted   [state.InFlight]int // what was used when the answered call was charged
	SentAt    int64               // the instant at which that was sent
	Learns    bool                // it may correct the quota
	Refused   bool                // it came with a refusal, which decides nothing
}

// Observed is a report on one account.
type Observed struct {
	Target
	Report
}

// Report is Observe of what a provider reports of a model, and so of its pools.
func (e *Engine) Report(t *Target, r *Report, span int64, now account.Now) (changed bool) {
	own, pools := e.Catalog.Reports(t.Counted, t.Asked, r.Limits)
	seen := make([]Observed, 1, 4)
	seen[0] = Observed{*t, *r}
	seen[0].Limits = own
	for _, pool := range pools {
		of := Observed{Target{Account: e.accounts[pool.Pool], Counted: pool.Pool}, *r}
		of.Limits, of.Report.Counted = pool.Limits, [state.InFlight]int{} // which is of the model alone
		seen = append(seen, of)
	}
	return e.Observe(seen, span, now)
}

// Observe notes by what a provider reports together what others use of some accounts, and corrects
// their quotas. What is left of all is noted before anything serves those that wait: no more of
// them may go than are left. It reports whether anything but the usage of others has changed.
func (e *Engine) Observe(all []Observed, span int64, now account.Now) (changed bool) {
	now = e.begin(now, span)
	var lessons []lesson
	for i := range all {
		o := &all[i]
		q, learns := o.Account.Quota, false
		if o.Learns {
			changed = e.tell(&o.Target, &o.Limits, now) || changed
			q, learns = e.Catalog.Lesson(o.Target.Counted, &o.Limits, e.places.most)
		}
		if !q.IsUnlimited() {
			e.noteReport(&o.Target, &o.Report, &q, span, now)
		}
		if learns { // the name may be a part of a longer string, which must not stay for it
			lessons = append(lessons, lesson{strings.Clone(o.Target.Counted), q})
		}
	}
	for _, l := range lessons {
		e.change(Provider, func(c *catalog.Catalog) []catalog.Change { return c.Learn(l.name, l.quota) }, now)
	}
	if len(lessons) > 0 {
		e.Serve(now)
	}
	e.lines.Serve(now)
	return changed || len(lessons) > 0
}

// lesson is the quota of a name as a report corrects it.
type lesson struct {
	name  string
	quota state.Quota
}

// tell has the search for the rate of an account end where its provider reports its limits of the
// minute. It reports whether that is news.
func (e *Engine) tell(t *Target, report *state.ReportedLimits, now account.Now) bool {
	a := t.Account
	if !a.Has(account.Adapts) || !a.Found.SeeksRate() || !report.SaysMinute() || a.Found.IsTold() {
		return false
	}
	if a.Name == "" {
		a = e.need(t.Counted)
		t.Account = a
	}
	a.Found.Limits(now).Tell(true)
	e.lines.Mark(a)
	return true
}

// noteReport notes what others use of an account by a quota. Those that come too late by it are
// refused.
func (e *Engine) noteReport(t *Target, r *Report, q *state.Quota, span int64, now account.Now) {
	a := t.Account
	if !reported.has(a, now) && !e.Catalog.IsListed(t.Counted) && !e.hasRoom(reported, now) {
		return
	}
	if a.Name == "" {
		a = e.need(t.Counted)
	}
	a.Refresh(now, e.span)
	eased, tightened := e.note(a, r, q, span, now)
	if tightened {
		e.lines.Review(a, now)
	}
	if eased || tightened {
		e.lines.Mark(a)
	}
	e.drop(a, now)
}

// note notes the external usage, and reports whether that makes room, and whether it takes some.
func (e *Engine) note(a *account.Account, r *Report, q *state.Quota, span int64, now account.Now) (eased, tightened bool) {
	u := new(account.External)
	if a.Reports != nil {
		*u = *a.Reports
	}
	u.Expire(now.Instant, now.Wall)
	for of := range state.InFlight {
		report, limit := &r.Limits[of], *q.Limit(of)
		if limit <= 0 || !report.SaysRemaining() {
			continue
		}
		amount := report.External(limit, state.ReportedCounts{
			Now: a.Used(of, span, now), Uncounted: r.Uncounted.Of(of), AtCall: r.Counted[of],
		})
		if amount == 0 && u[of].Amount == 0 {
			continue
		}
		sooner, later := u[of].Take(account.ExternalPart{Amount: amount, Until: a.ReportLasts(of, report, span, now), SentAt: r.SentAt})
		eased, tightened = eased || sooner, tightened || later
	}
	if !u.Expire(now.Instant, now.Wall) {
		u = nil
	}
	a.Report(u)
	return eased, tightened
}

// Refuse has the searches for the limits of a model and its pools go on after a refusal by their
// provider. It reports whether a limit was lowered.
func (e *Engine) Refuse(t *Target, r account.ProviderRefusal, now account.Now) (any bool) {
	now = e.begin(now, 0)
	for _, a := range append([]*account.Account{t.Account}, t.Pools...) {
		if !a.Has(account.Adapts) || account.SearchBoundsOf(&a.Quota) == (account.SearchBounds{}) || !account.SearchBoundsOf(&a.Quota).Concerns(r) {
			continue
		}
		if !a.Listed && !a.IsPool() && !searching.has(a, now) && !e.hasRoom(searching, now) {
			continue
		}
		if a.Name == "" {
			a = e.need(t.Counted)
		}
		if _, lowered := a.Found.Limits(now).Refuse(r, now.Instant); lowered {
			any = true
			e.lines.Review(a, now)
			e.lines.Mark(a)
		}
	}
	e.lines.Serve(now)
	return any
}

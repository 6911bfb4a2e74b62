package ratelimit

import (
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/explain"
	"dappco.re/go/core/go-ratelimit/internal/pace"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tokens"
	"dappco.re/go/core/go-ratelimit/money"
)

// Explanation says why a model waits at one moment, for logs, dashboards and people: see
// [RateLimiter.Explain]. String returns it in a few lines.
type Explanation struct {
	Model   string `json:"model"`           // as it was asked for
	Counted string `json:"counted_as"`      // the name under which it is counted
	Quota   string `json:"quota,omitempty"` // the name of its quota in Quotas, such as "*" or a pattern; empty for none
	// Origin is where the quota comes from: "program"; "shared", if the program of some process
	// set it in the shared database; "account", if SetAccountQuotas said it; "given" by a profile
	// or a file; or "learned", if reports of the provider have corrected it. It is empty without
	// a quota. Limits tell of each by itself.
	Origin string    `json:"origin,omitempty"`
	At     time.Time `json:"at"` // the moment
	// Provider is the provider of the model, as far as a profile tells: that of the quota, another
	// of Config.Providers, or one of the built-in profiles that knows the name. Empty if none does.
	Provider Provider `json:"provider,omitempty"`
	// ProfileReadOn is midnight UTC of the day the quota was read, if it is that of a profile; zero
	// for every other quota.
	ProfileReadOn time.Time `json:"profile_read_on,omitzero"`

	// Limits are the limits of the quota, without those that are unlimited, in the order in which
	// they deny.
	Limits []LimitState `json:"limits,omitempty"`
	// Budgets is the spend of the day and of the month, as far as anything was spent or limits it.
	Budgets []BudgetState `json:"budgets,omitempty"`
	// Found is the limits that the quota searches for, see ModelQuota.AdaptiveFloorRPM; nil for
	// none.
	Found    *FoundLimits `json:"found,omitempty"`
	InFlight int          `json:"in_flight"` // open reservations
	Waiting  int          `json:"waiting"`   // waiters in Acquire, AcquireAll and WaitForCapacity

	// WaitingByClass is Waiting by the classes of the waiters, "" for none of Config.Classes; nil
	// where nobody waits, or there are no classes.
	WaitingByClass map[string]int `json:"waiting_by_class,omitempty"`
	// Line is 16 of the waiters at most: the one that is served next, and then the others in the
	// order of their arrival.
	Line []Waiter `json:"line,omitempty"`
	// OldestOpen is the age of the oldest open reservation. With Config.Events it is exact for
	// those of this limiter. Else it is counted from Arrived if that was called, is known to some
	// five seconds and too small rather than too large, and above a minute it may only say that.
	// JSON shows it as a text, such as "42s".
	OldestOpen time.Duration `json:"oldest_open,omitempty"`
	// OpenOverMinute is how many open reservations are older than a minute, by some five seconds.
	// Such a call may be slow, or its reservation may have been leaked.
	OpenOverMinute int `json:"open_over_minute,omitempty"`
	// LastRefusal is the last call of this limiter that was refused for the model; nil for none,
	// and after Reset. A caller whose context ended was not refused. Of models without a quota of
	// their own the 1,000 that were refused last are remembered, if their names have no more than
	// 1,024 bytes.
	LastRefusal *Refused `json:"last_refusal,omitempty"`

	CooldownUntil time.Time `json:"cooldown_until,omitzero"` // nothing is admitted before; zero without a cooldown
	Cause         Cause     `json:"cause,omitempty"`         // of the cooldown

	// Pools are the pools of the model, sorted by name.
	Pools []PoolState `json:"pools,omitempty"`

	// Next is the decision on a request of one input token, and of one output token if the model
	// limits those, of no class. Its RetryAfter is when there is room again.
	Next Decision `json:"next"`
	// StoreError is why the shared database cannot be used: see [RateLimiter.Err].
	StoreError string `json:"store_error,omitempty"`
}

// LimitState is the state of one limit in an Explanation.
type LimitState struct {
	Limit    string `json:"limit"` // its key in files, such as "max_tpm"
	Max      int    `json:"max"`
	Used     int    `json:"used"`               // by this limiter; of max_in_flight the open reservations
	Open     int    `json:"open,omitempty"`     // what open reservations have of Used, by some five seconds
	External int    `json:"external,omitempty"` // by others of the account, as the provider reports it
	Left     int    `json:"left"`               // what a request may have now
	// Origin is who said Max: "program", "account", "file", "profile", or "learned", if a report of
	// the provider did.
	Origin string `json:"origin"`
	// RoomAt is when one more request or token fits; zero if it does now, or if no time tells.
	RoomAt time.Time `json:"room_at,omitzero"`
}

// PoolState is the state of a pool: see [RateLimiter.ExplainPool]. An Explanation has it for each
// pool of its model. Fields that have the names of those of an Explanation mean the same.
type PoolState struct {
	Pool           string         `json:"pool"` // its name
	Limits         []LimitState   `json:"limits,omitempty"`
	Budgets        []BudgetState  `json:"budgets,omitempty"`
	Found          *FoundLimits   `json:"found,omitempty"`
	InFlight       int            `json:"in_flight"` // open reservations of all its models
	Waiting        int            `json:"waiting"`   // waiters for any of its models
	WaitingByClass map[string]int `json:"waiting_by_class,omitempty"`
	CooldownUntil  time.Time      `json:"cooldown_until,omitzero"` // nothing is admitted before; zero without a cooldown
	Cause          Cause          `json:"cause,omitempty"`         // of the cooldown
}

// BudgetState is the spend of a day or a month in an Explanation.
type BudgetState struct {
	Limit string       `json:"limit"`         // the key in files: "max_spend_per_day" or "max_spend_per_month"
	Max   money.Amount `json:"max,omitempty"` // zero is unlimited
	// Spent is what the calls of the period cost, those that are open at the most that they can.
	Spent money.Amount `json:"spent"`
	Until time.Time    `json:"until,omitzero"` // when the period ends; zero where nothing was spent in it
}

// FoundLimits is the limits of a model that are searched for, at one moment: see
// ModelQuota.AdaptiveFloorRPM. Those of a limit that is not searched for are zero.
type FoundLimits struct {
	RPM        int `json:"rpm,omitempty"` // the present rate, in requests per minute, rounded
	FloorRPM   int `json:"floor_rpm,omitempty"`
	CeilingRPM int `json:"ceiling_rpm,omitempty"`
	// RefusedRPM is the rate at which the provider last refused; zero if that is not known.
	RefusedRPM    int       `json:"refused_rpm,omitempty"`
	RateLoweredAt time.Time `json:"rate_lowered_at,omitzero"` // when a refusal last lowered the rate

	InFlight        int `json:"in_flight,omitempty"` // how many calls may be in flight
	FloorInFlight   int `json:"floor_in_flight,omitempty"`
	CeilingInFlight int `json:"ceiling_in_flight,omitempty"`
	// OverloadedInFlight is the limit at which the provider was last overloaded; zero if that is
	// not known.
	OverloadedInFlight int       `json:"overloaded_in_flight,omitempty"`
	InFlightLoweredAt  time.Time `json:"in_flight_lowered_at,omitzero"` // when overload last lowered it

	// Told reports that the headers of the provider say its limits of the minute
	// (Config.LearnQuotas), so that the rate does not apply.
	Told bool `json:"told,omitempty"`
}

// Waiter is a call that waits in line.
type Waiter struct {
	// Waited is how long it has waited. JSON shows it as a text, such as "1.5s". Of a waiter of
	// another process it is known as well as the clocks of the two agree.
	Waited time.Duration `json:"waited,omitempty"`
	// PromptTokens and OutputTokens are what it asks for of the model.
	PromptTokens int `json:"prompt_tokens"`
	OutputTokens int `json:"output_tokens"`

	Class string `json:"class,omitempty"` // one of Config.Classes; empty for none
}

// Refused is a call that got no reservation. Its fields are those of the [Decision].
type Refused struct {
	At     time.Time    `json:"at"` // the moment
	Code   DecisionCode `json:"code"`
	Reason string       `json:"reason"`
	Pool   string       `json:"pool,omitempty"`
	// RetryAfter is zero where no time tells, or waiting does not help. JSON shows it as a text.
	RetryAfter time.Duration `json:"retry_after,omitempty"`
}

// Explain returns why model waits now, or that it does not: its quota and where that comes from,
// what is used of each limit, the calls in flight, the line, a cooldown with its cause, and the
// next room. It charges nothing. With Config.Shared it tells of all processes.
//
// Explain is for the eyes of people and costs several times a Decide. It is safe for concurrent
// use.
func (rl *RateLimiter) Explain(model string) Explanation {
	e := Explanation{Model: model}
	if err := rl.Err(); err != nil {
		e.StoreError = err.Error()
	}
	knownProviders() // which reads the profiles, before the lock is taken
	var q ModelQuota
	var r view
	rl.mu.Lock()
	defer rl.mu.Unlock()
	name, known := rl.findRLocked(model, &q)
	r.instant = rl.clock.Sync()
	rl.readLocked(name, &q, known, &r)
	e.Counted, e.At = name, rl.clock.At(r.instant).Round(0)
	if known {
		var origins quotaOrigins
		e.Quota, origins = rl.originsRLocked(name)
		e.Origin = origins.whole(rl.ledger != nil)
		e.Found = r.foundLimits()
		e.Limits = limitStates(&q, &r, &origins, e.At)
		if row, ok := rl.profileRowRLocked(name); ok {
			e.ProfileReadOn = row.source.ReadOn
		}
	}
	e.Budgets = r.budgets(&q)
	e.Provider = rl.providerOfRLocked(name)
	e.InFlight, e.Waiting, e.WaitingByClass = r.slots.calls(), r.slots.waiting(), r.slots.waitingByClassRLocked()
	e.OldestOpen, e.OpenOverMinute = r.agesLocked()
	if since, ok := rl.teller.oldestRLocked(r.slots); ok {
		e.OldestOpen = max(time.Duration(r.instant-since), e.OldestOpen)
	}
	e.Line = rl.lineLocked(r.slots, r.instant)
	e.LastRefusal = rl.refusals.Get(name).told(&rl.clock)
	if r.cool > r.wall {
		e.CooldownUntil, e.Cause = time.Unix(0, r.cool), Cause(r.cause)
	}
	c := rl.smallestRLocked(&q, name, model)
	e.Next.Model = model
	r.modelStats(&e.Next.Stats, &q)
	if known && rl.reserves != nil {
		r.keepLocked(rl, &q, &c, "", false)
	}
	wait := decide(&e.Next, &q, known, &r, &c)
	if !known && !rl.isNamedByPoolRLocked(model) {
		var nearest string
		if rl.unknown == UnknownDeny { // it is looked for among all quotas, and else not shown
			nearest = rl.nearestRLocked(model)
		}
		rl.refuseUnknownRLocked(&e.Next, nearest)
	}
	if rl.pools.count > 0 {
		e.explainPoolsLocked(rl, &r, &c, wait)
	}
	if e.Waiting > 0 {
		e.Next.queue()
	}
	rl.ledger.overrule(&e.Next)
	return e
}

// smallestRLocked returns the cost of a request of one token, and of one output token if a quota
// limits those.
func (rl *RateLimiter) smallestRLocked(q *ModelQuota, name, model string) cost {
	c := cost{Requests: 1, Count: tokens.Count{Input: 1, Output: min(max(q.MaxOTPM, 0), 1)}}
	if rl.pricing != nil {
		rl.mostRLocked(&c, name, model)
	}
	return c
}

// quotaOrigins is who said each limit of a quota.
type quotaOrigins [state.Dimensions]state.Origin

// originsRLocked returns the name of the quota that covers a counted name, and who said it.
func (rl *RateLimiter) originsRLocked(name string) (quota string, origins quotaOrigins) {
	quota = rl.quotaNameRLocked(name)
	is, _ := rl.quotaRLocked(quota)
	return quota, rl.provenance.Origins(quota, state.Quota(is))
}

// whole returns who said a quota: a report that corrected it, else the first in the order of their
// precedence.
func (o *quotaOrigins) whole(shared bool) string {
	switch least := slices.Min(o[:]); {
	case slices.Contains(o[:], state.Learned):
		return explain.Learned
	case least == state.Program && shared:
		return explain.Shared
	case least == state.Program:
		return explain.Program
	case least == state.Account:
		return explain.Account
	}
	return explain.Given
}

// limitStates returns the state of the limits of a quota at a moment.
func limitStates(q *ModelQuota, r *view, origins *quotaOrigins, at time.Time) []LimitState {
	limits := make([]LimitState, 0, state.Dimensions)
	for _, of := range [...]state.Dimension{
		state.InFlight, state.RPD, state.TPD, state.RPM, state.ITPM, state.OTPM, state.TPM,
	} {
		l := LimitState{Limit: state.Limits[of].Key, Max: *q.limit(of), Origin: state.OriginKeys[origins[of]]}
		if of == state.InFlight && r.adapts { // and not what was found
			l.Max = r.slotLimit
		}
		switch {
		case l.Max == 0:
			continue
		case of == state.InFlight:
			l.Used = r.slots.calls()
			l.Open = l.Used
		default:
			l.Used = r.usedOf(of)
			l.Open = min(max(r.usedBy(of, r.instant)-r.remainsBy(of, r.instant), 0), l.Used)
			if r.external != nil {
				l.External = r.external[of].Amount
			}
			if wait := r.roomIn(of, l.Used, q); wait > 0 {
				l.RoomAt = at.Add(wait)
			}
		}
		l.Left = max(0, max(0, l.Max-l.Used)-l.External)
		limits = append(limits, l)
	}
	return limits
}

// agesLocked returns the age of the oldest open call, and how many are older than a minute. A call
// from before the model lost its state, by Reset or Load, is at least as old as that loss.
func (r *view) agesLocked() (oldest time.Duration, over int) {
	age, over := r.open.Ages(r.instant, minute)
	if rest := r.slots.calls() - r.open.Calls(); rest > 0 && r.slots.leftAt != 0 {
		since := r.instant - r.slots.leftAt
		if age = max(age, since); since >= minute {
			over += rest
		}
	}
	return time.Duration(age), min(over, r.slots.calls())
}

// nextLocked returns the waiter that is served next; nil where none is awake.
func (g *slots) nextLocked() *waiter {
	for _, e := range g.line.Heads() {
		if !e.Value.yields {
			return e.Value
		}
	}
	return g.head()
}

// lineLocked returns the waiter of a model that is next, and the first of the others.
func (rl *RateLimiter) lineLocked(g *slots, instant int64) (line []Waiter) {
	const most = 16
	if g.waiting() == 0 {
		return nil
	}
	add := func(w *waiter) {
		var c tokens.Count
		for i := range w.requests {
			if req := &w.requests[i]; rl.nameRLocked(req.Model) == g.name {
				c = c.Plus(tokens.Count{Input: req.PromptTokens, Output: req.OutputTokens})
			}
		}
		line = append(line, Waiter{Waited: time.Duration(max(instant-w.since, 0)), PromptTokens: c.Input, OutputTokens: c.Output, Class: rl.knownClassRLocked(w.class)})
	}
	next := g.nextLocked()
	if next != nil {
		add(next)
	}
	for e := range g.line.All() {
		if len(line) == most {
			break
		}
		if e.Value != next {
			add(e.Value)
		}
	}
	return line
}

// roomIn returns how long it takes until one more of a dimension fits; 0 if it does now, or never.
func (r *view) roomIn(of state.Dimension, used int, q *ModelQuota) time.Duration {
	limit := *q.limit(of)
	if limit <= 0 {
		return 0
	}
	var f refusal
	var p *pace.Buckets
	if state.Limits[of].Window == state.Minute {
		p = r.paceOf(q)
		if r.used != 0 {
			f.until(time.Duration(r.used - r.instant))
		}
	}
	f.check(of, used, 1, limit, r, p)
	return f.wait
}

// String returns the explanation in lines for a person, the first of which says whether the model
// waits. The text is not for programs, and may change.
func (e Explanation) String() string {
	f := explain.Facts{
		Model: e.Model, Counted: e.Counted, Quota: e.Quota, Origin: e.Origin, At: e.At,
		Use: useFacts(&PoolState{
			Limits: e.Limits, Budgets: e.Budgets, Found: e.Found, InFlight: e.InFlight, Waiting: e.Waiting,
			WaitingByClass: e.WaitingByClass, CooldownUntil: e.CooldownUntil, Cause: e.Cause,
		}),
		Next: explain.Next{
			Allowed: e.Next.Allowed, Never: e.Next.Never, Queued: e.Next.Code == DecisionQueued,
			Reason: e.Next.Reason, RetryAfter: e.Next.RetryAfter,
		},
		StoreError: e.StoreError,
		Provider:   string(e.Provider), ReadOn: e.ProfileReadOn,
		OldestOpen: e.OldestOpen, OpenOverMinute: e.OpenOverMinute,
	}
	for _, w := range e.Line {
		f.Line = append(f.Line, explain.Waiter(w))
	}
	if r := e.LastRefusal; r != nil {
		f.Refused = &explain.Refused{At: r.At, Code: string(r.Code), Reason: r.Reason}
	}
	for i := range e.Pools {
		f.Pools = append(f.Pools, explain.Pool{Name: e.Pools[i].Pool, Use: useFacts(&e.Pools[i])})
	}
	return f.Text()
}

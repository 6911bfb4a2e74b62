package ratelimit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/profile"
	"dappco.re/go/core/go-ratelimit/internal/replica"
	"dappco.re/go/core/go-ratelimit/internal/settings"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/store/sqlitelog"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
	"dappco.re/go/core/go-ratelimit/money"
)

// Explanation says why a model waits at one moment: see [RateLimiter.Explain] and String.
type Explanation struct {
	Model   string `json:"model"`           // as it was asked for
	Counted string `json:"counted_as"`      // the name under which it is counted
	Quota   string `json:"quota,omitempty"` // the name of its quota in Quotas, such as "*" or a pattern; empty for none
	// Origin is where the quota comes from: "program"; "shared", if the program of some process set
	// it in the shared database; "account", if SetAccountQuotas said it; "given" by a profile or a
	// file; or "learned", if reports of the provider have corrected it.
	Origin string    `json:"origin,omitempty"`
	At     time.Time `json:"at"` // the moment
	// Provider is the provider of the model, as far as a profile tells: that of the quota, another
	// of Config.Providers, or one of the built-in profiles that knows the name. Empty if none does.
	Provider Provider `json:"provider,omitempty"`
	// ProfileReadOn is midnight UTC of the day the quota was read, if a profile has it; else zero.
	ProfileReadOn time.Time `json:"profile_read_on,omitzero"`

	// Limits are the limits of the quota, but for unlimited ones, in the order in which they deny.
	Limits  []LimitState  `json:"limits,omitempty"`
	Budgets []BudgetState `json:"budgets,omitempty"` // the spend of ten minutes, the day and the month, as far as anything was spent or limits it
	// Found is the limits that the quota searches for (ModelQuota.AdaptiveFloorRPM); nil for none.
	Found    *FoundLimits `json:"found,omitempty"`
	InFlight int          `json:"in_flight"` // open reservations
	Waiting  int          `json:"waiting"`   // waiters in Acquire, AcquireAll and WaitForCapacity

	// WaitingByClass is Waiting by the classes of the waiters, "" for none of Config.Classes; nil
	// where nobody waits, or there are no classes.
	WaitingByClass map[string]int `json:"waiting_by_class,omitempty"`
	// Line is at most 16 of the waiters: the one that is served next, then others as they arrived.
	Line       []Waiter      `json:"line,omitempty"`
	OldestOpen time.Duration `json:"oldest_open,omitempty"` // the age of the oldest open reservation; JSON shows it as a text, such as "42s"
	// OpenOverMinute is how many open reservations are older than a minute. Such a call may be
	// slow, or its reservation may have been leaked.
	OpenOverMinute int `json:"open_over_minute,omitempty"`
	// LastRefusal is the last call of this limiter that was refused for the model; nil for none,
	// and after Reset. A caller whose context ended was not refused. Of models without a quota of
	// their own the last 1,000 with names of at most 1,024 bytes are remembered.
	LastRefusal *Refused `json:"last_refusal,omitempty"`

	CooldownUntil time.Time `json:"cooldown_until,omitzero"` // nothing is admitted before; zero without a cooldown
	Cause         Cause     `json:"cause,omitempty"`         // of the cooldown

	Pools []PoolState `json:"pools,omitempty"` // the pools of the model, sorted by name

	// Next is the decision on a request of one input token, and of one output token if the model
	// limits those, of no class. Its RetryAfter is when there is room again.
	Next       Decision `json:"next"`
	StoreError string   `json:"store_error,omitempty"` // why the shared database cannot be used: see [RateLimiter.Err]
}

// LimitState is the state of one limit in an Explanation.
type LimitState struct {
	Limit    string `json:"limit"` // its key in files, such as "max_tpm"
	Max      int    `json:"max"`
	Used     int    `json:"used"`               // by this limiter; of max_in_flight the open reservations
	Open     int    `json:"open,omitempty"`     // what open reservations may give back of Used
	External int    `json:"external,omitempty"` // by others of the account, as the provider reports it
	Left     int    `json:"left"`               // what a request may have now
	// Origin is who said Max: "program", "account", "file", "profile", or "learned" from reports.
	Origin string    `json:"origin"`
	RoomAt time.Time `json:"room_at,omitzero"` // when one more request or token fits; zero if it does now, or if no time tells
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

// BudgetState is the spend of ten minutes, a day or a month in an Explanation.
type BudgetState struct {
	Limit string       `json:"limit"`          // the key in files, such as "max_spend_per_day"
	Max   money.Amount `json:"max,omitempty"`  // zero is unlimited
	Spent money.Amount `json:"spent"`          // what the calls of the period cost, those that are open at the most that they can
	Until time.Time    `json:"until,omitzero"` // when the period ends, or the first call leaves the ten minutes; zero where nothing was spent
}

// FoundLimits is the limits of a model that are searched for, at one moment: see
// ModelQuota.AdaptiveFloorRPM. Those of a limit that is not searched for are zero.
type FoundLimits struct {
	RPM           int       `json:"rpm,omitempty"` // the present rate, in requests per minute, rounded
	FloorRPM      int       `json:"floor_rpm,omitempty"`
	CeilingRPM    int       `json:"ceiling_rpm,omitempty"`
	RefusedRPM    int       `json:"refused_rpm,omitempty"`    // the rate at which the provider last refused; zero if that is not known
	RateLoweredAt time.Time `json:"rate_lowered_at,omitzero"` // when a refusal last lowered the rate

	InFlight        int `json:"in_flight,omitempty"` // how many calls may be in flight
	FloorInFlight   int `json:"floor_in_flight,omitempty"`
	CeilingInFlight int `json:"ceiling_in_flight,omitempty"`
	// OverloadedInFlight is the limit at which the provider was last overloaded; zero if unknown.
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
	Waited       time.Duration `json:"waited,omitempty"`
	PromptTokens int           `json:"prompt_tokens"` // what it asks for of the model, as OutputTokens
	OutputTokens int           `json:"output_tokens"`

	Class string `json:"class,omitempty"` // one of Config.Classes; empty for none
}

// Refused is a call that got no reservation. Its fields are those of the [Decision].
type Refused struct {
	At         time.Time     `json:"at"` // the moment
	Code       DecisionCode  `json:"code"`
	Reason     string        `json:"reason"`
	Pool       string        `json:"pool,omitempty"`
	RetryAfter time.Duration `json:"retry_after,omitempty"` // zero where no time tells, or waiting does not help; JSON shows it as a text
}

// Inspection is a shared quota at one moment: see [Inspect].
type Inspection struct {
	At        time.Time             `json:"at"` // by the clock of the store
	Models    []Explanation         `json:"models"`
	Quotas    map[string]ModelQuota `json:"quotas,omitempty"` // all of them, with patterns and "*"
	Pools     []PoolState           `json:"pools,omitempty"`
	Processes []ProcessState        `json:"processes,omitempty"` // the eldest first
}

// ProcessState is the part of one limiter in a shared quota, in maps by counted names of models.
type ProcessState struct {
	ID       string         `json:"id"`                  // random, and new at each opening
	HeardAt  time.Time      `json:"heard_at,omitzero"`   // when it last wrote, at least every ten minutes; zero if it has left
	InFlight map[string]int `json:"in_flight,omitempty"` // open reservations
	Tokens   map[string]int `json:"tokens,omitempty"`    // what these have charged
	Waiting  map[string]int `json:"waiting,omitempty"`   // waiters
}

// MarshalJSON shows OldestOpen as a text, such as "42s", and leaves it out where it is zero.
func (e Explanation) MarshalJSON() ([]byte, error) { return clock.EncodeStruct(e) }

// UnmarshalJSON reads what MarshalJSON writes, as that of ModelQuota does.
func (e *Explanation) UnmarshalJSON(data []byte) (err error) {
	return clock.DecodeStruct(data, "explanation", e)
}

// MarshalJSON shows Waited as a text, such as "1.5s", and leaves it out where it is zero.
func (w Waiter) MarshalJSON() ([]byte, error) { return clock.EncodeStruct(w) }

// UnmarshalJSON reads what MarshalJSON writes, as that of ModelQuota does.
func (w *Waiter) UnmarshalJSON(data []byte) (err error) { return clock.DecodeStruct(data, "waiter", w) }

// MarshalJSON shows RetryAfter as a text, and leaves it out where it is zero.
func (r Refused) MarshalJSON() ([]byte, error) { return clock.EncodeStruct(r) }

// UnmarshalJSON reads what MarshalJSON writes, as that of ModelQuota does.
func (r *Refused) UnmarshalJSON(data []byte) (err error) {
	return clock.DecodeStruct(data, "refusal", r)
}

// Explain returns why model waits now, or that it does not: its quota and where that comes from,
// what is used of each limit, the calls in flight, the line, a cooldown with its cause, and the
// next room. With Config.Shared it tells of all processes. It costs several times a Decide.
func (rl *RateLimiter) Explain(model string) Explanation {
	e := Explanation{Model: model}
	if err := rl.Err(); err != nil {
		e.StoreError = err.Error()
	}
	rl.shared.freshen(background)
	profile.Models() // which reads the profiles, before the lock is taken
	rl.mu.Lock()
	defer rl.mu.Unlock()
	now, t := rl.enterTidyLocked(model)
	a := t.Account
	e.Counted, e.At = t.Counted, now.Time()
	if !a.Has(account.Unknown) {
		quota, origins := rl.engine.Catalog.Origins(t.Counted)
		if e.Quota, e.Origin = quota, verdict.OriginOf(origins); rl.shared != nil && e.Origin == verdict.OriginProgram {
			e.Origin = verdict.OriginShared // by whichever process
		}
		if q, ok := rl.loaded.Given(t.Counted, rl.engine.Catalog); ok {
			e.ProfileReadOn = q.ReadOn
		}
	}
	use, open := rl.engine.Use(a, t.Counted, rl.span(), now)
	is := poolStateOf("", use)
	e.Limits, e.Budgets, e.Found = is.Limits, is.Budgets, is.Found
	e.InFlight, e.Waiting, e.WaitingByClass = is.InFlight, is.Waiting, is.WaitingByClass
	e.CooldownUntil, e.Cause = is.CooldownUntil, is.Cause
	e.OldestOpen, e.OpenOverMinute = open.Oldest, open.OverMinute
	e.Provider = Provider(rl.loaded.ProviderOf(t.Counted, rl.engine.Catalog))
	line := rl.engine.Line(a, 16, now)
	e.Line = *(*[]Waiter)(unsafe.Pointer(&line))
	e.LastRefusal = rl.refusals.Get(t.Counted).told(now)
	for _, pool := range t.Pools {
		use, _ := rl.engine.Use(pool, pool.Name, rl.span(), now)
		e.Pools = append(e.Pools, poolStateOf(pool.Name, use))
	}
	rl.explainNextRLocked(&e.Next, &t, now)
	rl.leaveLocked(now)
	return e
}

// Inspect explains models, or all that have a quota or usage, of the quota that limiters share in
// cfg.Store or, without that, in the SQLite database at cfg.FilePath. It writes nothing and takes
// no part in the quota; no limiter need run. Of cfg it also heeds Aliases, Prices and the like.
// Calls of a process that died stay open until another one says so. Without a shared quota of this
// version it fails.
func Inspect(ctx context.Context, cfg Config, models ...string) (*Inspection, error) {
	rl, _, err := newUnconfigured(&cfg)
	if err == nil && cfg.FilePath == "" && cfg.Store == nil {
		cfg.FilePath, err = settings.SQLite.DefaultPath()
	}
	var look *replica.Looker
	if err == nil {
		look, err = replica.Look(ctx, cmp.Or[Store](cfg.Store, &sqlitelog.Store{Path: cfg.FilePath}))
	}
	if err != nil {
		return nil, fmt.Errorf("inspect: %w", err)
	}
	defer rl.reporter.Stop() // which nobody has woken before
	rl.shared, rl.firesAt = &shared{rl: rl, replica: look.Replica}, account.Never
	rl.shared.swappedLocked(look.State.Engine)
	is := &Inspection{At: look.Now().Time(), Quotas: rl.Quotas}
	if len(models) == 0 {
		models = slices.Collect(rl.Models())
	}
	for _, model := range models {
		is.Models = append(is.Models, rl.Explain(model))
	}
	for name := range rl.Pools() {
		pool, _ := rl.ExplainPool(name)
		is.Pools = append(is.Pools, pool)
	}
	for _, part := range look.Parts() {
		is.Processes = append(is.Processes, ProcessState(part))
	}
	return is, nil
}

// explainNextRLocked decides on the smallest request, which nobody is told of.
func (rl *RateLimiter) explainNextRLocked(d *Decision, t *engine.Target, now account.Now) {
	var asked [1]engine.Request
	var items [1]verdict.Item
	r := &asked[0]
	r.Target, r.Tokens = *t, state.Count{Input: 1, Output: min(max(t.Account.Quota.MaxOTPM, 0), 1)}
	r.Most, r.Priced = rl.pricing.Most(&rl.naming, t.Counted, t.Asked, r.Tokens, 0, now.Wall)
	if r.Deny = rl.unknown == UnknownDeny; r.Deny && t.Account.Has(account.Unknown) {
		r.Nearest = nearestHint(rl.engine.Catalog.Nearest(t.Asked, &rl.naming))
	}
	by := rl.by(asking{})
	all, v := rl.engine.Judge(items[:0], &by, asked[:], now)
	d.explain(&v, all)
	if why := rl.shared.shutRLocked(); why != nil {
		*d = undecided(why, ModelStats{})
	}
	d.Stats.count(t.Account, rl.span(), now)
	d.Model = t.Asked
}

// ExplainPool returns the state of a pool: its limits with what is used of them, its budgets, the
// calls in flight and those that wait. It charges nothing, and costs as much as Explain.
func (rl *RateLimiter) ExplainPool(name string) (is PoolState, ok bool) {
	rl.shared.freshen(background)
	rl.mu.Lock()
	defer rl.mu.Unlock()
	now, counted := rl.nowLocked(), state.PoolName(name)
	if !rl.engine.Catalog.IsPool(counted) {
		return PoolState{}, false
	}
	use, _ := rl.engine.Use(rl.engine.Account(counted), counted, rl.span(), now)
	return poolStateOf(counted, use), true
}

// poolStateOf returns what is known of a pool, by its counted name, or of a model. Its parts and
// those that the judge fills in have the same layout, which TestLayout makes sure of.
func poolStateOf(counted string, use verdict.Use) PoolState {
	is := verdict.Pool{Use: use}
	is.Name, _ = state.PoolOf(counted)
	return *(*PoolState)(unsafe.Pointer(&is))
}

// String returns the explanation in lines for a person, the first of which says whether the model
// waits. The text is not for programs, and may change.
func (e Explanation) String() string {
	is := &PoolState{
		Limits: e.Limits, Budgets: e.Budgets, Found: e.Found, InFlight: e.InFlight, Waiting: e.Waiting,
		WaitingByClass: e.WaitingByClass, CooldownUntil: e.CooldownUntil, Cause: e.Cause,
	}
	f := verdict.Facts{
		Model: e.Model, Counted: e.Counted, Quota: e.Quota, Origin: e.Origin, At: e.At, Use: (*verdict.Pool)(unsafe.Pointer(is)).Use,
		Next: verdict.Next{
			Allowed: e.Next.Allowed, Never: e.Next.Never, Queued: e.Next.Code == DecisionQueued,
			Reason: e.Next.Reason, RetryAfter: e.Next.RetryAfter,
		},
		StoreError: e.StoreError,
		Provider:   string(e.Provider), ReadOn: e.ProfileReadOn,
		OldestOpen: e.OldestOpen, OpenOverMinute: e.OpenOverMinute,
		Line: *(*[]verdict.Waiter)(unsafe.Pointer(&e.Line)), Pools: *(*[]verdict.Pool)(unsafe.Pointer(&e.Pools)),
	}
	if r := e.LastRefusal; r != nil {
		f.Refused = &verdict.Refused{At: r.At, Code: string(r.Code), Reason: r.Reason}
	}
	return f.Text()
}

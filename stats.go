package ratelimit

import (
	"maps"
	"math"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/tally"
	"dappco.re/go/core/go-ratelimit/money"
)

// ModelStats is the usage and the limits of a model at one moment. A maximum of zero is
// unlimited. Minutes are longer by Config.Margin. ModelStats can be compared with ==.
type ModelStats struct {
	RPM      int       `json:"rpm"` // requests in the last minute
	MaxRPM   int       `json:"max_rpm,omitempty"`
	TPM      int       `json:"tpm"` // tokens in the last minute
	MaxTPM   int       `json:"max_tpm,omitempty"`
	RPD      int       `json:"rpd"` // requests in the current day
	MaxRPD   int       `json:"max_rpd,omitempty"`
	DayStart time.Time `json:"day_start,omitzero"` // when the current day began; zero without usage

	ITPM          int       `json:"itpm,omitempty"` // input tokens in the last minute
	MaxITPM       int       `json:"max_itpm,omitempty"`
	OTPM          int       `json:"otpm,omitempty"` // output tokens in the last minute
	MaxOTPM       int       `json:"max_otpm,omitempty"`
	TPD           int       `json:"tpd,omitempty"` // tokens in the current day
	MaxTPD        int       `json:"max_tpd,omitempty"`
	InFlight      int       `json:"in_flight,omitempty"` // open reservations
	MaxInFlight   int       `json:"max_in_flight,omitempty"`
	Waiting       int       `json:"waiting,omitempty"`       // waiters in Acquire, AcquireAll and WaitForCapacity
	CooldownUntil time.Time `json:"cooldown_until,omitzero"` // nothing is admitted before; zero without a cooldown

	// What others have used of the account, as far as it still counts: in the minute requests,
	// tokens, input and output tokens; in the day requests and tokens. Observe finds it in the
	// reports of the provider. It uses up the limits beside RPM, TPM and the others.
	ExternalRPM  int `json:"external_rpm,omitempty"`
	ExternalTPM  int `json:"external_tpm,omitempty"`
	ExternalITPM int `json:"external_itpm,omitempty"`
	ExternalOTPM int `json:"external_otpm,omitempty"`
	ExternalRPD  int `json:"external_rpd,omitempty"`
	ExternalTPD  int `json:"external_tpd,omitempty"`

	// AdaptiveRPM and AdaptiveInFlight are the limits that were found, where the quota has
	// AdaptiveFloorRPM, AdaptiveFloorInFlight or their ceilings: the present rate in requests per
	// minute, rounded, and the calls that may be in flight. They are zero for other quotas,
	// and AdaptiveRPM also where the headers of the provider say its limits (Config.LearnQuotas).
	AdaptiveRPM      int `json:"adaptive_rpm,omitempty"`
	AdaptiveInFlight int `json:"adaptive_in_flight,omitempty"`

	// SpendDay and SpendMonth are what the calls of the day and of the calendar month cost, open
	// ones at the most that they can.
	SpendDay         money.Amount `json:"spend_day,omitempty"`
	MaxSpendPerDay   money.Amount `json:"max_spend_per_day,omitempty"`
	SpendMonth       money.Amount `json:"spend_month,omitempty"`
	MaxSpendPerMonth money.Amount `json:"max_spend_per_month,omitempty"`

	SpendTenMinutes       money.Amount `json:"spend_ten_minutes,omitempty"` // of the last ten minutes, where it is limited
	MaxSpendPerTenMinutes money.Amount `json:"max_spend_per_ten_minutes,omitempty"`

	TokensMonth       int `json:"tokens_month,omitempty"` // of the calendar month, where they are limited
	MaxTokensPerMonth int `json:"max_tokens_per_month,omitempty"`
}

// used returns the usage by dimension, but for the calls in flight.
func (s *ModelStats) used() [state.InFlight]int {
	return [...]int{
		state.RPM: s.RPM, state.TPM: s.TPM, state.RPD: s.RPD, state.ITPM: s.ITPM, state.OTPM: s.OTPM, state.TPD: s.TPD,
	}
}

// Stats returns the usage of model without expired charges; zero for an unknown model.
func (rl *RateLimiter) Stats(model string) (stats ModelStats) {
	rl.shared.freshen(background)
	var t engine.Target
	rl.mu.RLock()
	if now, ok := rl.lookRLocked(model, &t); ok && !rl.isStaleRLocked(t.Account, now) {
		stats.count(t.Account, rl.span(), now)
		rl.mu.RUnlock()
		return stats
	}
	rl.mu.RUnlock()
	rl.mu.Lock()
	defer rl.mu.Unlock()
	now, t := rl.enterTidyLocked(model)
	stats.count(t.Account, rl.span(), now)
	rl.leaveLocked(now)
	return stats
}

// enterTidyLocked is enterLocked, and forgets what has expired of the model.
func (rl *RateLimiter) enterTidyLocked(model string) (now account.Now, t engine.Target) {
	now, t = rl.enterLocked(model)
	if rl.isStaleRLocked(t.Account, now) {
		rl.engine.Tidy(t.Account, now)
		t = rl.engine.Resolve(t.Counted, t.Asked)
	}
	return now, t
}

// count fills in the usage and the limits of an account at a moment.
func (s *ModelStats) count(a *account.Account, span int64, now account.Now) {
	q, cut := &a.Quota, now.Instant-span
	s.MaxRPM, s.MaxTPM, s.MaxRPD = q.MaxRPM, q.MaxTPM, q.MaxRPD
	s.MaxITPM, s.MaxOTPM, s.MaxTPD, s.MaxInFlight = q.MaxITPM, q.MaxOTPM, q.MaxTPD, q.MaxInFlight
	s.MaxSpendPerDay, s.MaxSpendPerMonth, s.MaxSpendPerTenMinutes = q.MaxSpendPerDay, q.MaxSpendPerMonth, q.MaxSpendPerTenMinutes
	s.MaxTokensPerMonth = q.MaxTokensPerMonth
	used := a.Tokens(cut)
	s.RPM, s.TPM, s.ITPM, s.OTPM = a.Requests(cut), used.Total(), used.Input, used.Output
	requests, spent, day := a.DayUsed(now.Wall)
	if s.RPD, s.TPD = requests, spent; requests|spent != 0 {
		s.DayStart = time.Unix(0, day.Begin)
		if zone, _ := clock.LoadZone(q.DayZone); zone != nil { // which this machine may not know
			s.DayStart = s.DayStart.In(zone)
		}
	}
	s.InFlight, s.Waiting = a.InFlight, a.Waiting
	if len(a.Extras) > 0 || a.Has(account.Cools|account.Reported) {
		s.rare(a, span, now)
	}
}

// countAside fills in the usage that an entry of State shows, and leaves that as it is.
func (s *ModelStats) countAside(a *account.Account, shows *UsageStats, span int64, now account.Now) {
	if shows == nil {
		shows = new(UsageStats)
	}
	var is ModelStats
	is.count(a.Aside(shownBy(shows), state.DayFrom(shows.DayStart, a.Quota.DayZone), now, span), span, now)
	s.RPM, s.TPM, s.ITPM, s.OTPM, s.RPD, s.TPD, s.DayStart = is.RPM, is.TPM, is.ITPM, is.OTPM, is.RPD, is.TPD, is.DayStart
}

// rare fills in what few models have: a cooldown, usage of others, and rare limits.
func (s *ModelStats) rare(a *account.Account, span int64, now account.Now) {
	if a.CoolUntil > now.Wall {
		s.CooldownUntil = time.Unix(0, a.CoolUntil)
	}
	s.SpendDay, s.SpendMonth = a.Spend.OfDay(now.Wall), a.Spend.OfMonth(now.Wall)
	s.SpendTenMinutes, _ = a.Recent.Used(span, now)
	s.TokensMonth, _ = a.Month.Used(now.Wall)
	s.AdaptiveRPM, s.AdaptiveInFlight = a.Found.View().Found(now.Instant)
	if u := a.External(now); u != nil {
		s.ExternalRPM, s.ExternalTPM, s.ExternalRPD = u[state.RPM].Amount, u[state.TPM].Amount, u[state.RPD].Amount
		s.ExternalITPM, s.ExternalOTPM, s.ExternalTPD = u[state.ITPM].Amount, u[state.OTPM].Amount, u[state.TPD].Amount
	}
}

// AllStats returns the stats of every model that has a quota or usage, after forgetting expired
// charges. Each is of the moment at which it was read; other calls may come between two of them.
func (rl *RateLimiter) AllStats() map[string]ModelStats {
	return maps.Collect(rl.Iter())
}

// Audit is what has become of all calls of a limiter since it was made: see RateLimiter.Audit.
type Audit struct {
	Models  map[string]AuditEntry `json:"models"`            // by the names under which they are counted
	Pools   map[string]AuditEntry `json:"pools,omitempty"`   // by their names
	Classes map[string]AuditEntry `json:"classes,omitempty"` // those in Config.Classes; "" has the other calls
}

// AuditEntry sums up the calls of a model, a pool or a class. At any instant, in each field of
// AuditSum and as long as no sum has reached the largest number,
//
//	Reserved = Estimated + Released + Expired + Open
//
// where all of them are estimates; their money is the most that a call can cost. Settled is what
// the calls of Estimated really used, which may be more or less.
type AuditEntry struct {
	Reserved  AuditSum `json:"reserved"`  // reservations that were made
	Estimated AuditSum `json:"estimated"` // those that Commit and CommitUsage settled, at their estimates
	Settled   AuditSum `json:"settled"`   // the same, at what they used
	Released  AuditSum `json:"released"`  // those that Cancel gave back
	// Expired are those that Config.HoldTTL or the garbage collector has ended. They stay charged.
	Expired  AuditSum `json:"expired"`
	Open     AuditSum `json:"open"`     // the rest
	Recorded AuditSum `json:"recorded"` // RecordUsage and RecordSpend, which reserve nothing
}

// AuditSum is a number of calls, their tokens and money. Each stops at its type's largest number.
type AuditSum struct {
	Calls        int          `json:"calls"`
	InputTokens  int          `json:"input_tokens"`
	OutputTokens int          `json:"output_tokens"`
	Money        money.Amount `json:"money"`
}

// Audit returns what has become of all calls of this limiter since it was made. A budget that leaks
// shows as spend that differs from these sums, a call that is never settled as one that stays in
// Open. What other processes do, with Config.Shared or Config.Store, is not in it; neither Load nor
// Reset changes it. A call counts once by model, once for each of its pools, and once by class.
//
// At most Config.MaxModels models without a quota of their own have an entry; further ones are
// added up under "other". A call that is not counted is in Audit only if it is in a pool.
func (rl *RateLimiter) Audit() Audit {
	rl.mu.RLock()
	defer rl.mu.RUnlock()
	a := Audit{Models: make(map[string]AuditEntry), Pools: make(map[string]AuditEntry), Classes: make(map[string]AuditEntry)}
	var all, classed tally.Sums
	for name, is := range rl.ledger.Models {
		if pool, ok := state.PoolOf(name); ok {
			a.Pools[pool] = auditEntryOf(is)
			continue
		}
		a.Models[name] = auditEntryOf(is)
		all.Plus(is)
	}
	for class, is := range rl.ledger.Classes {
		a.Classes[class] = auditEntryOf(is)
		classed.Plus(is)
	}
	all.Less(&classed)
	a.Classes[""] = auditEntryOf(&all)
	return a
}

func auditSumOf(s tally.Sum) AuditSum {
	fit := func(n int64) int { return int(min(max(n, math.MinInt), math.MaxInt)) }
	return AuditSum{Calls: fit(s.Calls), InputTokens: fit(s.Input), OutputTokens: fit(s.Output), Money: s.Money}
}

func auditEntryOf(a *tally.Sums) AuditEntry {
	return AuditEntry{
		Reserved: auditSumOf(a.Reserved), Estimated: auditSumOf(a.Estimated), Settled: auditSumOf(a.Settled),
		Released: auditSumOf(a.Released), Expired: auditSumOf(a.Expired), Open: auditSumOf(a.Open()), Recorded: auditSumOf(a.Recorded),
	}
}

// audited is what the ledger of a limiter sees of that, with its lock held.
type audited struct{ *RateLimiter }

// HasRoom implements tally.Host.
func (rl audited) HasRoom(name string) bool {
	return len(rl.ledger.Models) < rl.mostModels()+len(rl.Quotas) || state.IsPool(name) || rl.engine.Catalog.IsListed(name)
}

// Noted implements tally.Host.
func (rl audited) Noted(a *account.Account) *tally.Noted { return &rl.localLocked(a).noted }

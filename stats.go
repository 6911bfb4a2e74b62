package ratelimit

import (
	"iter"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/modelname"
	"dappco.re/go/core/go-ratelimit/internal/state"
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
	// reports of the provider. It uses up the limits as RPM, TPM and the others do, which do not
	// contain it.
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

	// SpendDay and SpendMonth are what the calls of the day and of the calendar month cost, those
	// that are open at the most that they can cost: see ModelQuota.MaxSpendPerDay.
	SpendDay         money.Amount `json:"spend_day,omitempty"`
	MaxSpendPerDay   money.Amount `json:"max_spend_per_day,omitempty"`
	SpendMonth       money.Amount `json:"spend_month,omitempty"`
	MaxSpendPerMonth money.Amount `json:"max_spend_per_month,omitempty"`
}

// limits fills in the maxima.
func (s *ModelStats) limits(q *ModelQuota) {
	s.MaxRPM, s.MaxTPM, s.MaxRPD = q.MaxRPM, q.MaxTPM, q.MaxRPD
	s.MaxITPM, s.MaxOTPM, s.MaxTPD, s.MaxInFlight = q.MaxITPM, q.MaxOTPM, q.MaxTPD, q.MaxInFlight
	s.MaxSpendPerDay, s.MaxSpendPerMonth = q.MaxSpendPerDay, q.MaxSpendPerMonth
}

// used returns the usage by dimension, but for the calls in flight.
func (s *ModelStats) used() [state.InFlight]int {
	return [...]int{
		state.RPM: s.RPM, state.TPM: s.TPM, state.RPD: s.RPD, state.ITPM: s.ITPM, state.OTPM: s.OTPM, state.TPD: s.TPD,
	}
}

// Stats returns the usage of model, after forgetting expired charges. For an unknown model it is
// zero. It is safe for concurrent use.
func (rl *RateLimiter) Stats(model string) (stats ModelStats) {
	var r view
	rl.ledger.fresh()
	rl.mu.RLock()
	name := model
	q, known := rl.Quotas[name] // findRLocked in line, as in CanSend
	if !known || rl.naming.Aliases != nil {
		name, _ = rl.resolveRLocked(model, &q)
	}
	ok := rl.readRLocked(name, &q, &r)
	if ok {
		r.modelStats(&stats, &q)
	}
	rl.mu.RUnlock()
	if !ok {
		rl.statsSlowly(&stats, model)
	}
	return stats
}

func (rl *RateLimiter) statsSlowly(stats *ModelStats, model string) {
	var q ModelQuota
	var r view
	rl.mu.Lock()
	defer rl.mu.Unlock()
	name, known := rl.findRLocked(model, &q)
	r.instant = rl.clock.Sync()
	rl.readLocked(name, &q, known, &r)
	r.modelStats(stats, &q)
}

// AllStats returns the stats of every model that has a quota or usage, after forgetting expired
// charges. Each is of the moment at which it was read; other calls may come between two of them.
// AllStats is safe for concurrent use.
func (rl *RateLimiter) AllStats() map[string]ModelStats {
	names := rl.names()
	all := make(map[string]ModelStats, len(names))
	for _, model := range names {
		all[model] = rl.Stats(model)
	}
	return all
}

// names returns the models that have a quota or usage, sorted. It lets writers in now and then:
// walking over 100,000 names takes milliseconds.
func (rl *RateLimiter) names() []string {
	rl.ledger.fresh()
	rl.mu.RLock()
	names := make([]string, 0, len(rl.Quotas)+len(rl.State))
	add := func(model string) {
		if names = append(names, model); len(names)%1024 == 0 {
			rl.mu.RUnlock()
			rl.mu.RLock()
		}
	}
	for model := range rl.Quotas {
		if model != everyModel && !modelname.IsPattern(model) {
			add(model)
		}
	}
	for model := range rl.State {
		add(model)
	}
	rl.mu.RUnlock()
	slices.Sort(names)
	return slices.Compact(names)
}

// Models returns the names of all models that have a quota or usage, sorted. The names are those
// at the start of the iteration; the loop's body may call any method of the limiter. Models is
// safe for concurrent use.
func (rl *RateLimiter) Models() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, model := range rl.names() {
			if !yield(model) {
				return
			}
		}
	}
}

// Iter returns the same models as [RateLimiter.Models], each with its stats at the moment it is
// reached. The loop's body may call any method of the limiter. Iter is safe for concurrent use.
func (rl *RateLimiter) Iter() iter.Seq2[string, ModelStats] {
	return func(yield func(string, ModelStats) bool) {
		for model := range rl.Models() {
			if !yield(model, rl.Stats(model)) {
				return
			}
		}
	}
}

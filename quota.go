package ratelimit

import (
	"fmt"
	"maps"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// ModelQuota is what a provider allows one model. A zero field is unlimited, so the zero value
// limits nothing. A negative field or an unknown zone makes the quota invalid: constructors and
// Load refuse it; SetQuota accepts it, and the model admits nothing until the quota is corrected.
type ModelQuota struct {
	MaxRPM int `yaml:"max_rpm"` // requests per minute
	MaxTPM int `yaml:"max_tpm"` // tokens per minute, prompt and output together
	MaxRPD int `yaml:"max_rpd"` // requests per day

	MaxITPM     int `yaml:"max_itpm,omitempty"`      // input (prompt) tokens per minute
	MaxOTPM     int `yaml:"max_otpm,omitempty"`      // output tokens per minute
	MaxTPD      int `yaml:"max_tpd,omitempty"`       // tokens per day, prompt and output together
	MaxInFlight int `yaml:"max_in_flight,omitempty"` // concurrent calls, from admission to settlement

	// DayZone is the IANA name of the time zone at whose midnight the day ends, such as
	// "America/Los_Angeles". Empty is a day of 24 hours from its first request. Programs that may
	// run without a time zone database import time/tzdata.
	DayZone string `yaml:"day_zone,omitempty"`

	// Burst spreads the calls inside the minute. The share of Burst in MaxRPM, MaxTPM, MaxITPM
	// and MaxOTPM may start back to back; further calls start evenly, at the rate of the quota.
	// With MaxRPM 60 and a Burst of 10 s ten calls may start at once, and then one a second.
	//
	// A single call above the share passes once all earlier calls are paid for, and is paid for
	// afterwards; the requests of one ReserveAll or AcquireAll count as a single call. The limits
	// of the minute still hold. Zero, and a minute or more, let the whole quota of a minute start
	// at once; negative is invalid. In a file Burst is a duration with its unit, such as 10s.
	Burst time.Duration `yaml:"burst,omitempty"`
}

// limit returns where the quota has its limit of a dimension.
func (q *ModelQuota) limit(of state.Dimension) *int { return (*state.Quota)(q).Limit(of) }

// unlimited reports whether a quota limits nothing. The zone of the day is not a limit, nor is
// Burst, which spreads other limits. A negative field is not unlimited.
func (q *ModelQuota) unlimited() bool {
	return q.MaxRPM|q.MaxTPM|q.MaxRPD|q.MaxITPM|q.MaxOTPM|q.MaxTPD|q.MaxInFlight == 0 && q.Burst >= 0
}

// limitsMinute reports whether anything in a minute is limited.
func (q *ModelQuota) limitsMinute() bool { return q.MaxRPM|q.MaxTPM|q.MaxITPM|q.MaxOTPM != 0 }

// minuteCode is the code of the first limit of the minute, in the order in which they deny.
func (q *ModelQuota) minuteCode() DecisionCode {
	return DecisionCode(state.Limits[(*state.Quota)(q).FirstOfMinute()].Code)
}

// invalid returns why the quota admits nothing, if one of its limits is negative.
func (q *ModelQuota) invalid() (reason string, bad bool) { return (*state.Quota)(q).Negative() }

// validate returns an error that wraps ErrInvalidQuota when the quota of model
// has a field out of range.
func (q ModelQuota) validate(model string) error {
	is := state.Quota(q)
	return is.Validate(model)
}

func validateQuotas(quotas map[string]ModelQuota) error {
	return state.ValidateAll(storedQuotas(quotas))
}

// SetQuota sets the quota of one model. It wins over files and profiles. The zero quota makes the
// model unlimited. With a negative limit or an unknown zone, the model admits nothing, and Decide
// returns DecisionInvalidQuota.
//
// Waiters are served by the new quota at once, or refused if their request does not fit it. With
// Config.Shared the quota applies to all processes, unless it is invalid. SetQuota is safe for
// concurrent use.
func (rl *RateLimiter) SetQuota(model string, quota ModelQuota) {
	clock.LoadZone(quota.DayZone) // which reads a file, before the lock is taken; Decide tells what is wrong
	if !rl.ledger.update(func(p *plan) { p.setQuota(model, quota) }) {
		rl.mu.Lock()
		defer rl.mu.Unlock()
		rl.setQuotaLocked(model, quota)
	}
}

func (rl *RateLimiter) setQuotaLocked(model string, quota ModelQuota) {
	if rl.Quotas == nil {
		rl.Quotas = make(map[string]ModelQuota)
	}
	rl.Quotas[model] = quota
	rl.unlistedLocked().relistLocked(model)
	rl.unlearnLocked(model)
	rl.rezoneLocked(rl.State[model], quota.DayZone, rl.clock.Sync())
	rl.provenance.Set(model)
	rl.changedNowLocked()
	rl.requoteLocked()
}

// AddProvider adds the quotas of a provider's default profile, or of that which Config.Tiers names,
// and replaces the present quotas of its models. From then on they count as those of a profile: the
// next Load may replace them by the file's. With Config.Shared the quotas in the file stay, and the
// others apply to this limiter alone. A provider without a profile changes nothing; OnError gets an
// error that wraps ErrUnknownProvider.
//
// Waiters are served by the new quotas at once. AddProvider is safe for concurrent use.
func (rl *RateLimiter) AddProvider(provider Provider) {
	profile, err := profileOf(provider, rl.tiers)
	if err != nil {
		rl.reporter.ReportAs(provider, fmt.Errorf("add provider: %w", err))
		return
	}
	add := func() {
		maps.DeleteFunc(profile.Models, rl.ledger.hasQuota)
		rl.addProfileLocked(&profile)
		rl.changedNowLocked()
		rl.requoteLocked()
	}
	if !rl.ledger.update(func(p *plan) { p.then(add) }) {
		rl.mu.Lock()
		defer rl.mu.Unlock()
		add()
	}
}

// supplyLocked sets quotas of a profile or a file. A later file may replace them.
func (rl *RateLimiter) supplyLocked(quotas map[string]ModelQuota) {
	if rl.Quotas == nil {
		rl.Quotas = make(map[string]ModelQuota, len(quotas))
	}
	instant := rl.clock.Sync()
	for model, quota := range quotas {
		rl.Quotas[model] = quota
		rl.provenance.Supply(model, quota)
		rl.unlistedLocked().relistLocked(model)
		rl.unlearnLocked(model)
		rl.rezoneLocked(rl.State[model], quota.DayZone, instant)
	}
}

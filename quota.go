package ratelimit

import (
	"maps"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// ModelQuota is what a provider allows one model. A zero field is unlimited,
// so the zero value limits nothing. A negative field is invalid, and so is a
// zone that is not known: constructors and Load refuse them, and SetQuota with
// one admits nothing until it is put right.
type ModelQuota struct {
	MaxRPM int `yaml:"max_rpm"` // requests per minute
	MaxTPM int `yaml:"max_tpm"` // tokens per minute, prompt and output together
	MaxRPD int `yaml:"max_rpd"` // requests per day

	MaxITPM     int `yaml:"max_itpm,omitempty"`      // input (prompt) tokens per minute
	MaxOTPM     int `yaml:"max_otpm,omitempty"`      // output tokens per minute
	MaxTPD      int `yaml:"max_tpd,omitempty"`       // tokens per day, prompt and output together
	MaxInFlight int `yaml:"max_in_flight,omitempty"` // calls at once, from admission until they are settled

	// DayZone is the IANA name of the time zone at whose midnight the day ends,
	// as "America/Los_Angeles". Empty is a day of 24 hours from its first
	// request. Programs that may run where there is no time zone database import
	// time/tzdata.
	DayZone string `yaml:"day_zone,omitempty"`

	// Burst spreads the calls inside the minute. It is the time whose share of MaxRPM,
	// MaxTPM, MaxITPM and MaxOTPM may start back to back; what follows starts evenly, at
	// the rate of the quota. With MaxRPM 60 and a Burst of 10 s ten calls may start at
	// once, and then one a second. A single call that is more than the share passes when
	// nothing is left to pay for, and is paid for afterwards; so do the requests of one
	// ReserveAll or AcquireAll. The minute holds beside it. Zero, and a minute or more,
	// let the whole quota of a minute start at once; negative is invalid. In a file it is
	// a duration with its unit, as 10s.
	Burst time.Duration `yaml:"burst,omitempty"`
}

// limit returns where the quota has its limit of a dimension.
func (q *ModelQuota) limit(of state.Dimension) *int { return (*state.Quota)(q).Limit(of) }

// unlimited reports whether a quota limits nothing. The zone of the day is no
// limit, nor is Burst, which spreads other limits. What is negative is not unlimited.
func (q *ModelQuota) unlimited() bool {
	return q.MaxRPM|q.MaxTPM|q.MaxRPD|q.MaxITPM|q.MaxOTPM|q.MaxTPD|q.MaxInFlight == 0 && q.Burst >= 0
}

// limitsMinute reports whether anything in a minute is limited.
func (q *ModelQuota) limitsMinute() bool { return q.MaxRPM|q.MaxTPM|q.MaxITPM|q.MaxOTPM != 0 }

// minuteCode is the code of the first limit of the minute, in the order in which they deny.
func (q *ModelQuota) minuteCode() DecisionCode {
	for _, of := range [...]state.Dimension{state.RPM, state.ITPM, state.OTPM} {
		if *q.limit(of) != 0 {
			return DecisionCode(state.Limits[of].Code)
		}
	}
	return DecisionTPMLimit
}

// invalid returns the first limit that is negative.
func (q *ModelQuota) invalid() (reason string, bad bool) {
	if q.MaxRPM|q.MaxTPM|q.MaxRPD|q.MaxITPM|q.MaxOTPM|q.MaxTPD|q.MaxInFlight >= 0 {
		if q.Burst < 0 {
			return "invalid quota: Burst (burst) is negative", true
		}
		return "", false
	}
	for of := range state.Limits {
		if *q.limit(state.Dimension(of)) < 0 {
			return state.Limits[of].Invalid, true
		}
	}
	return "", false
}

// validate returns an error that wraps ErrInvalidQuota when the quota of model
// has a field out of range.
func (q ModelQuota) validate(model string) error {
	is := state.Quota(q)
	return is.Validate(model)
}

func validateQuotas(quotas map[string]ModelQuota) error {
	for _, model := range slices.Sorted(maps.Keys(quotas)) {
		if err := quotas[model].validate(model); err != nil {
			return err
		}
	}
	return nil
}

// SetQuota sets the quota of one model, now and over whatever a file or a
// profile says. The zero quota makes it unlimited. With a negative limit, or a zone
// that is not known, nothing is admitted for the model, and Decide says so with
// DecisionInvalidQuota.
//
// Whoever waits is served by the new quota at once, or refused if the request does
// not fit it. With Config.Shared it holds for all processes, unless it is invalid. SetQuota is safe for concurrent use.
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
	rl.unlearnLocked(model)
	rl.rezoneLocked(rl.State[model], quota.DayZone, rl.clock.Sync())
	delete(rl.provenance.supplied, model)
	rl.changedNowLocked()
	rl.requoteLocked()
}

// AddProvider adds the quotas of a provider's default profile to those already
// there, and replaces those of the models that both name, whoever said them. From
// then on they are those of a profile: the next Load may replace them by the
// file's. With Config.Shared those that the file has stay, and the others hold for this
// limiter alone. An unknown provider changes nothing.
//
// Whoever waits is served by the new quotas at once.
// AddProvider is safe for concurrent use.
func (rl *RateLimiter) AddProvider(provider Provider) {
	profile, ok := DefaultProfiles()[provider]
	if !ok {
		return
	}
	add := func() {
		maps.DeleteFunc(profile.Models, rl.ledger.hasQuota)
		rl.supplyLocked(profile.Models)
		rl.changedNowLocked()
		rl.requoteLocked()
	}
	if !rl.ledger.update(func(p *plan) { p.then(add) }) {
		rl.mu.Lock()
		defer rl.mu.Unlock()
		add()
	}
}

// supplyLocked sets quotas that the program did not say itself: they come from
// a profile or a file. A later file may replace them.
func (rl *RateLimiter) supplyLocked(quotas map[string]ModelQuota) {
	if rl.Quotas == nil {
		rl.Quotas = make(map[string]ModelQuota, len(quotas))
	}
	instant := rl.clock.Sync()
	for model, quota := range quotas {
		rl.Quotas[model] = quota
		rl.provenance.supply(model, quota)
		rl.unlearnLocked(model)
		rl.rezoneLocked(rl.State[model], quota.DayZone, instant)
	}
}

// mergeFile takes over the quotas of a file, except for models whose
// quota the program said itself: by Config.Quotas, by SetQuota, or in the
// Quotas map, where it shows as a value that was not supplied.
func (rl *RateLimiter) mergeFile(quotas map[string]ModelQuota) {
	rl.mu.Lock()
	defer rl.mu.Unlock()
	rl.supplyLocked(nil) // makes the map
	turn := rl.takeTurnLocked()
	for model, quota := range quotas {
		current, exists := rl.Quotas[model]
		if !exists || rl.provenance.isSupplied(model, current) {
			rl.Quotas[model] = quota
			rl.provenance.supply(model, quota)
			rl.unlearnLocked(model)
		}
		turn.nextLocked()
	}
}

package ratelimit

import (
	"maps"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/modelname"
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
	delete(rl.supplied, model)
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
	if rl.supplied == nil {
		rl.supplied = make(map[string]ModelQuota, len(quotas))
	}
	instant := rl.clock.Sync()
	for model, quota := range quotas {
		rl.Quotas[model], rl.supplied[model] = quota, quota
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
	rl.supplyLocked(nil) // makes the maps
	turn := rl.takeTurnLocked()
	for model, quota := range quotas {
		current, exists := rl.Quotas[model]
		supplied, wasSupplied := rl.supplied[model]
		if !exists || wasSupplied && current == supplied {
			rl.Quotas[model], rl.supplied[model] = quota, quota
			rl.unlearnLocked(model)
		}
		turn.nextLocked()
	}
}

// everyModel is the name of the quota for models that have none of their own.
const everyModel = "*"

// findRLocked resolves the name that a caller uses for a model: to the name
// under which it is counted, and its quota.
func (rl *RateLimiter) findRLocked(model string, q *ModelQuota) (name string, known bool) {
	if *q, known = rl.Quotas[model]; known && rl.aliases == nil {
		return model, true
	}
	return rl.resolveRLocked(model, q)
}

// nameRLocked is the name under which a model is counted.
func (rl *RateLimiter) nameRLocked(model string) string {
	if rl.matchVersions {
		model, _ = rl.matchRLocked(model)
	} else if alias, ok := rl.aliases[model]; ok {
		model = alias
	}
	return model
}

func (rl *RateLimiter) resolveRLocked(model string, q *ModelQuota) (name string, known bool) {
	name = rl.nameRLocked(model)
	return name, rl.coverRLocked(name, q)
}

// coverRLocked looks up the quota of the models that are counted under a name.
func (rl *RateLimiter) coverRLocked(name string, q *ModelQuota) (known bool) {
	if *q, known = rl.Quotas[name]; !known {
		*q, known = rl.Quotas[everyModel]
	}
	return known
}

// matchRLocked returns the alias or the name of a quota that a model stands for,
// and the model itself where there is none.
func (rl *RateLimiter) matchRLocked(model string) (name string, ok bool) {
	name, ok = modelname.Match(model, func(name string) bool {
		if _, ok := rl.aliases[name]; ok {
			return true
		}
		_, ok := rl.Quotas[name]
		return ok && name != everyModel
	})
	if !ok {
		return model, false
	}
	if alias, ok := rl.aliases[name]; ok {
		return rl.matchQuotaRLocked(alias), true
	}
	return name, true
}

// matchQuotaRLocked resolves what an alias stands for, which is no alias.
func (rl *RateLimiter) matchQuotaRLocked(model string) string {
	name, ok := modelname.Match(model, func(name string) bool {
		_, ok := rl.Quotas[name]
		return ok && name != everyModel
	})
	if !ok {
		return model
	}
	return name
}

// zoneRLocked returns the zone of a model's day.
func (rl *RateLimiter) zoneRLocked(name string) string {
	var q ModelQuota
	rl.coverRLocked(name, &q)
	return q.DayZone
}

// QuotaFor returns the quota that covers model, and the name that it has in
// Quotas. It looks for the exact name first. Then for the longest name that model
// extends: by ":" or "@" and anything, or by "-" and a date or version
// (YYYY-MM-DD, YYYYMMDD, MMDD, three digits, "latest", "v" and a number), also
// after "models/", "publishers/…/models/" and one leading "provider/" are taken
// off. Then for the quota named "*". Config.Aliases apply before.
//
// The methods of the limiter resolve names like this with Config.MatchVersions;
// without it they take an alias, the exact name, or "*". QuotaFor is safe for
// concurrent use.
func (rl *RateLimiter) QuotaFor(model string) (name string, quota ModelQuota, ok bool) {
	rl.ledger.fresh()
	rl.mu.RLock()
	defer rl.mu.RUnlock()
	name, _ = rl.matchRLocked(model)
	if quota, ok = rl.Quotas[name]; ok {
		return name, quota, true
	}
	if quota, ok = rl.Quotas[everyModel]; ok {
		return everyModel, quota, true
	}
	return "", ModelQuota{}, false
}

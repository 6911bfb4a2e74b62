package ratelimit

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/profile"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/money"
)

// ModelQuota is what a provider allows one model. A zero field is unlimited. A negative field, an
// unknown zone, or a floor above its ceiling makes it invalid: constructors and Load refuse it;
// SetQuota accepts it, and the model admits nothing until it is corrected.
type ModelQuota struct {
	MaxRPM int `yaml:"max_rpm" json:"max_rpm,omitempty"` // requests per minute
	MaxTPM int `yaml:"max_tpm" json:"max_tpm,omitempty"` // tokens per minute, prompt and output together
	MaxRPD int `yaml:"max_rpd" json:"max_rpd,omitempty"` // requests per day

	MaxITPM     int `yaml:"max_itpm,omitempty" json:"max_itpm,omitempty"`           // input (prompt) tokens per minute
	MaxOTPM     int `yaml:"max_otpm,omitempty" json:"max_otpm,omitempty"`           // output tokens per minute
	MaxTPD      int `yaml:"max_tpd,omitempty" json:"max_tpd,omitempty"`             // tokens per day, prompt and output together
	MaxInFlight int `yaml:"max_in_flight,omitempty" json:"max_in_flight,omitempty"` // concurrent calls, from admission to settlement

	// DayZone is the IANA name of the time zone at whose midnight the day ends, such as
	// "America/Los_Angeles". Empty is a day of 24 hours from its first request. Programs that may
	// run without a time zone database import time/tzdata.
	DayZone string `yaml:"day_zone,omitempty" json:"day_zone,omitempty"`

	// Burst spreads the calls inside the minute. The share of Burst in MaxRPM, MaxTPM, MaxITPM
	// and MaxOTPM may start back to back; further calls start evenly, at the rate of the quota.
	// With MaxRPM 60 and a Burst of 10 s ten calls may start at once, and then one a second.
	//
	// A single call above the share passes once all earlier calls are paid for, and is paid for
	// afterwards; the requests of one ReserveAll or AcquireAll count as one. The limits of the
	// minute still hold. Zero, and a minute or more, let the whole quota of a minute start at once.
	// In files and in JSON Burst has its unit, such as 10s.
	Burst time.Duration `yaml:"burst,omitempty" json:"burst,omitempty"`

	// AdaptiveFloorRPM and AdaptiveCeilingRPM are for a provider that does not say how many
	// requests it allows: the limiter finds a rate between them, in requests per minute, by the
	// refusals that ObserveRefusal reports. It begins at twice the floor, and the rate loses half
	// of its distance to the floor in each hour without requests. Requests start evenly spaced, up
	// to 5 ms early after a late one. Where only one of the two is set, the floor is 1 and the
	// ceiling 1,000,000. The other limits hold, too. Package adaptive says how a rate is found.
	AdaptiveFloorRPM   int `yaml:"adaptive_floor_rpm,omitempty" json:"adaptive_floor_rpm,omitempty"`
	AdaptiveCeilingRPM int `yaml:"adaptive_ceiling_rpm,omitempty" json:"adaptive_ceiling_rpm,omitempty"`
	// AdaptiveFloorInFlight and AdaptiveCeilingInFlight are the same for concurrent calls, which
	// overload lowers; 1 and 10,000 where only the other one is set.
	AdaptiveFloorInFlight   int `yaml:"adaptive_floor_in_flight,omitempty" json:"adaptive_floor_in_flight,omitempty"`
	AdaptiveCeilingInFlight int `yaml:"adaptive_ceiling_in_flight,omitempty" json:"adaptive_ceiling_in_flight,omitempty"`

	// MaxSpendPerDay and MaxSpendPerMonth limit what calls cost, by Config.Prices. The day is that
	// of DayZone, without which it is 24 hours from its first spend. The month is the calendar
	// month in DayZone, without which it is that in UTC. In files they are like $12.50.
	//
	// A call is admitted if the most that it can cost fits: all of its input at the highest price
	// of input, and the output tokens of its request. What it did cost replaces that when it is
	// settled. So spend exceeds a limit only by what open calls use beyond their requests, where
	// their output tokens are a guess and not the provider's cap. Reset does not change spend.
	MaxSpendPerDay   money.Amount `yaml:"max_spend_per_day,omitempty" json:"max_spend_per_day,omitempty"`
	MaxSpendPerMonth money.Amount `yaml:"max_spend_per_month,omitempty" json:"max_spend_per_month,omitempty"`

	// MaxSpendPerTenMinutes is the same for the last ten minutes, sliding. A call counts for ten
	// minutes from its admission, or from Arrive, and for at most a minute of Config.Margin; Reset
	// does not change that.
	MaxSpendPerTenMinutes money.Amount `yaml:"max_spend_per_ten_minutes,omitempty" json:"max_spend_per_ten_minutes,omitempty"`

	// MaxTokensPerMonth limits the tokens of the calendar month in DayZone, else in UTC. A call
	// counts when it is admitted, what it uses beyond its estimate when it is settled. Reset
	// forgets them.
	MaxTokensPerMonth int `yaml:"max_tokens_per_month,omitempty" json:"max_tokens_per_month,omitempty"`
}

// MarshalJSON returns an object with the keys of YAML, without zeros: {"max_rpm":60,"burst":"10s"}.
func (q ModelQuota) MarshalJSON() ([]byte, error) { return clock.EncodeStruct(q) }

// UnmarshalJSON reads what MarshalJSON writes. A key that is missing leaves its field as it is, and
// an unknown one is ignored, as encoding/json does. Burst is a text with its unit. An error names
// the key and the value, and leaves q as it was. Limits are not checked.
func (q *ModelQuota) UnmarshalJSON(data []byte) (err error) {
	return clock.DecodeStruct(data, "quota", q)
}

// SetQuota sets the quota of one model; of an alias (Config.Aliases), that of what it stands for.
// Versions do not count: with Config.MatchVersions, too, the name is the exact one. The quota wins
// over the account's limits, files and profiles. The zero quota makes the model unlimited. With an
// invalid one the model admits nothing (DecisionInvalidQuota). Waiters are served or refused at
// once. With Config.Shared and Config.Store it applies to all processes. RemoveQuota takes it back.
func (rl *RateLimiter) SetQuota(model string, quota ModelQuota) {
	clock.LoadZone(quota.DayZone) // which reads a file, before the lock is taken; Decide tells what is wrong
	model = state.ModelName(rl.naming.Aliased(model))
	rl.say(byProgram, engine.SetQuota{Counted: model, Quota: state.Quota(quota)}, quota.DayZone)
}

// say has a setting of quotas take effect. by is Event.By; zones are those of the quotas.
func (rl *RateLimiter) say(by string, c engine.Command, zones ...string) {
	rl.change(func(now account.Now) (saves bool) {
		rl.adoptQuotasLocked(now)
		rl.sayLocked(by, now, c, zones...)
		return true
	})
}

// change has what do changes take effect: it is saved, if do says so, sent to the others, and told.
func (rl *RateLimiter) change(do func(now account.Now) (saves bool)) {
	defer rl.teller.flush()
	defer rl.shared.send()
	rl.mu.Lock()
	defer rl.mu.Unlock()
	now := rl.nowLocked()
	if do(now) {
		rl.saver.ChangedAt(now.Instant)
	}
	rl.leaveLocked(now)
}

// sayLocked is say where more follows.
func (rl *RateLimiter) sayLocked(by string, now account.Now, c engine.Command, zones ...string) {
	if rl.shared != nil {
		rl.shared.sayLocked(c, zones, now)
		return
	}
	for _, zone := range zones {
		rl.engine.TellZone(state.BoundsOf, zone, now)
	}
	rl.sayer = by
	rl.engine.Do(c, now)
	rl.saidLocked(now)
}

// saidLocked notes that the zones of the quotas' days may have changed.
func (rl *RateLimiter) saidLocked(now account.Now) {
	rl.zoned = rl.engine.ZonesKnown(now.Wall)
}

// RemoveQuota takes back the program's quota of a model: one set by Config.Quotas, SetQuota or the
// map Quotas, and one that an earlier run left in a file, or that a file has without its origin.
// The model goes back to the account's limits, else to a profile, else to a pattern or "*", else it
// has no quota. What was learned of it is forgotten. Another model keeps its quota. Aliases apply
// as in SetQuota. A Load does not bring it back. With Config.Shared and Config.Store it is taken
// back for all processes. Waiters are served or refused at once.
func (rl *RateLimiter) RemoveQuota(model string) {
	rl.say(byProgram, engine.RemoveQuota{Counted: state.ModelName(rl.naming.Aliased(model))})
}

// SetAccountQuotas tells the limits of the account, by model, as its provider's admin API has them:
// see package accountlimits. They win over files and profiles, and what the program said
// (Config.Quotas, SetQuota) over them. Where the program's quota leaves a limit at zero, the
// account's applies, unless all of it is zero, which makes the model unlimited.
//
// Each call replaces what the last one said: a model that it does not name goes back to a file or a
// profile. Names that are aliases (Config.Aliases) count for what they stand for, unless that is
// named itself. With Config.LearnQuotas, reports of the provider lower the account's limits and do
// not raise them above what it says. If one of the quotas is invalid, SetAccountQuotas changes
// nothing, and Config.OnError gets an error that wraps ErrInvalidQuota. The limits are written to
// the state file, and apply until a call replaces them; with Config.Shared and Config.Store to all
// processes. Waiters are served or refused at once.
func (rl *RateLimiter) SetAccountQuotas(quotas map[string]ModelQuota) {
	said := storedQuotas(quotas)
	if err := state.ValidateAll(said); err != nil { // which reads the zones, before the lock is taken
		rl.reporter.Report(fmt.Errorf("set account quotas: %w", err))
		return
	}
	said = catalog.Aliased(&rl.naming, said)
	zones := make(map[string]bool)
	for _, q := range said {
		zones[q.DayZone] = true
	}
	rl.say(byAccount, engine.SetAccount{Quotas: said}, slices.Sorted(maps.Keys(zones))...)
}

// AccountQuotas returns the limits of the account: those of the last SetAccountQuotas, or what Load
// found of an earlier run's. Aliases stand for what they are counted as.
func (rl *RateLimiter) AccountQuotas() map[string]ModelQuota {
	rl.shared.freshen(background)
	rl.mu.Lock()
	defer rl.mu.Unlock()
	rl.readyLocked()
	account := make(map[string]ModelQuota)
	for model, q := range rl.engine.Catalog.Account() {
		account[model] = ModelQuota(q)
	}
	return account
}

// QuotaFor returns the quota by which this limiter limits model, and its name in Quotas; ok is
// false where there is none. It looks for the exact name first; then, with Config.MatchVersions,
// for the longest name that model extends: by ":" or "@" and any text, or by "-" and a date or
// version (YYYY-MM-DD, YYYYMMDD, MMDD, three digits, "latest", "v" and a number), also after
// removing "models/", "publishers/…/models/" and one leading "provider/"; then for the longest
// pattern that covers model, in which "*" stands for any run of bytes; then for the quota named
// "*". Config.Aliases apply before. The methods of the limiter resolve names in the same way. A
// quota that is all zero is returned as well, those of pools are not.
func (rl *RateLimiter) QuotaFor(model string) (name string, quota ModelQuota, ok bool) {
	rl.shared.freshen(background)
	rl.mu.Lock()
	defer rl.mu.Unlock()
	counted := rl.adoptLocked(model, rl.nowLocked())
	name, q, ok := rl.engine.Catalog.Cover(counted)
	if !ok {
		return "", ModelQuota{}, false
	}
	return name, ModelQuota(q), true
}

// CountedAs returns the name under which the usage of model is counted: model itself, or what it
// stands for by Config.Aliases and Config.MatchVersions.
func (rl *RateLimiter) CountedAs(model string) string {
	rl.shared.freshen(background)
	rl.mu.Lock()
	defer rl.mu.Unlock()
	return rl.adoptLocked(model, rl.nowLocked())
}

// ReportError hands an error to Config.OnError, by the rules for the limiter's own: packages that
// work for a limiter tell of their failures by it. It does not wait for OnError.
func (rl *RateLimiter) ReportError(err error) { rl.reporter.Report(err) }

// AddProvider adds the quotas of a provider's default profile, or of the one that Config.Tiers
// names, and replaces what the program said of its models. The account's limits win over them, and
// at the next Load what the file has of another origin. With Config.Shared and Config.Store they
// are those of all processes. A provider without a profile changes nothing; OnError gets an error
// that wraps ErrUnknownProvider. Waiters are served by the new quotas at once.
func (rl *RateLimiter) AddProvider(provider Provider) {
	is, err := profile.Choose(provider, rl.tiers)
	if err != nil {
		rl.reporter.ReportAs(provider, fmt.Errorf("add provider: %w", err))
		return
	}
	rl.change(func(now account.Now) (saves bool) {
		rl.adoptQuotasLocked(now)
		rl.addProfileLocked(&is, now)
		return true
	})
}

// ForgetLearned forgets what Observe has learned of a model's limits (Config.LearnQuotas), also in
// the file from the next Persist on; ForgetLearned("") does so for all models. The quota before
// that applies again. Aliases and MatchVersions apply. Waiters are served or refused at once.
func (rl *RateLimiter) ForgetLearned(model string) {
	if model != "" {
		model = rl.CountedAs(model)
	}
	rl.say(byProgram, engine.ForgetLearned{Counted: model})
}

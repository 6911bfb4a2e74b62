// Package state has the plain types of what a limiter stores: quotas, usage, days and snapshots,
// what providers report, and the table of the limits. The limiter's package converts its exported
// types from and to them; internal/yamlfile, internal/sqlitestate and internal/former know no
// others.
package state

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/clock"
	"dappco.re/go/core/go-ratelimit/internal/errtext"
	"dappco.re/go/core/go-ratelimit/money"
)

// Quota is what a provider allows one model. It has the fields of ModelQuota in the same
// order, so that one converts to the other. The zero value limits nothing.
type Quota struct {
	MaxRPM, MaxTPM, MaxRPD                int
	MaxITPM, MaxOTPM, MaxTPD, MaxInFlight int
	DayZone                               string        // IANA name; "" for a day of 24 hours
	Burst                                 time.Duration // 0 for the whole minute

	// The bounds of the limits that are found. As JSON they are left out where they are zero: a
	// quota without them has the same text in all versions.
	AdaptiveFloorRPM        int `json:",omitzero"`
	AdaptiveCeilingRPM      int `json:",omitzero"`
	AdaptiveFloorInFlight   int `json:",omitzero"`
	AdaptiveCeilingInFlight int `json:",omitzero"`

	// The limits of spend, left out as JSON where they are zero, as the bounds.
	MaxSpendPerDay   money.Amount `json:",omitzero"`
	MaxSpendPerMonth money.Amount `json:",omitzero"`

	MaxSpendPerTenMinutes money.Amount `json:",omitzero"`
	MaxTokensPerMonth     int          `json:",omitzero"`
}

// Is is *q == *other, in a third of the time.
func (q *Quota) Is(other *Quota) bool {
	differs := (q.MaxRPM ^ other.MaxRPM) | (q.MaxTPM ^ other.MaxTPM) | (q.MaxRPD ^ other.MaxRPD) |
		(q.MaxITPM ^ other.MaxITPM) | (q.MaxOTPM ^ other.MaxOTPM) | (q.MaxTPD ^ other.MaxTPD) | (q.MaxInFlight ^ other.MaxInFlight) |
		(q.AdaptiveFloorRPM ^ other.AdaptiveFloorRPM) | (q.AdaptiveCeilingRPM ^ other.AdaptiveCeilingRPM) |
		(q.AdaptiveFloorInFlight ^ other.AdaptiveFloorInFlight) | (q.AdaptiveCeilingInFlight ^ other.AdaptiveCeilingInFlight) |
		(q.MaxTokensPerMonth ^ other.MaxTokensPerMonth)
	spends := (q.MaxSpendPerDay ^ other.MaxSpendPerDay) | (q.MaxSpendPerMonth ^ other.MaxSpendPerMonth) |
		(q.MaxSpendPerTenMinutes ^ other.MaxSpendPerTenMinutes)
	return differs == 0 && spends == 0 && q.Burst == other.Burst && q.DayZone == other.DayZone
}

// Limit returns where the quota has its limit of a dimension.
func (q *Quota) Limit(of Dimension) *int {
	switch of {
	case RPM:
		return &q.MaxRPM
	case TPM:
		return &q.MaxTPM
	case RPD:
		return &q.MaxRPD
	case ITPM:
		return &q.MaxITPM
	case OTPM:
		return &q.MaxOTPM
	case TPD:
		return &q.MaxTPD
	default:
		return &q.MaxInFlight
	}
}

// Invalid returns the reason of a refusal by the first field that is out of range. It does not look
// at the zone.
func (q *Quota) Invalid() (reason string, bad bool) {
	if q.MaxRPM|q.MaxTPM|q.MaxRPD|q.MaxITPM|q.MaxOTPM|q.MaxTPD|q.MaxInFlight >= 0 && q.Burst >= 0 && q.budgets() >= 0 {
		if !q.Adapts() {
			return "", false // every denial asks
		}
		_, reason, _ = q.invalidAdaptive()
		return reason, reason != ""
	}
	for of := range Limits {
		if *q.Limit(Dimension(of)) < 0 {
			return Limits[of].Invalid, true
		}
	}
	if reason, bad = q.invalidBudget(); bad {
		return reason, true
	}
	return "invalid quota: Burst (burst) is negative", true
}

// IsUnlimited reports whether the quota limits nothing. The zone of the day is not a limit, nor is
// Burst, which spreads other limits. A negative field is not unlimited.
func (q *Quota) IsUnlimited() bool {
	return q.MaxRPM|q.MaxTPM|q.MaxRPD|q.MaxITPM|q.MaxOTPM|q.MaxTPD|q.MaxInFlight == 0 && q.Burst >= 0 &&
		!q.Adapts() && !q.HasBudget()
}

// Over returns the quota with what it leaves open taken from another one: the limits that are
// zero, the zone where no limit of the day is set, the burst where none of the minute is, and both
// bounds of a limit that is found where neither is set. A quota that limits nothing stays as it is.
func (q Quota) Over(below *Quota) Quota {
	if q.IsUnlimited() {
		return q
	}
	var limits [Settled + 1]bool // whether it limits anything in a window
	over := q
	for of := range Dimensions {
		if limit := over.Limit(of); *limit != 0 {
			limits[Limits[of].Window] = true
		} else {
			*limit = *below.Limit(of)
		}
	}
	over.budgetsOver(below)
	if q.DayZone == "" && !limits[Day] && !q.HasBudget() {
		over.DayZone = below.DayZone
	}
	if q.Burst == 0 && !limits[Minute] {
		over.Burst = below.Burst
	}
	over.adaptiveOver(below)
	return over
}

// BurstField and BurstKey name Quota.Burst in Go and in files; ZoneField and ZoneKey name
// Quota.DayZone.
const (
	BurstField, BurstKey = "Burst", "burst"
	ZoneField, ZoneKey   = "DayZone", "day_zone"
)

// Validate returns an error that wraps ErrInvalidQuota and names field and value if the
// quota of model has a field out of range.
func (q *Quota) Validate(model string) error {
	for of := range Limits {
		if limit := *q.Limit(Dimension(of)); limit < 0 {
			return outOfRange(model, Limits[of].Field, Limits[of].Key, limit)
		}
	}
	if q.Burst < 0 {
		return outOfRange(model, BurstField, BurstKey, q.Burst)
	}
	for i := range Budgets {
		if b := &Budgets[i]; b.Of(*q) < 0 {
			return outOfRange(model, b.Field, b.Key, b.Text(b.Of(*q)))
		}
	}
	if err := q.CheckAdaptive(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrInvalidQuota, owner(model), err)
	}
	if _, err := clock.LoadZone(q.DayZone); err != nil {
		return fmt.Errorf("%w: %s: %s (%s): %w", ErrInvalidQuota, owner(model), ZoneField, ZoneKey, err)
	}
	return nil
}

func outOfRange(model, field, key string, value any) error {
	return fmt.Errorf("%w: %s: %s (%s) is %v, want 0 or more", ErrInvalidQuota, owner(model), field, key, value)
}

// owner says in an error whose quota it is.
func owner(name string) string {
	if pool, is := PoolOf(name); is {
		return fmt.Sprintf("pool %q", errtext.Clip(pool))
	}
	return fmt.Sprintf("model %q", errtext.Clip(name))
}

// ValidateAll is Validate for the quotas of several models, in the order of their names.
func ValidateAll(quotas map[string]Quota) error {
	for _, model := range slices.Sorted(maps.Keys(quotas)) {
		q := quotas[model]
		if err := q.Validate(model); err != nil {
			return err
		}
	}
	return nil
}

// Package quotas names the limits of a quota, for flags and for people.
package quotas

import (
	"fmt"
	"strings"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// Limit is a limit of a quota that is a number.
type Limit struct {
	Flag, Key, Words string // Key is its name in files
	Of               func(*ratelimit.ModelQuota) *int
}

// Limits are the limits that are numbers.
var Limits = []Limit{
	{"rpm", "max_rpm", "requests/minute", func(q *ratelimit.ModelQuota) *int { return &q.MaxRPM }},
	{"tpm", "max_tpm", "tokens/minute", func(q *ratelimit.ModelQuota) *int { return &q.MaxTPM }},
	{"itpm", "max_itpm", "input tokens/minute", func(q *ratelimit.ModelQuota) *int { return &q.MaxITPM }},
	{"otpm", "max_otpm", "output tokens/minute", func(q *ratelimit.ModelQuota) *int { return &q.MaxOTPM }},
	{"rpd", "max_rpd", "requests/day", func(q *ratelimit.ModelQuota) *int { return &q.MaxRPD }},
	{"tpd", "max_tpd", "tokens/day", func(q *ratelimit.ModelQuota) *int { return &q.MaxTPD }},
	{"tokens-per-month", "max_tokens_per_month", "tokens/month", func(q *ratelimit.ModelQuota) *int { return &q.MaxTokensPerMonth }},
	{"in-flight", "max_in_flight", "calls in flight", func(q *ratelimit.ModelQuota) *int { return &q.MaxInFlight }},
}

// Budget is a limit of a quota that is an amount.
type Budget struct {
	Flag, Words string
	Of          func(*ratelimit.ModelQuota) *money.Amount
}

// Budgets are the limits that are amounts.
var Budgets = []Budget{
	{"max-cost-per-day", "/day", func(q *ratelimit.ModelQuota) *money.Amount { return &q.MaxSpendPerDay }},
	{"max-cost-per-month", "/month", func(q *ratelimit.ModelQuota) *money.Amount { return &q.MaxSpendPerMonth }},
	{"max-cost-per-ten-minutes", "/10 minutes", func(q *ratelimit.ModelQuota) *money.Amount { return &q.MaxSpendPerTenMinutes }},
}

// Text is a quota on one line.
func Text(q ratelimit.ModelQuota) string {
	var parts []string
	for _, l := range Limits {
		if n := *l.Of(&q); n != 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, l.Words))
		}
	}
	for _, b := range Budgets {
		if n := *b.Of(&q); n != 0 {
			parts = append(parts, n.String()+b.Words)
		}
	}
	for _, found := range []struct {
		floor, ceiling int
		words          string
	}{
		{q.AdaptiveFloorRPM, q.AdaptiveCeilingRPM, "requests/minute, as found"},
		{q.AdaptiveFloorInFlight, q.AdaptiveCeilingInFlight, "calls in flight, as found"},
	} {
		if found.floor != 0 || found.ceiling != 0 {
			parts = append(parts, fmt.Sprintf("%d to %d %s", found.floor, found.ceiling, found.words))
		}
	}
	if len(parts) == 0 {
		return "no limit"
	}
	if q.Burst != 0 {
		parts = append(parts, fmt.Sprintf("in bursts of %v", q.Burst))
	}
	if q.DayZone != "" {
		parts = append(parts, "days of "+q.DayZone)
	}
	return strings.Join(parts, ", ")
}

package ratelimit

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
)

// ExplainPool returns the state of a pool: its limits with what is used of them, its budgets, the
// calls in flight and those that wait. It charges nothing, and costs as much as Explain. With
// Config.Shared it tells of all processes. It is safe for concurrent use.
func (rl *RateLimiter) ExplainPool(name string) (is PoolState, ok bool) {
	rl.shared.freshen()
	rl.mu.Lock()
	defer rl.mu.Unlock()
	now, counted := rl.nowLocked(), state.PoolName(name)
	if !rl.engine.Catalog.IsPool(counted) {
		return PoolState{}, false
	}
	return rl.poolStateRLocked(rl.engine.Account(counted), counted, now), true
}

// poolStateRLocked returns the state of an account, which may be that of a model and stand for it
// without having its name, at a moment.
func (rl *RateLimiter) poolStateRLocked(a *account.Account, counted string, now account.Now) PoolState {
	is := PoolState{
		Limits: rl.limitsRLocked(a, counted, now), Budgets: budgetsOf(a, now), Found: foundOf(a, now),
		InFlight: a.InFlight, Waiting: a.Waiting, WaitingByClass: rl.engine.WaitingByClass(a),
	}
	is.Pool, _ = state.PoolOf(counted)
	if a.CoolUntil > now.Wall {
		is.CooldownUntil, is.Cause = time.Unix(0, a.CoolUntil), Cause(a.CoolCause)
	}
	return is
}

// budgetsOf returns the spend of an account.
func budgetsOf(a *account.Account, now account.Now) (budgets []BudgetState) {
	day := BudgetState{Limit: state.Budgets[state.SpendPerDay].Key, Max: a.Quota.MaxSpendPerDay, Spent: a.Spend.OfDay(now.Wall)}
	month := BudgetState{Limit: state.Budgets[state.SpendPerMonth].Key, Max: a.Quota.MaxSpendPerMonth, Spent: a.Spend.OfMonth(now.Wall)}
	if day.Spent != 0 {
		day.Until = time.Unix(0, a.Spend.Day.End)
	}
	if month.Spent != 0 {
		month.Until = time.Unix(0, a.Spend.Month.End)
	}
	for _, b := range [...]BudgetState{day, month} {
		if b.Max != 0 || b.Spent != 0 {
			budgets = append(budgets, b)
		}
	}
	return budgets
}

// foundOf returns the limits that were found for an account; nil where its quota searches for none.
func foundOf(a *account.Account, now account.Now) *FoundLimits {
	f := a.Found.View()
	if f == nil {
		return nil
	}
	known, b := f.Present(now.Instant, now.Wall), f.Bounds()
	l := &FoundLimits{
		FloorRPM: b.FloorRPM, CeilingRPM: b.CeilingRPM, RefusedRPM: account.Scaled(known.Rate.Knee, 60, 1e9),
		FloorInFlight: b.FloorSlots, CeilingInFlight: b.CeilingSlots, OverloadedInFlight: account.Scaled(known.Slots.Knee, 1, 1000),
		Told: known.Told,
	}
	l.RPM, l.InFlight = f.Found(now.Instant)
	l.RateLoweredAt, l.InFlightLoweredAt = loweredAt(&known.Rate, now), loweredAt(&known.Slots, now)
	return l
}

// loweredAt returns when a limit was last lowered; the zero time for never.
func loweredAt(s *state.Search, now account.Now) time.Time {
	if s.Lowered == 0 {
		return time.Time{}
	}
	return now.Time().Add(-time.Duration(s.Lowered))
}

// useFacts returns the state of a pool, or that of a model, as the text of an explanation has it.
func useFacts(is *PoolState) (f verdict.Use) {
	f.InFlight, f.Waiting, f.WaitingByClass = is.InFlight, is.Waiting, is.WaitingByClass
	f.CooldownUntil, f.Cause = is.CooldownUntil, string(is.Cause)
	for _, l := range is.Limits {
		f.Limits = append(f.Limits, verdict.Limit{Key: l.Limit, Max: l.Max, Used: l.Used, External: l.External, RoomAt: l.RoomAt})
	}
	for _, b := range is.Budgets {
		f.Budgets = append(f.Budgets, verdict.Budget{Month: b.Limit == state.Budgets[state.SpendPerMonth].Key, Max: b.Max, Spent: b.Spent, Until: b.Until})
	}
	if l := is.Found; l != nil {
		f.Found = &verdict.Found{
			Rate:  verdict.Search{Level: l.RPM, Floor: l.FloorRPM, Ceiling: l.CeilingRPM, RefusedAt: l.RefusedRPM, LoweredAt: l.RateLoweredAt},
			Slots: verdict.Search{Level: l.InFlight, Floor: l.FloorInFlight, Ceiling: l.CeilingInFlight, RefusedAt: l.OverloadedInFlight, LoweredAt: l.InFlightLoweredAt},
			Told:  l.Told,
		}
	}
	return f
}

package verdict

import (
	"fmt"
	"strings"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// blocker says why the first in line waits, as far as the facts tell.
func (f *Facts) blocker() string {
	if f.CooldownUntil.After(f.At) {
		return "the model is in a cooldown; "
	}
	if text := f.Use.blocker(f); text != "" {
		return text
	}
	for i := range f.Pools {
		if text := f.Pools[i].blocker(f); text != "" {
			return fmt.Sprintf("the pool %q: %s", f.Pools[i].Name, text)
		}
	}
	return f.foundBlocker()
}

// blocker says which limit the first in line waits for.
func (u *Use) blocker(f *Facts) string {
	for i := range u.Limits {
		l := &u.Limits[i]
		left, need := max(l.Max-l.Used-l.External, 0), f.firstNeeds(l.Limit)
		switch what := dimension(l.Limit); {
		case left == 0 && l.Limit == state.Limits[state.InFlight].Key:
			return what + " are at the limit; "
		case left == 0:
			return what + " are used up; "
		case need > left:
			return fmt.Sprintf("the first in line needs %d %s, and %d are left; ", need, what, left)
		}
	}
	for _, b := range u.Budgets {
		if b.Max != 0 && b.Spent >= b.Max {
			return "the spend of " + b.period() + " is used up; "
		}
	}
	if u.findsCalls() && u.InFlight >= u.Found.InFlight {
		return "calls in flight are at the limit that was found; "
	}
	return ""
}

// firstNeeds returns how much of a limit the first in line asks for.
func (f *Facts) firstNeeds(key string) int {
	of, ok := state.DimensionOf(key)
	if key == state.Budgets[state.TokensPerMonth].Key {
		of, ok = state.TPD, true // which tokens count to in the same way
	}
	if !ok || len(f.Line) == 0 {
		return 0
	}
	first := &f.Line[0]
	c := state.Cost{Requests: 1, Count: state.Count{Input: first.PromptTokens, Output: first.OutputTokens}}
	return c.Of(of)
}

// spent says what was spent of a budget.
func (w *lines) spent(b Budget) string {
	text := "spend per " + strings.TrimPrefix(b.period(), "the ") + ": " + b.Spent.String()
	if b.Max != 0 {
		text += " of " + b.Max.String()
	}
	if !b.Until.IsZero() {
		text += ", until " + w.time(b.Until)
	}
	return text
}

func (b *Budget) period() string {
	switch b.Limit {
	case state.Budgets[state.SpendPerMonth].Key:
		return "the month"
	case state.Budgets[state.SpendPerTenMinutes].Key:
		return "ten minutes"
	}
	return "the day"
}

package state_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Each budget is complete.
func TestBudgets(t *testing.T) {
	for i, b := range state.Budgets {
		var q state.Quota
		if b.Set(&q, -1); !q.HasBudget() || q.IsUnlimited() || q.Validate("m") == nil {
			t.Errorf("%s: %+v", b.Field, q)
		}
		reason, bad := q.Invalid()
		if !bad || reason != b.Invalid || !strings.HasPrefix(reason, "invalid quota: "+b.Field+" ("+b.Key+") ") {
			t.Errorf("%s: %q", b.Field, reason)
		}
		if n := testing.AllocsPerRun(10, func() { q.Invalid() }); n != 0 {
			t.Errorf("%s: a refusal allocates %v times", b.Field, n)
		}
		if q.Is(new(state.Quota)) {
			t.Errorf("%s: a quota with it is one without", b.Field)
		}
		if found, ok := state.BudgetOf(b.Key); !ok || found.Field != b.Field {
			t.Errorf("BudgetOf(%q) = %v, %v", b.Key, found, ok)
		}
		b.Set(&q, 2_500_000)
		if text := b.Text(2_500_000); text == "" {
			t.Errorf("%s: no text", b.Field)
		} else if n, err := b.Parse(text); n != 2_500_000 || err != nil {
			t.Errorf("%s: %q is %d, %v", b.Field, text, n, err)
		}
		if n, err := b.Parse("x"); err == nil || b.Form == "" {
			t.Errorf("%s: x, which is not %s, is %d", b.Field, b.Form, n)
		}
		other := state.Quota{DayZone: "UTC"}
		next := &state.Budgets[(i+1)%len(state.Budgets)]
		next.Set(&other, 7)
		b.Set(&other, 9)
		if over := q.Over(&other); b.Of(over) != 2_500_000 || next.Of(over) != 7 || over.DayZone != "" {
			t.Errorf("%s: %+v over %+v is %+v", b.Field, q, other, over)
		}
	}
}

// A quota has the bytes that it had before there were more budgets.
func TestQuotaImageStays(t *testing.T) {
	q := state.Quota{
		MaxRPM: 1, MaxTPM: 2, MaxRPD: 3, MaxITPM: 4, MaxOTPM: 5, MaxTPD: 6, MaxInFlight: 7, DayZone: "UTC", Burst: 8,
		AdaptiveFloorRPM: 9, AdaptiveCeilingRPM: 10, AdaptiveFloorInFlight: 11, AdaptiveCeilingInFlight: 12,
		MaxSpendPerDay: 13, MaxSpendPerMonth: 14,
	}
	if is := hex.EncodeToString(q.AppendImage(nil)); is != "ffff01020406080a0c0e12141618101a1c03555443" {
		t.Error(is)
	}
}

package engine_test

import (
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// What is spent in a month that nobody has told yet counts to it until it ends, also once it is
// told.
func TestMonthNobodyHasTold(t *testing.T) {
	const month = 31 * 24 * hour
	begin := int64(1_711_900_000e9)
	at := func(d int64) account.Now { return account.Now{Instant: 1e15 + d, Wall: begin + d} }
	ask := engine.Admit{
		By:    engine.By{Span: account.Minute},
		Wants: []engine.Want{{Name: engine.Name{Asked: "m", Counted: "m"}, Most: 6, Priced: true}},
	}
	e := engine.New(0, nil)
	for i, step := range []struct {
		now  account.Now
		c    engine.Command
		code string
	}{
		{at(0), engine.Bounds{Month: account.Span{Begin: begin, End: begin + month}}, ""},
		{at(0), engine.SetQuota{Counted: "m", Quota: state.Quota{MaxSpendPerMonth: 10}}, ""},
		{at(month - 1), ask, "ok"},
		{at(month), ask, "ok"}, // of the next month
		{at(month + hour), ask, "spend_exceeded"},
		{at(month + 2*hour), engine.Bounds{Month: account.Span{Begin: begin + month, End: begin + 2*month}}, ""},
		{at(month + 3*hour), ask, "spend_exceeded"},
		{at(2*month - 1), ask, "spend_exceeded"},
		{at(2 * month), engine.Bounds{Month: account.Span{Begin: begin + 2*month, End: begin + 3*month}}, ""},
		{at(2 * month), ask, "ok"},
	} {
		if o := e.Apply(step.now, 1, int64(i+1), step.c); o.Verdict.Code != step.code {
			t.Errorf("step %d: %q, want %q", i, o.Verdict.Code, step.code)
		}
	}
}

package engine_test

import (
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/catalog"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/verdict"
)

func at(seconds float64) account.Now {
	return account.Now{Instant: 1e12 + int64(seconds*1e9), Wall: 1_700_000_000e9 + int64(seconds*1e9)}
}

func BenchmarkReserveCommit(b *testing.B) {
	e := engine.New(1, nil)
	now := at(0)
	e.Say(engine.Program, func(c *catalog.Catalog) []catalog.Change {
		return c.SetQuota("m", state.Quota{MaxRPM: 1 << 30, MaxTPM: 1 << 30, MaxRPD: 1 << 30})
	}, now)
	by := engine.By{Span: account.Minute}
	b.ReportAllocs()
	calls := make([]*account.Call, 0, 1)
	for b.Loop() {
		now.Instant += 60e6
		now.Wall += 60e6
		t := e.Resolve("m", "m")
		r := [1]engine.Request{{Target: t, Tokens: state.Count{Input: 100, Output: 10}}}
		var v verdict.Verdict
		calls, v = e.Admit(calls[:0], &by, r[:], now)
		if !v.Allowed {
			b.Fatal(v)
		}
		e.Settle(calls[0], account.Committed, state.Count{Input: 90, Output: 20}, 0, now)
	}
}

func BenchmarkJudge(b *testing.B) {
	e := engine.New(1, nil)
	now := at(0)
	e.Say(engine.Program, func(c *catalog.Catalog) []catalog.Change {
		return c.SetQuota("m", state.Quota{MaxRPM: 1 << 30, MaxTPM: 1 << 30, MaxRPD: 1 << 30})
	}, now)
	by := engine.By{Span: account.Minute}
	t := e.Resolve("m", "m")
	e.Record(&t, account.Minute, state.Count{Input: 5}, 0, now)
	b.ReportAllocs()
	for b.Loop() {
		t, _ := e.Find("m", "m")
		var buf [1]verdict.Item
		r := [1]engine.Request{{Target: t, Tokens: state.Count{Input: 100, Output: 10}}}
		_, v := e.Judge(buf[:], &by, r[:], now)
		if !v.Allowed {
			b.Fatal(v)
		}
	}
}

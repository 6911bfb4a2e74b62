package ratelimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

func TestSpendTry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl, err := ratelimit.NewWithConfig(ratelimit.Config{
			FilePath: t.TempDir() + "/s.yaml",
			Quotas:   map[string]ratelimit.ModelQuota{"m": {MaxSpendPerDay: 10 * money.Dollar, MaxSpendPerMonth: 15 * money.Dollar}},
			Prices:   map[string]money.Price{"m": {Input: money.Dollar, Output: 2 * money.Dollar}},
		})
		if err != nil {
			t.Fatal(err)
		}
		r, d := rl.Reserve("m", 1_000_000, 4_000_000)
		t.Log(d.Code, d.Stats.SpendDay)
		r.Commit(1_000_000, 2_000_000)
		t.Logf("%+v", rl.Stats("m"))
		r, d = rl.Reserve("m", 1_000_000, 4_000_000)
		t.Logf("%+v", d)
		time.Sleep(d.RetryAfter - 1)
		_, d = rl.Reserve("m", 1_000_000, 4_000_000)
		t.Logf("%+v", d)
		time.Sleep(1)
		r, d = rl.Reserve("m", 1_000_000, 4_000_000)
		t.Logf("%+v %+v", d, rl.Audit())
		_ = r
		if err := rl.Persist(); err != nil {
			t.Fatal(err)
		}
	})
}

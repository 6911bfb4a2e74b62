package money_test

import (
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/money"
)

var (
	call   = money.Usage{Input: 1200, CachedInput: 30_000, CacheWrite: 800, Output: 650}
	amount money.Amount
	text   string
)

// No computation allocates: it is done under the limiter's lock.
func TestAllocs(t *testing.T) {
	if racetest.Factor > 1 {
		t.Skip("the race detector allocates")
	}
	for name, f := range map[string]func(){
		"Cost":     func() { amount = full.Cost(call) },
		"MaxCost":  func() { amount = full.MaxCost(32_000, 4096) },
		"Add":      func() { amount = amount.Add(money.Dollar) },
		"Sub":      func() { amount = amount.Sub(money.Dollar) },
		"Mul":      func() { amount = amount.Mul(3) },
		"IsZero":   func() { _ = full.IsZero() },
		"Validate": func() { _ = full.Validate() },
	} {
		if n := testing.AllocsPerRun(1000, f); n > 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func BenchmarkCost(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		amount = full.Cost(call)
	}
}

func BenchmarkMaxCost(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		amount = full.MaxCost(32_000, 4096)
	}
}

func BenchmarkString(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		text = amount.String()
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		amount, _ = money.Parse("$12.50")
	}
}

func BenchmarkUSD(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		amount = money.USD(12.50)
	}
}

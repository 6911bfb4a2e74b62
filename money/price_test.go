// Prices: the cost of calls against big numbers, what stands for a missing price, and bills of
// providers, each read as the introduction of the package says.

package money_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/money"
)

// full has a price of its own for each kind.
var full = money.Price{
	Input: money.USD(3), CachedInput: money.USD(0.30), CacheWrite: money.USD(3.75), Output: money.USD(15),
}

// priceOf is a price without rates.
func priceOf(input, cached, written, hour, output money.Amount) money.Price {
	return money.Price{Input: input, CachedInput: cached, CacheWrite: written, CacheWriteHour: hour, Output: output}
}

func TestCost(t *testing.T) {
	plain := money.Price{Input: money.USD(3), Output: money.USD(15)}
	const million = 1_000_000
	for name, c := range map[string]struct {
		price money.Price
		usage money.Usage
		want  money.Amount
	}{
		"nothing used":                   {full, money.Usage{}, 0},
		"a million of input":             {full, money.Usage{Input: million}, money.USD(3)},
		"a million of cached input":      {full, money.Usage{CachedInput: million}, money.USD(0.30)},
		"a million of cache writes":      {full, money.Usage{CacheWrite: million}, money.USD(3.75)},
		"a million of an hour's writes":  {full, money.Usage{CacheWriteHour: million}, money.USD(3.75)},
		"an hour's writes have a price":  {priceOf(1, 0, 2, 7, 0), money.Usage{CacheWriteHour: million}, 7},
		"a million of output":            {full, money.Usage{Output: million}, money.USD(15)},
		"a million of each":              {full, money.Usage{million, million, million, 0, million, 0}, money.USD(22.05)},
		"cached input at input's price":  {plain, money.Usage{CachedInput: million}, money.USD(3)},
		"cache writes at input's price":  {plain, money.Usage{CacheWrite: million}, money.USD(3)},
		"no price":                       {money.Price{}, money.Usage{1, 2, 3, 0, 4, 0}, 0},
		"output only":                    {money.Price{Output: money.Dollar}, money.Usage{million, million, million, 0, 2, 0}, 2},
		"embeddings":                     {money.Price{Input: money.USD(0.02)}, money.Usage{Input: 50}, 1},
		"exact":                          {full, money.Usage{Input: 1}, 3},
		"rounded up":                     {full, money.Usage{CachedInput: 1}, 1},
		"rounded up once, not by kind":   {money.Price{Input: 400_000, Output: 400_000}, money.Usage{Input: 1, Output: 1}, 1},
		"just above":                     {money.Price{Input: 500_000, Output: 500_001}, money.Usage{Input: 1, Output: 1}, 2},
		"the least price, all free":      {money.Price{Input: money.USD(3), CachedInput: money.Micro}, money.Usage{CachedInput: million}, 1},
		"a count below zero is zero":     {full, money.Usage{Input: -5, Output: 2}, 30},
		"a price below zero is zero":     {money.Price{Input: -1, CachedInput: -1, CacheWrite: -1, Output: 1}, money.Usage{9, 9, 9, 0, million, 0}, 1},
		"missing prices fall back to it": {money.Price{Input: -1}, money.Usage{9, 9, 9, 0, 9, 0}, 0},
		"too much":                       {money.Price{Input: money.Max}, money.Usage{Input: million + 1}, money.Max},
		"just not too much":              {money.Price{Input: money.Max}, money.Usage{Input: million}, money.Max},
		"almost too much":                {money.Price{Input: money.Max - 1}, money.Usage{Input: million}, money.Max - 1},
		"too much for a division":        {money.Price{Input: money.Max}, money.Usage{Input: 2*million + 1}, money.Max},
		"far too much": {money.Price{Input: money.Max, CachedInput: money.Max, CacheWrite: money.Max, CacheWriteHour: money.Max, Output: money.Max},
			money.Usage{math.MaxInt, math.MaxInt, math.MaxInt, math.MaxInt, math.MaxInt, 0}, money.Max},
	} {
		if got := c.price.Cost(c.usage); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Bills: the usage as answers report it, read as the introduction says, and what is to be paid.
func TestCostOfAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		price money.Price
		usage money.Usage
		want  money.Amount
	}{
		// prompt_tokens 2600, of which 2000 cached and 400 written; completion_tokens 300.
		"OpenAI": {
			money.Price{Input: money.USD(5), CachedInput: money.USD(0.50), CacheWrite: money.USD(6.25), Output: money.USD(30)},
			money.Usage{Input: 2600 - 2000 - 400, CachedInput: 2000, CacheWrite: 400, Output: 300}, money.USD(0.0135),
		},
		// An answer whose cost the provider itself stated: 0.0232856 dollars.
		"xAI, reasoning beside the completion": {
			money.Price{Input: money.USD(1.25), CachedInput: money.USD(0.20), Output: money.USD(2.50)},
			money.Usage{Input: 10120 - 128, CachedInput: 128, Output: 1499 + 2809}, 23_286,
		},
		// input_tokens 50, cache_read_input_tokens 100000, cache_creation_input_tokens 248.
		"Anthropic": {full, money.Usage{Input: 50, CachedInput: 100_000, CacheWrite: 248, Output: 503}, money.USD(0.038625)},
		// promptTokenCount 1000, cached 600, tool results 40, candidates 100, thoughts 900.
		"Gemini": {
			money.Price{Input: money.USD(1.25), CachedInput: money.USD(0.125), Output: money.USD(10)},
			money.Usage{Input: 1000 - 600 + 40, CachedInput: 600, Output: 100 + 900}, money.USD(0.010625),
		},
		// More cached tokens than the prompt has: a report that contradicts itself is not a credit.
		"a contradiction": {full, money.Usage{Input: 100 - 200, CachedInput: 200}, money.USD(0.00006)},
	} {
		if got := c.price.Cost(c.usage); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// exactCost is Cost by big numbers, kind by kind.
func exactCost(p money.Price, u money.Usage) money.Amount {
	if p.CachedInput == 0 {
		p.CachedInput = p.Input
	}
	if p.CacheWrite == 0 {
		p.CacheWrite = p.Input
	}
	if p.CacheWriteHour == 0 {
		p.CacheWriteHour = p.CacheWrite
	}
	sum := new(big.Int)
	for _, part := range []struct {
		price money.Amount
		count int
	}{{p.Input, u.Input}, {p.CachedInput, u.CachedInput}, {p.CacheWrite, u.CacheWrite}, {p.CacheWriteHour, u.CacheWriteHour}, {p.Output, u.Output}} {
		if part.price > 0 && part.count > 0 {
			sum.Add(sum, new(big.Int).Mul(big.NewInt(int64(part.price)), big.NewInt(int64(part.count))))
		}
	}
	whole, rest := sum.DivMod(sum, big.NewInt(1_000_000), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	return clamped(whole)
}

// checkCost compares Cost with big numbers, and MaxCost with Cost.
func checkCost(t *testing.T, p money.Price, u money.Usage) {
	t.Helper()
	got := p.Cost(u)
	if want := exactCost(p, u); got != want {
		t.Fatalf("%+v of %+v costs %d micro-dollars, want %d", p, u, int64(got), int64(want))
	}
	highest := max(p.Input, p.CachedInput, p.CacheWrite, p.CacheWriteHour)
	input := total(u.Input, u.CachedInput, u.CacheWrite, u.CacheWriteHour)
	most := p.MaxCost(input, u.Output)
	if want := exactCost(money.Price{Input: highest, Output: p.Output}, money.Usage{Input: input, Output: u.Output}); most != want {
		t.Fatalf("%+v of %d and %d costs at most %d micro-dollars, want %d", p, input, u.Output, int64(most), int64(want))
	}
	if input < math.MaxInt && most < got {
		t.Fatalf("%+v of %+v costs %d micro-dollars, more than the most, %d", p, u, int64(got), int64(most))
	}
}

// total adds counts up, those below zero as zero, up to the largest int.
func total(counts ...int) (sum int) {
	for _, n := range counts {
		if n = max(n, 0); sum > math.MaxInt-n {
			return math.MaxInt
		}
		sum += n
	}
	return sum
}

func TestCostOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	price := func() money.Amount {
		if r.IntN(8) == 0 {
			return edges[r.IntN(len(edges))]
		}
		return money.Amount(r.Uint64()) >> r.IntN(64)
	}
	count := func() int {
		if r.IntN(8) == 0 {
			return []int{math.MinInt, -1, 0, 1, math.MaxInt - 1, math.MaxInt}[r.IntN(6)]
		}
		return int(r.Uint64()) >> r.IntN(64)
	}
	for range 300_000 / racetest.Factor {
		checkCost(t, priceOf(price(), price(), price(), price(), price()), money.Usage{count(), count(), count(), count(), count(), 0})
	}
}

func FuzzCost(f *testing.F) {
	f.Add(int64(full.Input), int64(full.CachedInput), int64(full.CacheWrite), int64(0), int64(full.Output), int64(1), int64(20), int64(300), int64(50), int64(4000))
	f.Add(int64(1), int64(0), int64(0), int64(0), int64(999_999), int64(1), int64(1), int64(1), int64(0), int64(1))
	const top = math.MaxInt64
	f.Add(int64(top), int64(top), int64(top), int64(top), int64(top), int64(top), int64(top), int64(top), int64(top), int64(top))
	f.Add(int64(-top), int64(-1), int64(top), int64(top), int64(0), int64(-1), int64(top), int64(0), int64(1), int64(-top))
	f.Fuzz(func(t *testing.T, input, cached, written, hour, output, inputs, cacheds, writtens, hours, outputs int64) {
		checkCost(t, priceOf(money.Amount(input), money.Amount(cached), money.Amount(written), money.Amount(hour), money.Amount(output)),
			money.Usage{int(inputs), int(cacheds), int(writtens), int(hours), int(outputs), 0})
	})
}

// A call in two parts costs as much as in one, or a micro-dollar more: each part is rounded up.
func TestCostOfParts(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 100_000 / racetest.Factor {
		p := priceOf(money.Amount(r.Int64N(1e8)), money.Amount(r.Int64N(1e7)), money.Amount(r.Int64N(1e8)), money.Amount(r.Int64N(1e8)), money.Amount(r.Int64N(1e9)))
		a := money.Usage{r.IntN(1e6), r.IntN(1e6), r.IntN(1e6), r.IntN(1e6), r.IntN(1e6), 0}
		b := money.Usage{r.IntN(1e6), r.IntN(1e6), r.IntN(1e6), r.IntN(1e6), r.IntN(1e6), 0}
		whole := p.Cost(money.Usage{a.Input + b.Input, a.CachedInput + b.CachedInput, a.CacheWrite + b.CacheWrite, a.CacheWriteHour + b.CacheWriteHour, a.Output + b.Output, 0})
		if parts := p.Cost(a).Add(p.Cost(b)); parts < whole || parts > whole+1 {
			t.Fatalf("%+v: %v in two parts, %v in one", p, parts, whole)
		}
	}
}

func TestMaxCost(t *testing.T) {
	for name, c := range map[string]struct {
		price money.Price
		want  money.Amount
	}{
		"cache writes are dearest": {full, money.USD(3.75 + 15)},
		"input is dearest":         {money.Price{Input: money.USD(3), CachedInput: money.USD(1), CacheWrite: money.USD(2)}, money.USD(3)},
		"cached input is dearest":  {money.Price{Input: money.USD(3), CachedInput: money.USD(4)}, money.USD(4)},
		"no price":                 {money.Price{}, 0},
	} {
		if got := c.price.MaxCost(1_000_000, 1_000_000); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	if got := full.MaxCost(-1, -1); got != 0 {
		t.Errorf("nothing costs at most %v", got)
	}
}

func TestValidate(t *testing.T) {
	for want, p := range map[string]money.Price{
		"": full,
		"invalid price: Input (input) is negative: -$1.00":                     {Input: -money.Dollar, Output: -1},
		"invalid price: CachedInput (cached_input) is negative: -$0.000001":    {CachedInput: -1},
		"invalid price: CacheWrite (cache_write) is negative: -$0.01":          {CacheWrite: -money.Cent},
		"invalid price: Output (output) is negative: -$9223372036854.775808":   {Output: money.USD(math.NaN())},
		"invalid price: CacheWrite (cache_write) is negative: -$0.010001":      {Input: 5, CacheWrite: -money.Cent - 1},
		"invalid price: CachedInput (cached_input) is negative: -$12500000.00": {Input: money.Max, CachedInput: money.USD(-12.5e6)},
	} {
		err := p.Validate()
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want || !errors.Is(err, money.ErrInvalidPrice)) {
			t.Errorf("%+v: %v, want %s", p, err, want)
		}
	}
	if err := (money.Price{}).Validate(); err != nil {
		t.Errorf("no price: %v", err)
	}
}

func TestIsZero(t *testing.T) {
	for p, want := range map[money.Price]bool{
		{}: true, {Input: 1}: false, {CachedInput: 1}: false, {CacheWrite: 1}: false, {Output: 1}: false, {Input: -1}: false,
	} {
		if p.IsZero() != want {
			t.Errorf("%+v: IsZero is %v", p, p.IsZero())
		}
	}
}

// Data such as profiles hold prices as numbers or as texts.
func TestPriceJSON(t *testing.T) {
	var p money.Price
	err := json.Unmarshal([]byte(`{"input": 3, "cached_input": "$0.30", "cache_write": 3.75, "output": "15"}`), &p)
	if err != nil || p != full {
		t.Errorf("got %+v, %v", p, err)
	}
	text, err := json.Marshal(p)
	if want := `{"input":"$3.00","cached_input":"$0.30","cache_write":"$3.75","output":"$15.00"}`; string(text) != want || err != nil {
		t.Errorf("got %s, %v", text, err)
	}
	if text, err := json.Marshal(money.Price{}); string(text) != "{}" || err != nil {
		t.Errorf("no price is %s, %v", text, err)
	}
}

// Rates: what calls cost that are large, of another service tier, or made at some hours.

package money_test

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/money"
)

// Prices as the providers' pages had them in the autumn of 2026.
var (
	// Above 272,000 tokens the whole call has another price: platform.openai.com/docs/pricing.
	gpt55 = money.Price{
		Input: money.USD(5), CachedInput: money.USD(0.50), Output: money.USD(30),
		Rates: money.Rates{
			{ServiceTier: money.Batch, Input: money.USD(2.50), CachedInput: money.USD(0.25), Output: money.USD(15)},
			{ServiceTier: money.Flex, Input: money.USD(2.50), CachedInput: money.USD(0.25), Output: money.USD(15)},
			{ServiceTier: money.Priority, Input: money.USD(12.50), CachedInput: money.USD(1.25), Output: money.USD(75)},
			{Above: 272_000, Input: money.USD(10), CachedInput: money.Dollar, Output: money.USD(45)},
			{Above: 272_000, ServiceTier: money.Flex, Input: money.USD(5), CachedInput: money.USD(0.50), Output: money.USD(22.50)},
		},
	}
	haiku55 = money.Price{
		Input: money.USD(0.40), CachedInput: money.USD(0.04), CacheWrite: money.USD(0.50), CacheWriteHour: money.USD(0.80), Output: money.USD(2),
		Rates: money.Rates{{Above: 100_000, Input: money.USD(0.50), CachedInput: money.USD(0.05), CacheWrite: money.USD(0.625), CacheWriteHour: money.Dollar, Output: money.USD(2.50)}},
	}
	// Twice as much at the hours that are busy in Beijing.
	deepseek = money.Price{
		Input: money.USD(0.14), CachedInput: money.USD(0.014), Output: money.USD(0.28),
		Rates: money.Rates{
			{From: 1 * 60, Until: 4 * 60, Input: money.USD(0.28), CachedInput: money.USD(0.028), Output: money.USD(0.56)},
			{From: 6 * 60, Until: 10 * 60, Input: money.USD(0.28), CachedInput: money.USD(0.028), Output: money.USD(0.56)},
		},
	}
	nights = money.Price{Input: 2, Rates: money.Rates{{From: 16*60 + 30, Until: 30, Input: 1}}}
)

func TestCostAt(t *testing.T) {
	const million = 1_000_000
	at := func(text string) money.Terms {
		t.Helper()
		moment, err := time.Parse(time.RFC3339, "2026-11-26T"+text)
		if err != nil {
			t.Fatal(err)
		}
		return money.Terms{At: moment}
	}
	tier := func(t money.ServiceTier) money.Terms { return money.Terms{ServiceTier: t} }
	for name, c := range map[string]struct {
		price money.Price
		usage money.Usage
		terms money.Terms
		want  money.Amount
	}{
		"a large call":                            {gpt55, money.Usage{Input: 300_000, Output: 10_000}, tier(money.Standard), money.USD(3.45)},
		"a large call of a tier nobody knows":     {gpt55, money.Usage{Input: 300_000, Output: 10_000}, money.Terms{}, money.USD(3.45)},
		"the last size at the first price":        {gpt55, money.Usage{Input: 272_000}, tier(money.Standard), money.USD(1.36)},
		"the first size at the second":            {gpt55, money.Usage{Input: 272_001}, tier(money.Standard), money.USD(2.72001)},
		"cached input makes a call large":         {gpt55, money.Usage{Input: 73_000, CachedInput: 200_000}, tier(money.Standard), money.USD(0.93)},
		"output does not":                         {gpt55, money.Usage{Input: 1000, Output: 300_000}, tier(money.Standard), money.USD(9.005)},
		"flex":                                    {gpt55, money.Usage{Input: million / 10, Output: 1000}, tier(money.Flex), money.USD(0.265)},
		"a large call of flex":                    {gpt55, money.Usage{Input: million}, tier(money.Flex), money.USD(5)},
		"priority":                                {gpt55, money.Usage{Input: million / 10}, tier(money.Priority), money.USD(1.25)},
		"a large call has no priority":            {gpt55, money.Usage{Input: million}, tier(money.Priority), money.USD(10)},
		"a tier that nobody knows is the dearest": {gpt55, money.Usage{Input: million / 10}, money.Terms{}, money.USD(1.25)},
		"what the answer reports counts first":    {gpt55, money.Usage{Input: million / 10, ServiceTier: money.Batch}, tier(money.Priority), money.USD(0.25)},
		"a price without rates knows no tiers":    {full, money.Usage{Input: million}, tier(money.Batch), money.USD(3)},
		"Haiku above 100,000":                     {haiku55, money.Usage{Input: 150_000, Output: 2000}, money.Terms{}, money.USD(0.08)},
		"Haiku at 100,000":                        {haiku55, money.Usage{Input: 100_000}, money.Terms{}, money.USD(0.04)},
		"an hour's writes of a large call":        {haiku55, money.Usage{CacheWriteHour: million}, money.Terms{}, money.Dollar},
		"a cheap hour":                            {deepseek, money.Usage{Input: million}, at("00:59:59Z"), money.USD(0.14)},
		"a dear hour begins":                      {deepseek, money.Usage{Input: million}, at("01:00:00Z"), money.USD(0.28)},
		"in another zone":                         {deepseek, money.Usage{Input: million}, at("09:00:00+08:00"), money.USD(0.28)},
		"and ends":                                {deepseek, money.Usage{Input: million}, at("04:00:00Z"), money.USD(0.14)},
		"the second dear hours":                   {deepseek, money.Usage{Input: million}, at("09:59:59Z"), money.USD(0.28)},
		"at a time nobody knows":                  {deepseek, money.Usage{Input: million}, money.Terms{}, money.USD(0.28)},
		"a night before midnight":                 {nights, money.Usage{Input: million}, at("16:30:00Z"), 1},
		"a night after midnight":                  {nights, money.Usage{Input: million}, at("00:29:00Z"), 1},
		"the night is over":                       {nights, money.Usage{Input: million}, at("00:30:00Z"), 2},
		"more inputs than an int holds":           {nights, money.Usage{Input: math.MaxInt, CachedInput: 5, ServiceTier: money.Flex}, at("03:00:00Z"), money.Amount(uint64(math.MaxInt)*2/million) + 1},
	} {
		if got := c.price.CostAt(c.usage, c.terms); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	// What is known of a call without terms.
	if got := gpt55.Cost(money.Usage{Input: million / 10}); got != money.USD(0.50) {
		t.Errorf("Cost is that of the standard tier: %v", got)
	}
	if got := deepseek.Cost(money.Usage{Input: million}); got != money.USD(0.28) {
		t.Errorf("Cost is that of the dearest hour: %v", got)
	}
	if got := gpt55.MaxCost(million/10, 0); got != money.USD(1.25) {
		t.Errorf("MaxCost is that of the dearest tier: %v", got)
	}
	if got, want := gpt55.MaxCost(272_001, 0), gpt55.CostAt(money.Usage{Input: 272_000}, tier(money.Priority)); got != want {
		t.Errorf("at most %v, but a smaller call of priority costs %v", got, want)
	}
}

// drawn is a price with rates over few sizes and hours, so that calls meet their bounds.
func drawn(r *rand.Rand) (p money.Price) {
	amount := func() money.Amount { return money.Amount(r.IntN(4) * 500_000) }
	p = priceOf(amount(), amount(), amount(), amount(), amount())
	for i := range r.IntN(len(p.Rates) + 1) {
		p.Rates[i] = money.Rate{
			Above: r.IntN(6), ServiceTier: money.ServiceTier(r.IntN(5)),
			From: money.DayTime(r.IntN(4) * 360), Until: money.DayTime(r.IntN(5) * 360),
			Input: amount() + 1, CachedInput: amount(), CacheWrite: amount(), CacheWriteHour: amount(), Output: amount(),
		}
	}
	return p
}

// billed is what a call costs by a reading of the documentation of Rate, one rate after the other.
func billed(p money.Price, u money.Usage, tier money.ServiceTier, minute int) money.Amount {
	plain := p
	plain.Rates = money.Rates{}
	for _, r := range p.Rates {
		if r == (money.Rate{}) {
			continue
		}
		size := u.Input + u.CachedInput + u.CacheWrite + u.CacheWriteHour
		from, until := int(r.From), int(r.Until)
		inside := from == until
		for m := from; m != until && !inside; m = (m + 1) % 1440 {
			inside = m == minute
			if until == 1440 && m == 1439 {
				break
			}
		}
		if size > r.Above && (r.ServiceTier == 0 || r.ServiceTier == tier) && inside {
			plain = priceOf(r.Input, r.CachedInput, r.CacheWrite, r.CacheWriteHour, r.Output)
		}
	}
	return exactCost(plain, u)
}

// CostAt is the dearest of what the rates say for each tier and minute that the terms leave open,
// and MaxCostAt the dearest of all usages within its counts.
func TestRatesOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for range 1500 / racetest.Factor {
		p := drawn(r)
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		terms := money.Terms{ServiceTier: money.ServiceTier(r.IntN(5))}
		minutes := []int{0, 1, 359, 360, 361, 719, 720, 1079, 1080, 1439}
		if r.IntN(2) == 0 {
			minutes = minutes[r.IntN(10):][:1]
			terms.At = time.Date(2026, 11, 26, 0, minutes[0], r.IntN(60), 0, time.UTC).In(time.FixedZone("", 5*3600+45*60))
		}
		tiers := []money.ServiceTier{money.Standard, money.Batch, money.Flex, money.Priority}
		if terms.ServiceTier != 0 {
			tiers = []money.ServiceTier{terms.ServiceTier}
		}
		dearest := func(u money.Usage) (most money.Amount) {
			for _, tier := range tiers {
				for _, minute := range minutes {
					most = max(most, billed(p, u, tier, minute))
				}
			}
			return most
		}
		u := money.Usage{r.IntN(4), r.IntN(3), r.IntN(3), r.IntN(3), r.IntN(4), 0}
		if got, want := p.CostAt(u, terms), dearest(u); got != want {
			t.Fatalf("%+v by %+v of %+v costs %v, want %v", u, terms, p, got, want)
		}
		const input, output = 5, 2
		var most money.Amount
		for a := range input + 1 {
			for kind := range 4 { // all of the same kind cost most
				u := money.Usage{Output: output}
				*[]*int{&u.Input, &u.CachedInput, &u.CacheWrite, &u.CacheWriteHour}[kind] = a
				most = max(most, dearest(u))
			}
		}
		if got := p.MaxCostAt(input, output, terms); got != most {
			t.Fatalf("%+v of %+v costs at most %v, want %v", terms, p, got, most)
		}
	}
}

func TestRatesAllocateNothing(t *testing.T) {
	terms := money.Terms{At: time.Now()}
	if n := testing.AllocsPerRun(100, func() {
		gpt55.CostAt(money.Usage{Input: 300_000}, money.Terms{})
		gpt55.MaxCostAt(300_000, 100, terms)
		gpt55.Cost(money.Usage{Input: 1})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestValidateRates(t *testing.T) {
	for want, rates := range map[string]money.Rates{
		"": {{Above: 1, Input: 1}, {ServiceTier: money.Priority}, {From: 1439, Until: 1440}},
		"invalid price: Rates[0] (rates): Above (above) is negative: -1":                {{Above: -1}},
		"invalid price: Rates[1] (rates): Output (output) is negative: -$0.000001":      {{Input: 1}, {Output: -1}},
		"invalid price: Rates[0] (rates): ServiceTier (service_tier) is none: 5":        {{ServiceTier: 5}},
		"invalid price: Rates[0] (rates): From (from) is no time of a day: 1440":        {{From: 1440}},
		"invalid price: Rates[0] (rates): Until (until) is no time of a day: -1":        {{Until: -1}},
		"invalid price: Rates[1] (rates) is empty, and there are others behind it":      {{Input: 1}, {}, {Input: 2}},
		"invalid price: Rates[0] (rates) is empty, and there are others behind it":      {7: {Input: 2}},
		"invalid price: Rates[7] (rates): CacheWrite (cache_write) is negative: -$1.00": {{Above: 1}, {Above: 1}, {Above: 1}, {Above: 1}, {Above: 1}, {Above: 1}, {Above: 1}, {CacheWrite: -money.Dollar}},
	} {
		err := money.Price{Rates: rates}.Validate()
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want || !errors.Is(err, money.ErrInvalidPrice)) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestRatesJSON(t *testing.T) {
	const text = `{"input":"$0.14","cached_input":"$0.014","output":"$0.28","rates":[` +
		`{"from":"01:00","until":"04:00","input":"$0.28","cached_input":"$0.028","output":"$0.56"},` +
		`{"from":"06:00","until":"10:00","input":"$0.28","cached_input":"$0.028","output":"$0.56"}]}`
	if got, err := json.Marshal(deepseek); string(got) != text || err != nil {
		t.Errorf("wrote %s, %v", got, err)
	}
	var p money.Price
	if err := json.Unmarshal([]byte(text), &p); err != nil || p != deepseek {
		t.Errorf("read %+v, %v", p, err)
	}
	p = gpt55
	for text, want := range map[string]string{
		`[{"service_tier":"slow"}]`:               `service tier "slow", want standard, batch, flex or priority`,
		`[{"from":"25:00"}]`:                      `time of day "25:00", want one such as 16:30`,
		`[{"from":"1:00"}]`:                       `time of day "1:00", want one such as 16:30`,
		`[{"abvoe":5}]`:                           `unknown field "abvoe"`,
		"[" + strings.Repeat("{},", 8) + "{}]":    "9 rates, more than 8",
		`[{"input":"$1"},{"input":"one dollar"}]`: `parse amount "one dollar"`,
	} {
		if err := json.Unmarshal([]byte(`{"rates":`+text+`}`), &p); err == nil || !strings.Contains(err.Error(), want) || p != gpt55 {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func TestTierOf(t *testing.T) {
	for name, want := range map[string]money.ServiceTier{
		"standard": money.Standard, "default": money.Standard, "batch": money.Batch, "flex": money.Flex, "priority": money.Priority, "fast": money.Priority,
		"": 0, "auto": 0, "scale": 0, "Priority": 0,
	} {
		if got := money.TierOf(name); got != want {
			t.Errorf("%q is %v, want %v", name, got, want)
		}
	}
	if got := money.ServiceTier(9).String(); got != "ServiceTier(9)" {
		t.Error(got)
	}
}

func FuzzRates(f *testing.F) {
	f.Add([]byte(`[{"above":5,"service_tier":"flex","from":"01:00","until":"04:00","input":"$1"}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var r, again money.Rates
		if json.Unmarshal(text, &r) != nil {
			return
		}
		p := money.Price{Rates: r}
		p.MaxCost(1000, 1000)
		if p.Validate() != nil {
			return
		}
		written, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(written, &again); err != nil || again != r {
			t.Fatalf("%s: %v", written, err)
		}
	})
}

package batch

import (
	"context"
	"slices"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// Plan is what a run is expected to take, as its JSON tells it.
type Plan struct {
	Lines     int      `json:"lines"`       // of IN
	Before    int      `json:"done_before"` // that OUT has
	ToDo      int      `json:"to_do"`       // that would be sent
	BadLines  int      `json:"bad_lines,omitempty"`
	NeverFits int      `json:"never_fits,omitempty"`
	Tokens    Tokens   `json:"tokens"`
	Dollars   float64  `json:"dollars"`
	Unpriced  []string `json:"unpriced,omitempty"` // models that the dollars leave out
	Minutes   float64  `json:"minutes"`            // from an unused quota, without the last answers
	Models    []string `json:"models"`
}

// load is what a run asks of the limits of a model or a pool.
type load struct {
	limits                           ratelimit.ModelStats
	requests, prompt, output, counts int
}

// Plan reads IN once more, and sends nothing.
func (b *Batch) Plan(ctx context.Context) (Plan, error) {
	p := Plan{Lines: b.survey.lines, Before: b.survey.finished, Models: []string{}}
	loads, cost := make(map[string]*load), money.Amount(0)
	err := b.each(ctx, func(c *call, f *failure) bool {
		if b.s.Limit > 0 && p.ToDo+p.BadLines+p.NeverFits == b.s.Limit {
			return false
		}
		switch {
		case f == nil:
		case f.Code == codeNeverFits:
			p.NeverFits++
			return true
		default:
			p.BadLines++
			return true
		}
		p.ToDo++
		p.Tokens.Prompt += int64(c.size.prompt)
		p.Tokens.Output += int64(c.size.output)
		name := b.counted(c.size.model)
		price, ok := b.limiter.PriceOf(name)
		if !slices.Contains(p.Models, name) && len(p.Models) < maxModels {
			p.Models = append(p.Models, name)
			if !ok {
				p.Unpriced = append(p.Unpriced, name)
			}
		}
		cost = cost.Add(price.Cost(money.Usage{Input: c.size.prompt, Output: c.size.output}))
		b.load(loads, name, c.size)
		return true
	})
	for _, l := range loads {
		p.Minutes = max(p.Minutes, l.minutes())
	}
	p.Dollars = cost.Dollars()
	return p, err
}

// load adds a call to what the limits of its model are asked for.
func (b *Batch) load(loads map[string]*load, name string, z *size) {
	counts := z.total()
	if host := b.s.Upstream.Hostname(); host == "api.openai.com" || strings.HasSuffix(host, ".openai.azure.com") { // which give nothing back
		counts = max(counts, z.arrival.PromptTokens+z.arrival.OutputTokens)
	}
	add := func(key string, limits func() ratelimit.ModelStats) {
		l := loads[key]
		if l == nil {
			l = &load{limits: limits()}
			loads[key] = l
		}
		l.requests++
		l.prompt += z.prompt
		l.output += z.output
		l.counts += counts
	}
	add("model "+name, func() ratelimit.ModelStats { return b.limiter.Stats(name) })
	for _, pool := range b.limiter.PoolsOf(name) {
		add("pool "+pool, func() ratelimit.ModelStats { return b.limiter.PoolStats(pool) })
	}
}

// window is a minute of a quota, with the time in which a request may arrive.
const window = time.Minute + 250*time.Millisecond

// minutes returns how long the limits hold the last call back: whole windows, since each begins
// with all that fits.
func (l *load) minutes() float64 {
	waits := func(n, limit int, window time.Duration) float64 {
		if limit <= 0 || n <= limit {
			return 0
		}
		return float64((n-1)/limit) * window.Minutes()
	}
	s := &l.limits
	return max(
		waits(l.requests, s.MaxRPM, window), waits(l.counts, s.MaxTPM, window),
		waits(l.prompt, s.MaxITPM, window), waits(l.output, s.MaxOTPM, window),
		waits(l.requests, s.MaxRPD, 24*time.Hour), waits(l.counts, s.MaxTPD, 24*time.Hour),
	)
}

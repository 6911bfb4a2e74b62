package batch

import (
	"context"
	"slices"
	"strings"

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
	Unpriced  []string `json:"unpriced,omitempty"`  // models that the dollars leave out
	Unlimited []string `json:"unlimited,omitempty"` // models that nothing limits
	Minutes   float64  `json:"minutes"`             // from an unused quota, without the last answers
	Models    []string `json:"models"`
}

// Plan reads IN once more, and sends nothing.
func (b *Batch) Plan(ctx context.Context) (Plan, error) {
	p := Plan{Lines: b.survey.lines, Before: b.survey.finished, Models: []string{}}
	t, refunds, cost := newTimetable(b.limiter), b.refunds(), money.Amount(0)
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
			if !t.limits(name) {
				p.Unlimited = append(p.Unlimited, name)
			}
		}
		cost = cost.Add(price.Cost(money.Usage{Input: c.size.prompt, Output: c.size.output}))
		p.Minutes = max(p.Minutes, t.admit(name, c.size.requests(refunds)).Minutes())
		return true
	})
	p.Dollars = cost.Dollars()
	return p, err
}

// refunds reports whether the provider counts what a call has used, and not what its request
// allows.
func (b *Batch) refunds() bool {
	host := b.s.Upstream.Hostname()
	return !b.s.NoRefund && host != "api.openai.com" && !strings.HasSuffix(host, ".openai.azure.com")
}

// requests is what a call asks of a quota.
func (z *size) requests(refunds bool) amounts {
	counts := z.total()
	if !refunds {
		counts = max(counts, z.arrival.PromptTokens+z.arrival.OutputTokens)
	}
	return amounts{requests: 1, tokens: counts, prompt: z.prompt, output: z.output}
}

package llmhttp_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
	"dappco.re/go/core/go-ratelimit/money"
)

// TestRefusalsOfFairShares: a call that a pool, a budget or a missing price denied says so in
// words, with its code, its time and its pool, in each form in which a program may get it.
func TestRefusalsOfFairShares(t *testing.T) {
	prices := map[string]money.Price{"m": {Input: money.USD(1)}}
	pool := func(q ratelimit.ModelQuota) ratelimit.Config {
		return ratelimit.Config{Prices: prices, Pools: map[string]ratelimit.Pool{`the "org"`: {Models: []string{"*"}, Quota: q}}}
	}
	model := func(q ratelimit.ModelQuota) ratelimit.Config {
		return ratelimit.Config{Prices: prices, Quotas: map[string]ratelimit.ModelQuota{"m": q}}
	}
	const day, month = 24 * time.Hour, 31 * 24 * time.Hour // the bubble begins with a month
	for name, test := range map[string]struct {
		cfg    ratelimit.Config
		code   ratelimit.DecisionCode
		pool   bool
		reason string
		free   time.Duration // at least; 0 for never
		err    error
	}{
		"a pool":          {pool(ratelimit.ModelQuota{MaxRPM: 1}), ratelimit.DecisionRPMLimit, true, "requests per minute are used up", time.Minute, ratelimit.ErrMaxWait},
		"a budget":        {model(ratelimit.ModelQuota{MaxSpendPerMonth: 40}), ratelimit.DecisionSpendLimit, false, "the spend of the month is used up", month, ratelimit.ErrMaxWait},
		"a pool's budget": {pool(ratelimit.ModelQuota{MaxSpendPerDay: 40}), ratelimit.DecisionSpendLimit, true, "the spend of the day is used up", day, ratelimit.ErrMaxWait},
		"requests and a pool's budget": {
			ratelimit.Config{Prices: prices, Quotas: model(ratelimit.ModelQuota{MaxRPM: 1}).Quotas, Pools: pool(ratelimit.ModelQuota{MaxSpendPerMonth: 40}).Pools},
			ratelimit.DecisionRPMLimit, false, `requests per minute are used up; longest: the pool "the \"org\"": the spend of the month is used up`, month, ratelimit.ErrMaxWait,
		},
		"requests of the day and a budget": {
			model(ratelimit.ModelQuota{MaxRPD: 1, MaxSpendPerMonth: 40}),
			ratelimit.DecisionRPDLimit, false, "requests per day are used up; longest: the spend of the month is used up", month, ratelimit.ErrMaxWait,
		},
		"a call too dear":  {model(ratelimit.ModelQuota{MaxSpendPerDay: 5}), ratelimit.DecisionSpendLimit, false, "the request alone may cost more than the spend of a day", 0, ratelimit.ErrNeverFits},
		"no price":         {ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxSpendPerDay: 5}}}, ratelimit.DecisionUnpriced, false, "the model has no price (Config.Prices), and spend is limited", 0, ratelimit.ErrNeverFits},
		"no price, a pool": {ratelimit.Config{Pools: pool(ratelimit.ModelQuota{MaxSpendPerDay: 5}).Pools}, ratelimit.DecisionUnpriced, true, "the model has no price (Config.Prices), and spend is limited", 0, ratelimit.ErrNeverFits},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiterWith(t, test.cfg)
				tr := &llmhttp.Transport{Limiter: rl, MaxWait: time.Second, Base: reply(200, `{"usage":{"prompt_tokens":30,"completion_tokens":0}}`)}
				const call = `{"model":"m","max_tokens":1,"messages":[]}`
				if test.free > 0 {
					exchange(t, tr, chatURL, call)
				}
				check := func(form string, p *llmhttp.Problem) {
					if p == nil || p.Kind != llmhttp.NotSent || p.Code != string(test.code) || p.Model != "m" || p.Reason != test.reason || !errors.Is(p, test.err) {
						t.Errorf("%s: %+v", form, p)
						return
					}
					if budget := strings.Contains(test.reason, "the spend of") || strings.Contains(test.reason, "a day"); budget != errors.Is(p, ratelimit.ErrBudget) {
						t.Errorf("%s: it is %v that %v is ErrBudget", form, !budget, p)
					}
					if late := p.RetryAfter - test.free; p.Pool != "" != test.pool || late < 0 || late > time.Millisecond {
						t.Errorf("%s: pool %q, free in %v, want %v", form, p.Pool, p.RetryAfter, test.free)
					}
					want := `): model "m": ` + test.reason
					if test.pool {
						want = `): model "m", pool "the \"org\"": ` + test.reason
					}
					if text := p.Error(); !strings.Contains(text, want) {
						t.Errorf("%s says %s", form, text)
					}
				}
				resp, err := post(t, tr, chatURL, call)
				if err != nil {
					t.Fatal(err)
				}
				check("the response", llmhttp.Classify(resp))
				body, _ := llmhttp.FromError(errors.New(readAll(t, resp)))
				check("the body", body)
				tr.RefuseWithError = true
				_, err = post(t, tr, chatURL, call)
				var limit *ratelimit.LimitError
				if !errors.As(err, &limit) || limit.Decision.Code != test.code || limit.Decision.Pool != "" != test.pool ||
					errors.Is(err, ratelimit.ErrBudget) != errors.Is(body, ratelimit.ErrBudget) {
					t.Errorf("the error %v", err)
				}
				p, _ := llmhttp.FromError(err)
				check("the error", p)
			})
		})
	}
}

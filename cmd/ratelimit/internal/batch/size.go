package batch

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// size is what a call is expected to take, found without sending it.
type size struct {
	model     string // that the request names; empty for a call that nothing counts
	adapter   string
	prompt    int
	output    int
	maxOutput int             // that the request allows; 0 for no bound
	arrival   ratelimit.Usage // as the provider counts the call when it arrives
}

// total is the tokens that the call takes in the end.
func (z *size) total() int { return z.prompt + z.output }

// sizer finds sizes: a Transport to nowhere, whose limiter has no limits.
type sizer struct {
	transport *llmhttp.Transport
	limiter   *ratelimit.RateLimiter
}

type sizeKey struct{}

// newSizer returns a sizer that expects so many tokens of output of a call that does not allow
// fewer; 0 for what the Transport expects.
func newSizer(expectOutput int) (*sizer, error) {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		Quotas: map[string]ratelimit.ModelQuota{"*": {}}, NoPrices: true,
		OnError: func(error) {}, // what is told of a call that nothing counts, its line tells
	})
	if err != nil {
		return nil, err
	}
	s := &sizer{limiter: rl}
	s.transport = &llmhttp.Transport{
		Base: nowhere{}, Limiter: rl, FirstOutput: expectOutput, MaxBody: maxLine,
		Model: func(call *llmhttp.Call) string {
			if z, ok := call.Request.Context().Value(sizeKey{}).(*size); ok {
				z.model, z.maxOutput = call.Model, call.MaxOutput
			}
			return call.Model
		},
		OnEvent: func(e llmhttp.Event) {
			if z, ok := e.Context.Value(sizeKey{}).(*size); ok && e.Kind == llmhttp.EventAdmitted {
				z.adapter, z.arrival = e.Adapter, e.Estimated
			}
		},
	}
	return s, nil
}

const defaultOutput = 256 // tokens, as llmhttp.Transport.FirstOutput has it

// of returns the size of a call.
func (s *sizer) of(req *http.Request) (*size, error) {
	z := &size{}
	resp, err := s.transport.RoundTrip(req.WithContext(context.WithValue(req.Context(), sizeKey{}, z)))
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	z.prompt = z.arrival.PromptTokens
	expected := s.transport.FirstOutput
	if expected <= 0 {
		expected = defaultOutput
	}
	z.output = min(z.arrival.OutputTokens, expected)
	if z.adapter == "gemini" && strings.Contains(strings.ToLower(req.URL.Path), "generate") {
		z.output = expected // which its limits do not count
	}
	if z.maxOutput > 0 {
		z.output = min(z.output, z.maxOutput)
	}
	return z, nil
}

// nowhere answers at once.
type nowhere struct{}

// RoundTrip returns an answer that tells nothing.
func (nowhere) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		req.Body.Close()
	}
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader("{}")), ContentLength: 2,
	}, nil
}

// limitsOf returns the limits of a model, and those of its pools.
func limitsOf(rl *ratelimit.RateLimiter, name string) []ratelimit.ModelStats {
	all := []ratelimit.ModelStats{rl.Stats(name)}
	for _, pool := range rl.PoolsOf(name) {
		all = append(all, rl.PoolStats(pool))
	}
	return all
}

// misfit says why a call can never be within the limits; empty for one that can. The expected
// output does not count, unless the request allows as much, because it is no more than a guess.
func misfit(limits []ratelimit.ModelStats, z *size) string {
	most := z.prompt
	if z.maxOutput > 0 {
		most = max(z.prompt+z.output, z.arrival.PromptTokens+z.arrival.OutputTokens)
	}
	for i := range limits {
		s := &limits[i]
		for _, one := range []struct {
			limit, n int
			what     string
		}{
			{s.MaxITPM, z.prompt, "input tokens a minute"}, {s.MaxTPM, most, "tokens a minute"}, {s.MaxTPD, most, "tokens a day"},
		} {
			if one.limit > 0 && one.n > one.limit {
				return fmt.Sprintf("the call takes about %d tokens, and the quota is %d %s", one.n, one.limit, one.what)
			}
		}
	}
	return ""
}

package llmhttp_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// charged makes a call whose context has charges, and reads its answer.
func charged(t *testing.T, tr http.RoundTripper, requests ...ratelimit.Request) (*http.Response, error) {
	t.Helper()
	ctx := llmhttp.WithCharge(t.Context(), requests...)
	req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, strings.NewReader(`{"model":"m","max_tokens":50}`))
	resp, err := tr.RoundTrip(req)
	if err == nil {
		readAll(t, resp)
	}
	return resp, err
}

// The team follows the use of the call, the budget keeps what it names; all are charged as often
// as the model.
func TestWithCharge(t *testing.T) {
	const answer = `{"usage":{"prompt_tokens":5,"completion_tokens":6}}`
	broken := errors.New("broken")
	for _, test := range []struct {
		name         string
		answers      []int // status of each try; 0 breaks after, -1 before the request is sent
		retry        int
		requests     int
		model, team  int // tokens
		budget       int
		transportSet func(*llmhttp.Transport)
	}{
		{name: "answered", answers: []int{200}, requests: 1, model: 11, team: 11, budget: 7},
		{name: "refused by the provider", answers: []int{400}, requests: 1, budget: 7},
		{name: "failed", answers: []int{0}, requests: 1, model: 54, team: 54, budget: 7},
		{name: "never sent", answers: []int{-1}},
		{name: "retried", answers: []int{503, 200}, retry: 1, requests: 2, model: 11, team: 11, budget: 14},
		{name: "retried after one that was not sent", answers: []int{-1, 200}, retry: 1, requests: 1, model: 11, team: 11, budget: 7},
		{name: "estimated by the program", answers: []int{0}, requests: 1, model: 30, team: 30, budget: 7, transportSet: func(tr *llmhttp.Transport) {
			tr.Estimate = func(*llmhttp.Call) (int, int) { return 10, 20 }
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				quota := ratelimit.ModelQuota{MaxRPM: 10, MaxTPM: 1000, MaxInFlight: 1}
				rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": quota, "team": quota, "budget": quota}})
				tries := 0
				tr := &llmhttp.Transport{Limiter: rl, Retry: llmhttp.Retry{Max: test.retry}, Base: base(func(req *http.Request) (*http.Response, error) {
					tries++
					switch status := test.answers[tries-1]; status {
					case -1:
						return nil, broken
					case 0:
						io.Copy(io.Discard, req.Body)
						return nil, broken
					default:
						io.Copy(io.Discard, req.Body)
						for _, model := range []string{"m", "team", "budget"} {
							if s := rl.Stats(model); s.InFlight != 1 {
								t.Errorf("on the way: %s has %+v", model, s)
							}
						}
						return response(req, status, answer), nil
					}
				})}
				if test.transportSet != nil {
					test.transportSet(tr)
				}
				charged(t, tr, ratelimit.Request{Model: "team"}, ratelimit.Request{Model: "budget", PromptTokens: 3, OutputTokens: 4})
				if tries != len(test.answers) {
					t.Errorf("%d tries", tries)
				}
				for model, tokens := range map[string]int{"m": test.model, "team": test.team, "budget": test.budget} {
					if s := rl.Stats(model); s.RPM != test.requests || s.TPM != tokens || s.InFlight != 0 {
						t.Errorf("%s: %d requests, %d tokens, %d in flight, want %d, %d, 0", model, s.RPM, s.TPM, s.InFlight, test.requests, tokens)
					}
				}
			})
		})
	}
}

// A call is charged all or nothing, and the refusal names the one that denied.
func TestWithChargeRefuses(t *testing.T) {
	for _, test := range []struct {
		name    string
		quotas  map[string]ratelimit.ModelQuota
		request ratelimit.Request
		model   string
		is      error
		code    string
	}{
		{"the team", map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10}, "team": {MaxRPM: 1}}, ratelimit.Request{Model: "team"}, "team", ratelimit.ErrMaxWait, "rpm_exceeded"},
		{"the model", map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1}, "team": {MaxRPM: 10}}, ratelimit.Request{Model: "team"}, "m", ratelimit.ErrMaxWait, "rpm_exceeded"},
		{"a budget that is too small", map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10}, "team": {MaxTPM: 10}}, ratelimit.Request{Model: "team", PromptTokens: 11}, "team", ratelimit.ErrNeverFits, "tpm_exceeded"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiterWith(t, ratelimit.Config{Quotas: test.quotas})
				rl.RecordUsage("m", 1, 0)
				rl.RecordUsage("team", 1, 0)
				for _, asError := range []bool{false, true} {
					tr := &llmhttp.Transport{Limiter: rl, MaxWait: time.Second, RefuseWithError: asError, Base: reply(200, `{}`)}
					resp, err := charged(t, tr, test.request)
					if asError {
						var limit *ratelimit.LimitError
						if !errors.As(err, &limit) || limit.Model != test.model || !errors.Is(err, test.is) {
							t.Errorf("got %v", err)
						}
						continue
					}
					p := llmhttp.Classify(resp)
					if !errors.Is(p, llmhttp.ErrNotSent) || !errors.Is(p, test.is) || p.Model != test.model || p.Code != test.code {
						t.Errorf("got %+v, %v", p, err)
					}
				}
				for model, s := range rl.AllStats() {
					if s.RPM != 1 || s.TPM != 1 || s.InFlight != 0 || s.Waiting != 0 {
						t.Errorf("%s was charged %+v", model, s)
					}
				}
			})
		})
	}
}

// An estimate is cut to the quota of each that takes it.
func TestWithChargeIsCut(t *testing.T) {
	rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxTPM: 40}, "team": {MaxTPM: 20}}})
	tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
		if m, team := rl.Stats("m").TPM, rl.Stats("team").TPM; m != 40 || team != 20 {
			t.Errorf("charged %d and %d", m, team)
		}
		return response(req, 200, `{"usage":{"prompt_tokens":5,"completion_tokens":6}}`), nil
	})}
	resp, err := charged(t, tr, ratelimit.Request{Model: "team"})
	if err != nil || resp.StatusCode != 200 || rl.Stats("team").TPM != 11 {
		t.Errorf("%v, %v, %+v", resp, err, rl.Stats("team"))
	}
}

// The charges of a context add up, and those of another context are not theirs.
func TestWithChargeAddsUp(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{})
	tr := &llmhttp.Transport{Limiter: rl, Base: reply(200, `{"usage":{"prompt_tokens":5,"completion_tokens":6}}`)}
	named := make([]ratelimit.Request, 1, 10)
	named[0] = ratelimit.Request{Model: "a"}
	outer := llmhttp.WithCharge(t.Context(), named...)
	both := llmhttp.WithCharge(outer, ratelimit.Request{Model: "b"})
	llmhttp.WithCharge(outer, ratelimit.Request{Model: "c"})
	named[0].Model = "changed" // WithCharge has a copy
	for _, ctx := range []context.Context{outer, both, llmhttp.WithCharge(t.Context())} {
		req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, strings.NewReader(`{"model":"m"}`))
		resp, err := tr.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, resp)
	}
	for model, want := range map[string]int{"m": 3, "a": 2, "b": 1, "c": 0, "changed": 0} {
		if got := rl.Stats(model).RPM; got != want {
			t.Errorf("%s: %d requests, want %d", model, got, want)
		}
	}
	// What is not counted charges nothing.
	req, _ := http.NewRequestWithContext(both, "GET", "http://llm.test/v1/models", nil)
	if _, err := tr.RoundTrip(req); err != nil || rl.Stats("a").RPM != 2 {
		t.Errorf("%v, %+v", err, rl.Stats("a"))
	}
}

// The charges are dated like that of the model, and wait with it in line.
func TestWithChargeWaitsAndIsDated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {}, "team": {MaxRPM: 1}}})
		start := time.Now()
		var sent []time.Duration
		var mu sync.Mutex
		tr := &llmhttp.Transport{Limiter: rl, Margin: -1, Base: base(func(req *http.Request) (*http.Response, error) {
			io.Copy(io.Discard, req.Body)
			mu.Lock()
			sent = append(sent, time.Since(start))
			mu.Unlock()
			time.Sleep(10 * time.Second)
			return response(req, 200, `{}`), nil
		})}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if _, err := charged(t, tr, ratelimit.Request{Model: "team"}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		// The answer comes ten seconds after the request, and so long lasts the charge's minute.
		if len(sent) != 3 || sent[0] != 0 || sent[1].Round(time.Second) != 70*time.Second || sent[2].Round(time.Second) != 140*time.Second {
			t.Errorf("sent at %v", sent)
		}
	})
}

// A redirected request is charged anew, as at its model.
func TestWithChargeFollowsRedirects(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{})
	tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
		io.Copy(io.Discard, req.Body)
		if req.URL.RawQuery == "" {
			return response(req, 307, ``, "Location: "+chatURL+"?again"), nil
		}
		return response(req, 200, `{"usage":{"prompt_tokens":5,"completion_tokens":6}}`), nil
	})}
	ctx := llmhttp.WithCharge(t.Context(), ratelimit.Request{Model: "team"}, ratelimit.Request{Model: "budget", PromptTokens: 1})
	req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, strings.NewReader(`{"model":"m"}`))
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	readAll(t, resp)
	for model, tokens := range map[string]int{"m": 11, "team": 11, "budget": 2} {
		if s := rl.Stats(model); s.RPM != 2 || s.TPM != tokens || s.InFlight != 0 {
			t.Errorf("%s was charged %+v", model, s)
		}
	}
}

// A call whose context ends while it waits in several lines leaves all of them.
func TestWithChargeIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 5}, "team": {MaxInFlight: 1}}})
		held, _ := rl.Reserve("team", 0, 0)
		tr := &llmhttp.Transport{Limiter: rl, Base: reply(200, `{}`)}
		ctx, cancel := context.WithCancel(llmhttp.WithCharge(t.Context(), ratelimit.Request{Model: "team"}))
		time.AfterFunc(time.Second, cancel)
		req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, strings.NewReader(`{"model":"m"}`))
		if _, err := tr.RoundTrip(req); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		held.Cancel()
		for model, s := range rl.AllStats() {
			if s.RPM != 0 || s.InFlight != 0 || s.Waiting != 0 {
				t.Errorf("%s has %+v", model, s)
			}
		}
	})
}

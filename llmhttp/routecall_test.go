package llmhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// What WithCharge adds is charged once for each try, and given back or settled with it.
func TestRouteWithCharge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{
			"a/m": {MaxRPM: 100}, "b/m": {MaxRPM: 1000}, "team": {MaxRPM: 3, MaxTPM: 10_000}, "budget": {MaxTPM: 1000},
		}})
		var got []string
		route := &llmhttp.Route{Backends: keyed("a", "b"), Transport: llmhttp.Transport{
			Limiter: rl, Base: providerOf(t, `{"model":"m"}`, &got, map[string][]scripted{"a": {answered}, "b": {limited, answered}}),
		}}
		began := time.Now()
		for i, want := range []string{"[b a]", "[b a a]", "[b a a a]"} {
			ctx := llmhttp.WithCharge(t.Context(), ratelimit.Request{Model: "team"}, ratelimit.Request{Model: "budget", PromptTokens: 5})
			req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, strings.NewReader(`{"model":"m"}`))
			resp, err := route.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			readAll(t, resp)
			if fmt.Sprint(got) != want {
				t.Errorf("call %d: sent to %v, want %s", i, got, want)
			}
		}
		// The third call is the fourth try, for which the team has no room in the first minute.
		if took := time.Since(began); took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("it took %v", took)
		}
		for name, want := range map[string][2]int{"a/m": {3, 21}, "b/m": {1, 0}, "team": {4, 21}, "budget": {4, 20}} {
			s := rl.Stats(name)
			if s.RPD != want[0] || s.TPD != want[1] || s.InFlight != 0 {
				t.Errorf("%s has %d requests and %d tokens, %d in flight; want %d", name, s.RPD, s.TPD, s.InFlight, want)
			}
		}
	})
}

// The provider counts a large prompt with the key and at the address of a backend, once.
func TestRouteCountAbove(t *testing.T) {
	body := `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"` + strings.Repeat("x", 4000) + `"}]}`
	rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxITPM: 100_000}}})
	var got []string
	route := &llmhttp.Route{
		BaseURL: "http://llm.test/v1",
		Backends: []llmhttp.Backend{
			{Name: "a", BaseURL: "http://a.test/x", Header: http.Header{"X-Api-Key": {"a"}}},
			{Name: "b", BaseURL: "http://b.test/x", Header: http.Header{"X-Api-Key": {"b"}}},
		},
		Transport: llmhttp.Transport{Limiter: rl, CountAbove: 100, Base: base(func(req *http.Request) (*http.Response, error) {
			got = append(got, req.URL.String()+" "+req.Header.Get("X-Api-Key"))
			if sent, _ := io.ReadAll(req.Body); strings.HasSuffix(req.URL.Path, "/messages") && string(sent) != body {
				t.Errorf("sent %q", sent)
			}
			if strings.HasSuffix(req.URL.Path, "/count_tokens") {
				return response(req, 200, `{"input_tokens":777}`), nil
			}
			if req.URL.Host == "b.test" {
				return response(req, 429, `{}`), nil
			}
			if in := rl.Stats("a/m").ITPM; in != 777 {
				t.Errorf("%d tokens were charged", in)
			}
			return response(req, 200, `{}`), nil
		})},
	}
	exchange(t, route, "http://llm.test/v1/messages", body)
	want := "[http://b.test/x/messages/count_tokens b http://b.test/x/messages b http://a.test/x/messages a]"
	if fmt.Sprint(got) != want {
		t.Errorf("sent\n%v, want\n%s", got, want)
	}
}

// Other settings of the Transport hold in a Route.
func TestRouteKeepsTransport(t *testing.T) {
	const streamed = `{"model":"m","stream":true}`
	usage := sse(`{"choices":[{"delta":{"content":"Hello"}}]}`, `{"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7}}`, "[DONE]")
	rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxTPM: 10_000}, "big": {MaxTPM: 50}}})
	var bodies []string
	asked := 0
	route := &llmhttp.Route{Backends: keyed("a", "b"), Transport: llmhttp.Transport{
		Limiter: rl, AddStreamUsage: true,
		Estimate: func(*llmhttp.Call) (int, int) { asked++; return 40, 2 },
		Model:    func(c *llmhttp.Call) string { return strings.TrimPrefix(c.Model, "free") },
		Base: base(func(req *http.Request) (*http.Response, error) {
			body, _ := io.ReadAll(req.Body)
			bodies = append(bodies, keyOf(req)+string(body))
			if keyOf(req) == "b" {
				return response(req, 429, `{}`), nil
			}
			return response(req, 200, usage, "Content-Type: text/event-stream"), nil
		}),
	}}
	resp, err := post(t, route, chatURL, streamed)
	if err != nil {
		t.Fatal(err)
	}
	if body := readAll(t, resp); strings.Contains(body, "usage") || !strings.Contains(body, "Hello") {
		t.Errorf("the caller got %q", body)
	}
	const sent = `{"stream_options":{"include_usage":true},"model":"m","stream":true}`
	if fmt.Sprint(bodies) != fmt.Sprintf("[b%s a%s]", sent, sent) {
		t.Errorf("sent %q", bodies)
	}
	if s := rl.Stats("a/m"); s.ITPM != 11 || s.OTPM != 7 || s.InFlight != 0 {
		t.Errorf("charged %+v", s)
	}
	if asked != 2 {
		t.Errorf("Estimate was asked %d times for two tries", asked)
	}
	bodies = nil
	exchange(t, route, chatURL, `{"model":"free"}`) // which Model does not count
	if fmt.Sprint(bodies) != `[a{"model":"free"}]` || rl.Stats("a/").RPM != 0 {
		t.Errorf("sent %q", bodies)
	}
}

// Backends that CountAs counts together share a quota.
func TestRouteCountAs(t *testing.T) {
	rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"org/m": {MaxRPM: 100}, "other/m": {MaxRPM: 1}}})
	var got []string
	scripts := map[string][]scripted{"a": {answered}, "b": {answered}}
	route := &llmhttp.Route{
		Backends: keyed("a", "b", "c"),
		CountAs: func(backend, model string) string {
			if backend == "c" {
				return "other/" + model
			}
			return "org/" + model
		},
		Transport: llmhttp.Transport{Limiter: rl, Base: providerOf(t, `{"model":"m"}`, &got, scripts)},
	}
	for range 4 {
		exchange(t, route, chatURL, `{"model":"m"}`)
	}
	if fmt.Sprint(got) != "[b a a b]" || rl.Stats("org/m").RPM != 4 {
		t.Errorf("sent to %v, %d counted", got, rl.Stats("org/m").RPM)
	}
	got, scripts["b"] = nil, []scripted{failed}
	for range 6 { // b fails once, and that is not said of a
		exchange(t, route, chatURL, `{"model":"m"}`)
	}
	if fmt.Sprint(got) != "[a a b a a a]" {
		t.Errorf("sent to %v", got)
	}
}

// A backend that does not exist cannot be chosen, and the last choice counts.
func TestWithBackend(t *testing.T) {
	rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 100}}})
	var got []string
	any := []scripted{answered}
	route := &llmhttp.Route{Backends: keyed("a", "b", "c"), Transport: llmhttp.Transport{
		Limiter: rl, Base: providerOf(t, `{"model":"m"}`, &got, map[string][]scripted{"a": any, "b": any, "c": any}),
	}}
	call := func(ctx context.Context, path string) error {
		req, _ := http.NewRequestWithContext(ctx, "POST", "http://llm.test"+path, strings.NewReader(`{"model":"m"}`))
		resp, err := route.RoundTrip(req)
		if err == nil {
			readAll(t, resp)
		}
		return err
	}
	chosen := llmhttp.WithBackend(t.Context(), "c")
	for _, path := range []string{"/v1/chat/completions", "/v1/files"} {
		if err := call(chosen, path); err != nil {
			t.Error(err)
		}
	}
	if err := call(llmhttp.WithBackend(chosen, "a"), "/v1/chat/completions"); err != nil {
		t.Error(err)
	}
	if err := call(llmhttp.WithBackend(chosen, ""), "/v1/files"); err != nil {
		t.Error(err)
	}
	if fmt.Sprint(got) != "[c c a a]" {
		t.Errorf("sent to %v", got)
	}
	if err := call(llmhttp.WithBackend(t.Context(), "d"), "/v1/files"); err == nil || err.Error() != `llmhttp: WithBackend: the route has no backend "d"` {
		t.Errorf("error %v", err)
	}
}

// A call whose context ends while it waits for another backend gives everything back.
func TestRouteCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"a/m": {MaxInFlight: 1}, "b/m": {MaxRPM: 100}}})
		held, _ := rl.Reserve("a/m", 0, 0)
		defer func() { held.Cancel() }()
		var got []string
		slow := scripted{status: 429, body: `{}`, headers: []string{"Retry-After: 50"}}
		route := &llmhttp.Route{Backends: keyed("a", "b"), Transport: llmhttp.Transport{
			Limiter: rl, Base: providerOf(t, `{"model":"m"}`, &got, map[string][]scripted{"b": {slow}}),
		}}
		for _, wait := range []time.Duration{time.Second, 0} {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(wait, cancel)
			req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, strings.NewReader(`{"model":"m"}`))
			resp, err := route.RoundTrip(req)
			cancel()
			switch {
			case wait > 0 && (err != nil || resp.StatusCode != 429):
				t.Errorf("got %v, %v; want the refusal of b", resp, err)
			case wait == 0 && !errors.Is(err, context.Canceled):
				t.Errorf("got %v", err)
			}
			if err == nil {
				readAll(t, resp)
			}
		}
		if s := rl.Stats("a/m"); s.InFlight != 1 || s.Waiting != 0 || rl.Stats("b/m").InFlight != 0 {
			t.Errorf("a has %+v", s)
		}
	})
}

// A call takes the backend that has room first, also where no time tells which that is, and leaves
// the other lines.
func TestRouteTakesFirstThatOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxInFlight: 1}}})
		var held ratelimit.Reservations
		for _, model := range []string{"a/m", "b/m", "c/m"} {
			r, _ := rl.Reserve(model, 0, 0)
			held = append(held, r)
		}
		var mu sync.Mutex
		var got []string
		route := &llmhttp.Route{Backends: keyed("a", "b", "c"), Transport: llmhttp.Transport{
			Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
				mu.Lock()
				got = append(got, keyOf(req))
				mu.Unlock()
				time.Sleep(time.Hour)
				return reply(200, `{}`)(req)
			}),
		}}
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { exchange(t, route, chatURL, `{"model":"m"}`) })
			time.Sleep(time.Second)
		}
		for _, i := range []int{1, 2, 0} {
			held[i].Cancel()
			time.Sleep(time.Second)
		}
		for _, model := range []string{"a/m", "b/m", "c/m"} {
			if s := rl.Stats(model); s.Waiting != 0 || s.InFlight != 1 {
				t.Errorf("%s has %d in flight, %d waiting", model, s.InFlight, s.Waiting)
			}
		}
		wg.Wait()
		if fmt.Sprint(got) != "[b c a]" {
			t.Errorf("sent to %v", got)
		}
	})
}

// Whatever backends answer, and however callers give up, nothing stays charged, in line or open.
func TestRouteAtRandom(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 0))
			var mu sync.Mutex
			draw := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return random.IntN(n)
			}
			rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{
				"a/m": {MaxRPM: 60, MaxInFlight: 3}, "b/m": {MaxRPM: 30, MaxTPM: 1000}, "c/m": {MaxInFlight: 1}, "team": {MaxRPM: 200, MaxInFlight: 6},
			}})
			defer rl.Close()
			scripts := []scripted{answered, answered, answered, limited, overloaded, broke, failed, cut}
			route := &llmhttp.Route{Backends: keyed("a", "b", "c"), Transport: llmhttp.Transport{
				Limiter: rl, Retry: llmhttp.Retry{Max: 1}, MaxWait: 20 * time.Second,
				Base: base(func(req *http.Request) (*http.Response, error) {
					body, err := io.ReadAll(req.Body)
					if err != nil || string(body) != `{"model":"m"}` {
						t.Errorf("sent %q, %v", body, err)
					}
					select {
					case <-req.Context().Done():
						return nil, req.Context().Err()
					case <-time.After(time.Duration(draw(2000)) * time.Millisecond):
					}
					a := scripts[draw(len(scripts))]
					if a.err != nil {
						return nil, a.err
					}
					return response(req, a.status, a.body, a.headers...), nil
				}),
			}}
			var wg sync.WaitGroup
			answers := 0
			for range 20 {
				wg.Go(func() {
					for range 20 {
						ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+draw(60))*time.Second)
						if draw(4) == 0 {
							ctx = llmhttp.WithCharge(ctx, ratelimit.Request{Model: "team"})
						}
						if draw(8) == 0 {
							ctx = llmhttp.WithBackend(ctx, "b")
						}
						req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, strings.NewReader(`{"model":"m"}`))
						if resp, err := route.RoundTrip(req); err == nil {
							if draw(4) > 0 {
								io.Copy(io.Discard, resp.Body)
							}
							resp.Body.Close()
							if resp.StatusCode == 200 {
								mu.Lock()
								answers++
								mu.Unlock()
							}
						}
						cancel()
					}
				})
			}
			wg.Wait()
			synctest.Wait()
			for model, s := range rl.AllStats() {
				if s.InFlight != 0 || s.Waiting != 0 {
					t.Errorf("seed %d: %s has %d in flight, %d waiting", seed, model, s.InFlight, s.Waiting)
				}
			}
			if answers < 20 {
				t.Errorf("seed %d: %d answers", seed, answers)
			}
		})
	}
}

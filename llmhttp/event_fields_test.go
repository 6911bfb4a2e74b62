package llmhttp_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// userKey is the key of a value that a caller puts into its context.
type userKey struct{}

// The events of a call can be joined by its ID and by its context, retries included.
func TestEventIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []llmhttp.Event
		seen := make(map[uint64]int)
		tries := 0
		provider := base(func(req *http.Request) (*http.Response, error) {
			if tries++; tries%3 == 1 {
				return response(req, 503, `{}`), nil
			}
			if tries%3 == 2 {
				return nil, errors.New("broken")
			}
			return response(req, 200, `{"usage":{"prompt_tokens":1,"completion_tokens":1}}`), nil
		})
		// Two Transports: an ID is unique in the process.
		for call := range 4 {
			events = nil
			tr := &llmhttp.Transport{Limiter: newLimiter(t, ratelimit.ModelQuota{}), Base: provider, Retry: llmhttp.Retry{Max: 2}, OnEvent: func(e llmhttp.Event) { events = append(events, e) }}
			ctx := context.WithValue(t.Context(), userKey{}, call)
			req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, strings.NewReader(`{"model":"m"}`))
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			readAll(t, resp)
			var kinds []string
			for _, e := range events {
				kinds = append(kinds, string(e.Kind))
				if e.ID == 0 || e.ID != events[0].ID || e.Context == nil || e.Context.Value(userKey{}) != call {
					t.Errorf("call %d: %+v", call, e)
				}
			}
			seen[events[0].ID]++
			const want = "admitted answered problem retry settled admitted retry settled admitted answered settled"
			got := strings.Join(kinds, " ")
			if len(events) < 9 || events[len(events)-1].Attempt != 2 {
				t.Errorf("got %s, want about %s", got, want)
			}
		}
		if len(seen) != 4 {
			t.Errorf("IDs of four calls: %v", seen)
		}
	})
}

// Model is the name under which the limiter counts, Requested the one in the request.
func TestEventModel(t *testing.T) {
	quota := ratelimit.ModelQuota{MaxRPM: 100, MaxTPM: 100_000}
	for _, test := range []struct {
		name      string
		config    ratelimit.Config
		model     func(*llmhttp.Call) string
		requested string
		want      string
	}{
		{"as it is", ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"gpt-4o": quota}}, nil, "gpt-4o", "gpt-4o"},
		{"without a quota", ratelimit.Config{}, nil, "gpt-4o", "gpt-4o"},
		{"dated", ratelimit.Config{MatchVersions: true, Quotas: map[string]ratelimit.ModelQuota{"gpt-4o": quota}}, nil, "gpt-4o-2024-08-06", "gpt-4o"},
		{"dated, without MatchVersions", ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"gpt-4o": quota}}, nil, "gpt-4o-2024-08-06", "gpt-4o-2024-08-06"},
		{"dated, without MatchVersions, under *", ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"gpt-4o": quota, "*": {MaxRPM: 5}}}, nil, "gpt-4o-2024-08-06", "gpt-4o-2024-08-06"},
		{"under *", ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": quota}}, nil, "gpt-4o", "gpt-4o"},
		{"dated under *", ratelimit.Config{MatchVersions: true, Quotas: map[string]ratelimit.ModelQuota{"*": quota}}, nil, "gpt-4o-2024-08-06", "gpt-4o-2024-08-06"},
		{"an alias", ratelimit.Config{Aliases: map[string]string{"my-deployment": "gpt-4o"}, Quotas: map[string]ratelimit.ModelQuota{"gpt-4o": quota}}, nil, "my-deployment", "gpt-4o"},
		{"Transport.Model", ratelimit.Config{MatchVersions: true, Quotas: map[string]ratelimit.ModelQuota{"gpt-4o": quota}}, func(c *llmhttp.Call) string { return "openai/" + c.Model }, "gpt-4o-2024-08-06", "gpt-4o"},
	} {
		for _, refused := range []bool{false, true} {
			name := test.name
			if refused {
				name += ", refused"
			}
			t.Run(name, func(t *testing.T) {
				rl := newLimiterWith(t, test.config)
				var events []llmhttp.Event
				tr := &llmhttp.Transport{Limiter: rl, Model: test.model, Base: reply(200, `{"usage":{"prompt_tokens":2,"completion_tokens":3}}`), OnEvent: func(e llmhttp.Event) { events = append(events, e) }}
				if refused {
					tr.Estimate = func(*llmhttp.Call) (int, int) { return 1 << 30, -1 }
				}
				resp, err := post(t, tr, chatURL, `{"model":"`+test.requested+`"}`)
				if err == nil {
					readAll(t, resp)
				}
				for _, e := range events {
					if e.Requested != test.requested || e.Model != test.want {
						t.Errorf("%s: requested %q, counted %q, want %q and %q", e.Kind, e.Requested, e.Model, test.requested, test.want)
					}
				}
				if len(events) == 0 || (events[0].Kind == llmhttp.EventRefused) != refused {
					t.Fatalf("events: %v", events)
				}
				if s := rl.AllStats()[test.want]; !refused && s.RPM != 1 {
					t.Errorf("the limiter has %v", rl.AllStats())
				}
			})
		}
	}
}

// What was estimated stands beside what was charged, settled and booked.
func TestEventUsage(t *testing.T) {
	usage := func(prompt, output int) ratelimit.Usage {
		return ratelimit.Usage{PromptTokens: prompt, OutputTokens: output}
	}
	for _, test := range []struct {
		name, body         string
		quota              ratelimit.ModelQuota
		status             int
		noRefund           bool
		estimated, charged ratelimit.Usage
		settled            ratelimit.Usage
	}{
		{"answered", `{"model":"m","max_tokens":50}`, ratelimit.ModelQuota{}, 200, false, usage(4, 50), usage(4, 50), usage(5, 6)},
		{"cut to the quota", `{"model":"m","max_tokens":200}`, ratelimit.ModelQuota{MaxTPM: 100}, 200, false, usage(4, 200), usage(4, 96), usage(5, 6)},
		{"nothing is refunded", `{"model":"m","max_tokens":50}`, ratelimit.ModelQuota{}, 200, true, usage(4, 50), usage(4, 50), usage(5, 45)},
		{"refused by the provider", `{"model":"m","max_tokens":50}`, ratelimit.ModelQuota{}, 400, false, usage(4, 50), usage(4, 50), usage(0, 0)},
	} {
		t.Run(test.name, func(t *testing.T) {
			kinds := make(map[llmhttp.EventKind]llmhttp.Event)
			tr := &llmhttp.Transport{Limiter: newLimiter(t, test.quota), NoRefund: test.noRefund, OnEvent: func(e llmhttp.Event) { kinds[e.Kind] = e }, Base: reply(test.status, `{"usage":{"prompt_tokens":5,"completion_tokens":6}}`)}
			resp, err := post(t, tr, chatURL, test.body)
			if err != nil {
				t.Fatal(err)
			}
			readAll(t, resp)
			for kind, e := range kinds {
				booked := test.charged
				if kind == llmhttp.EventSettled {
					booked = test.settled
				}
				if e.Estimated != test.estimated || e.Charged != test.charged || e.Booked != booked {
					t.Errorf("%s: estimated %v, charged %v, booked %v, want %v, %v, %v", kind, e.Estimated, e.Charged, e.Booked, test.estimated, test.charged, booked)
				}
			}
			if got := kinds[llmhttp.EventSettled].Settled; got != test.settled {
				t.Errorf("settled at %v, want %v", got, test.settled)
			}
		})
	}
}

package llmhttp_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// A call is charged to the pools of its model, an estimate above a pool's quota is cut to it, and a
// refusal names the pool.
func TestTransportInPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{
			Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100, MaxTPM: 100_000}, "team": {MaxRPM: 100}},
			Pools: map[string]ratelimit.Pool{
				"org":   {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPM: 2, MaxTPM: 500}},
				"other": {Models: []string{"n"}, Quota: ratelimit.ModelQuota{MaxRPM: 1}},
			},
		})
		tr := &llmhttp.Transport{Limiter: rl, MaxWait: 70 * time.Second, Base: reply(200, `{"usage":{"prompt_tokens":3,"completion_tokens":4}}`)}
		large := `{"model":"m","max_tokens":90000,"messages":[{"content":"` + strings.Repeat("x", 40_000) + `"}]}`
		exchange(t, tr, chatURL, large)
		if s := rl.PoolStats("org"); s.RPM != 1 || s.TPM != 7 || s.InFlight != 0 {
			t.Errorf("org has %+v", s)
		}
		began := time.Now()
		exchange(t, tr, chatURL, large) // waits until the first has left the minute of the pool
		if took := time.Since(began); took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("it took %v", took)
		}
		exchange(t, tr, chatURL, `{"model":"m","max_tokens":1}`)
		tr.MaxWait = time.Second
		resp, err := post(t, tr, chatURL, `{"model":"m","max_tokens":1}`)
		if err != nil {
			t.Fatal(err)
		}
		text := readAll(t, resp)
		p, _ := llmhttp.FromError(errors.New(text))
		if p == nil || p.Pool != "org" || p.Model != "m" || p.Code != "rpm_exceeded" || resp.Header.Get("X-Go-Ratelimit-Pool") != `"org"` {
			t.Errorf("refused with %s: %+v", text, p)
		}
	})
}

// A Route takes the backend whose model and pools have the most room. Where one pool is the
// scarcest for all, the rest decides.
func TestRouteInPools(t *testing.T) {
	for _, test := range []struct {
		name  string
		pools map[string]ratelimit.Pool
		want  string
	}{
		{"no pools", nil, "[b b b]"},
		{"one key is in a fuller pool", map[string]ratelimit.Pool{"org": {Models: []string{"b/*"}, Quota: ratelimit.ModelQuota{MaxRPM: 10}}}, "[c c c]"},
		{"all are in one", map[string]ratelimit.Pool{"org": {Models: []string{"*"}, Quota: ratelimit.ModelQuota{MaxRPM: 5}}}, "[b b b]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			rl := newLimiterWith(t, ratelimit.Config{
				Quotas: map[string]ratelimit.ModelQuota{"a/m": {MaxRPM: 30}, "b/m": {MaxRPM: 1000}, "c/m": {MaxRPM: 300}},
				Pools:  test.pools,
			})
			var got []string
			any := []scripted{answered}
			route := &llmhttp.Route{Backends: keyed("a", "b", "c"), Transport: llmhttp.Transport{
				Limiter: rl, Base: providerOf(t, `{"model":"m"}`, &got, map[string][]scripted{"a": any, "b": any, "c": any}),
			}}
			for range 3 {
				exchange(t, route, chatURL, `{"model":"m"}`)
			}
			if fmt.Sprint(got) != test.want {
				t.Errorf("sent to %v, want %s", got, test.want)
			}
		})
	}
}

package llmhttp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// keyed returns backends that have a key each, by their names.
func keyed(names ...string) (all []llmhttp.Backend) {
	for _, name := range names {
		all = append(all, llmhttp.Backend{Name: name, Header: http.Header{"Authorization": {"Bearer " + name}}})
	}
	return all
}

// keyOf returns the name of the keyed backend that a request goes to.
func keyOf(req *http.Request) string {
	return strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
}

// The call goes to the backend at which it leaves the largest share of the scarcest limit.
func TestRouteTakesMostRoom(t *testing.T) {
	type quotas = map[string]ratelimit.ModelQuota
	record := func(model string, requests, prompt, output int) func(*ratelimit.RateLimiter) {
		return func(rl *ratelimit.RateLimiter) {
			for range requests {
				rl.RecordUsage(model, prompt, output)
			}
		}
	}
	for _, test := range []struct {
		name   string
		quotas quotas
		before func(*ratelimit.RateLimiter)
		body   string
		want   string // of three calls, one after the other
	}{
		{"equal ones take turns", quotas{"*": {MaxRPM: 100}}, nil, "", "b c a"},
		{"without limits they take turns", nil, nil, "", "b c a"},
		{"fewer requests", quotas{"*": {MaxRPM: 100}}, func(rl *ratelimit.RateLimiter) {
			record("a/m", 3, 1, 1)(rl)
			record("b/m", 9, 1, 1)(rl)
			record("c/m", 9, 1, 1)(rl)
		}, "", "a a a"},
		{"the share counts, not the number", quotas{"a/m": {MaxRPM: 1000}, "b/m": {MaxRPM: 10}, "c/m": {MaxRPM: 10}},
			record("a/m", 10, 1, 1), "", "a a a"},
		{"the scarcest limit counts", quotas{"a/m": {MaxRPM: 100, MaxRPD: 10}, "b/m": {MaxRPM: 50}, "c/m": {MaxRPM: 40, MaxTPM: 1000}},
			nil, "", "b c b"},
		{"the cost of the call counts", quotas{"a/m": {MaxITPM: 2000}, "b/m": {MaxITPM: 40_000}, "c/m": {MaxOTPM: 1000}},
			nil, `{"model":"m","max_tokens":1,"messages":[{"content":"` + strings.Repeat("x", 4000) + `"}]}`, "c c c"},
		{"tokens of the day", quotas{"a/m": {MaxTPD: 100_000}, "b/m": {MaxTPD: 100_000}, "c/m": {MaxTPD: 100_000}},
			func(rl *ratelimit.RateLimiter) { record("a/m", 1, 500, 0)(rl); record("b/m", 1, 5000, 0)(rl) }, "", "c c c"},
		{"calls in flight", quotas{"a/m": {MaxInFlight: 2}, "b/m": {MaxInFlight: 4}, "c/m": {MaxInFlight: 3}}, nil, "", "b b b"},
		{"a pause is no room", quotas{"*": {MaxRPM: 100}}, func(rl *ratelimit.RateLimiter) {
			rl.Cooldown("a/m", time.Now().Add(time.Minute))
			record("b/m", 99, 0, 0)(rl)
			record("c/m", 100, 0, 0)(rl)
		}, "", "b a a"}, // a's pause ends first
		{"what others have used is gone", quotas{"*": {MaxRPM: 100}}, func(rl *ratelimit.RateLimiter) {
			for _, m := range []string{"a/m", "c/m"} {
				record(m, 1, 1, 1)(rl)
				rl.Observe(m, ratelimit.ProviderLimits{RPM: ratelimit.ProviderLimit{Limit: 100, Remaining: 10, HasRemaining: true}})
			}
			record("b/m", 50, 1, 1)(rl)
		}, "", "b b b"},
		{"who waits comes first", quotas{"a/m": {MaxRPM: 1000}, "b/m": {MaxRPM: 10}, "c/m": {MaxRPM: 10}}, func(rl *ratelimit.RateLimiter) {
			go func() { // a large call stands in line for a
				rl.SetQuota("a/m", ratelimit.ModelQuota{MaxRPM: 1000, MaxTPM: 1000})
				rl.RecordUsage("a/m", 900, 0)
				rl.Acquire(context.Background(), "a/m", 500, 0)
			}()
			synctest.Wait()
		}, "", "b c b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiterWith(t, ratelimit.Config{Quotas: test.quotas})
				if test.quotas == nil {
					rl = newLimiterWith(t, ratelimit.Config{Quotas: quotas{"other": {MaxRPM: 1}}})
				}
				defer rl.Close() // ends who waits
				if test.before != nil {
					test.before(rl)
				}
				var got []string
				route := &llmhttp.Route{Backends: keyed("a", "b", "c"), Transport: llmhttp.Transport{
					Limiter: rl,
					Base: base(func(req *http.Request) (*http.Response, error) {
						got = append(got, keyOf(req))
						return reply(200, `{}`)(req)
					}),
				}}
				for range 3 {
					body := test.body
					if body == "" {
						body = `{"model":"m","max_tokens":10}`
					}
					exchange(t, route, chatURL, body)
				}
				if fmt.Sprint(got) != "["+test.want+"]" {
					t.Errorf("sent to %v, want %s", got, test.want)
				}
			})
		})
	}
}

// A request gets the address and the headers of its backend, and keeps everything else.
func TestRouteAddresses(t *testing.T) {
	const body = "{ \"model\":\"m\",\r\n\"x\" : \"\u00e9\\u00e9\" }\n"
	for _, test := range []struct {
		name, base, to, url string
		header              http.Header
		want                string // URL, Host and headers
	}{
		{"a key alone", "", "", "https://api.test/v1/chat/completions?a=b", http.Header{"authorization": {"Bearer own"}},
			"https://api.test/v1/chat/completions?a=b api.test [Bearer own] [] [x]"},
		{"another header for the key", "", "", "https://api.test/v1/chat/completions", http.Header{"Authorization": nil, "Api-Key": {"own"}},
			"https://api.test/v1/chat/completions api.test [] [own] [x]"},
		{"no header", "", "", "https://api.test/v1/chat/completions", nil, "https://api.test/v1/chat/completions api.test [Bearer sdk] [] [x]"},
		{"another host", "https://api.test/v1", "http://127.0.0.1:8080/v1/", "https://api.test/v1/chat/completions?a=b", nil,
			"http://127.0.0.1:8080/v1/chat/completions?a=b 127.0.0.1:8080 [Bearer sdk] [] [x]"},
		{"another prefix", "https://api.test/v1/", "https://proxy.test/team/openai", "https://API.test:443/v1/chat/completions", nil,
			"https://proxy.test/team/openai/chat/completions proxy.test [Bearer sdk] [] [x]"},
		{"a deployment", "https://eu.openai.azure.com/openai/deployments/gpt", "https://us.openai.azure.com/openai/deployments/gpt-us",
			"https://eu.openai.azure.com/openai/deployments/gpt/chat/completions?api-version=1", http.Header{"Api-Key": {"own"}},
			"https://us.openai.azure.com/openai/deployments/gpt-us/chat/completions?api-version=1 us.openai.azure.com [Bearer sdk] [own] [x]"},
		{"escapes stay", "https://api.test/v1", "https://proxy.test/a%2Fb", "https://api.test/v1/c%2Fd%20e/chat/completions", nil,
			"https://proxy.test/a%2Fb/c%2Fd%20e/chat/completions proxy.test [Bearer sdk] [] [x]"},
		{"a user goes", "https://api.test/v1", "https://proxy.test", "https://user:sdk@api.test/v1/chat/completions", nil,
			"https://proxy.test/chat/completions proxy.test [Bearer sdk] [] [x]"},
		{"no call goes to the first", "https://api.test/v1", "https://proxy.test/v1", "https://api.test/v1/files", http.Header{"Api-Key": {"own"}},
			"https://proxy.test/v1/files proxy.test [Bearer sdk] [own] [x]"},
		{"another host is not routed", "https://api.test/v1", "https://proxy.test", "https://other.test/v1/chat/completions", http.Header{"Api-Key": {"own"}},
			"https://other.test/v1/chat/completions other.test [Bearer sdk] [] [x]"},
		{"nor another scheme", "https://api.test/v1", "https://proxy.test", "http://api.test/v1/chat/completions", http.Header{"Api-Key": {"own"}},
			"http://api.test/v1/chat/completions api.test [Bearer sdk] [] [x]"},
		{"nor another path", "https://api.test/v1", "https://proxy.test", "https://api.test/v11/chat/completions", http.Header{"Api-Key": {"own"}},
			"https://api.test/v11/chat/completions api.test [Bearer sdk] [] [x]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got string
			route := &llmhttp.Route{
				BaseURL:  test.base,
				Backends: []llmhttp.Backend{{Name: "a", BaseURL: test.to, Header: test.header}},
				Transport: llmhttp.Transport{
					Limiter: newLimiter(t, ratelimit.ModelQuota{}),
					Base: base(func(req *http.Request) (*http.Response, error) {
						host := req.Host
						if host == "" {
							host = req.URL.Host
						}
						got = fmt.Sprintln(req.URL, host, req.Header["Authorization"], req.Header["Api-Key"], req.Header["X-Other"])
						sent, err := io.ReadAll(req.Body)
						if err != nil || string(sent) != body || req.ContentLength != int64(len(body)) {
							t.Errorf("sent %q, %v", sent, err)
						}
						resp := response(req, 200, `{}`)
						resp.Request = nil
						return resp, nil
					}),
				},
			}
			req, _ := http.NewRequestWithContext(t.Context(), "POST", test.url, strings.NewReader(body))
			req.Header.Set("Authorization", "Bearer sdk")
			req.Header.Set("X-Other", "x")
			req.Header.Set("Content-Type", "application/json")
			before := fmt.Sprint(req.URL, req.Host, req.Header)
			resp, err := route.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			readAll(t, resp)
			if got = strings.TrimSpace(got); got != test.want {
				t.Errorf("sent\n%s, want\n%s", got, test.want)
			}
			if after := fmt.Sprint(req.URL, req.Host, req.Header); after != before {
				t.Errorf("the caller's request is now %s", after)
			}
			if resp.Request != req {
				t.Error("Response.Request is not the caller's")
			}
		})
	}
}

// An invalid route fails each call, says which field is wrong, and tells no key.
func TestRouteInvalid(t *testing.T) {
	const secret = "sk-canary"
	ok := keyed("a")[0]
	with := func(change func(*llmhttp.Backend)) []llmhttp.Backend {
		b := ok
		change(&b)
		return []llmhttp.Backend{{Name: "first"}, b}
	}
	for _, test := range []struct {
		name, base, want string
		backends         []llmhttp.Backend
	}{
		{"no backends", "", "Route.Backends is empty", nil},
		{"no name", "", `Route.Backends[1]: field Name: ""`, with(func(b *llmhttp.Backend) { b.Name = "" })},
		{"a control character", "", `Route.Backends[1]: field Name: "a\nb"`, with(func(b *llmhttp.Backend) { b.Name = "a\nb" })},
		{"a long name", "", `Route.Backends[1]: field Name: "xxx`, with(func(b *llmhttp.Backend) { b.Name = strings.Repeat("x", 65) })},
		{"the same name", "", `Route.Backends[1]: field Name: "first" is there twice`, with(func(b *llmhttp.Backend) { b.Name = "first" })},
		{"Host", "", "Route.Backends[1]: field Header: Host cannot be set", with(func(b *llmhttp.Backend) { b.Header = http.Header{"host": {secret}} })},
		{"the same header", "", `Route.Backends[1]: field Header: "X-Key" is there twice`, with(func(b *llmhttp.Backend) {
			b.Header = http.Header{"x-key": {secret}, "X-Key": {secret}}
		})},
		{"no URL to replace", "", "Route.Backends[1]: field BaseURL: Route.BaseURL, which", with(func(b *llmhttp.Backend) { b.BaseURL = "https://a.test" })},
		{"a password", "https://api.test", "Route.Backends[1]: field BaseURL: it has a user", with(func(b *llmhttp.Backend) { b.BaseURL = "https://" + secret + "@a.test" })},
		{"a query", "https://api.test", "Route.Backends[1]: field BaseURL: it has a user, a query", with(func(b *llmhttp.Backend) { b.BaseURL = "https://a.test?key=" + secret })},
		{"no scheme", "https://api.test", "Route.Backends[1]: field BaseURL: it has no scheme", with(func(b *llmhttp.Backend) { b.BaseURL = "//a.test/" + secret })},
		{"no URL", "https://api.test", "Route.Backends[1]: field BaseURL: it is no URL", with(func(b *llmhttp.Backend) { b.BaseURL = "https://a.test:" + secret })},
		{"no URL of the route", "api.test/" + secret, "Route.BaseURL: it has no scheme", with(func(*llmhttp.Backend) {})},
	} {
		t.Run(test.name, func(t *testing.T) {
			route := &llmhttp.Route{BaseURL: test.base, Backends: test.backends, Transport: llmhttp.Transport{
				Limiter: newLimiter(t, ratelimit.ModelQuota{}), Base: base(func(req *http.Request) (*http.Response, error) {
					t.Error("a request was sent")
					return reply(200, `{}`)(req)
				}),
			}}
			for range 2 {
				closed := false
				req, _ := http.NewRequest("POST", chatURL, &closer{strings.NewReader(`{"model":"m"}`), &closed})
				_, err := route.RoundTrip(req)
				if err == nil || !strings.HasPrefix(err.Error(), "llmhttp: "+test.want) {
					t.Fatalf("got %v, want %s", err, test.want)
				}
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error tells the key: %v", err)
				}
				if !closed {
					t.Error("the body was not closed")
				}
			}
		})
	}
}

// However a backend is printed or marshaled, its key is not there.
func TestBackendHidesHeader(t *testing.T) {
	const secret = "sk-canary"
	b := llmhttp.Backend{Name: "eu", BaseURL: "https://eu.test/v1", Header: http.Header{"Authorization": {secret}}}
	route := &llmhttp.Route{Backends: []llmhttp.Backend{b}, BaseURL: "https://api.test/v1", Transport: llmhttp.Transport{
		Limiter: newLimiter(t, ratelimit.ModelQuota{}), Base: reply(200, `{}`),
	}}
	exchange(t, route, "https://api.test/v1/files", `{}`) // which starts no timer that printing would race with
	encoded, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	var logs strings.Builder
	slog.New(slog.NewTextHandler(&logs, nil)).Info("text", "backend", b, "all", route.Backends)
	slog.New(slog.NewJSONHandler(&logs, nil)).Info("json", "backend", b, "all", route.Backends)
	all := []string{string(encoded), logs.String()}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		all = append(all, fmt.Sprintf(verb, b), fmt.Sprintf(verb, &b), fmt.Sprintf(verb, route.Backends))
	}
	for _, verb := range []string{"%v", "%+v", "%#v"} {
		all = append(all, fmt.Sprintf(verb, route))
	}
	hex := fmt.Sprintf("%x", secret)
	if i := slices.IndexFunc(all, func(s string) bool { return strings.Contains(s, secret) || strings.Contains(s, hex) }); i >= 0 {
		t.Errorf("%d tells the key: %s", i, all[i])
	}
	if !strings.Contains(all[2], "eu https://eu.test/v1") {
		t.Errorf("printed as %s", all[2])
	}
}

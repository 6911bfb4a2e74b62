package llmhttp_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// echoAPI is an adapter for GET requests that name the model in the path.
type echoAPI struct{}

func (echoAPI) Name() string { return "echo" }

func (echoAPI) Match(req *http.Request, call *llmhttp.Call) bool {
	model, ok := strings.CutPrefix(req.URL.Path, "/echo/")
	call.Model, call.Operation = model, "echo"
	return ok && req.Method == "GET"
}

func (echoAPI) Request(*llmhttp.Call, llmhttp.Value) {}

func (echoAPI) Estimate(_ *llmhttp.Call, prompt, output int) (int, int) { return prompt, output }

func (echoAPI) Marks() []string { return nil }

func (echoAPI) Count(_ *llmhttp.Call, u *llmhttp.Usage) (prompt, output int) {
	return u.Prompt, u.Output
}

func (echoAPI) Refusal(string) []byte { return nil }

func (echoAPI) Response(_ *llmhttp.Call, u *llmhttp.Usage, v llmhttp.Value) {
	if string(v.Path) == "used" {
		u.Prompt = 1
		u.Set(&u.Output, v)
	}
}

func TestOwnAdapter(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1, MaxTPM: 10_000})
	tr := &llmhttp.Transport{Limiter: rl, MaxWait: time.Second, Adapters: []llmhttp.Adapter{echoAPI{}}, Base: reply(200, `{"used":7}`)}
	client := &http.Client{Transport: tr}
	for i, status := range []int{200, 429} {
		resp, err := client.Get("http://llm.test/echo/m")
		if err != nil {
			t.Fatal(err)
		}
		body := readAll(t, resp)
		if resp.StatusCode != status || (body == "") != (i == 1) {
			t.Errorf("answered %d %q", resp.StatusCode, body)
		}
	}
	if s := rl.Stats("m"); s.OTPM != 7 || s.ITPM != 1 {
		t.Errorf("charged %+v", s)
	}
}

// A long or strange name of a model does not evade the limits.
func TestOddModelNames(t *testing.T) {
	for _, name := range []string{
		strings.Repeat("x", 10_000),
		strings.Repeat("x", 251) + `\u00e4\u00e4\u00e4`,
		strings.Repeat("x", 255) + `\n`,
		`a\u0000b\n`,
	} {
		rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 1}}})
		sent := 0
		tr := &llmhttp.Transport{Limiter: rl, MaxWait: time.Millisecond, Base: base(func(req *http.Request) (*http.Response, error) {
			sent++
			return response(req, 200, "{}"), nil
		})}
		for range 3 {
			resp, err := post(t, tr, chatURL, `{"model":"`+name+`"}`)
			if err != nil {
				t.Fatal(err)
			}
			if text := readAll(t, resp); len(text) > 1500 || strings.ContainsAny(text, "\n\x00") {
				t.Errorf("the refusal has %d bytes", len(text))
			}
		}
		if sent != 1 {
			t.Errorf("%d of 1 were sent of the model %.10q... of %d bytes", sent, name, len(name))
		}
	}
}

// A name in a path is bounded like one in a body.
func TestModelNamesInPaths(t *testing.T) {
	for _, name := range []string{strings.Repeat("x", 10_000), "a%00b%0Ac", "a%E2%80%AEb"} {
		var told strings.Builder
		rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 1}}})
		sent := 0
		tr := &llmhttp.Transport{Limiter: rl, MaxWait: time.Millisecond, OnEvent: func(e llmhttp.Event) { fmt.Fprintf(&told, "%+v", e) }, Base: base(func(req *http.Request) (*http.Response, error) {
			sent++
			return response(req, 200, "{}"), nil
		})}
		for range 2 {
			resp, err := post(t, tr, "http://llm.test/v1beta/models/"+name+":generateContent", `{}`)
			if err != nil {
				t.Fatal(err)
			}
			if text := readAll(t, resp); len(text) > 1500 || strings.ContainsAny(text, "\n\x00") {
				t.Errorf("%.10s: the refusal has %d bytes: %.200q", name, len(text), text)
			}
		}
		if strings.ContainsAny(told.String(), "\n\x00") || len(told.String()) > 5000 {
			t.Errorf("%.10s: the events have %d bytes with control characters", name, told.Len())
		}
		if sent != 1 {
			t.Errorf("%.10s: %d sent", name, sent)
		}
	}
}

// Of two models in a body the last one counts, as it does at servers.
func TestModelNamedTwice(t *testing.T) {
	for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/api/chat"} {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 10})
		resp, err := post(t, &llmhttp.Transport{Limiter: rl, Base: reply(200, "{}")}, "http://llm.test"+path, `{"model":"other","model":"m"}`)
		if err != nil {
			t.Fatal(err)
		}
		readAll(t, resp)
		if s := rl.Stats("m"); s.RPM != 1 {
			t.Errorf("%s: charged to %v", path, rl.AllStats())
		}
	}
}

// count_tokens is free on Vertex, too.
func TestCountTokensOnVertex(t *testing.T) {
	rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 1}}})
	tr := &llmhttp.Transport{Limiter: rl, Base: reply(200, `{"input_tokens":10}`)}
	resp, err := post(t, tr, "http://llm.test/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict", `{"model":"claude-sonnet-4-5"}`)
	if err != nil {
		t.Fatal(err)
	}
	readAll(t, resp)
	if all := rl.AllStats(); len(all) != 0 {
		t.Errorf("charged: %v", all)
	}
}

package llmhttp_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// echoAPI is an API of its own: GET with everything in the path.
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

// OnEvent may use the limiter and the Transport itself.
func TestOnEventCallsBack(t *testing.T) {
	rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1000})
	var tr *llmhttp.Transport
	depth := 0
	tr = &llmhttp.Transport{Limiter: rl, Base: reply(200, `{"usage":{"prompt_tokens":11,"completion_tokens":7}}`), OnEvent: func(e llmhttp.Event) {
		rl.Stats(e.Model)
		rl.Decide(e.Model, 1)
		rl.Cooldown("other", time.Now().Add(time.Second))
		rl.Observe(e.Model, ratelimit.ProviderLimits{RPM: ratelimit.ProviderLimit{Remaining: 500, HasRemaining: true}})
		tr.Anomalies()
		if depth < 5 {
			depth++
			exchange(t, tr, chatURL, `{"model":"m"}`)
		}
	}}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, strings.NewReader(`{"model":"m"}`))
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	readAll(t, resp)
	if s := rl.Stats("m"); s.RPM != 6 || s.InFlight != 0 {
		t.Errorf("charged %+v", s)
	}
}

package llmhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

func TestRefusal(t *testing.T) {
	rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1}}})
	rl.RecordUsage("m", 1, 1)
	for _, test := range []struct {
		name, path, body string
		message          func(map[string]any) any
	}{
		{"openai", "/v1/chat/completions", `{"model":"m"}`, func(m map[string]any) any { return m["error"].(map[string]any)["message"] }},
		{"anthropic", "/v1/messages", `{"model":"m"}`, func(m map[string]any) any { return m["error"].(map[string]any)["message"] }},
		{"gemini", "/v1beta/models/m:generateContent", `{}`, func(m map[string]any) any { return m["error"].(map[string]any)["message"] }},
		{"ollama", "/api/chat", `{"model":"m"}`, func(m map[string]any) any { return m["error"] }},
	} {
		t.Run(test.name, func(t *testing.T) {
			var events []llmhttp.Event
			tr := &llmhttp.Transport{Limiter: rl, MaxWait: 100 * time.Millisecond, OnEvent: func(e llmhttp.Event) { events = append(events, e) }}
			resp, err := post(t, tr, "http://llm.test"+test.path, test.body)
			if err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != 429 || resp.Header.Get("x-should-retry") != "false" || resp.Request == nil {
				t.Errorf("refused with %d %v", resp.StatusCode, resp.Header)
			}
			if s := resp.Header.Get("Retry-After"); s != "60" && s != "61" {
				t.Errorf("Retry-After is %q", s)
			}
			var body map[string]any
			text := readAll(t, resp)
			if err := json.Unmarshal([]byte(text), &body); err != nil {
				t.Fatal(err)
			}
			if m, _ := test.message(body).(string); !strings.Contains(m, `model "m"`) || !strings.Contains(m, "requests per minute") || !strings.HasPrefix(m, "go-ratelimit: the call was not sent (rpm_exceeded, max_wait): ") || !strings.HasSuffix(m, ": maximum wait exceeded") {
				t.Errorf("the message is %q", m)
			}
			if len(events) != 1 || events[0].Kind != llmhttp.EventRefused || !errors.Is(events[0].Err, ratelimit.ErrMaxWait) {
				t.Errorf("events: %+v", events)
			}

			resp.Body = io.NopCloser(strings.NewReader(text))
			problem := llmhttp.Classify(resp)
			if !errors.Is(problem, ratelimit.ErrNotSent) || problem.Code != "rpm_exceeded" || problem.RetryAfter < 59*time.Second || problem.RetryAfter > time.Minute+time.Millisecond {
				t.Errorf("it is classified as %v", problem)
			}
			if !errors.Is(problem, ratelimit.ErrMaxWait) || errors.Is(problem, context.DeadlineExceeded) || problem.Model != "m" {
				t.Errorf("it is classified as %+v", *problem)
			}
			if events[0].Charged != (ratelimit.Usage{}) {
				t.Errorf("charged %+v", events[0].Charged)
			}

			tr.RefuseWithError = true
			_, err = (&http.Client{Transport: tr}).Post("http://llm.test"+test.path, "application/json", strings.NewReader(test.body))
			var limit *ratelimit.LimitError
			if !errors.As(err, &limit) || limit.Decision.Code != ratelimit.DecisionRPMLimit || !errors.Is(err, ratelimit.ErrMaxWait) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// A call that cannot succeed is refused without a wait.
func TestRefusedAtOnce(t *testing.T) {
	for _, test := range []struct {
		name  string
		quota ratelimit.ModelQuota
		tr    *llmhttp.Transport
		limit time.Duration // of the context
		want  error
	}{
		{"the deadline comes before the room", ratelimit.ModelQuota{MaxRPM: 1}, &llmhttp.Transport{}, 30 * time.Second, context.DeadlineExceeded},
		{"MaxWait does", ratelimit.ModelQuota{MaxRPM: 1}, &llmhttp.Transport{MaxWait: 30 * time.Second}, 0, ratelimit.ErrMaxWait},
		{"an estimate of the program that never fits", ratelimit.ModelQuota{MaxTPM: 100}, &llmhttp.Transport{Estimate: func(*llmhttp.Call) (int, int) { return 90, 20 }}, 0, ratelimit.ErrNeverFits},
	} {
		t.Run(test.name, func(t *testing.T) {
			rl := newLimiter(t, test.quota)
			rl.RecordUsage("m", 10, 0)
			tr := test.tr
			tr.Limiter, tr.RefuseWithError = rl, true
			ctx := t.Context()
			if test.limit > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, test.limit)
				defer cancel()
			}
			req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, strings.NewReader(`{"model":"m"}`))
			began := time.Now()
			_, err := tr.RoundTrip(req)
			if !errors.Is(err, test.want) || !errors.As(err, new(*ratelimit.LimitError)) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if d := time.Since(began); d > 20*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
}

// The end of MaxWait while the call is queued is a refusal, not an end of the context.
func TestMaxWaitInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxInFlight: 1})
		tr := &llmhttp.Transport{Limiter: rl, MaxWait: 3 * time.Second, RefuseWithError: true, Base: reply(200, `{}`)}
		held, d := rl.Reserve("m", 0, 0)
		if !d.Allowed {
			t.Fatal(d)
		}
		began := time.Now()
		_, err := post(t, tr, chatURL, `{"model":"m"}`)
		var limit *ratelimit.LimitError
		if !errors.As(err, &limit) || limit.Decision.Code != ratelimit.DecisionInFlightLimit || !errors.Is(err, ratelimit.ErrMaxWait) || time.Since(began) != 3*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		held.Cancel()
	})
}

// A call that would exceed http.Client's Timeout is refused at once, in the provider's format.
func TestClientTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1})
		rl.RecordUsage("m", 1, 1)
		client := &http.Client{Timeout: 30 * time.Second, Transport: &llmhttp.Transport{Limiter: rl, Base: reply(200, "{}")}}
		began := time.Now()
		resp, err := client.Post(chatURL, "application/json", strings.NewReader(`{"model":"m"}`))
		if err != nil || resp.StatusCode != 429 || time.Since(began) != 0 {
			t.Fatalf("after %v: %v, %v", time.Since(began), resp, err)
		}
		readAll(t, resp)
	})
}

// After a provider lowers its limit, a waiting call whose estimate was cut to the higher limit is
// not refused.
func TestQuotaShrinksWhileOneWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiterWith(t, ratelimit.Config{LearnQuotas: true, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxTPM: 1000}}})
		tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
			io.Copy(io.Discard, req.Body)
			time.Sleep(time.Second)
			return response(req, 200, `{"usage":{"prompt_tokens":400,"completion_tokens":1}}`, "X-Ratelimit-Limit-Tokens: 800"), nil
		})}
		body := `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("word ", 2000) + `"}]}`
		statuses := make(chan int, 2)
		for range 2 {
			go func() {
				resp, err := post(t, tr, chatURL, body)
				if err != nil {
					t.Error(err)
					statuses <- 0
					return
				}
				readAll(t, resp)
				statuses <- resp.StatusCode
			}()
			synctest.Wait()
		}
		if a, b := <-statuses, <-statuses; a != 200 || b != 200 {
			t.Errorf("answered %d and %d", a, b)
		}
	})
}

// Closing the limiter ends the calls that wait at once.
func TestLimiterIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxInFlight: 1})
		tr := &llmhttp.Transport{Limiter: rl, Base: reply(200, "{}")}
		held, _ := rl.Reserve("m", 0, 0)
		errs := make(chan error, 3)
		for range 3 {
			go func() {
				_, err := post(t, tr, chatURL, `{"model":"m"}`)
				errs <- err
			}()
		}
		synctest.Wait()
		if s := rl.Stats("m"); s.Waiting != 3 {
			t.Errorf("%d wait, want 3", s.Waiting)
		}
		began := time.Now()
		rl.Close()
		for range 3 {
			if err := <-errs; !errors.Is(err, ratelimit.ErrClosed) {
				t.Error(err)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
		held.Cancel()
	})
}

// The end of the context removes the call from the queue.
func TestContextEndsInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxInFlight: 1})
		tr := &llmhttp.Transport{Limiter: rl, Base: reply(200, `{}`)}
		held, _ := rl.Reserve("m", 0, 0)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, strings.NewReader(`{"model":"m"}`))
		resp, err := tr.RoundTrip(req)
		if !errors.Is(err, context.Canceled) || resp != nil {
			t.Errorf("got %v, %v", resp, err)
		}
		if s := rl.Stats("m"); s.Waiting != 0 || s.RPM != 1 {
			t.Errorf("left behind: %+v", s)
		}
		held.Cancel()
	})
}

// A call that a cooldown refuses tells its cause: in the message, in a header, to Classify and
// FromError, also where only the text is left.
func TestRefusalTellsTheCause(t *testing.T) {
	for cause, reason := range map[ratelimit.Cause]string{
		ratelimit.CauseDailyQuota: "the provider said that the day's quota is used up",
		ratelimit.CauseOverloaded: "the provider said that it is overloaded",
		ratelimit.CauseCaller:     "the model is in a cooldown",
		"max_wait":                "the model is in a cooldown", // one of the program's own
	} {
		rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1}}})
		rl.CooldownFor("m", time.Hour, cause)
		resp, err := post(t, &llmhttp.Transport{Limiter: rl, MaxWait: time.Second}, chatURL, `{"model":"m"}`)
		if err != nil {
			t.Fatal(err)
		}
		text := readAll(t, resp)
		if got := resp.Header.Get("X-Go-Ratelimit-Cause"); got != string(cause) || !strings.Contains(text, reason) {
			t.Errorf("%s: the header is %q, the body %s", cause, got, text)
		}
		resp.Body = io.NopCloser(strings.NewReader(text))
		inText, _ := llmhttp.FromError(errors.New(text))
		_, err = post(t, &llmhttp.Transport{Limiter: rl, MaxWait: time.Second, RefuseWithError: true}, chatURL, `{"model":"m"}`)
		inError, _ := llmhttp.FromError(err)
		for name, p := range map[string]*llmhttp.Problem{"Classify": llmhttp.Classify(resp), "a text": inText, "an error": inError} {
			if p == nil || p.Code != "cooldown" || p.Cause != cause || !errors.Is(p, ratelimit.ErrMaxWait) {
				t.Errorf("%s, %s: %+v", cause, name, p)
			}
		}
	}
}

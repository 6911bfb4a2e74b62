package llmhttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// scripted is what a provider answers to one key, call for call.
type scripted struct {
	status  int
	body    string
	headers []string
	err     error
}

var (
	answered   = scripted{status: 200, body: `{"usage":{"prompt_tokens":3,"completion_tokens":4}}`}
	limited    = scripted{status: 429, body: `{}`, headers: []string{"Retry-After: 2"}}
	overloaded = scripted{status: 529, body: `{"type":"error","error":{"type":"overloaded_error"}}`}
	broke      = scripted{status: 429, body: `{"error":{"type":"insufficient_quota","code":"insufficient_quota"}}`}
	noCredit   = scripted{status: 400, body: `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}`}
	failed     = scripted{status: 500, body: `{}`}
	cut        = scripted{err: errors.New("connection reset")}
)

// providerOf answers each key by its script, and notes the keys in the order of the calls. It
// checks that all bodies are equal to want.
func providerOf(t testing.TB, want string, got *[]string, scripts map[string][]scripted) base {
	next := make(map[string]int)
	return func(req *http.Request) (*http.Response, error) {
		key := keyOf(req)
		*got = append(*got, key)
		body, err := io.ReadAll(req.Body)
		if err != nil || string(body) != want {
			t.Errorf("%s was sent %q, %v", key, body, err)
		}
		req.Body.Close()
		a := scripts[key][min(next[key], len(scripts[key])-1)]
		next[key]++
		if a.err != nil {
			return nil, a.err
		}
		return response(req, a.status, a.body, a.headers...), nil
	}
}

// A refused call goes on to the others, once to each, if its body can be sent again and no backend
// was chosen. Everything else is as in a Transport.
func TestReroute(t *testing.T) {
	type scripts = map[string][]scripted
	const model = `{"model":"m"}`
	for _, test := range []struct {
		name    string
		scripts scripts
		retry   llmhttp.Retry
		only    string
		once    bool   // the body can be read once only
		maxBody int64  // of it, how much is read before
		want    string // the keys in order
		status  int    // 0 for an error
		after   time.Duration
	}{
		{name: "no refusal", scripts: scripts{"a": {answered}, "b": {answered}, "c": {answered}}, want: "b", status: 200},
		{name: "a 429", scripts: scripts{"a": {answered}, "b": {limited}, "c": {answered}}, want: "b c", status: 200},
		{name: "two", scripts: scripts{"a": {answered}, "b": {limited}, "c": {limited}}, want: "b c a", status: 200},
		{name: "from all", scripts: scripts{"a": {overloaded}, "b": {limited}, "c": {limited}}, want: "b c a", status: 529},
		{name: "a 503", scripts: scripts{"a": {answered}, "b": {{status: 503, body: `{}`}}, "c": {answered}}, want: "b c", status: 200},
		{name: "a 529", scripts: scripts{"a": {answered}, "b": {overloaded}, "c": {answered}}, want: "b c", status: 200},
		{name: "money is gone", scripts: scripts{"a": {answered}, "b": {broke}, "c": {answered}}, want: "b c", status: 200},
		{name: "at Anthropic", scripts: scripts{"a": {answered}, "b": {noCredit}, "c": {answered}}, want: "b c", status: 200},
		{name: "402", scripts: scripts{"a": {answered}, "b": {{status: 402, body: `{}`}}, "c": {answered}}, want: "b c", status: 200},
		{name: "not for a bad request", scripts: scripts{"a": {answered}, "b": {{status: 400, body: `{}`}}, "c": {answered}}, want: "b", status: 400},
		{name: "nor a wrong key", scripts: scripts{"a": {answered}, "b": {{status: 401, body: `{}`}}, "c": {answered}}, want: "b", status: 401},
		{name: "nor a failure", scripts: scripts{"a": {answered}, "b": {failed}, "c": {answered}}, want: "b", status: 500},
		{name: "nor a broken connection", scripts: scripts{"a": {answered}, "b": {cut}, "c": {answered}}, want: "b"},
		{name: "but by Retry, elsewhere", scripts: scripts{"a": {answered}, "b": {failed}, "c": {answered}}, retry: llmhttp.Retry{Max: 1},
			want: "b c", status: 200, after: time.Second / 2},
		{name: "also after a broken connection", scripts: scripts{"a": {answered}, "b": {cut}, "c": {answered}}, retry: llmhttp.Retry{Max: 1},
			want: "b c", status: 200, after: time.Second / 2},
		{name: "Retry begins anew", scripts: scripts{"a": {limited, answered}, "b": {limited, answered}, "c": {limited, answered}}, retry: llmhttp.Retry{Max: 1},
			want: "b c a ?", status: 200, after: 2 * time.Second},
		{name: "a chosen one", scripts: scripts{"a": {limited}, "b": {answered}, "c": {answered}}, only: "a", want: "a", status: 429},
		{name: "a chosen one, and Retry", scripts: scripts{"a": {limited, answered}, "b": {answered}, "c": {answered}}, only: "a",
			retry: llmhttp.Retry{Max: 1}, want: "a a", status: 200, after: 2 * time.Second},
		{name: "a body that was kept", scripts: scripts{"a": {answered}, "b": {limited}, "c": {answered}}, once: true, want: "b c", status: 200},
		{name: "a body that is gone", scripts: scripts{"a": {answered}, "b": {limited}, "c": {answered}}, once: true, maxBody: 13, want: "b c", status: 200},
		{name: "a body that was too large to keep", scripts: scripts{"a": {answered}, "b": {limited}, "c": {answered}}, once: true, maxBody: 12, want: "b", status: 429},
		{name: "a long refusal", scripts: scripts{"a": {answered}, "b": {{status: 429, body: strings.Repeat("x", 200_000)}}, "c": {answered}}, want: "b c", status: 200},
		{name: "a long last refusal", scripts: scripts{"a": {limited}, "b": {{status: 429, body: strings.Repeat("x", 200_000)}}, "c": {limited}}, want: "b c a", status: 429},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 100, MaxInFlight: 1}}})
				var got []string
				var closed atomic.Int32
				var events []string
				route := &llmhttp.Route{Backends: keyed("a", "b", "c"), Transport: llmhttp.Transport{
					Limiter: rl, Retry: test.retry, MaxBody: test.maxBody, Base: providerOf(t, model, &got, test.scripts),
					Model: func(*llmhttp.Call) string { return "m" },
					OnEvent: func(e llmhttp.Event) {
						if e.Model != e.Backend+"/m" {
							t.Errorf("%s at %q is counted as %q", e.Kind, e.Backend, e.Model)
						}
						events = append(events, fmt.Sprint(e.Kind, e.Attempt, e.Backend))
					},
				}}
				ctx := llmhttp.WithBackend(t.Context(), test.only)
				body := &countingBody{Reader: strings.NewReader(model), closed: &closed}
				req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, body)
				if !test.once {
					req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(model)), nil }
				}
				began := time.Now()
				resp, err := route.RoundTrip(req)
				took := time.Since(began)
				switch {
				case test.status == 0 && err == nil:
					t.Error("no error")
				case test.status > 0 && err != nil:
					t.Fatal(err)
				case test.status > 0:
					if resp.StatusCode != test.status {
						t.Errorf("answered %d, want %d", resp.StatusCode, test.status)
					}
					last := got[len(got)-1]
					script := test.scripts[last]
					if text := readAll(t, resp); text != script[len(script)-1].body {
						t.Errorf("the body has %d bytes", len(text))
					}
				}
				if want := strings.Replace(test.want, "?", got[len(got)-1], 1); fmt.Sprint(got) != "["+want+"]" {
					t.Errorf("sent to %v, want %s", got, want)
				}
				if took < test.after || took > test.after*3/2 {
					t.Errorf("it took %v, want %v", took, test.after)
				}
				if n := closed.Load(); n != 1 {
					t.Errorf("the body was closed %d times", n)
				}
				for i, key := range got {
					if !strings.Contains(fmt.Sprint(events), fmt.Sprint(llmhttp.EventAdmitted, i, key)) {
						t.Errorf("no event of %d at %s: %v", i, key, events)
					}
				}
				counts := make(map[string]int)
				for _, key := range got {
					counts[key]++
				}
				for _, name := range []string{"a", "b", "c"} {
					if s := rl.Stats(name + "/m"); s.RPD != counts[name] || s.InFlight != 0 {
						t.Errorf("%s has %d calls, %d in flight, want %d", name, s.RPD, s.InFlight, counts[name])
					}
				}
			})
		})
	}
}

// countingBody counts how often it is closed.
type countingBody struct {
	io.Reader
	closed *atomic.Int32
}

func (b *countingBody) Close() error { b.closed.Add(1); return nil }

// A refusal counts for the backend that refused: its cooldown, its limits, its refusals.
func TestRerouteCountsForTheRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l listener
		rl := newLimiterWith(t, ratelimit.Config{
			LearnQuotas: true,
			Quotas:      map[string]ratelimit.ModelQuota{"a/m": {MaxRPM: 100}, "b/m": {MaxRPM: 1000}},
			Events:      &l,
		})
		var got []string
		refusal := scripted{status: 429, body: `{}`, headers: []string{"Retry-After: 20", "X-Ratelimit-Limit-Requests: 7", "X-Ratelimit-Remaining-Requests: 0"}}
		route := &llmhttp.Route{Backends: keyed("a", "b"), Transport: llmhttp.Transport{
			Limiter: rl, Base: providerOf(t, `{"model":"m"}`, &got, map[string][]scripted{"a": {answered}, "b": {refusal}}),
		}}
		for range 2 {
			exchange(t, route, chatURL, `{"model":"m"}`)
		}
		if fmt.Sprint(got) != "[b a a]" {
			t.Errorf("sent to %v", got)
		}
		a, b := rl.Stats("a/m"), rl.Stats("b/m")
		if until := time.Until(b.CooldownUntil); until < 20*time.Second || until > 22*time.Second || b.MaxRPM != 7 || b.RPM != 1 || b.TPM != 0 {
			t.Errorf("b has %+v", b)
		}
		if !a.CooldownUntil.IsZero() || a.MaxRPM != 100 || a.RPM != 2 || a.TPM != 14 {
			t.Errorf("a has %+v", a)
		}
		calls := make(map[uint64]string)
		for _, e := range l.take() {
			if e.ID > 0 {
				calls[e.ID] += fmt.Sprint(e.Kind, " ", e.Model, ", ")
			}
		}
		rerouted := slices.Collect(maps.Values(calls))
		slices.Sort(rerouted)
		if want := "[admitted a/m, settled a/m,  admitted b/m, provider_refused b/m, settled b/m, admitted a/m, settled a/m, ]"; fmt.Sprint(rerouted) != want {
			t.Errorf("the limiter told\n%v, want\n%v", rerouted, want)
		}
	})
}

// A backend that fails, or has no credit, is left alone for a while, if there are others.
func TestRouteSetsAside(t *testing.T) {
	for name, bad := range map[string]scripted{"no credit": broke, "failures": failed, "no connection": cut} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"a/m": {MaxRPM: 1000}, "b/m": {MaxRPM: 100_000}}})
				var got []string
				script := map[string][]scripted{"a": {answered}, "b": {bad, bad, bad, answered}}
				route := &llmhttp.Route{Backends: keyed("a", "b"), Transport: llmhttp.Transport{
					Limiter: rl, Base: providerOf(t, `{"model":"m"}`, &got, script),
				}}
				asked := ""
				for range 100 { // tenths of a second
					got = nil
					if resp, err := post(t, route, chatURL, `{"model":"m"}`); err == nil {
						readAll(t, resp)
					}
					asked += got[0]
					time.Sleep(time.Second / 10)
				}
				// The pauses of 1, 2 and 4 s end at 1, 3 and 7 s; then b is the best again.
				want := "b" + strings.Repeat("a", 9) + "b" + strings.Repeat("a", 19) + "b" + strings.Repeat("a", 39) + strings.Repeat("b", 30)
				if asked != want {
					t.Errorf("asked\n%s, want\n%s", asked, want)
				}
				script["a"] = []scripted{cut} // and when all are set aside, all are asked
				script["b"] = []scripted{cut}
				seen := ""
				for range 10 {
					got = nil
					post(t, route, chatURL, `{"model":"m"}`)
					seen += got[0]
				}
				if !strings.Contains(seen, "a") || !strings.Contains(seen, "b") {
					t.Errorf("asked %s", seen)
				}
			})
		})
	}
}

// A call waits for the backend that has room first, within MaxWait and its context.
func TestRouteWaits(t *testing.T) {
	const s = time.Second
	for _, test := range []struct {
		name    string
		a, b    time.Duration // how long ago their minutes were used up
		maxWait time.Duration
		timeout time.Duration
		only    string
		want    string
		after   time.Duration
		is      error
	}{
		{name: "a has room", a: 61 * s, b: 0, want: "a"},
		{name: "b opens first", a: 10 * s, b: 20 * s, want: "b", after: 40 * s},
		{name: "a opens first", a: 20 * s, b: 10 * s, want: "a", after: 40 * s},
		{name: "MaxWait is long enough for one", a: 20 * s, b: 10 * s, maxWait: 45 * s, want: "a", after: 40 * s},
		{name: "MaxWait is too short for both", a: 20 * s, b: 10 * s, maxWait: 30 * s, is: ratelimit.ErrMaxWait},
		{name: "so is the deadline", a: 20 * s, b: 10 * s, timeout: 30 * s, is: context.DeadlineExceeded},
		{name: "a chosen one", a: 20 * s, b: 10 * s, only: "b", want: "b", after: 50 * s},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 1}}})
				first, second := "a/m", "b/m"
				if test.b > test.a {
					first, second = second, first
				}
				rl.RecordUsage(first, 1, 1)
				time.Sleep(max(test.a, test.b) - min(test.a, test.b))
				rl.RecordUsage(second, 1, 1)
				time.Sleep(min(test.a, test.b))
				var got []string
				var refused string
				route := &llmhttp.Route{Backends: keyed("a", "b"), Transport: llmhttp.Transport{
					Limiter: rl, MaxWait: test.maxWait, RefuseWithError: true,
					Base: providerOf(t, `{"model":"m"}`, &got, map[string][]scripted{"a": {answered}, "b": {answered}}),
					OnEvent: func(e llmhttp.Event) {
						if e.Kind == llmhttp.EventRefused {
							refused = e.Model
						}
					},
				}}
				ctx := llmhttp.WithBackend(t.Context(), test.only)
				if test.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.timeout)
					defer cancel()
				}
				req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, strings.NewReader(`{"model":"m"}`))
				began := time.Now()
				resp, err := route.RoundTrip(req)
				if took := time.Since(began); took < test.after || took > test.after+time.Millisecond {
					t.Errorf("it took %v, want %v", took, test.after)
				}
				if !errors.Is(err, test.is) || (err == nil) != (test.is == nil) {
					t.Fatalf("error %v, want %v", err, test.is)
				}
				if err != nil {
					var limit *ratelimit.LimitError
					if !errors.As(err, &limit) || !strings.HasSuffix(limit.Model, "/m") || !strings.HasSuffix(refused, "/m") {
						t.Errorf("refused as %v, told as %q", err, refused)
					}
					return
				}
				readAll(t, resp)
				if fmt.Sprint(got) != "["+test.want+"]" {
					t.Errorf("sent to %v, want %s", got, test.want)
				}
			})
		})
	}
}

// A refused call waits for room at another backend, but no longer than the refusal asks it to. Then
// the caller gets that.
func TestRerouteWaits(t *testing.T) {
	const s = time.Second
	for _, test := range []struct {
		name    string
		room    time.Duration // at a; it is known if it is more than half a minute
		asks    string        // Retry-After of b
		status  int           // of b, 429 for 0
		maxWait time.Duration
		want    string
		after   time.Duration
	}{
		{name: "room comes before", room: 10 * s, asks: "20", want: "b a", after: 10 * s},
		{name: "it does not", room: 29 * s, asks: "20", want: "b", after: 20 * s},
		{name: "it is known that it does not", room: 40 * s, asks: "20", want: "b"},
		{name: "MaxWait is shorter", room: 10 * s, asks: "20", maxWait: 5 * s, want: "b", after: 5 * s},
		{name: "it does not say", room: 900 * time.Millisecond, want: "b a", after: 900 * time.Millisecond},
		{name: "no credit never ends", room: 50 * s, status: 402, want: "b a", after: 50 * s},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiterWith(t, ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"a/m": {MaxRPM: 1}, "b/m": {MaxRPM: 100}}})
				if test.room > 30*s {
					rl.RecordUsage("a/m", 1, 1)
					time.Sleep(time.Minute - test.room)
				} else {
					rl.SetQuota("a/m", ratelimit.ModelQuota{MaxInFlight: 1})
					held, _ := rl.Reserve("a/m", 0, 0)
					time.AfterFunc(test.room, held.Cancel)
				}
				var got []string
				refusal := scripted{status: max(test.status, 429), body: `{"error":{}}`}
				if test.status > 0 {
					refusal.status = test.status
				}
				if test.asks != "" {
					refusal.headers = []string{"Retry-After: " + test.asks}
				}
				route := &llmhttp.Route{Backends: keyed("a", "b"), Transport: llmhttp.Transport{
					Limiter: rl, MaxWait: test.maxWait,
					Base: providerOf(t, `{"model":"m"}`, &got, map[string][]scripted{"a": {answered}, "b": {refusal}}),
				}}
				began := time.Now()
				resp, err := post(t, route, chatURL, `{"model":"m"}`)
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took < test.after || took > test.after+test.after/8 {
					t.Errorf("it took %v, want %v", took, test.after)
				}
				status, body := 200, answered.body
				if !strings.HasSuffix(test.want, "a") {
					status, body = refusal.status, refusal.body
				}
				if text := readAll(t, resp); resp.StatusCode != status || text != body || fmt.Sprint(got) != "["+test.want+"]" {
					t.Errorf("sent to %v, answered %d %q", got, resp.StatusCode, text)
				}
			})
		})
	}
}

// What Config.Events of the limiter is told of refusals by the provider, of crowds of calls, and
// what it is never told.

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
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
)

// Each refusal by the provider is told once, whether its body comes with the headers, later, or is
// never read. What is no refusal is not told.
func TestProviderRefusalEvents(t *testing.T) {
	const perDay = `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier","quotaValue":"20"}]}]}}`
	for _, test := range []struct {
		name    string
		status  int
		body    string
		headers []string
		byBody  bool // the headers alone say something else
		want    ratelimit.ProviderRefusal
	}{
		{name: "an answer", status: 200, body: someUsage},
		{name: "a redirect", status: 302, headers: []string{"Location: /"}},
		{name: "a bad request", status: 400, body: `{}`},
		{name: "a bad key", status: 401, body: `{}`},
		{name: "a failure", status: 500, body: `{}`},
		{
			name: "a refusal of a gateway's Transport", status: 429, headers: []string{"X-Go-Ratelimit-Refused: rpm_exceeded", "Retry-After: 60"},
			want: ratelimit.ProviderRefusal{Problem: "rate_limited", RetryAfter: time.Minute},
		},
		{name: "a limit", status: 429, body: `{}`, want: ratelimit.ProviderRefusal{Problem: "rate_limited"}},
		{
			name: "a limit with its time", status: 429, body: `{}`, headers: []string{"Retry-After: 7"},
			want: ratelimit.ProviderRefusal{Problem: "rate_limited", RetryAfter: 7 * time.Second},
		},
		{name: "a day", status: 429, body: perDay, byBody: true, want: ratelimit.ProviderRefusal{Problem: "daily_quota"}},
		{
			name: "money", status: 429, body: `{"error":{"code":"insufficient_quota"}}`, headers: []string{"Retry-After: 7"}, byBody: true,
			want: ratelimit.ProviderRefusal{Problem: "exhausted"},
		},
		{name: "a bill", status: 402, body: `{}`, want: ratelimit.ProviderRefusal{Problem: "exhausted"}},
		{
			name: "overload", status: 503, body: `{}`, headers: []string{"Retry-After: 3"},
			want: ratelimit.ProviderRefusal{Problem: "overloaded", RetryAfter: 3 * time.Second},
		},
		{name: "overload of Anthropic", status: 529, body: `{}`, want: ratelimit.ProviderRefusal{Problem: "overloaded"}},
	} {
		for _, way := range []string{"short", "long", "not read"} {
			if way == "not read" && test.byBody {
				continue
			}
			t.Run(test.name+", "+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var l listener
					rl := newLimiterWith(t, ratelimit.Config{
						Events: &l, MatchVersions: true, Quotas: map[string]ratelimit.ModelQuota{"gpt-4o": {MaxRPM: 100}},
					})
					tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
						io.Copy(io.Discard, req.Body)
						resp := response(req, test.status, test.body, test.headers...)
						if way != "short" {
							resp.ContentLength = -1
						}
						return resp, nil
					})}
					resp, err := post(t, tr, chatURL, `{"model":"gpt-4o-2024-08-06"}`)
					if err != nil {
						t.Fatal(err)
					}
					if way == "not read" {
						resp.Body.Close()
					}
					io.ReadAll(resp.Body)
					resp.Body.Close()
					checkRefusal(t, &l, test.status, test.want)
				})
			})
		}
	}
}

// checkRefusal compares the refusals that were told with the one wanted; none for the zero value.
func checkRefusal(t *testing.T, l *listener, status int, want ratelimit.ProviderRefusal) {
	t.Helper()
	var told []heard
	var id uint64
	for _, e := range l.take() {
		switch e.Kind {
		case ratelimit.EventProviderRefused:
			told = append(told, e)
		case ratelimit.EventAdmitted:
			id = e.ID
		}
	}
	if want.Problem == "" {
		if len(told) > 0 {
			t.Errorf("told %+v", told)
		}
		return
	}
	if len(told) != 1 {
		t.Fatalf("told %d refusals", len(told))
	}
	e := &told[0]
	if e.Problem != want.Problem || e.Status != status || e.RetryAfter != want.RetryAfter {
		t.Errorf("told %q, %d, %v, want %q, %d, %v", e.Problem, e.Status, e.RetryAfter, want.Problem, status, want.RetryAfter)
	}
	if e.ID != id || id == 0 || e.Model != "gpt-4o" || e.Requested != "gpt-4o-2024-08-06" || e.ctx != t.Context() {
		t.Errorf("told %+v of the call %d", e.Event, id)
	}
}

// A quota that a refusal corrects is told apart from one that an answer corrects.
func TestQuotaEventsTellRefusals(t *testing.T) {
	for status, by := range map[int]string{200: "header", 429: "refusal", 503: "refusal"} {
		var l listener
		rl := newLimiterWith(t, ratelimit.Config{Events: &l, LearnQuotas: true, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100}}})
		tr := &llmhttp.Transport{Limiter: rl, Base: reply(status, `{}`, "X-Ratelimit-Limit-Requests: 60", "X-Ratelimit-Reset-Requests: 1s")}
		exchange(t, tr, chatURL, `{"model":"m"}`)
		var told []string
		for _, e := range l.take() {
			if e.Kind == ratelimit.EventQuotaChanged {
				told = append(told, fmt.Sprint(e.By, " ", e.Quota.MaxRPM))
			}
		}
		if got := strings.Join(told, ", "); got != by+" 60" {
			t.Errorf("%d: told %q", status, got)
		}
	}
}

// A quota that shrinks while a call stands in line has the call ask for less: that is no refusal.
func TestEventsOfShrinkingQuota(t *testing.T) {
	for _, test := range []struct {
		name  string
		quota ratelimit.ModelQuota // of the model, while it waits
		want  string
	}{
		{"below the estimate", ratelimit.ModelQuota{MaxTPM: 20, MaxInFlight: 1}, "queued queued admitted settled"},
		{"beside it", ratelimit.ModelQuota{MaxTPM: 2000, MaxInFlight: 1}, "queued admitted settled"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l listener
				rl := newLimiterWith(t, ratelimit.Config{Events: &l, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxTPM: 1000, MaxInFlight: 1}}})
				held, _ := rl.Reserve("m", 1, 1)
				time.AfterFunc(time.Second, func() { rl.SetQuota("m", test.quota) })
				time.AfterFunc(time.Hour, held.Cancel)
				exchange(t, &llmhttp.Transport{Limiter: rl, Base: reply(200, someUsage)}, chatURL, `{"model":"m","max_tokens":500}`)
				var kinds []string
				var id uint64
				for _, e := range l.take() {
					if e.Kind == ratelimit.EventQueued {
						id = e.ID
					}
					if id != 0 && e.ID == id {
						kinds = append(kinds, string(e.Kind))
					}
				}
				if got := strings.Join(kinds, " "); got != test.want {
					t.Errorf("told %q, want %q", got, test.want)
				}
			})
		})
	}
}

// The requests after a redirect are calls of their own, in the same context.
func TestEventsOfRedirect(t *testing.T) {
	var l listener
	rl := newLimiterWith(t, ratelimit.Config{Events: &l})
	tr := &llmhttp.Transport{Limiter: rl, Base: base(func(req *http.Request) (*http.Response, error) {
		io.Copy(io.Discard, req.Body)
		switch req.URL.RawQuery {
		case "":
			return response(req, 307, ``, "Location: "+chatURL+"?again"), nil
		case "again":
			return response(req, 307, ``, "Location: http://other.test/v1/chat/completions"), nil
		}
		return response(req, 200, someUsage), nil
	})}
	ctx := context.WithValue(t.Context(), userKey{}, "redirected")
	req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, strings.NewReader(`{"model":"m"}`))
	if _, err := (&http.Client{Transport: tr}).Do(req); !errors.As(err, new(*llmhttp.RedirectError)) {
		t.Fatal(err)
	}
	var told []string
	ids := make(map[uint64]bool)
	for _, e := range l.take() {
		if e.ID == 0 {
			continue
		}
		told = append(told, string(e.Kind))
		if ids[e.ID] = true; e.ctx.Value(userKey{}) != "redirected" {
			t.Errorf("%s has another context", e.Kind)
		}
	}
	if got := strings.Join(told, " "); got != "admitted settled admitted settled" || len(ids) != 2 {
		t.Errorf("told %q of %d calls", got, len(ids))
	}
}

// However calls end, all that were admitted end in the events, and none of them is refused, too.
func TestLimiterEventsAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l listener
		rl := newLimiterWith(t, ratelimit.Config{Events: &l, MaxQueue: 30, Quotas: map[string]ratelimit.ModelQuota{
			"m": {MaxInFlight: 3, MaxTPM: 20_000}, "team": {MaxRPM: 500},
		}})
		tr := &llmhttp.Transport{
			Limiter: rl, MaxWait: 40 * time.Second, RefuseWithError: true, MaxIdle: time.Minute,
			Retry: llmhttp.Retry{Max: 1}, Base: base(roughProvider),
		}
		var failed atomic.Int64
		var wg sync.WaitGroup
		for n := range uint64(300) {
			wg.Go(func() {
				random := rand.New(rand.NewPCG(19, n))
				time.Sleep(time.Duration(random.IntN(60_000)) * time.Millisecond)
				if !roughCall(t, tr, random) {
					failed.Add(1)
				}
			})
		}
		wg.Wait()
		time.Sleep(time.Hour)
		synctest.Wait()
		events := l.take()
		last := make(map[uint64]ratelimit.EventKind)
		kinds := make(map[ratelimit.EventKind]int)
		for _, e := range events {
			kinds[e.Kind]++
			if e.Kind == ratelimit.EventRefused && last[e.ID] == ratelimit.EventAdmitted {
				t.Errorf("the call %d was refused after its admission", e.ID)
			}
			last[e.ID] = e.Kind
		}
		if n := open(events); n != 0 || kinds[ratelimit.EventAdmitted] == 0 || kinds[ratelimit.EventRefused] == 0 || failed.Load() == 0 {
			t.Errorf("%d are open of %v", n, kinds)
		}
		if s := rl.Stats("m"); s.InFlight != 0 || s.Waiting != 0 {
			t.Errorf("the limiter has %+v", s)
		}
	})
}

// roughProvider answers in all ways there are, by the numbers in the request's context.
func roughProvider(req *http.Request) (*http.Response, error) {
	random := req.Context().Value(userKey{}).(*rand.Rand)
	switch random.IntN(8) {
	case 0:
		return nil, errors.New("broken")
	case 1:
		panic("of Base")
	case 2:
		return streaming(req)
	}
	io.Copy(io.Discard, req.Body)
	time.Sleep(time.Duration(random.IntN(10_000)) * time.Millisecond)
	statuses := []int{200, 200, 307, 400, 429, 500, 503}
	return response(req, statuses[random.IntN(len(statuses))], someUsage), nil
}

// roughCall makes a call and leaves its answer in one of several ways. It reports whether there
// was one.
func roughCall(t *testing.T, tr *llmhttp.Transport, random *rand.Rand) (answered bool) {
	defer func() { recover() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(200))*time.Second)
	defer cancel()
	ctx = context.WithValue(ctx, userKey{}, random)
	how := random.IntN(4)
	if how == 0 {
		ctx = llmhttp.WithCharge(ctx, ratelimit.Request{Model: "team"})
	}
	req, _ := http.NewRequestWithContext(ctx, "POST", chatURL, strings.NewReader(`{"model":"m","max_tokens":500}`))
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return false
	}
	switch how {
	case 1:
		resp.Body.Read(make([]byte, 5))
	case 2:
		cancel()
	default:
		io.ReadAll(resp.Body)
	}
	if how != 3 {
		resp.Body.Close()
	}
	return true
}

// A call that is lost by a panic of the program is released at once.
func TestLostCallIsReleased(t *testing.T) {
	var l listener
	rl := newLimiterWith(t, ratelimit.Config{Events: &l, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 1}}})
	tr := &llmhttp.Transport{Limiter: rl, Base: reply(200, someUsage), OnEvent: func(llmhttp.Event) { panic("of OnEvent") }}
	func() {
		defer func() { recover() }()
		post(t, tr, chatURL, `{"model":"m"}`)
	}()
	if s := rl.Stats("m"); s.InFlight != 0 || s.RPM != 0 {
		t.Fatalf("%+v", s)
	}
	if err := rl.Close(); err != nil { // after which no event is on its way
		t.Fatal(err)
	}
	events := l.take()
	if n := open(events); n != 0 || len(events) == 0 || events[len(events)-1].Kind != ratelimit.EventReleased {
		t.Errorf("%d are open of %v", n, events)
	}
}

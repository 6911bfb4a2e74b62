package httplimit_test

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/httplimit"
	"dappco.re/go/core/go-ratelimit/keyed"
	"dappco.re/go/core/go-ratelimit/limit"
)

// foreign is a Limiter that answers as it is told.
type foreign struct {
	decisions []limit.Decision
	holds     []keyed.Hold
	err       error
}

func (f foreign) TakeAll(context.Context, ...keyed.Request) ([]limit.Decision, error) {
	return f.decisions, f.err
}

// holder is a foreign that holds, too.
type holder struct{ foreign }

func (f holder) HoldAll(context.Context, ...keyed.Request) ([]keyed.Hold, []limit.Decision, error) {
	return f.holds, f.decisions, f.err
}

// A Limiter that answers too few of the limits, or fails, admits nothing.
func TestForeignLimiter(t *testing.T) {
	t.Parallel()
	yes, no := limit.Decision{OK: true, Remaining: 5}, limit.Decision{RetryAfter: 3 * time.Second}
	hold := keyed.NewHold(func(int) {})
	for _, row := range []struct {
		name string
		f    foreign
		held bool // with Settle
		want int
	}{
		{"admits", foreign{decisions: []limit.Decision{yes, yes}}, false, 200},
		{"refuses", foreign{decisions: []limit.Decision{yes, no}}, false, 429},
		{"answers nothing", foreign{}, false, 500},
		{"answers one of two", foreign{decisions: []limit.Decision{yes}}, false, 500},
		{"fails", foreign{decisions: []limit.Decision{yes, yes}, err: context.DeadlineExceeded}, false, 500},
		{"holds", foreign{decisions: []limit.Decision{yes, yes}, holds: []keyed.Hold{hold, hold}}, true, 200},
		{"refuses a hold", foreign{decisions: []limit.Decision{no, yes}}, true, 429},
		{"holds one of two", foreign{decisions: []limit.Decision{yes, yes}, holds: []keyed.Hold{hold}}, true, 500},
		{"holds, and answers nothing", foreign{holds: []keyed.Hold{hold, hold}}, true, 500},
	} {
		options := httplimit.Options{
			Limiter: row.f, Key: tenant, Limits: all(perMinute("requests", 10), perMinute("tokens", 10)),
		}
		if row.held {
			options.Limiter = holder{row.f}
			options.Settle = map[string]httplimit.Settle{"tokens": nil}
		}
		w := get(httplimit.Handler(ok, options), "acme")
		if w.Code != row.want {
			t.Errorf("%s: %d, want %d", row.name, w.Code, row.want)
		}
	}
}

// The Hold of another limiter is told once what was used.
func TestForeignHold(t *testing.T) {
	t.Parallel()
	var told []int
	next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { httplimit.Report(r.Context(), "tokens", 7) })
	get(httplimit.Handler(next, httplimit.Options{
		Limiter: holder{foreign{
			decisions: []limit.Decision{{OK: true}}, holds: []keyed.Hold{keyed.NewHold(func(units int) { told = append(told, units) })},
		}},
		Key: tenant, Limits: all(perMinute("tokens", 10)), Settle: map[string]httplimit.Settle{"tokens": nil},
	}), "acme")
	if len(told) != 1 || told[0] != 7 {
		t.Errorf("told %v, want 7 once", told)
	}
}

func TestLimiterOfOptions(t *testing.T) {
	t.Parallel()
	var none *keyed.Limiter
	if w := get(httplimit.Handler(ok, httplimit.Options{Limiter: none, Key: tenant, Limits: all(perMinute("requests", 1))}), "a"); w.Code != 200 {
		t.Errorf("with a nil *keyed.Limiter: %d, want 200", w.Code)
	}
	defer func() {
		if recover() == nil {
			t.Error("Settle with a Limiter that cannot hold does not panic")
		}
	}()
	httplimit.Handler(ok, httplimit.Options{Limiter: foreign{}, Key: tenant, Limits: all(), Settle: map[string]httplimit.Settle{"t": nil}})
}

// Two routes that one PerKey wraps, or that have the same Slots, have one limit together.
func TestSharedBetweenRoutes(t *testing.T) {
	t.Parallel()
	perKey := httplimit.PerKey(3, time.Hour, tenant)
	a, b := perKey(ok), perKey(ok)
	for i, want := range []int{200, 200, 200, 429, 429} {
		if w := get([]http.Handler{a, b}[i%2], "acme"); w.Code != want {
			t.Errorf("request %d: %d, want %d", i, w.Code, want)
		}
	}
	if w := get(a, "globex"); w.Code != 200 {
		t.Errorf("another key: %d", w.Code)
	}
	if w := get(a, ""); w.Code != 401 {
		t.Errorf("no key: %d, want 401", w.Code)
	}

	slots := httplimit.NewSlots()
	inside := make(chan struct{})
	leave := make(chan struct{})
	slow := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { inside <- struct{}{}; <-leave })
	route := func(next http.Handler) http.Handler {
		return httplimit.Handler(next, httplimit.Options{Key: tenant, InFlight: func(string) int { return 1 }, Slots: slots})
	}
	first, second := route(slow), route(ok)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		get(first, "acme")
	}()
	<-inside
	if w := get(second, "acme"); w.Code != 429 {
		t.Errorf("the other route, while the only slot is taken: %d, want 429", w.Code)
	}
	close(leave)
	<-ended
	if w := get(second, "acme"); w.Code != 200 {
		t.Errorf("the other route, once the slot is free: %d, want 200", w.Code)
	}
}

func TestPerKeyOfWrongParameters(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(){
		"n is 0":      func() { httplimit.PerKey(0, time.Minute, tenant) },
		"window is 0": func() { httplimit.PerKey(1, 0, tenant) },
		"key is nil":  func() { httplimit.PerKey(1, time.Minute, nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			call()
		}()
	}
}

func BenchmarkPerKey(b *testing.B) {
	h := httplimit.PerKey(min(1<<40, math.MaxInt), time.Minute, tenant)(ok)
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Tenant", "acme")
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
}

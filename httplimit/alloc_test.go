package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"dappco.re/go/core/go-ratelimit/httplimit"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// What a Handler allocates for a request, beside what the next handler does.
func TestAllocations(t *testing.T) {
	if racetest.Factor > 1 {
		t.Skip("the race detector allocates, too")
	}
	body := []byte(completion)
	for _, test := range []struct {
		name    string
		options httplimit.Options
		most    float64
	}{
		{"one limit", httplimit.Options{Limits: all(perMinute("requests", 1<<30))}, 5},
		{"two limits", httplimit.Options{Limits: all(perMinute("requests", 1<<30), perMinute("tokens", 1<<30))}, 6},
		{"settled", httplimit.Options{
			Limits: all(perMinute("requests", 1<<30), perMinute("tokens", 1<<30)),
			Settle: map[string]httplimit.Settle{"tokens": httplimit.Tokens},
		}, 14},
		{"in flight", httplimit.Options{InFlight: func(string) int { return 10 }}, 3},
	} {
		test.options.Key = tenant
		h := httplimit.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(body) }), test.options)
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Tenant", "a")
		w := &discardWriter{make(http.Header)}
		if n := testing.AllocsPerRun(1000, func() {
			clear(w.header)
			h.ServeHTTP(w, r)
		}); n > test.most {
			t.Errorf("%s: %v allocations, want at most %v", test.name, n, test.most)
		}
	}
}

// discardWriter is a writer of a response that nobody reads.
type discardWriter struct{ header http.Header }

func (d *discardWriter) Header() http.Header         { return d.header }
func (d *discardWriter) WriteHeader(int)             {}
func (d *discardWriter) Write(p []byte) (int, error) { return len(p), nil }

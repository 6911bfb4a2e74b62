package httplimit_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
)

// tenant is the Key of most tests.
func tenant(r *http.Request) string { return r.Header.Get("Tenant") }

// all returns limits that are the same for each key.
func all(limits ...keyed.Request) func(string) []keyed.Request {
	return func(string) []keyed.Request { return limits }
}

// perMinute returns a limit of a namespace.
func perMinute(namespace string, limit int) keyed.Request {
	return keyed.Request{Namespace: namespace, Limit: limit, Window: time.Minute}
}

// ok is a next handler that answers 200.
var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok")) })

// newLimiter returns a limiter of its own for a test.
func newLimiter(t testing.TB) *keyed.Limiter {
	t.Helper()
	lim, err := keyed.New(keyed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return lim
}

// get makes a request of a tenant to a handler.
func get(h http.Handler, tenant string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", strings.NewReader("{}"))
	r.Header.Set("Tenant", tenant)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// used returns what is charged and held of a limit.
func used(t testing.TB, lim *keyed.Limiter, key string, l keyed.Request) int {
	t.Helper()
	l.Key, l.Cost = key, keyed.Free
	ds, err := lim.TakeAll(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	return l.Limit - ds[0].Remaining
}

// apiError is an error in OpenAI's shape.
type apiError struct {
	Error *struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Code    *string `json:"code"`
	} `json:"error"`
}

// errorOf returns the error in a response.
func errorOf(t testing.TB, w *httptest.ResponseRecorder) (message, kind, code string) {
	t.Helper()
	var e apiError
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || e.Error == nil {
		t.Fatalf("body %q: %v", w.Body, err)
	}
	if e.Error.Code != nil {
		code = *e.Error.Code
	}
	return e.Error.Message, e.Error.Type, code
}

// panics returns what f panics with.
func panics(f func()) (value any) {
	defer func() { value = recover() }()
	f()
	return nil
}

// atMinute sleeps until a minute begins, so that a test knows where in the window it is.
func atMinute() { time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute))) }

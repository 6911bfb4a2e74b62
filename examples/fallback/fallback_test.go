package main

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
)

// TestRun is the program as a user runs it, twice: the second run does not count the first one's
// calls.
func TestRun(t *testing.T) {
	folder := t.TempDir()
	for range 2 {
		var out bytes.Buffer
		if err := run(t.Context(), folder, &out); err != nil {
			t.Fatalf("%v:\n%s", err, &out)
		}
		for _, want := range []string{"60 of 60 (100%)", "429s          0 in", "1 call met an overloaded server", "verdict       PASS"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("output lacks %q:\n%s", want, &out)
			}
		}
	}
}

// TestOtherErrorsDoNotFallBack has a server that does not like the request.
func TestOtherErrorsDoNotFallBack(t *testing.T) {
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls++
		w.WriteHeader(http.StatusBadRequest)
	}))
	defer server.Close()
	if _, model, err := ask(context.Background(), http.DefaultClient, server.URL, "hi"); err == nil || model != better || calls != 1 {
		t.Errorf("%q, %v after %d calls", model, err, calls)
	}
}

func TestVerdict(t *testing.T) {
	var out bytes.Buffer
	c := newTally(nil)
	c.step(better, context.Canceled)
	c.calls[better] = 1
	err := c.report(&out, []fakeprovider.Record{{Refused: true}}, "log")
	for _, want := range []string{"refused 1 call", "counts differently", "1 step failed: context canceled"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
	if !strings.Contains(out.String(), "FAIL") {
		t.Errorf("output:\n%s", &out)
	}
}

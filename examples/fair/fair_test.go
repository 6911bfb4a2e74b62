package main

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
)

// inMemory serves a handler in a bubble.
func inMemory(handler http.Handler) (*host, error) {
	network := fakeprovider.NewNetwork()
	stop, transport := network.Serve(handler), network.Transport()
	return &host{"http://provider.test", transport, func() {
		transport.CloseIdleConnections()
		stop()
	}}, nil
}

// TestRun is the whole program in virtual time, whenever the people come.
func TestRun(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			cfg := config{length: 3 * time.Minute, people: 86, seed: seed, classes: classes, host: inMemory}
			err := run(t.Context(), cfg, &out)
			if err != nil || !strings.Contains(out.String(), "verdict       PASS") {
				t.Errorf("seed %d: %v\n%s", seed, err, &out)
			}
		})
	}
}

// TestVerdict has a service whose classes are alike, so that people wait behind the batch.
func TestVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		alike := map[string]ratelimit.Class{"person": {}, "batch": {Weight: 1000}}
		err := run(t.Context(), config{length: time.Minute, people: 29, classes: alike, host: inMemory}, &out)
		for _, want := range []string{"of the people got gpt-4.1, want 95%", "had room within 5s, want 2s"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("error %v lacks %q", err, want)
			}
		}
		if !strings.Contains(out.String(), "verdict       FAIL") {
			t.Errorf("output:\n%s", &out)
		}
	})
}

package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
)

// TestRun is the program as a user runs it. The languages that a machine has not are left out.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	var out bytes.Buffer
	if err := run(t.Context(), "", &out); err != nil {
		t.Fatalf("%v:\n%s", err, &out)
	}
	for _, want := range []string{" of 60 (", "0 refused with 429", "verdict  PASS", "Go       "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, &out)
		}
	}
	for language, command := range map[string]string{"Python": "python3", "Node": "node"} {
		if _, err := exec.LookPath(command); err == nil && strings.Contains(out.String(), "there is no "+command) {
			t.Errorf("%s was left out:\n%s", language, &out)
		}
	}
}

func TestScriptOfAMissingLanguage(t *testing.T) {
	if got := script(t.Context(), "Fortran", "", "", "no-such-command"); got.Error != "" || !strings.Contains(got.missing, "no-such-command") {
		t.Errorf("%+v", got)
	}
}

func TestScriptThatFails(t *testing.T) {
	got := script(t.Context(), "Go", "", "", "go", "no-such-command")
	if got.missing != "" || !strings.Contains(got.Error, "unknown command") {
		t.Errorf("%+v", got)
	}
}

func TestProxyThatDoesNotStart(t *testing.T) {
	if _, err := startProxy(t.Context(), filepath.Join(t.TempDir(), "none"), "", ""); err == nil || !strings.Contains(err.Error(), "start the proxy") {
		t.Error(err)
	}
	if _, err := startProxy(t.Context(), "go", "", ""); err == nil || !strings.Contains(err.Error(), "unknown command") {
		t.Error(err)
	}
}

func TestVerdict(t *testing.T) {
	good := []tally{{name: "Go", Calls: 40, RetryAfter: 9}, {name: "Node", Calls: 20, RetryAfter: 9}, {name: "Python", missing: "there is no python3"}}
	var out bytes.Buffer
	if err := report(&out, good, fakeprovider.Stats{Requests: 60}); err != nil || !strings.Contains(out.String(), "PASS") || !strings.Contains(out.String(), "there is no python3") {
		t.Errorf("%v:\n%s", err, &out)
	}
	bad := []tally{{name: "Go", Calls: 46}, {name: "Node", Error: "broken"}}
	out.Reset()
	err := report(&out, bad, fakeprovider.Stats{Requests: 57, Refused: 1})
	for _, want := range []string{"Go made 46 calls, and was told to wait for 0 s", "Node: broken", "refused 1 call", "room for 60 calls, and 56 came", "counts 56 calls, and the programs 46"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
	if !strings.Contains(out.String(), "FAIL") {
		t.Errorf("output:\n%s", &out)
	}
}

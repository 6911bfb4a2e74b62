package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestRun makes as many calls as fit, so that none waits.
func TestRun(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), config{calls: 3, rpm: 3}, &out); err != nil {
		t.Fatalf("%v:\n%s", err, &out)
	}
	for _, want := range []string{
		"OpenAI          3 answered, 0 failed", "the prompt only, as Gemini's limit does", "3 of 3 (100%) requests",
		"429s            0", "verdict         PASS: no 429, and the server counts every request and token as we do",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, &out)
		}
	}
}

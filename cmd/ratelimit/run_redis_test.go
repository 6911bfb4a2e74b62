package main_test

import (
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/test/redistest"
)

// The same commands share a quota in Redis, on several machines.
func TestCommandsOnRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, step := range []struct {
		arguments string
		status    int
		says      string
	}{
		{"quota show", 1, "no limiter has used it yet"},
		{"quota set m --rpm 2", 0, "m: 2 requests/minute; there was none\n"},
		{"quota show", 0, "m      shared   2 requests/minute\n"},
		{"doctor", 0, "nothing was found\n"},
		{"run m -- echo one", 0, "one\n"},
		{"run m -- false", 1, ""},
		{"run m --timeout 0s -- echo three", 75, "requests per minute are used up"},
		{"wait m --timeout 0s", 75, "requests per minute are used up"},
		{"reset m --yes", 0, "forgotten: "},
		{"wait m --timeout 0s", 0, ""},
		{"run n -- true", 0, ""},
		{"doctor", 1, "models: n: it is called, and no quota limits it"},
	} {
		words := strings.Fields(step.arguments)
		at := 1
		if words[0] == "quota" {
			at = 2
		}
		all := append(append(append([]string(nil), words[:at]...), "--redis", server.Addr()), words[at:]...)
		status, stdout, stderr := run(t, all...)
		if status != step.status || !strings.Contains(stdout+stderr, step.says) {
			t.Errorf("%s: status %d, want %d\nstdout: %sstderr: %s", step.arguments, status, step.status, stdout, stderr)
		}
	}
	if status, stdout, stderr := run(t, "run", "m", "--redis", "127.0.0.1:1", "--", "echo", "ran"); status != 125 || stdout != "" {
		t.Errorf("without the server: status %d, %q, %s", status, stdout, stderr)
	}
}

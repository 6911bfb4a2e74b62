package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// looked is the state of a model in a shared file.
func looked(t testing.TB, db, model string) ratelimit.Explanation {
	t.Helper()
	is, err := ratelimit.Inspect(t.Context(), ratelimit.Config{FilePath: db}, model)
	if err != nil {
		t.Fatal(err)
	}
	return is.Models[0]
}

// until waits for a state of a model.
func until(t testing.TB, db, model, what string, is func(ratelimit.Explanation) bool) {
	t.Helper()
	for late := time.Now().Add(patience); !is(looked(t, db, model)); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("never %s: %v", what, looked(t, db, model))
		}
	}
}

// shared returns a file with quotas.
func shared(t testing.TB, quotas map[string]ratelimit.ModelQuota) (db string) {
	t.Helper()
	db = filepath.Join(t.TempDir(), "shared.db")
	rl, err := ratelimit.NewWithSQLiteConfig(db, ratelimit.Config{Shared: true, Quotas: quotas})
	if err == nil {
		err = rl.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// started is a program that runs.
type started struct {
	*exec.Cmd
	out, diagnostics *output
	ended            chan struct{}
}

// begin starts the program, with an input that is open as long as it runs.
func begin(t testing.TB, arguments ...string) *started {
	t.Helper()
	s := &started{command(t, arguments...), new(output), new(output), make(chan struct{})}
	s.Stdout, s.Stderr = s.out, s.diagnostics
	s.WaitDelay = time.Second // its command may live on, and hold the output
	input, err := s.StdinPipe()
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		s.Cmd.Wait() //nolint:errcheck // its status is asked for
		close(s.ended)
	}()
	t.Cleanup(func() {
		s.Process.Kill() //nolint:errcheck // it may have ended
		input.Close()
		<-s.ended
	})
	return s
}

// status is that of the program, which must end.
func (s *started) status(t testing.TB) int {
	t.Helper()
	wait(t, s.ended, "end of "+s.String())
	return s.ProcessState.ExitCode()
}

// The statuses of run and wait, in a table. What is refused, or cannot be run, charges nothing;
// what was run charges its estimate, whatever becomes of it.
func TestRunStatuses(t *testing.T) {
	scripts := t.TempDir()
	for name, text := range map[string]string{
		"shebangless": "echo a script", "exits75": "#!/bin/sh\nexit 75", // the first has no #!
		"terminated": "#!/bin/sh\nkill -TERM $$", "killed": "#!/bin/sh\nkill -KILL $$",
	} {
		if err := os.WriteFile(filepath.Join(scripts, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	plain := file(t, "plain", "echo")
	t.Setenv("PATH", strings.Join([]string{os.Getenv("PATH"), scripts, filepath.Dir(plain)}, ":"))
	for _, test := range []struct {
		arguments string // words; the command is behind --
		status    int
		charged   int // tokens
		stdout    string
		stderr    string
	}{
		{"run m --tokens 7 --output 3 -- echo a -b --tokens", 0, 10, "a -b --tokens\n", ""},
		{"run m --tokens 7 -- false", 1, 7, "", ""},
		{"run m --tokens 7 -- exits75", 75, 7, "", ""},
		{"run m --tokens 7 -- terminated", 143, 7, "", ""},
		{"run m --tokens 7 -- killed", 137, 7, "", ""},
		{"run m --tokens 7 -- shebangless", 0, 7, "a script\n", ""},
		{"run m --tokens 7 -- nonesuch", 127, 0, "", "nonesuch"},
		{"run m --tokens 7 -- ./nonesuch", 127, 0, "", "nonesuch"},
		{"run m --tokens 7 -- " + plain, 126, 0, "", "permission denied"},
		{"run m --tokens 7 -- plain", 126, 0, "", "permission denied"},
		{"run m --tokens 7 -- /", 126, 0, "", "directory"},
		{"run m --tokens 101 -- echo a", 3, 0, "", "the request alone exceeds the tokens per minute"},
		{"run m --tokens 60 --output 60 -- echo a", 3, 0, "", "no room for \"m\""},
		{"run full --timeout 5s -- echo a", 75, 0, "", "requests per minute are used up; there is in"},
		{"run full --timeout 0s -- echo a", 75, 0, "", "requests per minute are used up; there is in"},
		{"run m --tokens 7 --timeout 0s -- echo a", 0, 7, "a\n", ""},
		{"run gpt-4o --tokens 7 -- echo a", 4, 0, "", "the spend of the day is used up"},
		{"run gpt-4o --tokens 7 --timeout 5s -- echo a", 4, 0, "", "the spend of the day is used up"},
		{"run gpt-4o --tokens 7 --timeout 0s -- echo a", 4, 0, "", "the spend of the day is used up"},
		{"run unpriced --tokens 7 -- echo a", 3, 0, "", "no price"},
		{"run none --tokens 7 -- echo a", 0, 0, "a\n", `warning: no quota limits the model "none"`},
		{"run none --tokens 7 --strict -- echo a", 3, 0, "", "no quota"},
		{"run m --class interactive --flow me --timeout 0s -- echo a", 0, 0, "a\n", ""},
		{"run m --class nobody -- echo a", 2, 0, "", "there are batch, interactive"},
		{"run m echo a", 2, 0, "", "behind --"},
		{"run m --", 2, 0, "", "behind --"},
		{"run -- echo a", 2, 0, "", "behind --"},
		{"run m n -- echo a", 2, 0, "", "behind --"},
		{"run m --tokens -1 -- echo a", 2, 0, "", "negative"},
		{"run m --output x -- echo a", 2, 0, "", "output"},
		{"run m --timeout -1s -- echo a", 2, 0, "", "negative"},
		{"run m --timeout 5 -- echo a", 2, 0, "", "timeout"},
		{"run m --rpm -1 -- echo a", 2, 0, "", "negative"},
		{"run m --redis 127.0.0.1:1 -- echo a", 2, 0, "", "--db and --redis"},
		{"run m --db /dev/null/x -- echo a", 125, 0, "", "not a directory"},
		{"wait m --tokens 100", 0, 0, "", ""},
		{"wait m --tokens 100 --timeout 0s", 0, 0, "", ""},
		{"wait m --tokens 101", 3, 0, "", "the request alone exceeds the tokens per minute"},
		{"wait full --timeout 5s", 75, 0, "", "requests per minute are used up; there is in"},
		{"wait full --timeout 0s", 75, 0, "", "requests per minute are used up; there is in"},
		{"wait gpt-4o --tokens 7", 4, 0, "", "the spend of the day is used up"},
		{"wait none", 0, 0, "", `warning: no quota limits the model "none"`},
		{"wait", 2, 0, "", "one model"},
		{"wait m n", 2, 0, "", "one model"},
		{"wait m --output 3", 2, 0, "", "unknown flag"},
		{"wait m --db /dev/null/x", 1, 0, "", "not a directory"},
	} {
		t.Run(strings.ReplaceAll(test.arguments, "/", "|"), func(t *testing.T) {
			t.Parallel()
			db := spentAndFull(t)
			all := strings.Fields(test.arguments)
			if !strings.Contains(test.arguments, "--db") {
				all = slices.Insert(all, 1, "--db", db)
			}
			status, stdout, stderr := run(t, all...)
			if status != test.status || stdout != test.stdout || !strings.Contains(stderr, test.stderr) || (test.stderr == "") != (stderr == "") {
				t.Errorf("status %d, stdout %q, stderr %q", status, stdout, stderr)
			}
			if got := looked(t, db, "m").Next.Stats; got.TPM != test.charged || got.InFlight != 0 {
				t.Errorf("%d tokens are charged, want %d; %d calls are open", got.TPM, test.charged, got.InFlight)
			}
		})
	}
}

// spentAndFull returns a file with a model "m" of 100 tokens a minute, one that is "full", one
// whose money is "spent", and one that is "unpriced".
func spentAndFull(t testing.TB) (db string) {
	t.Helper()
	day := ratelimit.ModelQuota{MaxSpendPerDay: 5 * money.Dollar}
	db = shared(t, map[string]ratelimit.ModelQuota{
		"m": {MaxRPM: 10, MaxTPM: 100}, "full": {MaxRPM: 1}, "gpt-4o": day, "unpriced": day,
	})
	rl, err := ratelimit.NewWithSQLiteConfig(db, ratelimit.Config{Shared: true, Providers: []ratelimit.Provider{}})
	if err != nil {
		t.Fatal(err)
	}
	rl.RecordUsage("full", 1, 1)
	rl.RecordUsage("gpt-4o", 100_000_000, 1)
	if err = rl.Close(); err != nil {
		t.Fatal(err)
	}
	return db
}

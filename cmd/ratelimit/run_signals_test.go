//go:build unix

package main_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// The command has the input and the output of run, and the signals that run gets.
func TestRunPassesOn(t *testing.T) {
	t.Parallel()
	db := shared(t, map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100}})
	cmd := command(t, "run", "m", "--db", db, "--", "cat")
	cmd.Stdin = strings.NewReader("line\n\x00rest")
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "line\n\x00rest" {
		t.Errorf("%q, %v", out, err)
	}
	const traps = `trap 'echo got INT' INT; trap 'echo got HUP; exit 9' HUP; trap 'echo got USR1' USR1; echo ready; for i in $(seq 3000); do sleep 0.01; done`
	s := begin(t, "run", "m", "--db", db, "--", "sh", "-c", traps)
	s.out.waitFor(t, "ready\n")
	for _, signal := range []struct {
		syscall.Signal
		want string
	}{{syscall.SIGINT, "got INT\n"}, {syscall.SIGUSR1, "got USR1\n"}, {syscall.SIGHUP, "got HUP\n"}} {
		s.Process.Signal(signal.Signal) //nolint:errcheck // the output tells
		s.out.waitFor(t, signal.want)
	}
	if status := s.status(t); status != 9 {
		t.Errorf("status %d", status)
	}
	term := begin(t, "run", "m", "--db", db, "--", "sh", "-c", "echo ready; read x")
	term.out.waitFor(t, "ready\n")
	term.Process.Signal(syscall.SIGTERM) //nolint:errcheck // the status tells
	if status := term.status(t); status != 143 {
		t.Errorf("status %d of a command that was terminated", status)
	}
	if is := looked(t, db, "m"); is.Next.Stats.RPM != 3 || is.InFlight != 0 {
		t.Errorf("%d calls are charged, and %d open", is.Next.Stats.RPM, is.InFlight)
	}
}

// A command that ignores a signal because run was started so still does.
func TestRunUnderNohup(t *testing.T) {
	t.Parallel()
	cmd := command(t, "run", "m", "--db", filepath.Join(t.TempDir(), "x.db"), "--", "sh", "-c", "kill -HUP $PPID $$; echo lives")
	cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `trap '' HUP; exec "$@"`, "sh"}, append([]string{binary}, cmd.Args[1:]...)...)
	if out, err := cmd.Output(); err != nil || string(out) != "lives\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// A signal ends a wait, which has charged nothing and leaves the line.
func TestRunSignalledWhileItWaits(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"run", "wait"} {
		db := spentAndFull(t)
		arguments := []string{word, "full", "--db", db}
		if word == "run" {
			arguments = append(arguments, "--", "echo", "ran")
		}
		for signal, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
			s := begin(t, arguments...)
			until(t, db, "full", "in line", func(is ratelimit.Explanation) bool { return is.Waiting == 1 })
			s.Process.Signal(signal) //nolint:errcheck // the status tells
			if status := s.status(t); status != want || s.out.String() != "" {
				t.Errorf("%s after %v: status %d, stdout %q", word, signal, status, s.out)
			}
			if is := looked(t, db, "full"); is.Waiting != 0 || is.Next.Stats.RPM != 1 {
				t.Errorf("%s after %v: %d wait, %d are charged", word, signal, is.Waiting, is.Next.Stats.RPM)
			}
		}
	}
}

// A run that is killed while its command runs frees its slot at once. Its charge stays.
func TestRunKilled(t *testing.T) {
	t.Parallel()
	db := shared(t, map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 1, MaxTPM: 1000}})
	first := begin(t, "run", "m", "--db", db, "--tokens", "7", "--", "sh", "-c", "echo $$; read x")
	orphan := first.out.waitFor(t, `(\d+)\n`)[1]
	second := begin(t, "run", "m", "--db", db, "--tokens", "5", "--", "echo", "ran")
	until(t, db, "m", "in line", func(is ratelimit.Explanation) bool { return is.Waiting == 1 && is.InFlight == 1 })
	killed := time.Now()
	first.Process.Kill() //nolint:errcheck // what follows tells
	if status := second.status(t); status != 0 || second.out.String() != "ran\n" {
		t.Errorf("status %d, %q, %s", status, second.out, second.diagnostics)
	}
	t.Logf("the slot was free, and the next command ended, %v after the kill", time.Since(killed))
	if is := looked(t, db, "m"); is.Next.Stats.TPM != 12 || is.InFlight != 0 {
		t.Errorf("%d tokens are charged, and %d calls open", is.Next.Stats.TPM, is.InFlight)
	}
	if _, err := os.Stat("/proc/" + orphan); err != nil && runtime.GOOS == "linux" {
		t.Errorf("the command was ended: %v", err)
	}
}

// Runs of several processes keep to the calls in flight together: their commands never overlap.
func TestRunsTogether(t *testing.T) {
	t.Parallel()
	db := shared(t, map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 1}})
	room := filepath.Join(t.TempDir(), "room")
	var all []*started
	for range 5 {
		all = append(all, begin(t, "run", "m", "--db", db, "--", "sh", "-c", `mkdir "$0" && rmdir "$0"`, room))
	}
	for i, s := range all {
		if status := s.status(t); status != 0 {
			t.Errorf("run %d: status %d, %s", i, status, s.diagnostics)
		}
	}
	if is := looked(t, db, "m"); is.Next.Stats.RPM != len(all) {
		t.Errorf("%d calls are charged", is.Next.Stats.RPM)
	}
}

// One that waits while others spend the money of the day ends then.
func TestRunWaitsForNoMoney(t *testing.T) {
	t.Parallel()
	db := shared(t, map[string]ratelimit.ModelQuota{"gpt-4o": {MaxInFlight: 1, MaxSpendPerDay: 5 * money.Dollar}})
	open := begin(t, "run", "gpt-4o", "--db", db, "--", "sh", "-c", "echo ready; read x")
	open.out.waitFor(t, "ready\n")
	waits := begin(t, "run", "gpt-4o", "--db", db, "--tokens", "10", "--", "echo", "ran")
	until(t, db, "gpt-4o", "in line", func(is ratelimit.Explanation) bool { return is.Waiting == 1 })
	library(t, db).RecordUsage("gpt-4o", 100_000_000, 0)
	if status := waits.status(t); status != 4 || waits.out.String() != "" {
		t.Errorf("status %d, %q, %s", status, waits.out, waits.diagnostics)
	}
}

// The quotas that flags say hold for all who share the file; without them those hold that others
// said.
func TestRunQuotas(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "shared.db")
	for i, test := range []struct {
		flags  string
		status int
	}{
		{"--rpm 2", 0}, {"", 0}, {"", 75}, {"--rpm 3 --class batch", 0}, {"--strict", 75}, {"--config " + file(t, "c.yaml", "margin: 1ms"), 75},
		{"--config " + file(t, "c.yaml", "quotas: {gpt-4o: {max_rpm: 4}}"), 0}, {"", 75},
	} {
		flags := append([]string{"run", "gpt-4o", "--db", db, "--timeout", "0s"}, strings.Fields(test.flags)...)
		if status, _, stderr := run(t, append(flags, "--", "true")...); status != test.status {
			t.Errorf("%d, %q: status %d, %s", i, test.flags, status, stderr)
		}
	}
	one := file(t, "one.yaml", "upstreams: {a: {url: \"https://a.test\"}}\nquotas: {a/m: {max_rpm: 1}}")
	two := file(t, "two.yaml", "upstreams: {a: {url: \"https://a.test\"}, b: {url: \"https://b.test\"}}\nquotas: {b/m: {max_rpm: 1}}")
	for i, test := range []struct {
		model, config string
		status        int
	}{{"m", one, 0}, {"m", one, 75}, {"b/m", two, 0}, {"b/m", two, 75}} { // as the proxy names them
		other := filepath.Join(filepath.Dir(test.config), "other.db")
		if status, _, stderr := run(t, "run", test.model, "--config", test.config, "--db", other, "--timeout", "0s", "--", "true"); status != test.status {
			t.Errorf("upstreams %d: status %d, %s", i, status, stderr)
		}
	}
	if dated, _, stderr := run(t, "wait", "gpt-4o-2024-08-06", "--db", db, "--timeout", "0s"); dated != 75 {
		t.Errorf("a dated name: status %d, %s", dated, stderr)
	}
	is, err := ratelimit.Inspect(t.Context(), ratelimit.Config{FilePath: db})
	if err != nil || is.Quotas["*"].MaxRPM != 3 || is.Quotas["gpt-4o"].MaxRPM != 4 || len(is.Quotas) != 2 {
		t.Errorf("said are %v, %v", is, err)
	}
	if classes := library(t, db).Classes(); len(classes) != 2 {
		t.Errorf("the classes are %v", classes)
	}
}

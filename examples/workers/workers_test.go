package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// TestMain lets the test binary be a worker, as run starts itself as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == workerArg {
		os.Exit(status(os.Args[1:]))
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // of the workers: each would take a second to end
	os.Exit(m.Run())
}

// watcher is an output that calls seen with all that was written so far.
type watcher struct {
	bytes.Buffer
	seen func(text string)
}

func (w *watcher) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	w.seen(w.String())
	return n, err
}

// runUntil interrupts a run once its output is enough, and returns the output.
func runUntil(t *testing.T, cfg config, enough func(text string) bool) string {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := &watcher{seen: func(text string) {
		if enough(text) {
			interrupt()
		}
	}}
	if err := run(ctx, cfg, out); !errors.Is(err, errInterrupted) {
		t.Errorf("error %v, want %v:\n%s", err, errInterrupted, out)
	}
	return out.String()
}

// TestAllWorkersAreAdmitted goes on until all were, also the one that was killed,
// after that.
func TestAllWorkersAreAdmitted(t *testing.T) {
	cfg := config{
		db: filepath.Join(t.TempDir(), "quota.db"), workers: 4, rpm: 100_000, slots: 2,
		call: 20 * time.Millisecond, length: 5 * time.Minute, kill: 1, away: 1,
	}
	text := runUntil(t, cfg, func(text string) bool {
		_, after, _ := strings.Cut(text, "is started again")
		if !strings.Contains(text, "slots are used again") {
			return false
		}
		for worker := range cfg.workers {
			if !strings.Contains(after, fmt.Sprintf("worker %d  #", worker+1)) {
				return false
			}
		}
		return true
	})
	for _, want := range []string{
		"4 workers, one quota: 100,000 requests and unlimited tokens a minute, 2 slots\n",
		"is killed in the middle of this call\n", "all 2 slots are used again, ", ", killed at ", ", started again at ",
		"most at once    2/2 slots\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("output lacks %q:\n%s", want, text)
		}
	}
}

// TestQuotaIsUsedAndNotExceeded gives the workers half a second to take too much.
func TestQuotaIsUsedAndNotExceeded(t *testing.T) {
	started, full := time.Now(), false
	cfg := config{
		db: filepath.Join(t.TempDir(), "quota.db"), workers: 3, rpm: 5, tpm: 100_000,
		call: time.Millisecond, length: 5 * time.Minute,
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := &watcher{seen: func(text string) {
		if strings.Contains(text, " 5/5 requests") && !full {
			full = true
			time.AfterFunc(500*time.Millisecond, interrupt)
		}
	}}
	if err := run(ctx, cfg, out); !errors.Is(err, errInterrupted) {
		t.Errorf("error %v, want %v", err, errInterrupted)
	}
	if took := time.Since(started); took > time.Minute {
		t.Skipf("it took %v, and the quota came back", took)
	}
	if !strings.Contains(out.String(), "fullest minute  5/5 requests") || strings.Contains(out.String(), "#6 ") {
		t.Errorf("output:\n%s", out)
	}
}

// TestRunEnds lets the time of the workers pass, and looks for what stays behind.
func TestRunEnds(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"TMPDIR", "TMP", "TEMP"} {
		t.Setenv(name, folder)
	}
	cfg := config{workers: 2, rpm: 10, call: time.Hour, length: 300 * time.Millisecond}
	if err := run(t.Context(), cfg, io.Discard); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(folder)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestWorkerThatFailsEndsTheRun has workers whose calls never fit the quota.
func TestWorkerThatFailsEndsTheRun(t *testing.T) {
	cfg := config{
		db: filepath.Join(t.TempDir(), "quota.db"), workers: 2, rpm: 10, tpm: promptEstimate,
		call: time.Millisecond, length: 5 * time.Minute,
	}
	err := run(t.Context(), cfg, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "worker 1: exit status 1") && !strings.Contains(err.Error(), "worker 2: exit status 1") {
		t.Errorf("error %v", err)
	}
}

func TestRunWithoutDatabase(t *testing.T) {
	cfg := config{db: t.TempDir(), workers: 1, rpm: 1, call: 1, length: 1}
	if err := run(t.Context(), cfg, io.Discard); err == nil {
		t.Error("no error")
	}
}

// at is a time of a run.
func at(seconds float64) time.Time {
	return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

func TestAuditFindsTheFullestMinute(t *testing.T) {
	for _, test := range []struct {
		name  string
		times []float64
		want  int
	}{
		{"none", nil, 0},
		{"one", []float64{1}, 1},
		{"a minute apart", []float64{0, 60}, 2},
		{"more than a minute apart", []float64{0, 60.001}, 1},
		{"between two minutes of the clock", []float64{0, 50, 55, 65, 70, 120}, 4},
		{"told late", []float64{100, 50, 55, 45}, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newAudit()
			for pid, seconds := range test.times {
				a.add(event{PID: pid, At: at(seconds)})
			}
			if requests, _ := a.fullest(); requests != test.want {
				t.Errorf("%d requests, want %d", requests, test.want)
			}
		})
	}
}

func TestAuditCountsCalls(t *testing.T) {
	a := newAudit()
	expect := func(atOnce, tokens int) {
		t.Helper()
		if _, used := a.minute(at(10)); a.atOnce() != atOnce || used != tokens {
			t.Errorf("%d at once, %d tokens, want %d, %d", a.atOnce(), used, atOnce, tokens)
		}
	}
	a.add(event{PID: 1, At: at(1), Tokens: 100})
	a.add(event{PID: 2, At: at(2), Tokens: 100})
	expect(2, 200)
	a.add(event{PID: 1, Done: true, At: at(1), Tokens: 60})
	expect(1, 160)
	a.lose(2)
	expect(0, 160)
	a.add(event{PID: 2, Done: true, At: at(2), Tokens: 70}) // told before it was killed
	expect(0, 130)
	a.add(event{PID: 2, At: at(3), Tokens: 100})
	expect(0, 230)
	a.add(event{PID: 3, At: at(4), Tokens: 100})
	expect(1, 330)
	if requests, tokens := a.fullest(); a.most != 2 || requests != 4 || tokens != 330 {
		t.Errorf("%d at once, %d requests, %d tokens at most", a.most, requests, tokens)
	}
}

func TestVerdict(t *testing.T) {
	s := &session{cfg: config{rpm: 2, tpm: 250, slots: 2}, audit: newAudit()}
	for pid := range 2 {
		s.audit.add(event{PID: pid, At: at(float64(pid)), Tokens: 100})
	}
	if err := s.verdict(); err != nil {
		t.Error(err)
	}
	s.audit.add(event{PID: 2, At: at(60), Tokens: 100})
	err := s.verdict()
	for _, want := range []string{"3 requests in a minute, want 2", "300 tokens in a minute, want 250", "3 calls at once, want 2"} {
		if err == nil || !strings.Contains(err.Error(), "quota exceeded: "+want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
}

// TestLostCallsAreFound has a worker tell of a call that the database does not know.
func TestLostCallsAreFound(t *testing.T) {
	limiter, err := ratelimit.NewWithSQLiteConfig(filepath.Join(t.TempDir(), "quota.db"), ratelimit.Config{Shared: true})
	if err != nil {
		t.Fatal(err)
	}
	defer limiter.Close()
	s := &session{audit: newAudit(), limiter: limiter}
	if err := s.checkKept(); err != nil {
		t.Error(err)
	}
	s.audit.add(event{At: time.Now()})
	if err := s.checkKept(); err == nil || !strings.Contains(err.Error(), "the database counts 0 in the last minute, the workers made 1") {
		t.Errorf("error %v", err)
	}
}

func TestEventAndJobAreReadAsWritten(t *testing.T) {
	want := event{Worker: 2, PID: 77, Done: true, At: at(1.5), Tokens: 30}
	var line bytes.Buffer
	if err := want.write(&line); err != nil {
		t.Fatal(err)
	}
	if got, err := parseEvent(line.Bytes()); got != want || err != nil {
		t.Errorf("event %+v, %v, want %+v", got, err, want)
	}
	if _, err := parseEvent([]byte("panic: ")); err == nil || !strings.Contains(err.Error(), `"panic: "`) {
		t.Errorf("error %v", err)
	}

	j := job{worker: 3, db: "a b.db", call: 1500 * time.Millisecond, url: "http://x", prompts: 7, workers: 2}
	if got, err := parseJob(j.args()[1:]); got != j || err != nil {
		t.Errorf("job %+v, %v, want %+v", got, err, j)
	}
	for _, args := range [][]string{nil, {"x", "db", "1s", "", "0", "0"}, {"1", "db", "x", "", "0", "0"}, {"1", "db", "1s", "", "x", "0"}} {
		if _, err := parseJob(args); err == nil {
			t.Errorf("job %q: no error", args)
		}
	}
}

func TestFlags(t *testing.T) {
	for _, test := range []struct{ args, err string }{
		{"", ""},
		{"-workers 20 -slots 8 -rpm 200 -tpm 0 -kill 0", ""},
		{"now", `unexpected argument "now"`},
		{"-workers 0", "-workers and -rpm must be at least 1"},
		{"-rpm 0", "-workers and -rpm must be at least 1"},
		{"-slots -1", "-tpm and -slots must not be negative"},
		{"-tpm 1999", "-tpm must be at least 2000, which is one call"},
		{"-for 0", "-call and -for must be more than 0"},
		{"-away -1s", "-kill and -away must not be negative"},
		{"-h", flag.ErrHelp.Error()},
	} {
		var complaint strings.Builder
		_, err := parseFlags(strings.Fields(test.args), &complaint)
		if text := fmt.Sprint(err); (test.err != "" || err != nil) && text != test.err {
			t.Errorf("%q: error %v, want %s", test.args, err, test.err)
		}
		if (err != nil) != (complaint.Len() > 0) {
			t.Errorf("%q: told %q", test.args, complaint.String())
		}
	}
}

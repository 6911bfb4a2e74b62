package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// TestMain lets the test binary be a machine, as run starts itself as one.
func TestMain(m *testing.M) {
	logging.Disable()
	if len(os.Args) > 1 && os.Args[1] == machineArg {
		os.Exit(machineStatus())
	}
	os.Exit(m.Run())
}

// small is used up by the second calls of some callers, long before the machines are disturbed.
var small = quota{RPM: 30, TPM: 150_000}

func needRedis(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skipf("left out: %v", err)
	}
}

// TestRun is a short run, as a user would have it. The quota is used up when Redis is lost, so
// each call that the machines forgot with it would be a 429.
func TestRun(t *testing.T) {
	needRedis(t)
	cfg := config{state: t.TempDir(), length: minLength, quota: small}
	var out bytes.Buffer
	if err := run(t.Context(), cfg, &out); err != nil {
		t.Fatalf("%v:\n%s", err, &out)
	}
	for _, want := range []string{
		"machine 2 is killed (kill -9)", "machine 2 is started again",
		"Redis is killed, and all that it held is gone", "Redis is started again, empty",
		"429s            0 in the provider's log", "30 requests were used up after",
		"verdict         PASS: 3 machines used one quota up, through Redis, and the provider refused no call",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, &out)
		}
	}
	records, err := fakeprovider.ReadJournal(filepath.Join(cfg.state, logName))
	if err != nil || len(records) == 0 || len(records) > small.RPM {
		t.Errorf("%d records, %v", len(records), err)
	}
	checkLeft(t, cfg.state)
}

// checkLeft checks that a run has left nothing but the provider's log.
func checkLeft(t *testing.T, folder string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != logName {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
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

// TestInterrupted ends a run on somebody's Redis while a machine is dead.
func TestInterrupted(t *testing.T) {
	needRedis(t)
	theirs, err := startRedis(t.Context(), t.TempDir())
	t.Cleanup(theirs.kill)
	if err != nil {
		t.Fatal(err)
	}
	cfg := config{redis: theirs.url(), state: t.TempDir(), length: minLength, quota: small}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out := &watcher{seen: func(text string) {
		if strings.Contains(text, "in the middle of") {
			interrupt()
		}
	}}
	if err := run(ctx, cfg, out); !errors.Is(err, errInterrupted) {
		t.Errorf("error %v, want %v:\n%s", err, errInterrupted, out)
	}
	for _, want := range []string{"which is left alone", "429s            0 in the provider's log", "verdict         PASS"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(out.String(), "Redis is killed") {
		t.Errorf("output:\n%s", out)
	}
	checkLeft(t, cfg.state)
	client := redis.NewClient(&redis.Options{Addr: theirs.addr()})
	t.Cleanup(func() { client.Close() })
	if keys, err := client.Keys(t.Context(), "*").Result(); err != nil || len(keys) > 0 {
		t.Errorf("left in Redis: %q, %v", keys, err)
	}
}

// TestVerdict has logs that do not agree with the machines.
func TestVerdict(t *testing.T) {
	began := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	// calls returns n calls, of which the last ones are refused.
	calls := func(n, refused int) (records []fakeprovider.Record) {
		for i := range n {
			records = append(records, fakeprovider.Record{
				At: began.Add(time.Duration(i) * time.Second), Refused: i >= n-refused,
				Charge: map[fakeprovider.Dimension]int{fakeprovider.RPM: 1, fakeprovider.TPM: 100},
			})
		}
		return records
	}
	each := tally{sent: 10, answered: 10}
	for _, test := range []struct {
		name    string
		tally   tally // of each machine
		records []fakeprovider.Record
		full    bool
		err     string
	}{
		{"equal", each, calls(30, 0), true, ""},
		{"too short", each, calls(30, 0), false, ""},
		{"cut off in the middle", tally{sent: 10, answered: 8, cut: 1, left: 1}, calls(27, 0), true, ""},
		{"a 429", each, calls(30, 1), true, "refused 1 call with 429"},
		{"more than the quota", tally{sent: 11, answered: 11}, calls(33, 0), true, "a minute holds 33 requests"},
		{"calls that were not admitted", each, calls(31, 0), false, "sent 30 calls"},
		{"calls that never arrived", each, calls(29, 0), false, "the provider has 29"},
		{"taken for used up", tally{sent: 8, answered: 8}, calls(24, 0), true, "had 24 requests of 30"},
		{"failed", tally{sent: 10, answered: 9, failed: 1}, calls(30, 0), true, "3 calls failed"},
		{"nothing", tally{}, nil, false, "machine 3 got no answer"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			f := &fleet{cfg: config{quota: small}, out: &out, began: began, ran: time.Minute, full: test.full}
			for machine := 1; machine <= machines; machine++ {
				f.tallies[machine] = test.tally
			}
			err := f.report(newAudit(test.records))
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("error %v, want %q", err, test.err)
			}
			if pass := strings.Contains(out.String(), "PASS"); pass != (test.err == "") {
				t.Errorf("output:\n%s", &out)
			}
		})
	}
}

// TestWithoutRedis has no server in PATH, and then one that does not answer.
func TestWithoutRedis(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	cfg := config{state: t.TempDir(), length: minLength, quota: small}
	err := run(t.Context(), cfg, io.Discard)
	if !errors.Is(err, errNoRedis) || !strings.Contains(err.Error(), "apt-get install redis-server") {
		t.Errorf("error %v", err)
	}
	for _, url := range []string{"redis://127.0.0.1:1", "http://localhost"} {
		cfg.redis = url
		if err := run(t.Context(), cfg, io.Discard); err == nil {
			t.Errorf("%s: no error", url)
		}
	}
	if left, err := os.ReadDir(cfg.state); err != nil || len(left) > 0 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}

func TestParseFlags(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string // of the error; empty for none
	}{
		{nil, ""},
		{[]string{"-for", "2m", "-redis", "redis://localhost"}, ""},
		{[]string{"-for", "1s"}, "-for is 1s, want at least 10s"},
		{[]string{"now"}, `unexpected argument "now"`},
	} {
		_, err := parseFlags(test.args, io.Discard)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%q: error %v, want %q", test.args, err, test.want)
		}
	}
}

func TestScreen(t *testing.T) {
	for _, test := range []struct {
		live bool
		want string
	}{
		{false, "a\nb\nnote\nc\nd\n"},
		{true, "a\nb\n\x1b[2A\x1b[Jnote\nc\nd\n"},
	} {
		var out bytes.Buffer
		s := newScreen(&out, test.live)
		s.show([]string{"a", "b"})
		s.note("note")
		s.show([]string{"c", "d"})
		if out.String() != test.want {
			t.Errorf("live %v: %q, want %q", test.live, &out, test.want)
		}
	}
}

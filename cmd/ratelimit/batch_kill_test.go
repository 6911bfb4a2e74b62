package main_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// strict is a provider that enforces its limits, and tells of each call that comes.
type strict struct {
	*fakeprovider.Server
	url  string
	came chan struct{}
	all  atomic.Int64
}

func newStrict(t testing.TB, limits fakeprovider.Limits, answer func(*fakeprovider.Call) fakeprovider.Answer) *strict {
	s := &strict{came: make(chan struct{}, 1_000_000)}
	s.Server = fakeprovider.New(fakeprovider.Options{Seed: 1, Answer: answer}, map[string]fakeprovider.Config{"": {Limits: limits}})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.all.Add(1)
		s.came <- struct{}{}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// soon answers within a few milliseconds.
func soon(c *fakeprovider.Call) fakeprovider.Answer {
	a := fakeprovider.DefaultAnswer(c)
	a.Delay, a.Spread = time.Millisecond, 4*time.Millisecond
	return a
}

// What the answers in OUT have cost is known after a kill: --max-cost is for all runs.
func TestBatchKilledKnowsItsCost(t *testing.T) {
	g := newGate()
	u := provider(t, g.handle)
	dir := t.TempDir()
	put(t, dir, "in.jsonl", chatLines(4))
	flags := []string{"in.jsonl", "-o", "out.jsonl", "--upstream", u.URL, "--in-flight", "1", "--progress", "none"}
	cmd, _ := startBatch(t, dir, flags...)
	for range 2 {
		wait(t, g.came, "call")
		g.open <- struct{}{}
	}
	wait(t, g.came, "third call")
	for late := time.Now().Add(patience); strings.Count(take(t, dir, "out.jsonl"), "\n") < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("OUT has %q", take(t, dir, "out.jsonl"))
		}
	}
	cmd.Process.Kill() //nolint:errcheck // its status is looked at
	cmd.Wait()         //nolint:errcheck // it was killed
	close(g.open)
	r := runBatch(t, dir, "", flags...)
	var summary struct {
		Dollars float64
		Total   float64 `json:"dollars_total"`
	}
	if err := json.Unmarshal([]byte(r.stdout), &summary); err != nil {
		t.Fatal(err, r.stdout, r.stderr)
	}
	if summary.Dollars == 0 || math.Abs(summary.Total-2*summary.Dollars) > 1e-9 {
		t.Errorf("two of four lines cost $%g, all of them $%g", summary.Dollars, summary.Total)
	}
}

// A batch that is killed at any moment goes on: each line is in OUT once, none is lost, and nobody
// is over the quota.
func TestBatchKilled(t *testing.T) {
	t.Run("as answers come", func(t *testing.T) { testKilled(t, racetest.Times(10, 4, 200)) })
	t.Run("in order", func(t *testing.T) { testKilled(t, racetest.Times(5, 2, 20), "--ordered") })
}

func testKilled(t *testing.T, kills int, more ...string) {
	const rpm = 3000
	s := newStrict(t, fakeprovider.Limits{fakeprovider.RPM: rpm, fakeprovider.InFlight: 16}, soon)
	dir, lines := t.TempDir(), 40*kills
	put(t, dir, "in.jsonl", chatLines(lines))
	flags := append([]string{
		"in.jsonl", "-o", "out.jsonl", "--errors", "errors.jsonl", "--upstream", s.url, "--db", "q.db",
		"--rpm", strconv.Itoa(rpm), "--in-flight", "12", "--progress", "none",
	}, more...)
	for kill := range kills {
		cmd, said := startBatch(t, dir, flags...)
		ended := make(chan struct{})
		go func() {
			cmd.Wait() //nolint:errcheck // it was killed
			close(ended)
		}()
		for range rand.IntN(60) {
			select {
			case <-s.came:
			case <-ended:
			case <-time.After(2 * time.Minute):
				t.Fatalf("no call in two minutes: %s", said)
			}
		}
		cmd.Process.Kill() //nolint:errcheck // it may have ended
		<-ended
		if said.String() != "" && kill < kills-1 && cmd.ProcessState.ExitCode() > 0 {
			t.Fatalf("kill %d: status %d, %s", kill, cmd.ProcessState.ExitCode(), said)
		}
	}
	r := runBatch(t, dir, "", flags...)
	got := ids(t, take(t, dir, "out.jsonl"))
	if r.status != 0 || len(got) != lines {
		t.Errorf("status %d, %d of %d lines: %s", r.status, len(got), lines, r.stderr)
	}
	var want []string
	for i := range lines {
		want = append(want, fmt.Sprintf("id-%d", i))
	}
	if len(more) == 0 {
		slices.Sort(got)
		slices.Sort(want)
	}
	if !slices.Equal(got, want) {
		t.Error("OUT has other lines than IN")
	}
	stats := s.Stats("gpt-4o")
	t.Logf("%d kills, %d lines, %d calls, %d refused", kills, lines, s.all.Load(), stats.Refused)
	if stats.Refused > 0 {
		t.Errorf("%d calls were refused: over %v", stats.Refused, stats.Over)
	}
	noKey(t, dir, r)
}

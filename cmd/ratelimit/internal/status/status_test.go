package status_test

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/cmd/ratelimit/internal/status"
	"dappco.re/go/core/go-ratelimit/internal/test/redistest"
)

func modelOf(t *testing.T, is *status.Report, name string) *ratelimit.Explanation {
	t.Helper()
	i := slices.IndexFunc(is.Models, func(e ratelimit.Explanation) bool { return e.Model == name })
	if i < 0 {
		t.Fatalf("no model %q in %+v", name, is)
	}
	return &is.Models[i]
}

// Two limiters and a process share the quota: all of what they have is told, and whose it is.
func TestStatusTells(t *testing.T) {
	home := t.TempDir()
	cfg := config()
	cfg.FilePath = filepath.Join(home, ".core", "ratelimits.db") // the default
	one, two := open(t, cfg), open(t, cfg)
	startChild(t, cfg.FilePath)
	defer reserve(t, one, "gpt-4o", 1000, 200).Cancel()
	defer reserve(t, two, "gpt-4o", 500, 100).Cancel()
	wait(t, two, "gpt-4o")
	reserve(t, one, "o3", 1_000_000, 0).Commit(1_000_000, 0)
	one.CooldownFor("o3", time.Minute, ratelimit.CauseOverloaded)
	if err := one.Persist(); err != nil { // waits until it is written
		t.Fatal(err)
	}

	is := report(t, home)
	e := modelOf(t, &is, "gpt-4o")
	if e.InFlight != 4 || e.Waiting != 1 || e.Next.Allowed || e.Origin != "shared" {
		t.Errorf("gpt-4o: %+v", e)
	}
	used := make(map[string]int)
	for _, l := range e.Limits {
		used[l.Limit] = l.Used
	}
	if want := (map[string]int{"max_rpm": 4, "max_tpm": 2040, "max_in_flight": 4}); fmt.Sprint(used) != fmt.Sprint(want) {
		t.Errorf("used %v, want %v", used, want)
	}
	e = modelOf(t, &is, "o3")
	if left := e.CooldownUntil.Sub(is.At); left < 50*time.Second || left > time.Minute || e.Cause != ratelimit.CauseOverloaded {
		t.Errorf("cooldown for %v because of %q", left, e.Cause)
	}
	if len(e.Budgets) == 0 || e.Budgets[0].Spent.String() != "$2.00" {
		t.Errorf("budgets %+v", e.Budgets)
	}
	if len(is.Pools) != 1 || is.Pools[0].Pool != "openai" || is.Pools[0].InFlight != 4 || is.Pools[0].Limits[0].Used != 5 {
		t.Errorf("pools %+v", is.Pools)
	}
	var parts []string
	for _, p := range is.Processes {
		if ago := is.At.Sub(p.HeardAt); len(p.ID) != 16 || ago < 0 || ago > time.Minute {
			t.Errorf("process %q was heard %v ago", p.ID, ago)
		}
		parts = append(parts, fmt.Sprint(p.InFlight, p.Tokens, p.Waiting))
	}
	want := []string{"map[gpt-4o:1] map[gpt-4o:1200] map[]", "map[gpt-4o:1] map[gpt-4o:600] map[gpt-4o:1]", "map[gpt-4o:2] map[gpt-4o:240] map[]"}
	if !slices.Equal(parts, want) {
		t.Errorf("parts %q, want %q", parts, want)
	}
	if len(is.Warnings) > 0 {
		t.Errorf("warnings %q", is.Warnings)
	}

	r := runStatus(t, home)
	for _, line := range []string{
		`MODEL +LIMIT +USED +LEFT +NEXT ROOM +OPEN +IN LINE`,
		`gpt-4o +calls in flight +4 of 4 +0 +when a call ends +4 +1`,
		` +requests/minute +4 of 30 +26 +now`,
		` +tokens/minute +2040 of 40000 +37960 +now`,
		` +next call +after the line`,
		` +spend/day +\$2.00 of \$5.00 +\$3.00 +now`,
		` +cooldown +overloaded +in (1m|5\ds)`,
		`o3 is in a cooldown: the provider said that it is overloaded`,
		`gpt-4o waits: others wait for the model and come first; the first in line has waited \d+s`,
		`openai +requests/minute +5 of 60 +55 +now +4 +1`,
		`[0-9a-f]{8} +1 +1 +\d+s ago +gpt-4o 1 open with 600 tokens 1 in line`,
	} {
		if !regexp.MustCompile(`(?m)^` + line + `$`).MatchString(r.stdout) {
			t.Errorf("no line %q in\n%s", line, r.stdout)
		}
	}
	if r.code != 0 || r.stderr != "" {
		t.Errorf("exit %d, %s", r.code, r.stderr)
	}
	t.Logf("\n%s", r.stdout)
}

// Of one model only what has to do with it is told; one that a pattern covers is known.
func TestStatusOfModel(t *testing.T) {
	home := t.TempDir()
	cfg := config()
	cfg.FilePath = filepath.Join(home, "quota.db")
	rl := open(t, cfg)
	defer reserve(t, rl, "gpt-4o", 10, 10).Cancel()
	rl.RecordUsage("other", 5, 5)
	if err := rl.Persist(); err != nil {
		t.Fatal(err)
	}
	file := []string{"--db", cfg.FilePath}
	is := report(t, home, append(file, "o3")...)
	if len(is.Models) != 1 || is.Models[0].Model != "o3" || len(is.Pools) != 1 || len(is.Processes) != 1 || len(is.Processes[0].InFlight) != 0 {
		t.Errorf("o3: %+v", is)
	}
	if is := report(t, home, append(file, "gpt-4o")...); is.Processes[0].InFlight["gpt-4o"] != 1 {
		t.Errorf("gpt-4o: %+v", is.Processes)
	}
	if is := report(t, home, append(file, "claude-opus")...); len(is.Pools) != 0 || is.Models[0].Quota != "claude-*" {
		t.Errorf("claude-opus: %+v", is)
	}
	if is := report(t, home, append(file, "other")...); is.Models[0].Next.Stats.RPM != 1 {
		t.Errorf("other: %+v", is.Models)
	}
	r := runStatus(t, home, append(file, "gpt-5")...)
	if r.code != 0 { // the pool has it
		t.Errorf("gpt-5: exit %d, %s", r.code, r.stderr)
	}
	r = runStatus(t, home, append(file, "mistral")...)
	if want := `model "mistral" is not known: known are gpt-4o, o3, other`; r.code != 1 || !strings.Contains(r.stderr, want) || r.stdout != "" {
		t.Errorf("exit %d, %q and %q", r.code, r.stdout, r.stderr)
	}
}

// To look changes no byte and no time of a file: while a process has it open, when one was killed,
// and when none lives.
func TestStatusReadsOnly(t *testing.T) {
	home := t.TempDir()
	cfg := config()
	cfg.FilePath = filepath.Join(home, ".core", "ratelimits.db")
	used := func(when string, want int) {
		t.Helper()
		unchanged(t, filepath.Dir(cfg.FilePath), func() {
			if is := report(t, home, "gpt-4o"); is.Models[0].Next.Stats.RPM != want {
				t.Errorf("%s: %d requests, want %d", when, is.Models[0].Next.Stats.RPM, want)
			}
		})
	}
	child := startChild(t, cfg.FilePath)
	redistest.Stop(t, child) // or it would change the index of the log, to read
	used("open", 2)
	child.Kill()
	child.Wait()
	if _, err := os.Stat(cfg.FilePath + "-wal"); err != nil {
		t.Error("the killed process left no log of the database")
	}
	used("killed", 2)
	is := report(t, home)
	if len(is.Processes) != 1 || is.Processes[0].InFlight["gpt-4o"] != 2 {
		t.Errorf("processes %+v", is.Processes)
	}

	rl, err := ratelimit.NewWithConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := rl.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(cfg.FilePath + "-wal"); err == nil {
		t.Error("the last process left the log of the database")
	}
	used("closed", 2)
}

// What cannot be read is said in words, and nothing is made.
func TestStatusCannotRead(t *testing.T) {
	home := t.TempDir()
	at := func(name, text string) string {
		path := filepath.Join(home, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	private := filepath.Join(home, "private.db")
	rl, err := ratelimit.NewWithSQLite(private)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(rl.Persist(), rl.Close()); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 1, "no shared quota at " + filepath.Join(home, ".core", "ratelimits.db")},
		{[]string{"--json", "gpt-4o"}, 1, "no shared quota at"},
		{[]string{"--watch"}, 1, "no shared quota at"},
		{[]string{"--db", at("text.db", strings.Repeat("no database", 100))}, 1, "not a database"},
		{[]string{"--db", at("empty.db", "")}, 1, "no limiter has used it yet"},
		{[]string{"--db", private}, 1, "one limiter's own"},
		{[]string{"--redis", "127.0.0.1:1"}, 1, "refused"},
		{[]string{"--db", private, "--redis", "127.0.0.1:1"}, 2, "one of them"},
		{[]string{"one", "two"}, 2, "one model at most"},
		{[]string{"--unknown"}, 2, "unknown flag"},
	} {
		if strings.Contains(fmt.Sprint(tt.args), "redis") && testing.Short() && tt.code == 1 {
			continue // it tries for three seconds
		}
		unchanged(t, home, func() {
			r := runStatus(t, home, tt.args...)
			if r.code != tt.code || r.stdout != "" || !strings.Contains(r.stderr, tt.want) || strings.Count(r.stderr, "\n") != 1 {
				t.Errorf("%q: exit %d, %q and %q, want %d and %q", tt.args, r.code, r.stdout, r.stderr, tt.code, tt.want)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(home, ".core")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the folder was made")
	}
}

// While others write as fast as they can, each look is of one moment.
func TestStatusBesideWriters(t *testing.T) {
	home := t.TempDir()
	cfg := config()
	cfg.FilePath = filepath.Join(home, ".core", "ratelimits.db")
	cfg.Quotas["busy"] = ratelimit.ModelQuota{MaxRPM: 1_000_000, MaxInFlight: 3}
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for range 2 {
		rl := open(t, cfg)
		for range 4 {
			writers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if r, _ := rl.Reserve("busy", 10, 10); r != nil {
						r.Commit(10, 10)
					}
				}
			})
		}
	}
	defer writers.Wait()
	defer close(stop)
	last := 0
	for range 10 {
		is := report(t, home, "busy")
		e := &is.Models[0]
		open := 0
		for _, p := range is.Processes {
			open += p.InFlight["busy"]
		}
		if s := &e.Next.Stats; e.InFlight > 3 || open != e.InFlight || s.TPM != 20*s.RPM || s.RPM < last {
			t.Errorf("%d calls of %d open, %d requests after %d, %d tokens", open, e.InFlight, s.RPM, last, s.TPM)
		}
		last = e.Next.Stats.RPM
	}
	if last == 0 {
		t.Error("nobody has written")
	}
}

// --watch repeats until Ctrl-C, and ends well.
func TestStatusWatch(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no process can be sent a Ctrl-C alone")
	}
	home := t.TempDir()
	cfg := config()
	cfg.FilePath = filepath.Join(home, ".core", "ratelimits.db")
	open(t, cfg)
	for _, tt := range []struct{ flag, begins string }{{"--watch", "MODEL "}, {"--json", `{"at":`}} {
		c := exec.CommandContext(t.Context(), program, "status", "--watch", tt.flag)
		c.Env = append(os.Environ(), "CORE_HOME="+home)
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		lines, blocks := bufio.NewScanner(out), 0
		for blocks < 2 && lines.Scan() {
			if strings.HasPrefix(lines.Text(), tt.begins) {
				blocks++
			}
			if strings.Contains(lines.Text(), "\x1b") {
				t.Errorf("%s: %q is for a terminal", tt.flag, lines.Text())
			}
		}
		if err := c.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		for lines.Scan() {
		}
		if err := c.Wait(); err != nil || blocks < 2 {
			t.Errorf("%s: %d blocks, error %v", tt.flag, blocks, err)
		}
	}
}

// What cannot be read for a moment does not end --watch.
func TestStatusWatchGoesOn(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be moved")
	}
	home := t.TempDir()
	cfg := config()
	cfg.FilePath = filepath.Join(home, "quota.db")
	if err := open(t, cfg).Close(); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), program, "status", "--watch", "--db", cfg.FilePath)
	out, err := c.StdoutPipe()
	said, err2 := c.StderrPipe()
	if err := errors.Join(err, err2, c.Start()); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	blocks, errs := bufio.NewScanner(out), bufio.NewScanner(said)
	block := func() bool {
		for blocks.Scan() {
			if strings.HasPrefix(blocks.Text(), "MODEL ") {
				return true
			}
		}
		return false
	}
	if !block() {
		t.Fatal("it shows nothing")
	}
	away := cfg.FilePath + ".away"
	if err := os.Rename(cfg.FilePath, away); err != nil {
		t.Fatal(err)
	}
	if !errs.Scan() || !strings.Contains(errs.Text(), "no shared quota") {
		t.Errorf("it says %q", errs.Text())
	}
	if err := os.Rename(away, cfg.FilePath); err != nil {
		t.Fatal(err)
	}
	if !block() {
		t.Error("it shows nothing any more")
	}
}

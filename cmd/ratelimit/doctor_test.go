//go:build unix

package main_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// What doctor finds, by what is wrong. Each finding says what to do.
func TestDoctor(t *testing.T) {
	t.Parallel()
	good := map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10}}
	call := func(model string) func(t *testing.T, db string) {
		return func(t *testing.T, db string) { library(t, db).RecordUsage(model, 1, 1) }
	}
	write := func(text string) func(t *testing.T, db string) {
		return func(t *testing.T, db string) {
			if err := os.WriteFile(db, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, test := range []struct {
		name   string
		quotas map[string]ratelimit.ModelQuota // nil makes no file
		spoil  func(t *testing.T, db string)
		flags  string
		found  string // the lines, without notes; DB is the file
	}{
		{name: "all is well", quotas: good, spoil: call("m")},
		{name: "no file"},
		{name: "a model without a quota", quotas: good, spoil: call("n"),
			found: `models: n: it is called, and no quota limits it: ratelimit quota set "n" --rpm ... --tpm ..., or correct the name`},
		{name: "a quota without a limit", quotas: map[string]ratelimit.ModelQuota{"*": {}}, spoil: call("n"),
			found: "models: n: it is called, and no quota limits it: "},
		{name: "a quota for all", quotas: map[string]ratelimit.ModelQuota{"*": {MaxInFlight: 2}}, spoil: call("n")},
		{name: "no price", quotas: map[string]ratelimit.ModelQuota{"n": {MaxSpendPerDay: money.Dollar}},
			found: "prices: n: its spend is limited, and it has no price: each call is refused: say its price under prices: in the file of --config"},
		{name: "others may use it", quotas: good, spoil: func(_ *testing.T, db string) { os.Chmod(db, 0o640) }, //nolint:errcheck // the finding tells
			found: "file: DB: others may use it (mode 0640): chmod 600 DB"},
		{name: "a clock that was set back", quotas: good,
			spoil: func(_ *testing.T, db string) { os.Chtimes(db, time.Time{}, time.Now().Add(time.Hour)) }, //nolint:errcheck // likewise
			found: "in the future: the clock was set back: set the clock of this machine, and have a time service keep it"},
		{name: "a file of another program", spoil: write(strings.Repeat("text\n", 1000)), found: "file is not a database"},
		{name: "an empty file", spoil: write(""), found: "file: DB: inspect: look at the shared database: DB: no limiter has used it yet: start a program"},
		{name: "a folder", spoil: func(_ *testing.T, db string) { os.Mkdir(db, 0o700) }, //nolint:errcheck // likewise
			found: "file: DB: it is no regular file: name another file with --db"},
		{name: "a server without the time", quotas: good, flags: "--clock http://127.0.0.1:1", found: "clock: http://127.0.0.1:1: it does not tell the time"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			db := filepath.Join(t.TempDir(), "shared.db")
			if test.quotas != nil {
				db = shared(t, test.quotas)
			}
			if test.spoil != nil {
				test.spoil(t, db)
			}
			status, stdout, stderr := run(t, append([]string{"doctor", "--db", db}, strings.Fields(test.flags)...)...)
			var found []string
			for line := range strings.Lines(stdout) {
				if !strings.HasPrefix(line, "note: ") {
					found = append(found, line)
				}
			}
			lines, want := strings.Join(found, ""), strings.ReplaceAll(test.found, "DB", db)
			switch {
			case test.found == "" && (status != 0 || lines != "nothing was found\n"):
				t.Errorf("status %d, %s", status, stdout)
			case test.found != "" && (status != 1 || !strings.Contains(lines, want) || len(found) != 1):
				t.Errorf("status %d, %s", status, stdout)
			}
			if stderr != "" {
				t.Errorf("stderr: %s", stderr)
			}
		})
	}
}

// The clock is compared with that of a server that is asked for.
func TestDoctorClock(t *testing.T) {
	t.Parallel()
	var off atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(time.Duration(off.Load())).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusNotFound)
	}))
	defer server.Close()
	for _, test := range []struct {
		off    time.Duration
		status int
		found  string
	}{{0, 0, "nothing was found"}, {time.Minute, 1, " behind it: have a time service"}, {-time.Minute, 1, " ahead of it: have a time service"}} {
		off.Store(int64(test.off))
		status, stdout, _ := run(t, "doctor", "--db", filepath.Join(t.TempDir(), "none.db"), "--clock", server.URL)
		if status != test.status || !strings.Contains(stdout, test.found) {
			t.Errorf("%v: status %d, %s", test.off, status, stdout)
		}
	}
}

// doctor prints JSON, refuses flags that cannot be, and tells no key.
func TestDoctorFlags(t *testing.T) {
	t.Parallel()
	db := shared(t, map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10}})
	library(t, db).RecordUsage("n", 1, 1)
	status, stdout, _ := run(t, "doctor", "--json", "--db", db)
	var report struct {
		At       time.Time
		Findings []struct{ Check, About, Text, Do string }
		Notes    []string
	}
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || status != 1 || len(report.Findings) != 1 ||
		report.Findings[0].Check != "models" || report.Findings[0].About != "n" || report.At.IsZero() || report.Notes == nil {
		t.Errorf("status %d, %v, %s", status, err, stdout)
	}
	for _, flags := range []string{"--provider-limits", "--clock api.openai.com", "--clock ftp://a", "more", "--redis a --db b", "--nope"} {
		cmd := command(t, append([]string{"doctor"}, strings.Fields(flags)...)...)
		cmd.Env = append(cmd.Env, "OPENAI_ADMIN_KEY=", "ANTHROPIC_ADMIN_KEY=", "OPENROUTER_API_KEY=")
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 2 {
			t.Errorf("%s: %v, %s", flags, err, out)
		}
	}
	cmd := command(t, "doctor", "--db", db, "--provider-limits")
	cmd.Env = append(cmd.Env, "OPENAI_ADMIN_KEY=sk-secret1", "OPENAI_PROJECT=p", "ANTHROPIC_ADMIN_KEY=sk-secret2",
		"OPENROUTER_API_KEY=sk-secret3", "HTTPS_PROXY=http://127.0.0.1:1", "https_proxy=", "NO_PROXY=", "no_proxy=")
	out, _ := cmd.CombinedOutput()
	if status := cmd.ProcessState.ExitCode(); status != 1 || strings.Count(string(out), "they cannot be read") != 3 || strings.Contains(string(out), "secret") {
		t.Errorf("status %d, %s", status, out)
	}
}

// doctor changes nothing: not a file that nobody has open, not one that a limiter has, and not one
// of a process that was killed.
func TestDoctorOnlyReads(t *testing.T) {
	t.Parallel()
	quotas := map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10, MaxInFlight: 2}}
	for name, prepare := range map[string]func(db string){
		"closed": func(string) {},
		"open": func(db string) { // of a process that is stopped, because one that lives writes now and then
			s := begin(t, "run", "m", "--db", db, "--", "sh", "-c", "echo ready; cat")
			s.out.waitFor(t, "ready\n")
			settled(t, filepath.Dir(db))
			s.Process.Signal(syscall.SIGSTOP) //nolint:errcheck // it lives until the end
		},
		"killed": func(db string) {
			s := begin(t, "run", "m", "--db", db, "--", "echo", "ready")
			s.out.waitFor(t, "ready\n")
			s.Process.Kill() //nolint:errcheck // it may have ended
			<-s.ended
		},
	} {
		db := shared(t, quotas)
		prepare(db)
		before := settled(t, filepath.Dir(db))
		for _, word := range []string{"doctor", "doctor --json", "status", "quota show"} {
			if status, stdout, stderr := run(t, append(strings.Fields(word), "--db", db)...); status != 0 {
				t.Errorf("%s, %s: status %d, %s%s", name, word, status, stdout, stderr)
			}
		}
		if after := filesIn(t, filepath.Dir(db)); after != before {
			t.Errorf("%s: the files were\n%q\nand are\n%q", name, before, after)
		}
	}
	empty := t.TempDir()
	if status, stdout, _ := run(t, "doctor", "--db", filepath.Join(empty, "folder", "none.db")); status != 0 || filesIn(t, empty) != "" {
		t.Errorf("status %d, %s, files %q", status, stdout, filesIn(t, empty))
	}
}

// settled is filesIn once nobody writes any more.
func settled(t testing.TB, folder string) string {
	t.Helper()
	before := filesIn(t, folder)
	for late := time.Now().Add(patience); ; {
		time.Sleep(20 * time.Millisecond)
		after := filesIn(t, folder)
		if after == before {
			return after
		}
		if before = after; time.Now().After(late) {
			t.Fatal("the files change all the time")
		}
	}
}

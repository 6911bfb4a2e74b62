package main_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// A script of commands on one shared file, with the status of each, and what it says.
func TestQuotaCommands(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "shared.db")
	for _, step := range []struct {
		arguments string
		status    int
		says      string // on stdout, or on stderr where it fails
	}{
		{"quota show", 1, "there is no shared quota at " + db},
		{"reset m --yes", 1, "there is no shared quota at " + db},
		{"quota remove m --yes", 1, "there is no shared quota at " + db},
		{"reset --all --yes", 0, "forgotten: what all models have used\n"},
		{"quota show", 0, "no quota is set\n"},
		{"quota show --json", 0, "[]\n"},
		{"quota set m --rpm 500 --tpm 30000", 0, "m: 500 requests/minute, 30000 tokens/minute; there was none\n"},
		{"quota set m --rpm 2 --max-cost-per-day 2.5 --day-zone UTC", 0,
			"m: 2 requests/minute, 30000 tokens/minute, $2.50/day, days of UTC; it was 500 requests/minute, 30000 tokens/minute\n"},
		{"quota set m --tpm 0 --max-cost-per-day 0 --day-zone=", 0, "m: 2 requests/minute; it was"},
		{"quota set g-* --in-flight 3 --burst 10s", 0, "g-*: 3 calls in flight, in bursts of 10s; there was none\n"},
		{"quota show m", 0, "m      shared   2 requests/minute\n"},
		{"quota show g-4", 0, "g-4 by g-*  shared   3 calls in flight, in bursts of 10s\n"},
		{"quota show nope", 1, `no quota holds for the model "nope"`},
		{"quota show m n", 2, "one model at most"},
		{"quota show --all", 2, "unknown flag"},
		{"quota nope --db", 2, "unknown flag: --db"},
		{"quota set m", 2, "which limit?"},
		{"quota set m n --rpm 1", 2, "one model"},
		{"quota set m --rpm -1", 2, "negative"},
		{"quota set m --rpm many", 2, "rpm"},
		{"quota set m --burst -1s", 2, "negative"},
		{"quota set m --max-cost-per-day -1", 2, "dollars"},
		{"quota set m --day-zone Nowhere/Here", 2, "unknown time zone"},
		{"quota set m --rpm 1 --db /dev/null/x", 1, "not a directory"},
		{"run m --tokens 40 -- true", 0, ""},
		{"run m --tokens 40 -- true", 0, ""},
		{"wait m --timeout 0s", 75, "requests per minute are used up"},
		{"reset m", 2, `reset forgets what "m" has used (2 requests and 80 tokens of the minute, 2 requests of the day): to go on without a question, say --yes`},
		{"wait m --timeout 0s", 75, "requests per minute are used up"},
		{"reset m --yes", 0, "forgotten: what"},
		{"wait m --timeout 0s", 0, ""},
		{"reset", 2, "one model, or --all"},
		{"reset m --all --yes", 2, "one model, or --all"},
		{"reset m n --yes", 2, "one model, or --all"},
		{"reset nope --yes", 1, `model "nope" is not known`},
		{"cooldown m 10m --reason outage", 0, "m: no call before "},
		{"wait m --timeout 0s", 75, "the model is in a cooldown (outage); there is in 9m"},
		{"cooldown m 1s", 0, "(outage)\n"}, // the longer one stays
		{"reset --all", 2, "say --yes"},
		{"reset --all --yes", 0, "forgotten: what all models have used\n"},
		{"wait m --timeout 0s", 0, ""},
		{"cooldown m", 2, "a model and a duration"},
		{"cooldown m 0s", 2, "no duration above zero"},
		{"cooldown m 10", 2, "no duration above zero"},
		{"cooldown m 1m --reason Outage!", 2, "--reason"},
		{"cooldown m 1m --db /dev/null/x", 1, "not a directory"},
		{"quota remove g-*", 2, `takes back the quota of "g-*" (3 calls in flight, in bursts of 10s): to go on`},
		{"quota remove g-* --yes", 0, "g-*: the quota was 3 calls in flight, in bursts of 10s\n"},
		{"quota remove g-* --yes", 1, `"g-*" has no quota of its own`},
		{"quota remove", 2, "one model"},
		{"quota show --json", 0, `"max_rpm": 2`},
		{"nope", 2, `no command is named "nope"`},
		{"stats", 2, "did you mean status?"},
	} {
		words := strings.Fields(step.arguments)
		if !strings.Contains(step.arguments, "--db") && len(words) > 1 {
			at := len(words)
			for i, word := range words {
				if word == "--" {
					at = i
				}
			}
			words = append(append(append([]string(nil), words[:at]...), "--db", db), words[at:]...)
		}
		status, stdout, stderr := run(t, words...)
		says, other := stdout, stderr
		if status != 0 {
			says, other = stderr, stdout
		}
		if status != step.status || !strings.Contains(says, step.says) || other != "" {
			t.Errorf("%s: status %d, want %d\nstdout: %sstderr: %s", step.arguments, status, step.status, stdout, stderr)
		}
	}
	if is, err := ratelimit.Inspect(t.Context(), ratelimit.Config{FilePath: db}); err != nil || is.Quotas["m"] != (ratelimit.ModelQuota{MaxRPM: 2}) || len(is.Quotas) != 1 {
		t.Errorf("the quotas are %v, %v", is, err)
	}
}

// A change reaches a limiter that runs, and what quota show prints is what a limiter has.
func TestQuotaSetReachesOthers(t *testing.T) {
	t.Parallel()
	said := map[string]ratelimit.ModelQuota{
		"gpt-4o": {MaxRPM: 7, MaxSpendPerDay: 5 * money.Dollar, AdaptiveFloorRPM: 2}, "*": {MaxInFlight: 2},
	}
	db := shared(t, said)
	status, stdout, _ := run(t, "quota", "show", "--json", "--db", db)
	var rows []struct {
		Model string
		Quota ratelimit.ModelQuota
	}
	if err := json.Unmarshal([]byte(stdout), &rows); err != nil || status != 0 || len(rows) != 2 || rows[0].Quota != said["*"] || rows[1].Quota != said["gpt-4o"] {
		t.Errorf("status %d, %v, %s", status, err, stdout)
	}
	rl := library(t, db)
	waits := begin(t, "run", "gpt-4o", "--db", db, "--", "echo", "ran")
	waits.out.waitFor(t, "ran\n")
	if status, _, stderr := run(t, "quota", "set", "gpt-4o", "--rpm", "1", "--db", db); status != 0 {
		t.Fatalf("status %d, %s", status, stderr)
	}
	if d := rl.Decide("gpt-4o", 1); d.Allowed || d.Stats.MaxRPM != 1 {
		t.Errorf("a limiter that runs decides %+v", d)
	}
	if _, q, _ := rl.QuotaFor("gpt-4o"); q.MaxSpendPerDay != 5*money.Dollar || q.AdaptiveFloorRPM != 2 {
		t.Errorf("the other limits are %+v", q)
	}
}

// Those that only read change nothing: not the file, and not what stands beside it.
func TestQuotaShowOnlyReads(t *testing.T) {
	t.Parallel()
	db := shared(t, map[string]ratelimit.ModelQuota{"gpt-4o": {MaxRPM: 7}})
	before := filesIn(t, filepath.Dir(db))
	if status, _, stderr := run(t, "quota", "show", "--db", db); status != 0 {
		t.Fatal(stderr)
	}
	if after := filesIn(t, filepath.Dir(db)); after != before {
		t.Errorf("the files were\n%sand are\n%s", before, after)
	}
}

// filesIn is all that a folder has: names, times and bytes.
func filesIn(t testing.TB, folder string) string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(entry.Name(), "-shm") {
			text = nil // SQLite's index, which a limiter that has the file open writes when it likes
		}
		all.WriteString(entry.Name() + " " + info.ModTime().String() + " " + info.Mode().String() + fmt.Sprintf(" %x\n", sha256.Sum256(text)))
	}
	return all.String()
}

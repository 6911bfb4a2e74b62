package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Each end has its status, and the summary says as much.
func TestBatchStatus(t *testing.T) {
	fails := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			io.WriteString(w, body) //nolint:errcheck // the test sees it
		}
	}
	large := strings.ReplaceAll(chatLines(3), `"max_tokens":10`, `"max_tokens":5000`)
	for _, test := range []struct {
		name    string
		handler http.HandlerFunc
		in      string
		flags   []string
		status  int
		said    string // on stderr
		stopped string
	}{
		{"all done", nil, chatLines(5), nil, 0, "5 of 5 done", ""},
		{"nothing to do", nil, "\n", nil, 0, "0 of 0 done", ""},
		{"some failed", fails(404, "{}"), chatLines(5), nil, 1, "5 lines failed (http_404 5)", ""},
		{"the first failed", fails(404, "{}"), chatLines(500), []string{"--fail-fast", "--in-flight", "1"}, 1, "lines failed", "fail_fast"},
		{"no file", nil, "", []string{"--config", "missing.yaml"}, 2, "missing.yaml", ""},
		{"nothing fits", nil, large, []string{"--tpm", "1000"}, 3, "all 3 lines are larger than the quota", ""},
		{"one fits", nil, large + chatLine("small"), []string{"--tpm", "1000"}, 1, "3 lines failed (never_fits 3)", ""},
		{"a budget", nil, chatLines(200), []string{"--max-cost", "0.005"}, 4, "the money is used up", "budget"},
		{"no credit", fails(429, `{"error":{"code":"insufficient_quota"}}`), chatLines(5), []string{"--in-flight", "1"}, 4, "the money is used up", "budget"},
		{"a part", nil, chatLines(5), []string{"--limit", "2"}, 0, "2 of 5 done", "limit"},
	} {
		t.Run(test.name, func(t *testing.T) {
			u := provider(t, test.handler)
			dir := t.TempDir()
			put(t, dir, "in.jsonl", test.in)
			r := runBatch(t, dir, "", append([]string{"in.jsonl", "-o", "out.jsonl", "--upstream", u.URL, "--rpm", "1000"}, test.flags...)...)
			if r.status != test.status || !strings.Contains(r.stderr, test.said) {
				t.Errorf("status %d: %s", r.status, r.stderr)
			}
			noKey(t, dir, r)
			if test.status == 2 {
				return
			}
			var s struct{ Stopped string }
			if err := json.Unmarshal([]byte(r.stdout), &s); err != nil || s.Stopped != test.stopped {
				t.Errorf("%v, %s", err, r.stdout)
			}
		})
	}
}

// A plan sends nothing, and leaves no file.
func TestBatchDryRun(t *testing.T) {
	u := provider(t, nil)
	dir := t.TempDir()
	put(t, dir, "in.jsonl", chatLines(100)+"bad\n")
	flags := []string{"in.jsonl", "--upstream", u.URL, "--rpm", "20", "--expect-output", "50", "--dry-run", "--db", "q.db"}
	r := runBatch(t, dir, "", flags...)
	var p struct {
		Lines, Minutes, Dollars float64
		ToDo                    int `json:"to_do"`
		BadLines                int `json:"bad_lines"`
		Tokens                  struct{ Output int }
		Models                  []string
	}
	if err := json.Unmarshal([]byte(r.stdout), &p); err != nil || r.status != 0 {
		t.Fatalf("%v, status %d: %s", err, r.status, r.stderr)
	}
	// 10 tokens are all that a line allows; 100 calls of 20 a minute take four minutes.
	if p.ToDo != 100 || p.BadLines != 1 || p.Tokens.Output != 1000 || p.Minutes < 4 || p.Minutes > 4.1 || p.Dollars < 0.01 || fmt.Sprint(p.Models) != "[gpt-4o]" {
		t.Errorf("%s", r.stdout)
	}
	if len(u.requests()) > 0 || take(t, dir, "q.db") != "" || take(t, dir, "out.jsonl.ratelimit") != "" {
		t.Error("it has left something")
	}
}

// A gateway whose provider counts max_tokens is told by the file of --config. A model without a
// quota is named.
func TestBatchDryRunCounts(t *testing.T) {
	u := provider(t, nil)
	dir := t.TempDir()
	put(t, dir, "in.jsonl", strings.ReplaceAll(chatLines(100), `"max_tokens":10`, `"max_tokens":1000`))
	put(t, dir, "keeps.yaml", "upstreams: {gateway: {url: "+u.URL+", no_refund: true}}\n")
	put(t, dir, "refunds.yaml", "upstreams: {gateway: {url: "+u.URL+"}}\n")
	minutes := func(config string) (p struct {
		Minutes   float64
		Unlimited []string
	}) {
		r := runBatch(t, dir, "", "in.jsonl", "--config", config, "--tpm", "20000", "--expect-output", "50", "--dry-run")
		if err := json.Unmarshal([]byte(r.stdout), &p); err != nil {
			t.Fatalf("%v: %s", err, r.stderr)
		}
		return p
	}
	// Of a thousand tokens each, twenty fit a minute; of what they use, all.
	if p := minutes("keeps.yaml"); p.Minutes < 4 || p.Minutes > 4.1 || len(p.Unlimited) > 0 {
		t.Errorf("without refunds: %+v", p)
	}
	if p := minutes("refunds.yaml"); p.Minutes != 0 {
		t.Errorf("with refunds: %+v", p)
	}
	r := runBatch(t, dir, "", "in.jsonl", "--upstream", u.URL, "--profile", "openai/tier1", "--dry-run")
	if !strings.Contains(r.stdout, `"unlimited":["gpt-4o"]`) || !strings.Contains(r.stderr, `limits the model "gpt-4o"`) {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
}

// A plan of which nothing fits ends as the run would.
func TestBatchDryRunNeverFits(t *testing.T) {
	u := provider(t, nil)
	dir := t.TempDir()
	put(t, dir, "in.jsonl", chatLines(3))
	r := runBatch(t, dir, "", "in.jsonl", "--upstream", u.URL, "--tpm", "3", "--dry-run")
	if r.status != 3 || !strings.Contains(r.stdout, `"never_fits":3`) || !strings.Contains(r.stderr, "all 3 lines are larger than the quota") {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
}

// A batch, a proxy and a program on one file are one limiter, also where the proxy puts the name of
// an upstream before those of models.
func TestBatchSharesTheQuota(t *testing.T) {
	u := provider(t, nil)
	dir := t.TempDir()
	db := dir + "/q.db"
	p := start(t, "--db", db, "--upstream", "openai="+u.URL, "--upstream", "b="+u.URL, "--rpm", "8", "--max-wait", "1ms")
	put(t, dir, "in.jsonl", chatLines(5))
	r := runBatch(t, dir, "", "in.jsonl", "-o", "out.jsonl", "--upstream", "openai="+u.URL, "--db", db, "--rpm", "8")
	if r.status != 0 {
		t.Fatal(r.stderr)
	}
	var statuses []int
	for range 4 {
		resp := post(t, p.url+"/openai/v1/chat/completions", chat("gpt-4o"))
		read(t, resp)
		statuses = append(statuses, resp.StatusCode)
	}
	if fmt.Sprint(statuses) != "[200 200 200 429]" {
		t.Errorf("behind five calls of a batch: %v", statuses)
	}
	if got := library(t, db).Stats("openai/gpt-4o").RPM; got != 8 {
		t.Errorf("%d calls are counted", got)
	}
}

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakeprovider"
)

// line is one line of a batch file.
func line(id, body string) string {
	return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":"/v1/chat/completions","body":%s}`, id, body)
}

const hello = `{"model":"m","messages":[{"role":"user","content":"Hello you"}],"max_tokens":10}`

func TestParsePrompts(t *testing.T) {
	for _, test := range []struct {
		name, input, model string
		want               []string // id model estimate+maxTokens
		err                string
	}{
		{name: "nothing", input: "\n \n"},
		{name: "one", input: line("a", hello), want: []string{"a m 10+10"}},
		{name: "empty lines", input: "\n" + line("a", hello) + "\r\n\n" + line("b", hello) + "\n", want: []string{"a m 10+10", "b m 10+10"}},
		{name: "another model", input: line("a", hello), model: `x"y`, want: []string{`a x"y 10+10`}},
		{name: "model from outside only", input: line("a", `{"messages":[{"content":""}],"max_tokens":1}`), model: "m", want: []string{"a m 7+1"}},
		{name: "characters, not bytes", input: line("a", `{"model":"m","messages":[{"content":"żółw"}],"max_tokens":1}`), want: []string{"a m 8+1"}},
		{name: "every message", input: line("a", `{"model":"m","messages":[{"content":"1234"},{"content":"12345"}],"max_tokens":1}`), want: []string{"a m 14+1"}},
		{name: "content in parts", input: line("a", `{"model":"m","messages":[{"content":[{"type":"text","text":"Hello"}]}],"max_tokens":1}`), want: []string{"a m 15+1"}},
		{name: "newer field", input: line("a", `{"model":"m","messages":[{"content":""}],"max_completion_tokens":9}`), want: []string{"a m 7+9"}},

		{name: "no JSON", input: line("a", hello) + "\nhello", want: []string{"a m 10+10"}, err: "line 2: invalid character"},
		{name: "counts empty lines", input: "\n\n{}", err: `line 3: custom_id is "", want a name`},
		{name: "id with a line break", input: line("a\nb", hello), err: "line 1: custom_id is"},
		{name: "method", input: `{"custom_id":"a","method":"GET"}`, err: `line 1: method is "GET", want "POST"`},
		{name: "URL", input: `{"custom_id":"a","method":"POST","url":"/v1/embeddings"}`, err: `line 1: url is "/v1/embeddings"`},
		{name: "no body", input: line("a", `null`), err: "line 1: body: model is missing"},
		{name: "no body to change", input: line("a", `null`), model: "m", err: "line 1: body: want an object"},
		{name: "no messages", input: line("a", `{"model":"m","max_tokens":1}`), err: "line 1: body: messages are missing"},
		{name: "no max_tokens", input: line("a", `{"model":"m","messages":[{"content":""}]}`), err: "line 1: body: max_tokens is missing"},
		{name: "two models", input: line("a", hello) + "\n" + line("b", strings.Replace(hello, `"m"`, `"n"`, 1)), want: []string{"a m 10+10"}, err: `line 2: model is "n" after "m"`},
		{name: "too long", input: line("a", hello) + "\n" + strings.Repeat("x", maxLine+1), want: []string{"a m 10+10"}, err: "line 2: bufio.Scanner: token too long"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			var gotErr error
			for p, err := range parsePrompts(strings.NewReader(test.input), test.model) {
				if gotErr != nil {
					t.Fatal("goes on after an error")
				}
				if gotErr = err; err == nil {
					got = append(got, fmt.Sprintf("%s %s %d+%d", p.id, p.model, p.estimate, p.maxTokens))
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("prompts %q, want %q", got, test.want)
			}
			switch {
			case test.err == "" && gotErr != nil:
				t.Errorf("error %v", gotErr)
			case test.err != "" && (gotErr == nil || !strings.HasPrefix(gotErr.Error(), test.err)):
				t.Errorf("error %v, want %s…", gotErr, test.err)
			}
		})
	}
}

func TestWithModelKeepsTheRest(t *testing.T) {
	body, err := withModel([]byte(`{"model":"m","temperature":0.2,"tools":[{"a":1}]}`), "n")
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"model":"n","temperature":0.2,"tools":[{"a":1}]}`; string(body) != want {
		t.Errorf("body %s, want %s", body, want)
	}
}

func TestSurveyRefusesTheSameIDTwice(t *testing.T) {
	in := openFile(t, line("a", hello)+"\n"+line("a", hello))
	if _, _, err := in.survey(); err == nil || !strings.Contains(err.Error(), `"a" is there twice`) {
		t.Errorf("error %v", err)
	}
}

func TestSurveyRefusesNothing(t *testing.T) {
	if _, _, err := openFile(t, "\n").survey(); err == nil || !strings.Contains(err.Error(), "no prompts") {
		t.Errorf("error %v", err)
	}
}

func TestOpenBatchRefusesWhatCannotBeReadTwice(t *testing.T) {
	if _, err := openBatch(t.TempDir(), ""); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("error %v", err)
	}
}

// TestEstimateIsAnUpperBound compares the two sides' independent rules: as long
// as the agents charge at least what the provider does, they cannot overshoot.
func TestEstimateIsAnUpperBound(t *testing.T) {
	for _, model := range []string{"", "<another & longer model>"} {
		in, err := openBatch("", model)
		if err != nil {
			t.Fatal(err)
		}
		prompts := 0
		texts := make(map[string]bool)
		for p, err := range in.prompts() {
			if err != nil {
				t.Fatal(err)
			}
			provider := quick(newProvider(maxLimit, maxLimit))
			r := httptest.NewRequest("POST", "/v1/chat/completions", bytes.NewReader(p.body))
			provider.ServeHTTP(httptest.NewRecorder(), r)
			arrivals := provider.Arrivals(p.model)
			if len(arrivals) != 1 {
				t.Fatalf("%s: %d arrivals", p.id, len(arrivals))
			}
			if charged := arrivals[0].Charge[fakeprovider.TPM]; p.estimate+p.maxTokens < charged {
				t.Errorf("%s: estimate %d+%d, the provider charges %d", p.id, p.estimate, p.maxTokens, charged)
			}
			prompts++
			texts[string(p.body)] = true
		}
		if prompts < 300 || len(texts) != prompts {
			t.Errorf("%d prompts, %d different ones, want 300 or more", prompts, len(texts))
		}
	}
}

// TestServerGoesOnWithItsLog has a server that is stopped, as by Ctrl-C, and one that is not.
func TestServerGoesOnWithItsLog(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	began := time.Now()
	ask := func(whole bool) (status int, l logged) {
		t.Helper()
		s, err := fakeprovider.Listen(quick(newProvider(1, 0)).Server, log)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.Post(s.URL+"/v1/chat/completions", "application/json", strings.NewReader(hello))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if l, err = readLog(s, began); err != nil {
			t.Error(err)
		}
		if whole {
			s.Finish()
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		return resp.StatusCode, l
	}
	if status, l := ask(false); status != 200 || l != (logged{calls: 1, now: 1}) {
		t.Errorf("first: %d, %+v", status, l)
	}
	if status, l := ask(true); status != 429 || l != (logged{calls: 2, refused: 1, now: 2}) {
		t.Errorf("after a stop: %d, %+v", status, l)
	}
	if status, l := ask(true); status != 200 || l != (logged{calls: 1, now: 1}) {
		t.Errorf("after a whole run: %d, %+v", status, l)
	}
}

// TestVerdict has a server's log that agrees with the agents, and some that do not.
func TestVerdict(t *testing.T) {
	for _, test := range []struct {
		name   string
		unsafe bool
		log    *logged
		c      counts
		tells  string
		err    string
	}{
		{"equal", false, &logged{calls: 3, now: 2, nowTokens: 90}, counts{calls: 2, tokens: 100}, "PASS", ""},
		{"cut off on the way", false, &logged{now: 1, nowTokens: 50}, counts{calls: 2, cut: 1, tokens: 100}, "PASS", ""},
		{"lost", false, &logged{now: 1, nowTokens: 50}, counts{calls: 2, tokens: 100}, "FAIL", "logged 1 call and 50 tokens, we 2 calls and 100"},
		{"more than we know of", false, &logged{now: 3}, counts{calls: 2}, "FAIL", "logged 3 calls"},
		{"more tokens", false, &logged{now: 2, nowTokens: 101}, counts{calls: 2, tokens: 100}, "FAIL", "101 tokens"},
		{"refused in an earlier run", false, &logged{calls: 3, refused: 1, now: 2}, counts{calls: 2}, "FAIL", "refused 1 call"},
		{"unsafe", true, &logged{refused: 1}, counts{refused: 1}, "two steps: 1 call came too many", ""},
		{"unsafe and lucky", true, &logged{}, counts{}, "by luck", ""},
		{"elsewhere", false, nil, counts{}, "no call was refused", ""},
		{"refused elsewhere", false, nil, counts{refused: 2}, "2 calls refused: look at the limits", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			s := &session{cfg: config{unsafe: test.unsafe}, server: &fakeprovider.Host{}}
			err := s.verdict(&out, test.c, test.log)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want %q", err, test.err)
			}
			if !strings.Contains(out.String(), test.tells) {
				t.Errorf("told %q, want %q", out.String(), test.tells)
			}
		})
	}
}

func TestDoneFile(t *testing.T) {
	for _, test := range []struct {
		name, content string
		want          []string
		left          string
	}{
		{"new", "", nil, "mine\n"},
		{"mine", "mine\na\nb\n", []string{"a", "b"}, "mine\na\nb\n"},
		{"cut off by a crash", "mine\na\nb", []string{"a"}, "mine\na\n"},
		{"cut off in the first line", "min", nil, "mine\n"},
		{"another task", "yours\na\nb\nc\n", nil, "mine\n"},
		{"another task that begins the same", "mine too\na\n", nil, "mine\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "done")
			if err := os.WriteFile(path, []byte(test.content), 0o600); err != nil {
				t.Fatal(err)
			}
			d, err := openDone(path, "mine")
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range []string{"a", "b", "c"} {
				if d.has(id) != slices.Contains(test.want, id) {
					t.Errorf("has %q is %v", id, d.has(id))
				}
			}
			if err := d.add("x"); err != nil {
				t.Error(err)
			}
			if got := readFile(t, path); got != test.left+"x\n" {
				t.Errorf("file %q, want %q", got, test.left+"x\n")
			}
			if err := d.remove(); err != nil {
				t.Error(err)
			}
			if err := d.close(); err != nil {
				t.Errorf("close after remove: %v", err)
			}
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("after remove: %v", err)
			}
		})
	}
}

// TestWholeRun is the program's main case in virtual time: the embedded prompts
// against the built-in provider, none of them refused.
func TestWholeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := openEmbedded(t)
		a := newAgents(t, newProvider(200, 60_000), 200, 60_000)
		started := time.Now()
		if err := a.run(t.Context(), 20, in.prompts()); err != nil {
			t.Fatal(err)
		}
		took := time.Since(started)
		if took < time.Minute || took > 90*time.Second {
			t.Errorf("took %v, want 60 to 90 seconds", took)
		}
		c := a.tally.counts()
		if c.answered < 300 || c.calls != c.answered || c.failed+c.refused+c.cut != 0 {
			t.Errorf("counts %+v", c)
		}
		if c.peakRPM != 200 || c.peakTPM < 59_000 || c.peakTPM > 60_000 {
			t.Errorf("fullest minute %d requests, %d tokens: the quota was not used", c.peakRPM, c.peakTPM)
		}
		if c.waits == 0 || c.longest < 50*time.Second || c.waited < c.longest || c.waited > took {
			t.Errorf("%d calls waited, the longest %v, in %v of %v", c.waits, c.longest, c.waited, took)
		}
	})
}

// TestUnsafeRunIsRefused has agents that check together and then pass together.
// What the provider refuses is sent again, so the prompts are answered all the
// same.
func TestUnsafeRunIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgents(t, newProvider(200, 60_000), 200, 60_000)
		a.unsafe = true
		if err := a.run(t.Context(), 20, openEmbedded(t).prompts()); err != nil {
			t.Fatal(err)
		}
		if c := a.tally.counts(); c.refused == 0 || c.answered+c.failed < 300 || c.calls != c.answered+c.refused || c.peakRPM <= 200 {
			t.Errorf("counts %+v", c)
		}
	})
}

// TestRefusedCallIsCountedAndRetried has a provider that allows less than the
// agents believe.
func TestRefusedCallIsCountedAndRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgents(t, newProvider(1, 0), 0, 0)
		started := time.Now()
		if err := a.run(t.Context(), 1, openFile(t, line("a", hello)+"\n"+line("b", hello)).prompts()); err != nil {
			t.Fatal(err)
		}
		if c := a.tally.counts(); c.calls != 3 || c.answered != 2 || c.refused != 1 || c.failed != 0 {
			t.Errorf("counts %+v", c)
		}
		if took := time.Since(started); took < time.Minute || took > 62*time.Second {
			t.Errorf("took %v, want what Retry-After said", took)
		}
	})
}

func TestRefusedTooOftenIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgents(t, answerWith(429, `{"error":{"message":"no","code":"rate_limit_exceeded"}}`), 0, 0)
		if err := a.run(t.Context(), 1, openFile(t, line("a", hello)).prompts()); err != nil {
			t.Fatal(err)
		}
		if c := a.tally.counts(); c.refused != maxTries || c.failed != 1 {
			t.Errorf("counts %+v", c)
		}
	})
}

func TestNoCreditIsNotRetried(t *testing.T) {
	a := newAgents(t, answerWith(429, `{"error":{"message":"pay first","code":"insufficient_quota"}}`), 0, 0)
	if err := a.run(t.Context(), 1, openFile(t, line("a", hello)).prompts()); err != nil {
		t.Fatal(err)
	}
	if c := a.tally.counts(); c.refused != 1 || c.failed != 1 {
		t.Errorf("counts %+v", c)
	}
}

func TestGivesUpAfterFailuresInARow(t *testing.T) {
	var lines []string
	for i := range 3 * maxFailures {
		lines = append(lines, line(fmt.Sprint("p", i), hello))
	}
	a := newAgents(t, answerWith(401, `{"error":{"message":"wrong key"}}`), 0, 0)
	err := a.run(t.Context(), 1, openFile(t, strings.Join(lines, "\n")).prompts())
	if err == nil || !strings.Contains(err.Error(), "10 failures in a row") {
		t.Errorf("error %v", err)
	}
	if c := a.tally.counts(); c.failed != maxFailures {
		t.Errorf("counts %+v", c)
	}
}

func TestPromptLargerThanTheQuotaFailsAlone(t *testing.T) {
	large := strings.Replace(hello, "10", "1000", 1)
	a := newAgents(t, quick(newProvider(0, 100)), 0, 100)
	var notes bytes.Buffer
	a.note = func(format string, args ...any) { fmt.Fprintf(&notes, format, args...) }
	if err := a.run(t.Context(), 1, openFile(t, line("big", large)+"\n"+line("b", hello)).prompts()); err != nil {
		t.Fatal(err)
	}
	if c := a.tally.counts(); c.calls != 1 || c.answered != 1 || c.failed != 1 {
		t.Errorf("counts %+v", c)
	}
	if !strings.Contains(notes.String(), "big failed") || !strings.Contains(notes.String(), "exceeds the tokens per minute") {
		t.Errorf("note %q", notes.String())
	}
}

func TestCancelEndsAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5*time.Second, cancel)
		a := newAgents(t, newProvider(1, 0), 1, 0)
		in := openFile(t, line("a", hello)+"\n"+line("b", hello)+"\n"+line("c", hello))
		started := time.Now()
		if err := a.run(ctx, 3, in.prompts()); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if took := time.Since(started); took != 5*time.Second {
			t.Errorf("took %v", took)
		}
		if c := a.tally.counts(); c.answered != 1 || c.failed != 0 || c.waits != 2 || c.waiting != 0 || c.waited != 5*time.Second {
			t.Errorf("counts %+v", c)
		}
	})
}

// TestChargeMovesToArrival has a provider that may have counted a call as late as
// its answer came.
func TestChargeMovesToArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProvider(1, 0)
		p.latency = func() time.Duration { return 10 * time.Second }
		a := newAgents(t, p, 1, 0)
		started := time.Now()
		if err := a.run(t.Context(), 2, openFile(t, line("a", hello)+"\n"+line("b", hello)).prompts()); err != nil {
			t.Fatal(err)
		}
		if took, want := time.Since(started), 10*time.Second+time.Minute+margin+1+10*time.Second; took != want {
			t.Errorf("took %v, want %v", took, want)
		}
	})
}

// TestTallyOfWaits has two calls that wait at the same time.
func TestTallyOfWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tally := newTally(ratelimit.ModelStats{})
		expect := func(waiting int, next string) {
			t.Helper()
			if c := tally.counts(); c.waiting != waiting || c.next.id != next {
				t.Errorf("%d wait, %q comes next, want %d, %q", c.waiting, c.next.id, waiting, next)
			}
		}
		endFirst := tally.startWait(ratelimit.Decision{}, prompt{id: "first"})
		time.Sleep(2 * time.Second)
		endSecond := tally.startWait(ratelimit.Decision{Code: ratelimit.DecisionQueued}, prompt{id: "second"})
		tally.startWait(ratelimit.Decision{Never: true}, prompt{id: "too large"})()
		expect(2, "first")
		time.Sleep(3 * time.Second)
		endFirst()
		expect(1, "second")
		time.Sleep(4 * time.Second)
		endSecond()
		time.Sleep(time.Second)
		expect(0, "")
		if c := tally.counts(); c.waits != 2 || c.longest != 7*time.Second || c.waited != 9*time.Second {
			t.Errorf("counts %+v", c)
		}
	})
}

// TestRunGoesOn is a run that is interrupted and started again, over HTTP.
func TestRunGoesOn(t *testing.T) {
	const key = "sk-test-0123456789"
	ctx, interrupt := context.WithCancel(t.Context())
	var mu sync.Mutex
	var asked []string
	provider := quick(newProvider(0, 0))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer "+key {
			t.Errorf("Authorization is %q", got)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		mu.Lock()
		asked = append(asked, string(body))
		third := len(asked) == 3
		mu.Unlock()
		if third {
			interrupt()
			<-r.Context().Done()
			return
		}
		provider.ServeHTTP(w, r)
	}))
	defer server.Close()

	var lines []string
	for i := range 6 {
		lines = append(lines, line(fmt.Sprint("p", i), strings.Replace(hello, "you", fmt.Sprint(i), 1)))
	}
	cfg := config{
		in: writeFile(t, strings.Join(lines, "\n")), db: filepath.Join(t.TempDir(), "new", "agents.db"),
		baseURL: server.URL + "/v1", key: key, rpm: 100, tpm: 10_000, workers: 1,
	}
	var out bytes.Buffer
	if err := run(ctx, cfg, &out); !errors.Is(err, errInterrupted) || !strings.Contains(err.Error(), "4 prompts left") {
		t.Errorf("first run: %v", err)
	}
	if done := readFile(t, cfg.db+".done"); !strings.HasSuffix(done, "/m\np0\np1\n") {
		t.Errorf("done file %q", done)
	}
	if err := run(t.Context(), cfg, &out); err != nil {
		t.Errorf("second run: %v", err)
	}
	if _, err := os.Stat(cfg.db + ".done"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the done file after all were answered: %v", err)
	}
	if len(asked) != 7 || asked[2] != asked[3] {
		t.Errorf("the server was asked %q", asked)
	}
	for _, want := range []string{
		"1 agent with 6 prompts for m at 127.0.0.1:", "1 agent with 4 prompts", "2 prompts answered in an earlier run",
		"calls           3: 2 answered, 0 failed, 1 cut off", "calls           4: 4 answered, 0 failed, 0 cut off",
		"429s            0", "carried over    3 requests, 57 tokens", "fullest minute  7 of 100 (7%) requests, 133 of 10,000 (1%) tokens",
		"quota used      4 of 100 (4%) requests, 76 of 10,000 (0%) tokens",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), key) {
		t.Error("the key was printed")
	}
	if stats := loadStats(t, cfg.db, strings.TrimPrefix(server.URL, "http://")+"/m"); stats.RPM != 7 || stats.TPM != 133 {
		t.Errorf("saved %+v", stats)
	}
}

// TestBuiltInServerIsForgotten runs against the built-in server, whose usage ends
// with it.
func TestBuiltInServerIsForgotten(t *testing.T) {
	cfg := config{
		in: writeFile(t, line("a", hello)), db: filepath.Join(t.TempDir(), "agents.db"),
		key: "sk-secret", rpm: 1, workers: 2,
	}
	for range 2 { // the second run would wait a minute for the first one's quota
		var out bytes.Buffer
		if err := run(t.Context(), cfg, &out); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "waits           0 calls, the longest 0.0s") {
			t.Errorf("output:\n%s", out.String())
		}
	}
	if stats := loadStats(t, cfg.db, "built-in/m"); stats.RPM != 0 {
		t.Errorf("saved %+v", stats)
	}
}

func TestRunReportsFailures(t *testing.T) {
	server := httptest.NewServer(answerWith(500, "on fire\x1b[2J"))
	defer server.Close()
	cfg := config{in: writeFile(t, line("a", hello)), db: filepath.Join(t.TempDir(), "agents.db"), baseURL: server.URL, workers: 1}
	var out bytes.Buffer
	if err := run(t.Context(), cfg, &out); err == nil || err.Error() != "1 prompt failed: start again to retry" {
		t.Errorf("error %v", err)
	}
	if want := `a failed: chat completion: 500 Internal Server Error: "on fire\x1b[2J"`; !strings.Contains(out.String(), want) {
		t.Errorf("output lacks %q:\n%s", want, out.String())
	}
}

func TestRunClosesWhatItOpened(t *testing.T) {
	dir := t.TempDir()
	for name, cfg := range map[string]config{
		"no batch":     {in: filepath.Join(dir, "none"), workers: 1},
		"bad batch":    {in: writeFile(t, "{}"), db: filepath.Join(dir, "a.db"), workers: 1},
		"bad URL":      {in: writeFile(t, line("a", hello)), baseURL: "localhost:1", db: filepath.Join(dir, "a.db"), workers: 1},
		"bad page":     {in: writeFile(t, line("a", hello)), page: "localhost:-1", db: filepath.Join(dir, "b.db"), workers: 1},
		"bad database": {in: writeFile(t, line("a", hello)), db: dir, workers: 1},
	} {
		if err := run(t.Context(), cfg, io.Discard); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestKeyGoesNowhereElse(t *testing.T) {
	const key = "sk-test-0123456789"
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	redirects := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer redirects.Close()
	c, err := newClient(redirects.URL, key, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if _, err := c.chat(t.Context(), []byte(hello), ignoreArrival); err == nil || !strings.Contains(err.Error(), "307") {
		t.Errorf("error %v", err)
	}
	if elsewhere.Load() > 0 {
		t.Error("followed a redirect")
	}

	echo := httptest.NewServer(answerWith(401, `{"error":{"message":"Incorrect API key `+key+`"}}`))
	defer echo.Close()
	c2, err := newClient(echo.URL, key, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer c2.close()
	if _, err := c2.chat(t.Context(), []byte(hello), ignoreArrival); err == nil || strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), "[key]") {
		t.Errorf("error %v", err)
	}
}

func TestChatRefusesWhatIsNoCompletion(t *testing.T) {
	for _, answer := range []string{"", "<html>", "{}"} {
		c := clientOf(answerWith(200, answer))
		if _, err := c.chat(t.Context(), []byte(hello), ignoreArrival); err == nil {
			t.Errorf("no error for %q", answer)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"": retryDefault, "0": 0, "2": 2 * time.Second, "0.5": 500 * time.Millisecond, "-1": retryDefault, "NaN": retryDefault,
		"1e300": retryDefault, "soon": retryDefault,
	} {
		if got := retryAfter(http.Header{"Retry-After": {value}}); got != want {
			t.Errorf("retryAfter(%q) = %v, want %v", value, got, want)
		}
	}
}

func TestProgressLine(t *testing.T) {
	d := ratelimit.Decision{
		Code: ratelimit.DecisionQueued, RetryAfter: 47300 * time.Millisecond,
		Stats: ratelimit.ModelStats{RPM: 200, MaxRPM: 200, TPM: 59_240, MaxTPM: 60_000},
	}
	got := progressLine(15*time.Second, 10, 309, counts{answered: 190, waiting: 20}, d)
	if want := " 15s  done 200/309  RPM 200/200  TPM 59,240/60,000  next wait 47.3s  429s 0"; got != want || len(got) > 80 {
		t.Errorf("line %q, want %q", got, want)
	}
	d = ratelimit.Decision{RetryAfter: time.Second, Stats: ratelimit.ModelStats{RPM: 1, TPM: 2000}}
	got = progressLine(15*time.Second, 0, 309, counts{}, d)
	if want := " 15s  done 0/309  RPM 1  TPM 2,000  next wait -  429s 0"; got != want {
		t.Errorf("line %q, want %q", got, want)
	}
}

func TestWindowsIn(t *testing.T) {
	for took, want := range map[time.Duration]int{0: 1, time.Minute: 1, time.Minute + margin: 2, 62 * time.Second: 2, 121 * time.Second: 3} {
		if got := windowsIn(took); got != want {
			t.Errorf("windowsIn(%v) = %d, want %d", took, got, want)
		}
	}
}

func TestFlags(t *testing.T) {
	cfg, err := parseFlags([]string{"-db", "x.db", "-rpm", "5", "-unsafe"}, io.Discard)
	if err != nil || cfg != (config{db: "x.db", rpm: 5, tpm: 60_000, workers: 20, unsafe: true}) {
		t.Errorf("%+v, %v", cfg, err)
	}
	for _, args := range [][]string{{"-rpm", "-1"}, {"-tpm", "-1"}, {"-workers", "0"}, {"extra"}, {"-none"}} {
		var out bytes.Buffer
		if _, err := parseFlags(args, &out); err == nil || out.Len() == 0 {
			t.Errorf("%q: %v, %q", args, err, out.String())
		}
	}
	if _, err := parseFlags([]string{"-h"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v", err)
	}
}

// newAgents returns agents that believe in the given quota and call handler
// without a network in between, as a synctest bubble needs it.
func newAgents(t *testing.T, handler http.Handler, rpm, tpm int) *agents {
	t.Helper()
	limiter, err := ratelimit.NewWithConfig(ratelimit.Config{
		FilePath: filepath.Join(t.TempDir(), "state.yaml"),
		Quotas:   map[string]ratelimit.ModelQuota{"m": {MaxRPM: rpm, MaxTPM: tpm}},
		Margin:   margin,
	})
	if err != nil {
		t.Fatal(err)
	}
	done, err := openDone(filepath.Join(t.TempDir(), "done"), "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(limiter.Close(), done.close()); err != nil {
			t.Error(err)
		}
	})
	return &agents{
		limiter: limiter, account: "m", client: clientOf(handler), done: done,
		tally: newTally(limiter.Stats("m")), note: func(string, ...any) {},
	}
}

func clientOf(handler http.Handler) *client {
	c, err := newClient("http://provider.test/v1", "", 1)
	if err != nil {
		panic(err)
	}
	c.http.Transport = handlerTransport{handler}
	return c
}

// handlerTransport calls a handler in place of a network.
type handlerTransport struct{ handler http.Handler }

func (t handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	t.handler.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

// answerWith is a handler that always answers the same.
func answerWith(status int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, body)
	})
}

// quick takes the simulated work out of a provider.
func quick(p *provider) *provider {
	p.latency = func() time.Duration { return 0 }
	return p
}

// ignoreArrival is for calls that no reservation is made for.
func ignoreArrival(time.Time) {}

func openEmbedded(t *testing.T) *batch {
	t.Helper()
	in, err := openBatch("", "")
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func openFile(t *testing.T, content string) *batch {
	t.Helper()
	in, err := openBatch(writeFile(t, content), "")
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func writeFile(t *testing.T, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "batch.jsonl")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func loadStats(t *testing.T, db, account string) ratelimit.ModelStats {
	t.Helper()
	limiter, err := ratelimit.NewWithSQLite(db)
	if err != nil {
		t.Fatal(err)
	}
	defer limiter.Close()
	if err := limiter.Load(); err != nil {
		t.Fatal(err)
	}
	return limiter.Stats(account)
}

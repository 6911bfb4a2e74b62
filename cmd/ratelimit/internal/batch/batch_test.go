package batch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
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
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/money"
)

// bench is a batch in virtual time against a provider in memory.
type bench struct {
	t        *testing.T
	dir      string
	config   ratelimit.Config
	settings Settings
	errors   bytes.Buffer
	handler  http.Handler
	takes    time.Duration // that the last run took
}

// inBubble runs a test in virtual time.
func inBubble(t *testing.T, handler http.Handler, test func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		test(&bench{
			t: t, dir: t.TempDir(), handler: handler,
			config:   ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 1000}}},
			settings: Settings{MaxAttempts: 5, Timeout: 10 * time.Minute},
		})
	})
}

// prepare opens the files, and calls do with the batch.
func (b *bench) prepare(in string, do func(*Batch)) {
	b.t.Helper()
	path := filepath.Join(b.dir, "in.jsonl")
	if err := os.WriteFile(path, []byte(in), 0o600); err != nil {
		b.t.Fatal(err)
	}
	input, err := OpenInput(path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	defer input.Close()
	output, err := OpenOutput(filepath.Join(b.dir, "out.jsonl"), false)
	if err != nil {
		b.t.Fatal(err)
	}
	defer output.Close()
	network := fakeprovider.NewNetwork()
	defer network.Serve(b.handler)()
	base := network.Transport()
	defer base.CloseIdleConnections()
	s := b.settings
	b.errors.Reset()
	s.Input, s.Output, s.Errors, s.Base = input, output, &b.errors, base
	s.Upstream = &url.URL{Scheme: "http", Host: "provider.test"}
	batch, err := New(s)
	if err != nil {
		b.t.Fatal(err)
	}
	defer batch.Close()
	cfg := b.config
	cfg.Events = Costs{}
	cfg.OnError = func(error) {}
	rl, err := ratelimit.NewWithConfig(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	defer rl.Close()
	batch.Use(rl, "sk-unit-secret")
	do(batch)
}

// run runs a batch to its end.
func (b *bench) run(in string) (s Summary) {
	b.t.Helper()
	return b.runWith(b.t.Context(), in)
}

func (b *bench) runWith(ctx context.Context, in string) (s Summary) {
	b.t.Helper()
	b.prepare(in, func(batch *Batch) {
		began := time.Now()
		var err error
		if s, err = batch.Run(ctx); err != nil {
			b.t.Error(err)
		}
		b.takes = time.Since(began)
	})
	return s
}

// out returns the custom_ids of OUT.
func (b *bench) out() (ids []string) {
	b.t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, "out.jsonl"))
	if err != nil {
		b.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		id, ok := resultID([]byte(strings.TrimSuffix(line, "\n")))
		if !ok || !json.Valid([]byte(line)) {
			b.t.Fatalf("no result: %q", line)
		}
		if slices.Contains(ids, id) {
			b.t.Errorf("%s is there twice", id)
		}
		ids = append(ids, id)
	}
	return ids
}

// codes returns the codes of the file of errors, with the attempts.
func (b *bench) codes() string {
	var all []string
	for line := range strings.Lines(b.errors.String()) {
		var e struct{ Error failure }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			b.t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s after %d", e.Error.Code, e.Error.Attempts))
	}
	return strings.Join(all, ", ")
}

func lineOf(id string, maxTokens int) string {
	return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":"/v1/chat/completions","body":{"model":"gpt-4o","max_tokens":%d,`+
		`"messages":[{"role":"user","content":"say something of some length, for once"}]}}`, id, maxTokens) + "\n"
}

func linesOf(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(lineOf(fmt.Sprintf("id-%d", i), 100))
	}
	return b.String()
}

// answers is a handler that answers each line by what it has asked for before.
type answers struct {
	mu    sync.Mutex
	tries map[string]int
	do    func(w http.ResponseWriter, r *http.Request, try int)
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	if a.tries == nil {
		a.tries = make(map[string]int)
	}
	a.tries[string(body)]++
	try := a.tries[string(body)]
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	a.do(w, r, try)
}

func answer(w http.ResponseWriter) {
	io.WriteString(w, `{"usage":{"prompt_tokens":10,"completion_tokens":20,"total_tokens":30}}`) //nolint:errcheck // in memory
}

// What may pass the next time is tried again, and nothing else.
func TestTries(t *testing.T) {
	hangs := func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	cut := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, `{"a":`) //nolint:errcheck // in memory
	}
	status := func(status int, body string, headers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			for i := 0; i < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.WriteHeader(status)
			io.WriteString(w, body) //nolint:errcheck // in memory
		}
	}
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		fails  int // the first so many answers fail
		want   string
		least  time.Duration
	}{
		{"429", status(429, "", "Retry-After", "7"), 3, "", 21 * time.Second},
		{"429 that says when in words", status(429, `{"error":{"message":"Please try again in 51.332s. Visit https://a.test"}}`), 1, "", 51332 * time.Millisecond},
		{"500", status(500, `{"error":{"message":"oops"}}`), 2, "", time.Second},
		{"500 that says when", status(500, "", "Retry-After", "20"), 1, "", 20 * time.Second},
		{"503", status(503, "busy"), 2, "", time.Second},
		{"529", status(529, ""), 1, "", 0},
		{"408", status(408, ""), 1, "", 0},
		{"a timeout", hangs, 1, "", 10 * time.Minute},
		{"a cut answer", cut, 1, "", 0},
		{"429 for ever", status(429, ""), 99, "http_429 after 5", time.Minute},
		{"502 for ever", status(502, ""), 99, "http_502 after 5", time.Second},
		{"a timeout for ever", hangs, 99, "timeout after 5", 50 * time.Minute},
		{"a day's quota", status(429, `{"error":{"message":"requests per day (RPD)","code":"rate_limit_exceeded","type":"requests"}}`, "Retry-After", "3600"), 1, "", time.Hour},
		{"400", status(400, `{"error":{"message":"no"}}`), 99, "http_400 after 1", 0},
		{"401", status(401, ""), 99, "http_401 after 1", 0},
		{"404", status(404, ""), 99, "http_404 after 1", 0},
		{"a redirect", status(307, "", "Location", "https://evil.test/"), 99, "http_307 after 1", 0},
		{"no JSON", status(200, "<html>"), 99, "no_answer after 1", 0},
		{"asked not to", status(500, "", "X-Should-Retry", "false"), 99, "http_500 after 1", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, &answers{do: func(w http.ResponseWriter, r *http.Request, try int) {
				if try <= test.fails {
					test.answer(w, r)
					return
				}
				answer(w)
			}}, func(b *bench) {
				s := b.run(lineOf("a", 10))
				if got := b.codes(); got != test.want || (s.Done == 1) != (test.want == "") || s.Done+s.Failed != 1 {
					t.Errorf("%q, %+v", got, s)
				}
				if b.takes < test.least {
					t.Errorf("after %v", b.takes)
				}
				if strings.Contains(b.errors.String(), "unit-secret") {
					t.Error("the key is told")
				}
			})
		})
	}
}

// What is larger than the quota fails at once, and the others go on.
func TestNeverFits(t *testing.T) {
	inBubble(t, &answers{do: func(w http.ResponseWriter, r *http.Request, try int) { answer(w) }}, func(b *bench) {
		b.config.Quotas = map[string]ratelimit.ModelQuota{"*": {MaxTPM: 500}}
		s := b.run(lineOf("large", 501) + lineOf("small", 400) + lineOf("long", 0) + strings.Replace(lineOf("wordy", 10), "say", strings.Repeat("say ", 600), 1))
		if got := b.codes(); got != "never_fits after 0, never_fits after 0" || s.Done != 2 || s.NeverFits != 2 {
			t.Errorf("%q, %+v: %s", got, s, b.errors.String())
		}
	})
}

// OUT is in the order of IN with Ordered, whatever the order of answers, and lines that fail.
func TestOrdered(t *testing.T) {
	var came atomic.Int64
	inBubble(t, &answers{do: func(w http.ResponseWriter, r *http.Request, try int) {
		n := came.Add(1)
		time.Sleep(time.Duration(n*7919%100) * time.Second)
		if n%10 == 0 {
			w.WriteHeader(400)
			return
		}
		answer(w)
	}}, func(b *bench) {
		b.settings.Ordered = true
		s := b.run(linesOf(300))
		got := b.out()
		if s.Done != len(got) || s.Failed != 30 || len(got) != 270 {
			t.Errorf("%d lines, %+v", len(got), s)
		}
		last := -1
		for _, id := range got {
			var i int
			fmt.Sscanf(id, "id-%d", &i) //nolint:errcheck // digits
			if i < last {
				t.Errorf("%s behind id-%d", id, last)
			}
			last = i
		}
	})
}

// The batch ends by itself where it is to.
func TestStops(t *testing.T) {
	ok := &answers{do: func(w http.ResponseWriter, r *http.Request, try int) { answer(w) }}
	t.Run("a number of lines", func(t *testing.T) {
		inBubble(t, ok, func(b *bench) {
			b.settings.Limit = 7
			if s := b.run(linesOf(20)); s.Done != 7 || s.Left != 13 || s.Stopped != StoppedByLimit {
				t.Errorf("%+v", s)
			}
			if s := b.run(linesOf(20)); s.Done != 7 || s.Before != 7 || s.Left != 6 || len(b.out()) != 14 {
				t.Errorf("again: %+v", s)
			}
		})
	})
	t.Run("the first failure", func(t *testing.T) {
		inBubble(t, &answers{do: func(w http.ResponseWriter, r *http.Request, try int) { w.WriteHeader(404) }}, func(b *bench) {
			b.config.Quotas = map[string]ratelimit.ModelQuota{"*": {MaxInFlight: 1}}
			b.settings.FailFast = true
			if s := b.run(linesOf(500)); s.Failed == 0 || s.Failed > 300 || s.Stopped != StoppedByFailure {
				t.Errorf("%+v", s)
			}
		})
	})
	t.Run("credit", func(t *testing.T) {
		inBubble(t, &answers{do: func(w http.ResponseWriter, r *http.Request, try int) {
			w.WriteHeader(429)
			io.WriteString(w, `{"error":{"code":"insufficient_quota","type":"insufficient_quota"}}`) //nolint:errcheck // in memory
		}}, func(b *bench) {
			b.config.Quotas = map[string]ratelimit.ModelQuota{"*": {MaxInFlight: 1}}
			// Those that stood in line may have been sent before the answer was read.
			if s := b.run(linesOf(500)); s.Failed == 0 || s.Failed > maxWaiting || s.Stopped != StoppedByBudget {
				t.Errorf("%+v: %s", s, b.codes())
			}
		})
	})
	t.Run("a signal", func(t *testing.T) {
		inBubble(t, &answers{do: func(w http.ResponseWriter, r *http.Request, try int) {
			time.Sleep(30 * time.Second)
			answer(w)
		}}, func(b *bench) {
			b.config.Quotas = map[string]ratelimit.ModelQuota{"*": {MaxRPM: 10}}
			ctx, cancel := context.WithTimeout(b.t.Context(), 10*time.Second)
			defer cancel()
			if s := b.runWith(ctx, linesOf(50)); s.Done != 10 || s.Left != 40 || s.Stopped != StoppedBySignal || b.takes != 30*time.Second {
				t.Errorf("%+v after %v", s, b.takes)
			}
			if s := b.run(linesOf(50)); s.Done != 40 || s.Before != 10 || len(b.out()) != 50 {
				t.Errorf("again: %+v", s)
			}
		})
	})
}

// A budget is never passed, over runs, and is used as far as whole calls fit.
func TestMaxCost(t *testing.T) {
	const one = 225 // micro-dollars: 10 tokens for $2.50 a million, and 20 for $10
	inBubble(t, &answers{do: func(w http.ResponseWriter, r *http.Request, try int) {
		time.Sleep(time.Second)
		answer(w)
	}}, func(b *bench) {
		for _, budget := range []money.Amount{10_000, 20_000} {
			b.settings.MaxCost = budget
			s := b.run(linesOf(200))
			spent := money.Amount(math.Round(s.AllCost * 1e6))
			if spent > budget || spent < budget-2000 || s.Stopped != StoppedByBudget {
				t.Errorf("of %v: %+v", budget, s)
			}
			if want := len(b.out()) * one; int(spent) != want {
				t.Errorf("%v spent, want %d µ$", spent, want)
			}
		}
		b.settings.MaxCost = 1
		if s := b.run(linesOf(200)); s.Done != 0 || s.Stopped != StoppedByBudget {
			t.Errorf("with nothing left: %+v", s)
		}
		b.dir = b.t.TempDir()
		s := b.run(strings.ReplaceAll(lineOf("a", 100), "gpt-4o", "unheard-of"))
		if s.Failed != 1 || b.codes() != "unpriced after 0" {
			t.Errorf("a model without a price: %+v, %s", s, b.codes())
		}
	})
}

// A plan is within a tenth of what the run takes.
func TestPlan(t *testing.T) {
	long := func(lines string) string {
		return strings.ReplaceAll(lines, "something", strings.Repeat("something ", 80))
	}
	same := long(linesOf(600))
	longer := linesOf(300) + strings.ReplaceAll(long(linesOf(300)), "id-", "long-")
	for _, test := range []struct {
		quota ratelimit.ModelQuota
		in    string
	}{
		{ratelimit.ModelQuota{MaxRPM: 60}, same},
		{ratelimit.ModelQuota{MaxTPM: 12_000}, same},
		{ratelimit.ModelQuota{MaxRPM: 50, MaxTPM: 9000}, same},
		{ratelimit.ModelQuota{MaxRPM: 120, MaxTPM: 18_000}, longer}, // of requests at first, and then of tokens
	} {
		quota, in := test.quota, test.in
		s := fakeprovider.New(fakeprovider.Options{Answer: func(c *fakeprovider.Call) fakeprovider.Answer {
			a := fakeprovider.DefaultAnswer(c)
			a.Output, a.Delay = 80, time.Second
			return a
		}}, map[string]fakeprovider.Config{"": {Limits: fakeprovider.Limits{fakeprovider.RPM: quota.MaxRPM, fakeprovider.TPM: quota.MaxTPM}}})
		inBubble(t, s, func(b *bench) {
			b.config.Quotas = map[string]ratelimit.ModelQuota{"*": quota}
			b.settings.ExpectOutput = 80
			var p Plan
			b.prepare(in, func(batch *Batch) {
				var err error
				if p, err = batch.Plan(b.t.Context()); err != nil {
					t.Error(err)
				}
			})
			run := b.run(in)
			near := func(what string, planned, real float64) {
				if math.Abs(planned-real) > real/10 {
					t.Errorf("%+v: %s: planned %v, was %v", quota, what, planned, real)
				}
			}
			near("tokens", float64(p.Tokens.Prompt+p.Tokens.Output), float64(run.Tokens.Prompt+run.Tokens.Output))
			near("dollars", p.Dollars, run.Dollars)
			near("minutes", p.Minutes, b.takes.Minutes())
			if p.ToDo != 600 || run.Done != 600 || in == same && s.Stats("gpt-4o").Refused != 0 { // the length of prompts is learned
				t.Errorf("%+v, %+v, %d refused", p, run, s.Stats("gpt-4o").Refused)
			}
		})
	}
}

// What is in progress is bounded, by its size and by its number.
func TestBounds(t *testing.T) {
	for _, test := range []struct {
		name             string
		line, count      int // bytes of a line, and how many
		inFlight         int // of the quota
		atLeast, atMost  int // calls in flight
		reading, waiting int // at most
	}{
		{"large lines", 1 << 20, 30, 0, 12, 24, 24, 24},
		{"many lines", 10, 3000, 0, 1000, maxLines, maxLines, maxWaiting},
		{"many that wait", 10, 3000, 5, 5, 5, 5 + maxWaiting, maxWaiting},
	} {
		t.Run(test.name, func(t *testing.T) {
			var flying, most atomic.Int64
			inBubble(t, &answers{do: func(w http.ResponseWriter, r *http.Request, try int) {
				for n := flying.Add(1); ; {
					if old := most.Load(); n <= old || most.CompareAndSwap(old, n) {
						break
					}
				}
				time.Sleep(time.Minute)
				flying.Add(-1)
				answer(w)
			}}, func(b *bench) {
				b.config.Quotas = map[string]ratelimit.ModelQuota{"*": {MaxInFlight: test.inFlight}}
				in := strings.ReplaceAll(linesOf(test.count), "something", strings.Repeat("x", test.line))
				b.prepare(in, func(batch *Batch) {
					ended := make(chan Summary)
					ctx, cancel := context.WithCancel(b.t.Context())
					defer cancel()
					go func() {
						s, err := batch.Run(ctx)
						if err != nil {
							t.Error(err)
						}
						ended <- s
					}()
					time.Sleep(10 * time.Second)
					batch.room.mu.Lock()
					if r := &batch.room; r.lines > test.reading || r.waiting > test.waiting || r.bytes > maxBytes {
						t.Errorf("%d lines of %d bytes in progress, %d wait", r.lines, r.bytes, r.waiting)
					}
					batch.room.mu.Unlock()
					cancel()
					if s := <-ended; s.Failed > 0 || s.Done != int(most.Load()) {
						t.Errorf("%+v", s)
					}
					if r := &batch.room; r.lines != 0 || r.bytes != 0 || r.waiting != 0 || r.flying != 0 || r.reserved != 0 {
						t.Errorf("at the end: %d lines, %d bytes, %d wait, %d fly, %v reserved", r.lines, r.bytes, r.waiting, r.flying, r.reserved)
					}
				})
				if got := int(most.Load()); got < test.atLeast || got > test.atMost {
					t.Errorf("%d calls in flight, want %d to %d", got, test.atLeast, test.atMost)
				}
			})
		})
	}
}

// A strict provider refuses nothing, and from the second minute on nearly all of the quota is used.
func TestUsesTheQuota(t *testing.T) {
	const rpm = 1000
	lines := racetest.Times(5000, 3000, 10_000)
	s := fakeprovider.New(fakeprovider.Options{Jitter: 100 * time.Millisecond, Answer: func(c *fakeprovider.Call) fakeprovider.Answer {
		a := fakeprovider.DefaultAnswer(c)
		a.Delay, a.Spread = time.Second, 5*time.Second
		return a
	}}, map[string]fakeprovider.Config{"": {Limits: fakeprovider.Limits{fakeprovider.RPM: rpm}}})
	inBubble(t, s, func(b *bench) {
		b.config.Quotas = map[string]ratelimit.ModelQuota{"*": {MaxRPM: rpm}}
		began := time.Now()
		if sum := b.run(linesOf(lines)); sum.Done != lines || sum.Retries != 0 {
			t.Errorf("%+v", sum)
		}
		arrivals := s.Arrivals("gpt-4o")
		last := arrivals[len(arrivals)-1].Time
		// Each minute begins with all of its calls, so the last ones come whole minutes later.
		used := float64(lines/rpm-1) / last.Sub(began).Minutes()
		if used < 0.99 {
			t.Errorf("%.2f%% of the quota", 100*used)
		}
		if got := s.Stats("gpt-4o").Refused; got != 0 {
			t.Errorf("%d refused", got)
		}
		t.Logf("%d calls in %v: %.2f%% of the quota", lines, last.Sub(began), 100*used)
	})
}

// A run knows whether the one before it was killed.
func TestWasKilled(t *testing.T) {
	inBubble(t, &answers{do: func(w http.ResponseWriter, r *http.Request, try int) { answer(w) }}, func(b *bench) {
		was := func(want bool) {
			b.t.Helper()
			b.prepare(linesOf(3), func(batch *Batch) {
				if batch.WasKilled() != want {
					b.t.Errorf("was killed: %v", !want)
				}
			})
		}
		was(false)
		b.run(linesOf(3))
		was(false)
		b.prepare(linesOf(3), func(batch *Batch) {
			if err := batch.begin(); err != nil {
				b.t.Error(err)
			}
		})
		was(true)
		b.run(linesOf(3))
		was(false)
	})
}

// Answers that were observed: what is learned of them, and whom nothing counts.

package ratelimit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

func answered(prompt, output int) ratelimit.Usage {
	return ratelimit.Usage{PromptTokens: prompt, OutputTokens: output}
}

func TestEstimate(t *testing.T) {
	type answer struct{ estimated, used ratelimit.Usage }
	tests := []struct {
		name    string
		answers []answer
		want    ratelimit.Estimate
	}{
		{"no answer", nil, ratelimit.Estimate{}},
		{"no usage", []answer{{answered(10, 10), answered(0, 0)}}, ratelimit.Estimate{}},
		{"one", []answer{{answered(100, 9), answered(150, 80)}}, ratelimit.Estimate{Answers: 1, OutputTokens: 100, PromptPermille: 1500, ErrorP50: 333, ErrorP95: 333}},
		{"two", []answer{{answered(100, 9), answered(150, 80)}, {answered(100, 9), answered(150, 8)}}, ratelimit.Estimate{Answers: 2, OutputTokens: 100, PromptPermille: 1500, ErrorP95: 0}},
		{"the prompt is not known", []answer{{answered(100, 9), answered(0, 80)}}, ratelimit.Estimate{Answers: 1, OutputTokens: 100}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rl := newLimiterWith(t, ratelimit.Config{Aliases: map[string]string{"alias": "m"}})
			for _, a := range tt.answers {
				rl.ObserveAnswer("alias", a.estimated, a.used)
			}
			if got := rl.Estimate("m"); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
			if s := rl.Stats("m"); s.RPM+s.TPM != 0 {
				t.Errorf("it was charged: %+v", s)
			}
		})
	}
}

func TestEstimateAsJSON(t *testing.T) {
	text, err := json.Marshal(ratelimit.Estimate{Answers: 1, OutputTokens: 2, PromptPermille: 3, ErrorP50: 4, ErrorP95: 5})
	if want := `{"answers":1,"output_tokens":2,"prompt_permille":3,"error_p50_permille":4,"error_p95_permille":5}`; err != nil || string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
}

func TestEstimateCorrects(t *testing.T) {
	for _, tt := range []struct{ permille, tokens, want int }{{0, 7, 7}, {1500, 7, 11}, {250, 1, 1}, {1000, -3, -3}} {
		if got := (ratelimit.Estimate{PromptPermille: tt.permille}).Correct(tt.tokens); got != tt.want {
			t.Errorf("%d permille of %d are %d, want %d", tt.permille, tt.tokens, got, tt.want)
		}
	}
}

func TestEstimatesAreBounded(t *testing.T) {
	rl := newLimiterWith(t, ratelimit.Config{MaxModels: 3})
	for i := range 10 {
		rl.ObserveAnswer(fmt.Sprint(i), answered(1, 1), answered(1, 1))
	}
	known := 0
	for i := range 10 {
		known += rl.Estimate(fmt.Sprint(i)).Answers
	}
	if known != 3 || rl.Estimate("9").Answers != 1 {
		t.Errorf("%d models are known", known)
	}
}

func TestEstimateOutlastsUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := newLimiter(t, ratelimit.ModelQuota{MaxRPM: 1})
		stop := rl.BackgroundPrune(time.Minute)
		defer stop()
		rl.ObserveAnswer("m", answered(10, 1), answered(20, 8))
		want := rl.Estimate("m")
		time.Sleep(25 * time.Hour)
		rl.Reset("m")
		rl.Reset("")
		if got := rl.Estimate("m"); got != want || want.Answers != 1 {
			t.Errorf("%+v, want %+v", got, want)
		}
	})
}

// stores are the ways of keeping a state between two limiters; with the time that the second one
// may take to know what the first did.
var stores = []struct {
	name string
	cfg  ratelimit.Config
}{
	{"yaml", ratelimit.Config{Backend: "yaml"}},
	{"yaml, by itself", ratelimit.Config{Backend: "yaml", AutoPersist: ratelimit.AutoPersist{Delay: time.Second}}},
	{"sqlite", ratelimit.Config{Backend: "sqlite"}},
	{"sqlite, by itself", ratelimit.Config{Backend: "sqlite", AutoPersist: ratelimit.AutoPersist{Delay: time.Second}}},
}

func TestEstimatesAreStored(t *testing.T) {
	for _, tt := range stores {
		t.Run(tt.name, func(t *testing.T) {
			if tt.cfg.Backend == "sqlite" {
				needSQLite(t)
			}
			cfg := tt.cfg
			cfg.FilePath = filepath.Join(t.TempDir(), "state")
			synctest.Test(t, func(t *testing.T) {
				rl := newLimiterWith(t, cfg)
				for i := range 100 {
					rl.ObserveAnswer("m", answered(100, 1), answered(50+3*i, i))
				}
				rl.ObserveAnswer("not \xff UTF-8", answered(100, 1), answered(50, 1))
				want, strange := rl.Estimate("m"), rl.Estimate("not \xff UTF-8")
				if cfg.AutoPersist.Delay == 0 {
					if err := rl.Persist(); err != nil {
						t.Fatal(err)
					}
				}
				if err := rl.Close(); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					other := newLimiterWith(t, cfg)
					if err := other.Load(); err != nil {
						t.Fatal(err)
					}
					if got := other.Estimate("m"); got != want || got.Answers != 100 {
						t.Errorf("%+v, want %+v", got, want)
					}
					if got := other.Estimate("not \xff UTF-8"); got != strange {
						t.Errorf("%+v, want %+v", got, strange)
					}
					other.Reset("m")
					if err := other.Persist(); err != nil {
						t.Fatal(err)
					}
					if err := other.Close(); err != nil {
						t.Fatal(err)
					}
				}
			})
		})
	}
}

func TestMigrationKeepsEstimates(t *testing.T) {
	needSQLite(t)
	yaml, sqlite := filepath.Join(t.TempDir(), "s.yaml"), filepath.Join(t.TempDir(), "s.db")
	rl := newLimiterWith(t, ratelimit.Config{FilePath: yaml})
	rl.ObserveAnswer("m", answered(100, 1), answered(123, 40))
	if err := rl.Persist(); err != nil {
		t.Fatal(err)
	}
	if err := ratelimit.MigrateYAMLToSQLite(yaml, sqlite); err != nil {
		t.Fatal(err)
	}
	for _, shared := range []bool{false, true} {
		other := newLimiterWith(t, ratelimit.Config{Backend: "sqlite", FilePath: sqlite, Shared: shared})
		if err := other.Load(); err != nil {
			t.Fatal(err)
		}
		if got, want := other.Estimate("m"), rl.Estimate("m"); got != want {
			t.Errorf("shared is %v: %+v, want %+v", shared, got, want)
		}
		if err := other.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestObserveAnswerIsConcurrent(t *testing.T) {
	rl := newLimiterWith(t, ratelimit.Config{MaxModels: 2, FilePath: filepath.Join(t.TempDir(), "s.yaml"), AutoPersist: ratelimit.AutoPersist{Delay: time.Millisecond}})
	defer rl.Close()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 100 {
				rl.ObserveAnswer(fmt.Sprint(i%3), answered(n, n), answered(n, n))
				rl.Estimate("0")
			}
		})
	}
	wg.Wait()
}

// pathError is an error that names the path that it got.
type pathError struct{ path string }

func (e *pathError) Error() string { return "nothing counts " + e.path }

func asPathError(path, _ string) error { return &pathError{path} }

func TestObserveUncounted(t *testing.T) {
	for _, policy := range []ratelimit.UnknownPolicy{ratelimit.UnknownAllow, ratelimit.UnknownDeny} {
		synctest.Test(t, func(t *testing.T) {
			var reported []string
			events := make(chan ratelimit.Event, 1)
			rl, err := ratelimit.NewWithConfig(ratelimit.Config{
				FilePath: t.TempDir() + "/s.yaml", Unknown: policy, Quotas: map[string]ratelimit.ModelQuota{"*": {MaxRPM: 1}},
				OnError: func(err error) { reported = append(reported, err.Error()) },
				Events: handling(func(ctx context.Context, e *ratelimit.Event) {
					if ctx.Value(hostKey{}) != "value" {
						t.Error("another context")
					}
					events <- *e
				}),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer rl.Close()
			ctx := context.WithValue(t.Context(), hostKey{}, "value")
			long := "/" + strings.Repeat("x", 300)
			for i := range 240 {
				path := fmt.Sprint("/v1/", i%120)
				if i == 0 {
					path = long
				}
				err := rl.ObserveUncounted(ctx, path, "m", asPathError)
				e, want := <-events, path
				switch {
				case i == 0:
					want = long[:256]
				case i%120 >= 100 || i == 120:
					want = "others"
				}
				var why *pathError
				if e.Kind != ratelimit.EventUncounted || e.Path != want || e.Model != "m" || e.Requested != "m" ||
					!errors.As(e.Err, &why) || why.path != want {
					t.Fatalf("%d: %+v, want %s", i, e, want)
				}
				var limit *ratelimit.LimitError
				denied := errors.As(err, &limit)
				if denied != (policy == ratelimit.UnknownDeny) || denied != errors.Is(err, ratelimit.ErrNeverFits) ||
					denied && (limit.Model != "m" || limit.Decision.Code != ratelimit.DecisionUnknownModel || !limit.Decision.Never) {
					t.Fatalf("%v: %v", policy, err)
				}
			}
			synctest.Wait()
			if len(reported) != 101 || strings.Count(strings.Join(reported, "\n"), "others") != 1 {
				t.Errorf("%d reports, want one for each of 100 paths and one for the others: %q", len(reported), reported)
			}
			if s := rl.AllStats(); len(s) != 0 {
				t.Errorf("something was charged: %v", s)
			}
		})
	}
}

// A limiter that nobody listens to refuses all the same.
func TestObserveUncountedInSilence(t *testing.T) {
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{FilePath: t.TempDir() + "/s.yaml", Unknown: ratelimit.UnknownDeny})
	if err != nil {
		t.Fatal(err)
	}
	defer rl.Close()
	if err := rl.ObserveUncounted(t.Context(), "/p", "", asPathError); !errors.Is(err, ratelimit.ErrNeverFits) {
		t.Errorf("%v", err)
	}
}

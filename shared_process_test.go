//go:build !nosqlite

// Shared: processes that admit together what the quota permits.

package ratelimit_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// sharedChildTakesAll reserves until it is denied, says how often it was not, and holds
// all of it until it is told to end.
func sharedChildTakesAll(rl *ratelimit.RateLimiter, plan *sharedPlan, in *bufio.Scanner) error {
	in.Scan() // go
	var mu sync.Mutex
	var held []*ratelimit.Reservation
	codes := make(map[ratelimit.DecisionCode]int)
	var all sync.WaitGroup
	for range plan.Goroutines {
		all.Go(func() {
			for {
				r, d := rl.Reserve(plan.Model, plan.PromptTokens, plan.Output)
				mu.Lock()
				codes[d.Code]++
				held = append(held, r)
				mu.Unlock()
				if r == nil {
					return
				}
			}
		})
	}
	all.Wait()
	text, err := json.Marshal(codes)
	fmt.Println(string(text))
	in.Scan()
	for _, r := range held {
		r.Commit(plan.PromptTokens, plan.Output)
	}
	return err
}

// However many there are, in however many processes, exactly the quota is admitted.
func TestSharedProcessesAdmitExactlyTheQuota(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		limits         string
		quota          ratelimit.ModelQuota
		prompt, output int
		admits         int
		denies         ratelimit.DecisionCode
		used           func(ratelimit.ModelStats) (used, limit int)
	}{
		{"requests per minute", ratelimit.ModelQuota{MaxRPM: 120}, 1, 1, 120, ratelimit.DecisionRPMLimit,
			func(s ratelimit.ModelStats) (int, int) { return s.RPM, 120 }},
		{"tokens per minute", ratelimit.ModelQuota{MaxTPM: 1005}, 7, 3, 100, ratelimit.DecisionTPMLimit,
			func(s ratelimit.ModelStats) (int, int) { return s.TPM, 1000 }},
		{"input tokens per minute", ratelimit.ModelQuota{MaxITPM: 700}, 7, 3, 100, ratelimit.DecisionITPMLimit,
			func(s ratelimit.ModelStats) (int, int) { return s.ITPM, 700 }},
		{"output tokens per minute", ratelimit.ModelQuota{MaxOTPM: 300}, 7, 3, 100, ratelimit.DecisionOTPMLimit,
			func(s ratelimit.ModelStats) (int, int) { return s.OTPM, 300 }},
		{"requests per day", ratelimit.ModelQuota{MaxRPD: 120}, 1, 1, 120, ratelimit.DecisionRPDLimit,
			func(s ratelimit.ModelStats) (int, int) { return s.RPD, 120 }},
		{"tokens per day", ratelimit.ModelQuota{MaxTPD: 1000}, 7, 3, 100, ratelimit.DecisionTPDLimit,
			func(s ratelimit.ModelStats) (int, int) { return s.TPD, 1000 }},
		{"calls in flight", ratelimit.ModelQuota{MaxInFlight: 60}, 1, 1, 60, ratelimit.DecisionInFlightLimit,
			func(s ratelimit.ModelStats) (int, int) { return s.InFlight, 60 }},
	} {
		t.Run(test.limits, func(t *testing.T) {
			t.Parallel()
			processes, goroutines := sharedSize()
			plan := sharedPlan{
				Path: sqlitePath(t), Quotas: map[string]ratelimit.ModelQuota{"m": test.quota},
				Margin:     time.Hour, // nothing leaves the minute while the test runs
				Goroutines: goroutines, Model: "m", PromptTokens: test.prompt, Output: test.output,
			}
			children := sharedStarted(t, processes, "take", plan)
			for _, c := range children {
				c.tell("go")
			}
			sum := make(map[ratelimit.DecisionCode]int)
			for _, c := range children {
				line, _ := c.line()
				var codes map[ratelimit.DecisionCode]int
				if err := json.Unmarshal([]byte(line), &codes); err != nil {
					t.Fatalf("a process said %q", line)
				}
				for code, n := range codes {
					sum[code] += n
				}
			}
			if got := sum[ratelimit.DecisionAllowed]; got != test.admits {
				t.Errorf("%d processes admitted %d together, want %d", processes, got, test.admits)
			}
			if got, want := sum[test.denies], processes*goroutines; got != want || len(sum) != 2 {
				t.Errorf("the answers were %v, want %d denials by %q", sum, want, test.denies)
			}
			late := sharedLimiter(t, plan)
			if used, limit := test.used(late.Stats("m")); used != limit {
				t.Errorf("one that comes later finds %d used, want %d", used, limit)
			}
			if _, d := late.Reserve("m", test.prompt, test.output); d.Code != test.denies {
				t.Errorf("one that comes later gets %q, want %q", d.Code, test.denies)
			}
			for _, c := range children {
				c.end()
			}
			if s := late.Stats("m"); s.InFlight != 0 {
				t.Errorf("when all have settled, %d are in flight", s.InFlight)
			}
		})
	}
}

// sharedChildHoldsSlots makes calls, and says when each began and ended.
func sharedChildHoldsSlots(rl *ratelimit.RateLimiter, plan *sharedPlan, in *bufio.Scanner) error {
	in.Scan() // go
	errs := make([]error, plan.Goroutines)
	var all sync.WaitGroup
	for g := range plan.Goroutines {
		all.Go(func() {
			for range 10 {
				r, err := rl.Acquire(context.Background(), plan.Model, 1, 1)
				if err != nil {
					errs[g] = err
					return
				}
				began := time.Now().UnixNano()
				time.Sleep(plan.Calls)
				ended := time.Now().UnixNano()
				r.Commit(1, 1)
				fmt.Println(began, ended)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// However many wait for a slot, no more calls are under way at a time than there are
// slots, and all slots are used.
func TestSharedProcessesHoldNoMoreThanTheSlots(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{1, 3} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			processes, goroutines := sharedSize()
			children := sharedStarted(t, processes, "slots", sharedPlan{
				Path: sqlitePath(t), Quotas: map[string]ratelimit.ModelQuota{"m": {MaxInFlight: slots}},
				Goroutines: goroutines, Model: "m", Calls: 2 * time.Millisecond,
			})
			for _, c := range children {
				c.tell("go")
			}
			type change struct {
				at    int64
				calls int
			}
			var changes []change
			for _, c := range children {
				for range 10 * goroutines {
					line, _ := c.line()
					var began, ended int64
					if _, err := fmt.Sscan(line, &began, &ended); err != nil {
						t.Fatalf("a process said %q", line)
					}
					changes = append(changes, change{began, 1}, change{ended, -1})
				}
				c.end()
			}
			// Of one that ends and one that begins at the same instant, the end comes first.
			slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), a.calls-b.calls) })
			calls, most := 0, 0
			for _, c := range changes {
				calls += c.calls
				most = max(most, calls)
			}
			if most > slots {
				t.Errorf("%d calls were under way at a time, want at most %d", most, slots)
			}
			took := time.Duration(changes[len(changes)-1].at - changes[0].at)
			t.Logf("%d calls of %v in %v, %d at a time", len(changes)/2, 2*time.Millisecond, took, most)
		})
	}
}

// What one process says is seen by every call of another that begins a tenth of a second
// later.
func TestSharedProcessesLearnOfChanges(t *testing.T) {
	t.Parallel()
	const within = 100 * time.Millisecond
	reserve := sharedOrder{Do: "reserve", Model: "m", PromptTokens: 1}
	decide := sharedOrder{Do: "decide", Model: "m", PromptTokens: 1}
	stats := sharedOrder{Do: "stats", Model: "m"}
	code := func(want ratelimit.DecisionCode) func(sharedAnswer) bool {
		return func(a sharedAnswer) bool { return a.Code == want }
	}
	used := func(requests int) func(sharedAnswer) bool {
		return func(a sharedAnswer) bool { return a.Stats.RPM == requests }
	}
	for _, test := range []struct {
		says   string
		change sharedOrder
		asked  sharedOrder
		before func(sharedAnswer) bool // what the other is answered before the change,
		after  func(sharedAnswer) bool // and after it
	}{
		{"a smaller quota", sharedOrder{Do: "quota", Model: "m", Quota: ratelimit.ModelQuota{MaxRPM: 1}}, decide,
			code(ratelimit.DecisionAllowed), code(ratelimit.DecisionRPMLimit)},
		{"a quota of slots", sharedOrder{Do: "quota", Model: "m", Quota: ratelimit.ModelQuota{MaxInFlight: 1}}, decide,
			code(ratelimit.DecisionAllowed), code(ratelimit.DecisionInFlightLimit)},
		{"no quota any more", sharedOrder{Do: "quota", Model: "m"}, decide,
			code(ratelimit.DecisionAllowed), code(ratelimit.DecisionUnlimited)},
		{"a cooldown", sharedOrder{Do: "cooldown", Model: "m", Until: time.Now().Add(time.Hour)}, decide,
			code(ratelimit.DecisionAllowed), code(ratelimit.DecisionCooldown)},
		{"a reset", sharedOrder{Do: "reset", Model: "m"}, stats, used(1), used(0)},
		{"a reset of all", sharedOrder{Do: "reset"}, stats, used(1), used(0)},
		{"an admission", reserve, stats, used(1), used(2)},
		{"a commit", sharedOrder{Do: "commit", Model: "m", PromptTokens: 500}, stats,
			func(a sharedAnswer) bool { return a.Stats.TPM == 1 && a.Stats.InFlight == 1 },
			func(a sharedAnswer) bool { return a.Stats.TPM == 500 && a.Stats.InFlight == 0 }},
		{"a cancel", sharedOrder{Do: "cancel"}, stats, used(1), used(0)},
	} {
		t.Run(test.says, func(t *testing.T) {
			agents := sharedStarted(t, 2, "agent", sharedPlan{
				Path: sqlitePath(t), Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 3}}, Margin: time.Hour,
			})
			a, b := agents[0], agents[1]
			a.admitted(reserve)
			b.until(test.asked, test.before)
			said := a.does(test.change).Ended
			seen := b.until(test.asked, func(got sharedAnswer) bool {
				done := test.after(got)
				if !done && got.Began.Sub(said) > within {
					t.Errorf("a call that began %v later was answered %+v", got.Began.Sub(said), got)
					return true
				}
				return done
			})
			t.Logf("seen by a call that began %v later", seen.Began.Sub(said))
			a.end()
			b.end()
		})
	}

	// A charge does not wait for the news to get around: it reads the file.
	t.Run("by a reservation at once", func(t *testing.T) {
		agents := sharedStarted(t, 2, "agent", sharedPlan{Path: sqlitePath(t), Margin: time.Hour})
		for n := 1; n <= 20; n++ {
			a, b := agents[n%2], agents[1-n%2]
			a.does(sharedOrder{Do: "quota", Model: "m", Quota: ratelimit.ModelQuota{MaxRPM: n}})
			b.admitted(reserve)
			if got := a.does(reserve).Code; got != ratelimit.DecisionRPMLimit {
				t.Fatalf("number %d of %d was answered %q", n+1, n, got)
			}
		}
	})
}

// What the configuration of one process says is written to the file. One that opens the
// file later and says nothing goes by that, and not by the profile of its provider.
func TestSharedQuotasOfTheFileWinOverProfiles(t *testing.T) {
	t.Parallel()
	const model = "gemini-2.0-flash"
	profile, ok := ratelimit.DefaultProfiles()[ratelimit.ProviderGemini].Models[model]
	if !ok {
		t.Fatalf("there is no profile of %s", model)
	}
	path := filepath.Join(t.TempDir(), "a", "state.db")
	said := ratelimit.ModelQuota{MaxRPM: profile.MaxRPM + 7}
	a := sharedStarted(t, 1, "agent", sharedPlan{Path: path, Quotas: map[string]ratelimit.ModelQuota{model: said}})[0]
	late := sqliteLimiterWith(t, path, ratelimit.Config{Shared: true, Providers: []ratelimit.Provider{ratelimit.ProviderGemini}})
	if _, got, _ := late.QuotaFor(model); got != said {
		t.Errorf("the quota is %+v, want %+v", got, said)
	}
	a.end()
	later := sqliteLimiterWith(t, path, ratelimit.Config{Shared: true, Providers: []ratelimit.Provider{ratelimit.ProviderGemini}})
	if _, got, _ := later.QuotaFor(model); got != said {
		t.Errorf("when nobody lives who said it, the quota is %+v, want %+v", got, said)
	}
}

// Processes that open a fresh file at once find one quota there.
func TestSharedProcessesOpenAFreshFile(t *testing.T) {
	t.Parallel()
	for range times(3, 1, 20) {
		plan := sharedPlan{
			Path: filepath.Join(t.TempDir(), "folder", "state.db"), Margin: time.Hour,
			Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 5}},
		}
		agents := sharedStarted(t, 8, "agent", plan)
		var admitted atomic.Int64
		var all sync.WaitGroup
		for _, c := range agents {
			c.order(sharedOrder{Do: "reserve", Model: "m", PromptTokens: 1})
			all.Go(func() {
				line, _ := c.line()
				if strings.Contains(line, fmt.Sprintf("%q", ratelimit.DecisionAllowed)) {
					admitted.Add(1)
				}
			})
		}
		all.Wait()
		if got := admitted.Load(); got != 5 {
			t.Errorf("%d were admitted, want 5", got)
		}
		for _, c := range agents {
			c.end()
		}
	}
}

// sharedMixed are the models of sharedChildDoesAnything.
var sharedMixed = []string{"minute", "day", "slots", "unlimited", "unknown"}

// sharedChildDoesAnything makes all sorts of changes, until it is told that it is enough.
// Then it settles what it holds, and each time it is asked says what it knows.
func sharedChildDoesAnything(rl *ratelimit.RateLimiter, plan *sharedPlan, in *bufio.Scanner) error {
	in.Scan() // go
	var stop atomic.Bool
	var all sync.WaitGroup
	for range plan.Goroutines {
		all.Go(func() {
			var held []*ratelimit.Reservation
			settle := func(i int) {
				if tokens := rand.IntN(20); rand.IntN(3) == 0 {
					held[i].Cancel()
				} else {
					held[i].Commit(tokens, rand.IntN(5))
				}
				held = slices.Delete(held, i, i+1)
			}
			any := func() string { return sharedMixed[rand.IntN(len(sharedMixed))] }
			for n := 0; !stop.Load(); n++ {
				model := any()
				switch what := rand.IntN(100); {
				case what < 40:
					if r, _ := rl.Reserve(model, rand.IntN(10), rand.IntN(10)); r != nil {
						held = append(held, r)
					}
				case what < 80 && len(held) > 0:
					settle(rand.IntN(len(held)))
				case what < 85:
					rl.RecordUsage(model, rand.IntN(10), rand.IntN(10))
				case what < 88:
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.IntN(5))*time.Millisecond)
					if r, err := rl.Acquire(ctx, model, rand.IntN(10), 1); err == nil {
						held = append(held, r)
					}
					cancel()
				case what < 91:
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.IntN(5))*time.Millisecond)
					if both, err := rl.AcquireAll(ctx, ratelimit.Request{Model: model, PromptTokens: 1}, ratelimit.Request{Model: any(), PromptTokens: 2}); err == nil {
						held = append(held, both...)
					}
					cancel()
				case what < 92:
					rl.Reset(model)
				case what < 93:
					rl.Cooldown(model, time.Now().Add(time.Duration(rand.IntN(10))*time.Millisecond))
				case what < 95:
					rl.SetQuota("slots", ratelimit.ModelQuota{MaxInFlight: 5 + rand.IntN(10), MaxTPM: 1000})
				default:
					rl.Stats(model)
				}
			}
			for len(held) > 0 {
				settle(0)
			}
		})
	}
	in.Scan() // enough
	stop.Store(true)
	all.Wait()
	fmt.Println("settled")
	for in.Scan() {
		known := make(map[string]ratelimit.ModelStats)
		for _, model := range sharedMixed {
			known[model] = rl.Stats(model)
		}
		text, err := json.Marshal(known)
		if err != nil {
			return err
		}
		fmt.Println(string(text))
	}
	return nil
}

// After random calls and kills, the processes that are left count the same, and so does one that
// opens the file then.
func TestSharedProcessesComeToTheSame(t *testing.T) {
	t.Parallel()
	const lasts = 300 * time.Millisecond
	for range times(2, 1, 50) {
		plan := sharedPlan{
			Path: sqlitePath(t), Margin: time.Hour, Goroutines: 3,
			Quotas: map[string]ratelimit.ModelQuota{
				"minute": {MaxRPM: 50, MaxTPM: 2000}, "day": {MaxRPD: 100, MaxTPD: 2000}, "slots": {MaxInFlight: 7}, "unlimited": {},
			},
		}
		children := sharedStarted(t, 4, "mixed", plan)
		for _, c := range children {
			c.tell("go")
		}
		time.Sleep(lasts) // how long they go on
		children[0].kill()
		children = children[1:]
		for _, c := range children {
			c.tell("enough")
		}
		for _, c := range children {
			c.expect("settled")
		}
		// What the one that was killed held is given up when somebody looks.
		inFlight := func(known map[string]ratelimit.ModelStats) (sum int) {
			for _, s := range known {
				sum += s.InFlight
			}
			return sum
		}
		know := func(c *sharedChild) (known map[string]ratelimit.ModelStats) {
			c.tell("say")
			line, _ := c.line()
			if err := json.Unmarshal([]byte(line), &known); err != nil {
				t.Fatalf("a process said %q", line)
			}
			return known
		}
		for began := time.Now(); inFlight(know(children[0])) > 0 && time.Since(began) < sharedSafety; {
			runtime.Gosched()
		}
		// One that was told nothing yet asks the file at the latest after some milliseconds,
		// and a cooldown that is over is as good as none.
		want := sharedKnown(t, plan)
		for i, c := range children {
			var got string
			for began := time.Now(); time.Since(began) < 10*time.Second; {
				if got = sharedKnownText(t, know(c)); got == want {
					break
				}
			}
			if got != want {
				t.Errorf("process %d knows\n%s\nand the file says\n%s", i+1, got, want)
			}
			c.end()
		}
		if got := sharedKnown(t, plan); got != want {
			t.Errorf("when all have gone, the file says\n%s\nand before\n%s", got, want)
		}
	}
}

// sharedKnown is what a limiter knows that opens the file now.
func sharedKnown(t *testing.T, plan sharedPlan) string {
	t.Helper()
	plan.Quotas = nil
	rl, err := ratelimit.NewWithSQLiteConfig(plan.Path, plan.config())
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]ratelimit.ModelStats)
	for _, model := range sharedMixed {
		known[model] = rl.Stats(model)
	}
	if err := errors.Join(rl.Err(), rl.Close()); err != nil {
		t.Fatal(err)
	}
	return sharedKnownText(t, known)
}

func sharedKnownText(t *testing.T, known map[string]ratelimit.ModelStats) string {
	t.Helper()
	var text strings.Builder
	for _, model := range sharedMixed {
		s := known[model]
		s.CooldownUntil = time.Time{}
		s.DayStart = s.DayStart.UTC()
		fmt.Fprintf(&text, "%s: %s\n", model, jsonOf(t, s))
	}
	return text.String()
}

//go:build !nosqlite

// Shared: processes that are killed or stopped.

package ratelimit_test

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// sharedChildHammers reserves and commits as fast as it can, and says each time what was
// done when that has returned. The n-th reservation of a goroutine takes n tokens, and
// its commit makes them twice as many. Each goroutine has a model of its own, so that the
// file tells what each of them has done.
func sharedChildHammers(rl *ratelimit.RateLimiter, plan *sharedPlan, _ *bufio.Scanner) error {
	errs := make([]error, plan.Goroutines)
	var all sync.WaitGroup
	for g := range plan.Goroutines {
		all.Go(func() {
			for n := 1; ; n++ {
				r, d := rl.Reserve(fmt.Sprint(plan.Model, g), n, 0)
				if err := rl.Err(); r == nil || err != nil {
					errs[g] = fmt.Errorf("goroutine %d was answered %q, %w", g, d.Code, err)
					return
				}
				fmt.Println(g, n, "reserved")
				r.Commit(2*n, 0)
				if errs[g] = rl.Err(); errs[g] != nil {
					return
				}
				fmt.Println(g, n, "committed")
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// sharedHammered is what is known of a goroutine of a child that was killed.
type sharedHammered struct {
	n         int // its last reservation that was acknowledged,
	committed bool
}

// charges returns what the file may hold: what was acknowledged, or that and the one
// thing that the goroutine was about when it died.
func (h sharedHammered) charges() (least, most [2]int) {
	tokens := h.n * (h.n + 1) // all of them committed
	if h.committed || h.n == 0 {
		return [2]int{h.n, tokens}, [2]int{h.n + 1, tokens + h.n + 1}
	}
	return [2]int{h.n, tokens - h.n}, [2]int{h.n, tokens}
}

// A process that is killed at any instant leaves a sound file, in which everything is
// counted that it was told was admitted, and of each goroutine no more than one thing
// that it was not told of. So do several.
func TestSharedSurvivesKill(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		durability string
		children   int
		short      int // rounds
		long       int
	}{
		{"process", 1, 5, 500},
		{"process", 2, 2, 250},
		{"power", 1, 5, 500},
		{"power", 2, 2, 250},
	} {
		t.Run(fmt.Sprintf("%s, %d at once", test.durability, test.children), func(t *testing.T) {
			rounds := times(test.short, (test.short+1)/2, test.long)
			acknowledged, more := 0, 0
			var path string
			for round := range rounds {
				if round%25 == 0 { // a file that grows for ever takes ever longer to open
					path = sqlitePath(t)
				}
				a, m := sharedKill(t, round, sharedPlan{
					Path: path, Durability: test.durability, Margin: time.Hour, Goroutines: 4,
					Prices: map[string]money.Price{"*": dollarEach}, // a token is a micro-dollar
				}, test.children)
				acknowledged, more = acknowledged+a, more+m
			}
			t.Logf("%d rounds, %d acknowledged, all counted; %d more that were not", rounds, acknowledged, more)
		})
	}
}

func sharedKill(t *testing.T, round int, plan sharedPlan, processes int) (acknowledged, more int) {
	t.Helper()
	hammered := make([][]sharedHammered, processes)
	model := func(process int) string { return fmt.Sprintf("round %d process %d goroutine ", round, process) }
	var all sync.WaitGroup
	for i := range processes {
		plan := plan
		plan.Model = model(i)
		child := sharedStart(t, "hammer", plan)
		// How long a process lives is what this is about, so it is no wait for something.
		// One in five is killed while it starts.
		lives := time.Duration(15+rand.IntN(60)) * time.Millisecond
		starting := rand.IntN(5) == 0
		if starting {
			time.AfterFunc(lives, func() { child.cmd.Process.Kill() })
		}
		hammered[i] = make([]sharedHammered, plan.Goroutines)
		all.Go(func() {
			for began := false; ; {
				line, ok := child.line()
				if !ok {
					child.cmd.Wait()
					return
				}
				if line == "ready" {
					continue
				}
				var g, n int
				var what string
				if _, err := fmt.Sscan(line, &g, &n, &what); err != nil {
					t.Errorf("round %d: a process said %q", round, line)
					return
				}
				hammered[i][g] = sharedHammered{n, what == "committed"}
				if !began && !starting {
					time.AfterFunc(lives, func() { child.cmd.Process.Kill() })
				}
				began = true
			}
		})
	}
	all.Wait()

	sqliteWantSound(t, plan.Path) // no limiter of this process has it open

	rl, err := ratelimit.NewWithSQLiteConfig(plan.Path, plan.config())
	if err != nil {
		t.Fatalf("round %d: %v", round, err)
	}
	defer func() {
		if err := errors.Join(rl.Err(), rl.Close()); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}()
	for i := range hammered {
		for g, h := range hammered[i] {
			s := rl.Stats(fmt.Sprint(model(i), g))
			got := [2]int{s.RPM, s.TPM}
			least, most := h.charges()
			if got != least && got != most {
				t.Fatalf("round %d: goroutine %d of process %d was told of %+v, and %d requests of %d tokens are counted; want %v or %v",
					round, g, i, h, s.RPM, s.TPM, least, most)
			}
			if s.RPD != s.RPM || s.TPD != s.TPM || s.InFlight != 0 ||
				s.SpendDay != money.Amount(s.TPM) || s.SpendMonth != s.SpendDay {
				t.Fatalf("round %d: goroutine %d of process %d: %+v", round, g, i, s)
			}
			acknowledged += h.n
			if got != least {
				more++
			}
		}
	}
	return acknowledged, more
}

// The slots of a process that was killed come back, long before its lease ends, because
// the system knows that it is dead. What it charged stays.
func TestSharedSlotsOfAKilledProcessComeBack(t *testing.T) {
	t.Parallel()
	const slots = 20
	acquire := sharedOrder{Do: "acquire", Model: "m", PromptTokens: 10}
	for _, test := range []struct {
		finds string
		come  func(t *testing.T, c *sharedChild) // back to whom
	}{
		{"who waits already", nil},
		{"who comes then", func(t *testing.T, c *sharedChild) {
			c.admitted(acquire)
		}},
		{"who is denied until then", func(t *testing.T, c *sharedChild) {
			c.until(sharedOrder{Do: "reserve", Model: "m", PromptTokens: 10}, func(a sharedAnswer) bool {
				return a.Code == ratelimit.DecisionAllowed
			})
		}},
		{"who only asks", func(t *testing.T, c *sharedChild) {
			c.until(sharedOrder{Do: "stats", Model: "m"}, func(a sharedAnswer) bool { return a.Stats.InFlight == 0 })
			c.admitted(acquire)
		}},
	} {
		t.Run(test.finds, func(t *testing.T) {
			plan := sharedPlan{
				Path: sqlitePath(t), LeaseTTL: time.Hour, Margin: time.Hour,
				Quotas: map[string]ratelimit.ModelQuota{"m": {MaxInFlight: slots}},
			}
			agents := sharedStarted(t, 3, "agent", plan)
			victim, other, third := agents[0], agents[1], agents[2]
			for range slots {
				victim.admitted(sharedOrder{Do: "reserve", Model: "m", PromptTokens: 10})
			}
			if test.come == nil {
				other.order(acquire)
				waiting(third, "m")
			}
			killed := time.Now()
			victim.kill()
			if test.come == nil {
				if a := other.answer(); a.Error != "" {
					t.Fatal(a.Error)
				}
			} else {
				test.come(t, other)
			}
			t.Logf("the slots came back %v after the kill", time.Since(killed))
			s := third.until(sharedOrder{Do: "stats", Model: "m"}, func(a sharedAnswer) bool { return a.Stats.InFlight == 1 }).Stats
			if s.TPM != 10*slots+10 || s.RPM != slots+1 || s.RPD != slots+1 {
				t.Errorf("what was charged is %+v, want %d requests of 10 tokens", s, slots+1)
			}
			other.end()
			third.end()
		})
	}
}

// A waiter that is killed does not hold up the line behind it.
func TestSharedWaiterThatIsKilledIsPassedOver(t *testing.T) {
	t.Parallel()
	acquire := sharedOrder{Do: "acquire", Model: "m", PromptTokens: 10}
	agents := sharedStarted(t, 3, "agent", sharedPlan{
		Path: sqlitePath(t), LeaseTTL: time.Hour, Margin: time.Hour,
		Quotas: map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 1}},
	})
	victim, other, third := agents[0], agents[1], agents[2]
	third.admitted(acquire)
	victim.order(acquire)
	inLine := func(n int) {
		third.until(sharedOrder{Do: "stats", Model: "m"}, func(a sharedAnswer) bool { return a.Stats.Waiting == n })
	}
	inLine(1)
	other.order(acquire)
	inLine(2)
	killed := time.Now()
	victim.kill()
	third.does(sharedOrder{Do: "commit", PromptTokens: 10})
	if a := other.answer(); a.Error != "" {
		t.Fatal(a.Error)
	}
	t.Logf("the second in line got the slot %v after the kill of the first", time.Since(killed))
	if s := third.does(sharedOrder{Do: "stats", Model: "m"}).Stats; s.RPM != 2 || s.InFlight != 1 || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
	other.end()
	third.end()
}

// waiting returns once somebody waits for a model, as a process sees it.
func waiting(c *sharedChild, model string) {
	c.t.Helper()
	c.until(sharedOrder{Do: "stats", Model: model}, func(a sharedAnswer) bool { return a.Stats.Waiting > 0 })
}

// sharedStopIdle stops a process that is not in the middle of a change: that is what the
// others tell. One that is would hold them up for a while, which is another test.
func sharedStopIdle(t *testing.T, c, other *sharedChild) {
	t.Helper()
	for {
		if err := sharedStop(c.cmd.Process); errors.Is(err, errors.ErrUnsupported) {
			t.Skip("processes cannot be stopped")
		} else if err != nil {
			t.Fatal(err)
		}
		other.order(sharedOrder{Do: "persist"})
		if a := other.answer(); a.Error == "" {
			return
		}
		sharedContinue(c.cmd.Process)
		backAtTheFile(other)
	}
}

// backAtTheFile returns once a process uses the file again.
func backAtTheFile(c *sharedChild) {
	c.t.Helper()
	for began := time.Now(); ; {
		c.order(sharedOrder{Do: "persist"})
		a := c.answer()
		if a.Error == "" {
			return
		}
		if time.Since(began) > sharedSafety {
			c.t.Fatalf("a process does not get back to the file: %s", a.Error)
		}
	}
}

// A process that is stopped keeps its slots, because its calls may be under way. The
// others go on with the rest, and do not wait for it in line for longer than its lease.
// When it goes on, it knows what they have done.
func TestSharedProcessThatIsStopped(t *testing.T) {
	t.Parallel()
	reserve := sharedOrder{Do: "reserve", Model: "m", PromptTokens: 10}
	acquire := sharedOrder{Do: "acquire", Model: "m", PromptTokens: 10}
	stats := sharedOrder{Do: "stats", Model: "m"}
	start := func(t *testing.T) (stopped, other, third *sharedChild) {
		agents := sharedStarted(t, 3, "agent", sharedPlan{
			Path: sqlitePath(t), LeaseTTL: time.Second, Margin: time.Hour, MayFail: true,
			Quotas: map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 2}},
		})
		return agents[0], agents[1], agents[2]
	}

	t.Run("holds a slot", func(t *testing.T) {
		stopped, other, third := start(t)
		stopped.admitted(reserve)
		sharedStopIdle(t, stopped, other)
		for range 5 {
			other.admitted(reserve)
			if a := third.does(reserve); a.Code != ratelimit.DecisionInFlightLimit {
				t.Fatalf("the slot of the stopped process: %q", a.Code)
			}
			other.admitted(sharedOrder{Do: "commit", PromptTokens: 20})
		}
		sharedContinue(stopped.cmd.Process)
		stopped.does(sharedOrder{Do: "commit", PromptTokens: 30})
		for _, c := range []*sharedChild{stopped, other, third} {
			s := c.until(stats, func(a sharedAnswer) bool { return a.Stats.TPM == 5*20+30 }).Stats
			if s.InFlight != 0 || s.RPM != 6 {
				t.Errorf("%+v", s)
			}
			c.end()
		}
	})

	t.Run("is first in line", func(t *testing.T) {
		stopped, other, third := start(t)
		other.admitted(reserve)
		other.admitted(reserve)
		stopped.order(acquire)
		waiting(third, "m")
		sharedStopIdle(t, stopped, other)
		other.admitted(sharedOrder{Do: "commit", PromptTokens: 10})
		began := time.Now()
		third.admitted(acquire)
		t.Logf("who came after the stopped one got a slot after %v, of a lease of 1 s", time.Since(began))
		sharedContinue(stopped.cmd.Process)
		third.admitted(sharedOrder{Do: "commit", PromptTokens: 10})
		if a := stopped.answer(); a.Error != "" {
			t.Fatal(a.Error)
		}
		for _, c := range []*sharedChild{stopped, other, third} {
			c.until(stats, func(a sharedAnswer) bool { return a.Stats.InFlight == 2 && a.Stats.RPM == 4 && a.Stats.Waiting == 0 })
		}
		for _, c := range []*sharedChild{stopped, other, third} {
			c.end()
		}
	})
}

// A process that is stopped in the middle of a change has the turn, and holds the others
// up. They decide all the same, on what they know; what they charge meanwhile is counted
// by all when it goes on, and nothing twice.
func TestSharedProcessThatIsStoppedInItsTurn(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes cannot be stopped")
	}
	t.Parallel()
	plan := sharedPlan{
		Path: sqlitePath(t), Goroutines: 4, Model: "of the stopped ", Margin: time.Hour, MayFail: true,
		Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1000}},
	}
	other := sharedStarted(t, 1, "agent", plan)[0]
	stopped := sharedStarted(t, 1, "hammer", plan)[0]
	told := make([]sharedHammered, plan.Goroutines)
	var reader sync.WaitGroup
	reader.Go(func() {
		for line, ok := stopped.line(); ok; line, ok = stopped.line() {
			var g, n int
			var what string
			if _, err := fmt.Sscan(line, &g, &n, &what); err != nil {
				// It may have lost its turn while it was stopped, and say so.
				t.Logf("the stopped process said %q", line)
				continue
			}
			told[g] = sharedHammered{n, what == "committed"}
		}
	})
	reserve := sharedOrder{Do: "reserve", Model: "m", PromptTokens: 10}
	failed := ""
	for tries := 1; failed == ""; tries++ {
		if err := sharedStop(stopped.cmd.Process); err != nil {
			t.Fatal(err)
		}
		other.order(reserve)
		failed = other.answer().Error
		if failed == "" {
			other.does(sharedOrder{Do: "cancel"})
			sharedContinue(stopped.cmd.Process)
		}
		if tries == 1000 {
			t.Skip("it never was in its turn")
		}
	}
	t.Logf("the other was told %q", failed)
	const more = 10
	for range more {
		other.order(reserve)
		if a := other.answer(); a.Code != ratelimit.DecisionAllowed {
			t.Fatalf("it was answered %q", a.Code)
		}
	}
	for _, o := range []sharedOrder{{Do: "commit", PromptTokens: 3}, {Do: "commit", PromptTokens: 30}, {Do: "cancel"}} {
		other.order(o)
		other.answer()
	}
	const requests, tokens = 1 + more - 1, 3 + 30 + 10*(1+more-3)
	sharedContinue(stopped.cmd.Process)
	backAtTheFile(other)
	stopped.cmd.Process.Kill()
	reader.Wait()
	late := sharedLimiter(t, plan)
	if s := late.Stats("m"); s.RPM != requests || s.RPD != requests || s.TPM != tokens || s.TPD != tokens {
		t.Errorf("%+v, want %d requests of %d tokens", s, requests, tokens)
	}
	for g, h := range told {
		s := late.Stats(fmt.Sprint(plan.Model, g))
		got := [2]int{s.RPM, s.TPM}
		if least, most := h.charges(); got != least && got != most {
			t.Errorf("goroutine %d was told of %+v, and %v are counted; want %v or %v", g, h, got, least, most)
		}
	}
	other.end()
}

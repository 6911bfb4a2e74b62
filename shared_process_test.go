package ratelimit_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
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

// sharedPlan is what a child process of these tests is to do. It is told as JSON.
type sharedPlan struct {
	Path       string
	Quotas     map[string]ratelimit.ModelQuota
	Durability string
	LeaseTTL   time.Duration
	Margin     time.Duration
	MayFail    bool // the file may be out of reach for a while

	Goroutines           int
	Model, Also          string
	PromptTokens, Output int
	Calls                time.Duration // how long a call takes
}

func (p *sharedPlan) config() ratelimit.Config {
	return ratelimit.Config{
		Shared: true, Providers: []ratelimit.Provider{ratelimit.ProviderLocal}, Quotas: p.Quotas,
		Durability: p.Durability, LeaseTTL: p.LeaseTTL, Margin: p.Margin,
	}
}

func sharedLimiter(t *testing.T, plan sharedPlan) *ratelimit.RateLimiter {
	t.Helper()
	return sqliteLimiterWith(t, plan.Path, plan.config())
}

// sharedSafety is how long a test waits for something that happens in no time. It is only
// there lest a test that fails hangs.
const sharedSafety = 2 * time.Minute

func init() {
	for what, does := range map[string]func(rl *ratelimit.RateLimiter, plan *sharedPlan, in *bufio.Scanner) error{
		"agent":  sharedChildObeys,
		"take":   sharedChildTakesAll,
		"slots":  sharedChildHoldsSlots,
		"meter":  sharedChildIsMetered,
		"hammer": sharedChildHammers,
		"turns":  sharedChildTakesTurns,
		"mixed":  sharedChildDoesAnything,
	} {
		sqliteChildren["shared "+what] = func(in io.Reader, args []string) error {
			var plan sharedPlan
			if err := json.Unmarshal([]byte(args[0]), &plan); err != nil {
				return err
			}
			cfg := plan.config()
			var failed atomic.Pointer[error] // the file, at least once
			cfg.OnError = func(err error) {
				if !plan.MayFail {
					failed.Store(&err)
				}
			}
			rl, err := ratelimit.NewWithSQLiteConfig(plan.Path, cfg)
			if err != nil {
				return err
			}
			fmt.Println("ready")
			err = errors.Join(does(rl, &plan, bufio.NewScanner(in)), rl.Err(), rl.Close())
			if was := failed.Load(); was != nil {
				err = errors.Join(err, fmt.Errorf("the file failed meanwhile: %w", *was))
			}
			return err
		}
	}
}

// sharedChild is another process, with a limiter on the file.
type sharedChild struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// sharedStart starts a process that says "ready" first.
func sharedStart(t *testing.T, what string, plan sharedPlan) *sharedChild {
	t.Helper()
	c := &sharedChild{t: t}
	c.cmd, c.in, c.out = sqliteChild(t, "shared "+what, jsonOf(t, plan))
	return c
}

// sharedStarted starts processes and waits until all are ready.
func sharedStarted(t *testing.T, n int, what string, plan sharedPlan) []*sharedChild {
	t.Helper()
	children := make([]*sharedChild, n)
	for i := range children {
		children[i] = sharedStart(t, what, plan)
	}
	for _, c := range children {
		c.expect("ready")
	}
	return children
}

// line returns the next line that the process prints. One that prints nothing is killed
// after a while, which ends its output.
func (c *sharedChild) line() (line string, ok bool) {
	safety := time.AfterFunc(sharedSafety, func() { c.cmd.Process.Kill() })
	defer safety.Stop()
	ok = c.out.Scan()
	return c.out.Text(), ok
}

func (c *sharedChild) expect(want string) {
	c.t.Helper()
	if line, ok := c.line(); !ok || line != want {
		c.t.Fatalf("a process said %q, want %q (%v)", line, want, c.out.Err())
	}
}

func (c *sharedChild) tell(line string) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		c.t.Fatal(err)
	}
}

// end lets the process close its limiter. Its output is over then, and the errors that it
// has seen were in it.
func (c *sharedChild) end() {
	c.t.Helper()
	c.in.Close()
	for line, ok := c.line(); ok; line, ok = c.line() {
		c.t.Errorf("a process ended with %q", line)
	}
}

// kill ends the process as kill -9 does, and returns what it had said until then.
func (c *sharedChild) kill() (said []string) {
	c.t.Helper()
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.t.Fatal(err)
	}
	for line, ok := c.line(); ok; line, ok = c.line() {
		said = append(said, line)
	}
	c.cmd.Wait()
	return said
}

// sharedOrder is what an agent is to do, and sharedAnswer what came of it.
type sharedOrder struct {
	Do, Model            string
	PromptTokens, Output int
	Quota                ratelimit.ModelQuota
	Until                time.Time
}

type sharedAnswer struct {
	Code         ratelimit.DecisionCode `json:",omitzero"`
	Error        string                 `json:",omitzero"`
	Began, Ended time.Time
	Stats        ratelimit.ModelStats `json:",omitzero"`
}

// sharedChildObeys does what it is told, one order after the other. It holds all
// reservations, and settles the oldest first.
func sharedChildObeys(rl *ratelimit.RateLimiter, _ *sharedPlan, in *bufio.Scanner) error {
	var held []*ratelimit.Reservation
	for in.Scan() {
		var o sharedOrder
		if err := json.Unmarshal(in.Bytes(), &o); err != nil {
			return err
		}
		a := sharedAnswer{Began: time.Now()}
		var err error
		switch o.Do {
		case "reserve":
			r, d := rl.Reserve(o.Model, o.PromptTokens, o.Output)
			if a.Code = d.Code; r != nil {
				held = append(held, r)
			}
		case "acquire":
			var r *ratelimit.Reservation
			if r, err = rl.Acquire(context.Background(), o.Model, o.PromptTokens, o.Output); err == nil {
				held = append(held, r)
			}
		case "commit":
			held[0].Commit(o.PromptTokens, o.Output)
			held = held[1:]
		case "cancel":
			held[0].Cancel()
			held = held[1:]
		case "decide":
			a.Code = rl.DecideRequest(ratelimit.Request{Model: o.Model, PromptTokens: o.PromptTokens, OutputTokens: o.Output}).Code
		case "stats":
			a.Stats = rl.Stats(o.Model)
		case "quota":
			rl.SetQuota(o.Model, o.Quota)
		case "reset":
			rl.Reset(o.Model)
		case "cooldown":
			rl.Cooldown(o.Model, o.Until)
		case "persist":
			err = rl.Persist()
		default:
			return fmt.Errorf("nobody knows how to do %q", o.Do)
		}
		a.Ended = time.Now()
		if err = errors.Join(err, rl.Err()); err != nil {
			a.Error = err.Error()
		}
		text, err := json.Marshal(a)
		if err != nil {
			return err
		}
		fmt.Println(string(text))
	}
	for _, r := range held {
		r.Cancel()
	}
	return nil
}

func (c *sharedChild) order(o sharedOrder) {
	c.t.Helper()
	c.tell(jsonOf(c.t, o))
}

func (c *sharedChild) answer() (a sharedAnswer) {
	c.t.Helper()
	line, ok := c.line()
	if !ok {
		c.t.Fatalf("a process said nothing more (%v)", c.out.Err())
	}
	if err := json.Unmarshal([]byte(line), &a); err != nil {
		c.t.Fatalf("%q: %v", line, err)
	}
	return a
}

// does has an agent do something that must not fail.
func (c *sharedChild) does(o sharedOrder) sharedAnswer {
	c.t.Helper()
	c.order(o)
	a := c.answer()
	if a.Error != "" {
		c.t.Fatalf("%s: %s", o.Do, a.Error)
	}
	return a
}

// admitted has an agent do something that admits a request.
func (c *sharedChild) admitted(o sharedOrder) {
	c.t.Helper()
	if a := c.does(o); a.Code != ratelimit.DecisionAllowed && a.Code != "" {
		c.t.Fatalf("%s %s: %s", o.Do, o.Model, a.Code)
	}
}

// until has an agent do something again until it has the result. It does not wait for
// time to pass: what it waits for is what another process does.
func (c *sharedChild) until(o sharedOrder, is func(sharedAnswer) bool) sharedAnswer {
	c.t.Helper()
	for began := time.Now(); ; {
		a := c.does(o)
		if is(a) {
			return a
		}
		if time.Since(began) > sharedSafety {
			c.t.Fatalf("%s %s: still %+v", o.Do, o.Model, a)
		}
		runtime.Gosched()
	}
}

// sharedSize is how many processes take part in a test, with how many goroutines each.
func sharedSize() (processes, goroutines int) {
	if sqliteLong() {
		return 8, 8
	}
	return 4, 4
}

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

// sharedChildIsMetered makes calls until its input ends, or would have to wait for long,
// and says when each was admitted, and what it took. The estimate is twice that.
func sharedChildIsMetered(rl *ratelimit.RateLimiter, plan *sharedPlan, in *bufio.Scanner) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	in.Scan() // go
	if plan.Calls == 0 {
		// Whoever could not pass within that time, not even alone, is refused at once.
		ctx, cancel = context.WithTimeout(ctx, 40*time.Second)
		defer cancel()
	}
	go func() {
		in.Scan()
		cancel()
	}()
	errs := make([]error, plan.Goroutines)
	var all sync.WaitGroup
	for g := range plan.Goroutines {
		all.Go(func() {
			for {
				takes := 1 + rand.IntN(10)
				r, _ := rl.Reserve(plan.Model, takes, takes)
				if r == nil {
					var err error
					if r, err = rl.Acquire(ctx, plan.Model, takes, takes); err != nil {
						if ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) {
							errs[g] = err
						}
						return
					}
				}
				fmt.Println(r.ReservedAt().UnixNano(), takes)
				time.Sleep(plan.Calls)
				r.Commit(takes, 0)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// sharedMeter is the oracle: it knows nothing of the library but the instants at which
// calls were admitted, and what they took.
type sharedMeter struct {
	mu    sync.Mutex
	calls []sharedCall
}

type sharedCall struct {
	at     int64
	tokens int
}

// read takes down what a process says, until it ends.
func (m *sharedMeter) read(c *sharedChild) error {
	for line, ok := c.line(); ok; line, ok = c.line() {
		var call sharedCall
		if n, _ := fmt.Sscan(line, &call.at, &call.tokens); n != 2 {
			return fmt.Errorf("a process said %q", line)
		}
		m.mu.Lock()
		m.calls = append(m.calls, call)
		m.mu.Unlock()
	}
	return c.out.Err()
}

// most returns the most requests and tokens of any minute. An entry counts up to and
// including the age of one minute.
func (m *sharedMeter) most() (requests, tokens int) {
	slices.SortFunc(m.calls, func(a, b sharedCall) int { return cmp.Compare(a.at, b.at) })
	first, sum := 0, 0
	for i, c := range m.calls {
		sum += c.tokens
		for c.at-m.calls[first].at > int64(time.Minute) {
			sum -= m.calls[first].tokens
			first++
		}
		requests, tokens = max(requests, i-first+1), max(tokens, sum)
	}
	return requests, tokens
}

// The short form of the oracle does not take a minute: most of that is in the file
// already. What it finds there leaves the window within the next seconds, and the
// processes take its place, each entry at the earliest a minute after another one.
func TestSharedProcessesKeepEveryMinuteWithinTheQuota(t *testing.T) {
	t.Parallel()
	const requests = 60
	for _, test := range []struct {
		limits   string
		quota    ratelimit.ModelQuota
		tokensOf func(i int) int
	}{
		{"requests", ratelimit.ModelQuota{MaxRPM: requests}, func(int) int { return 1 }},
		{"tokens", ratelimit.ModelQuota{MaxTPM: 900}, func(i int) int { return 15 }},
		{"both", ratelimit.ModelQuota{MaxRPM: requests, MaxTPM: 600}, func(i int) int { return 1 + i%19 }},
	} {
		t.Run(test.limits, func(t *testing.T) {
			t.Parallel()
			var meter sharedMeter
			var state bytes.Buffer
			fmt.Fprint(&state, "state:\n  m:\n    requests:\n")
			const oldest = 57 * time.Second
			start := time.Now().Add(-oldest)
			for i := range requests {
				// Some in the same instant, as they are in a burst.
				at := start.Add(time.Duration(i/2) * 50 * time.Millisecond)
				meter.calls = append(meter.calls, sharedCall{at.UnixNano(), test.tokensOf(i)})
				fmt.Fprintf(&state, "      - %s\n", at.UTC().Format(time.RFC3339Nano))
			}
			fmt.Fprint(&state, "    tokens:\n")
			for _, c := range meter.calls {
				fmt.Fprintf(&state, "      - time: %s\n        count: %d\n", time.Unix(0, c.at).UTC().Format(time.RFC3339Nano), c.tokens)
			}
			path := sqlitePath(t)
			if err := ratelimit.MigrateYAMLToSQLite(yamlWrite(t, state.String()), path); err != nil {
				t.Fatal(err)
			}
			plan := sharedPlan{Path: path, Quotas: map[string]ratelimit.ModelQuota{"m": test.quota}, Model: "m"}
			processes, goroutines := sharedSize()
			plan.Goroutines = goroutines
			children := sharedStarted(t, processes, "meter", plan)
			for _, c := range children {
				c.tell("go")
			}
			var all sync.WaitGroup
			for _, c := range children {
				all.Go(func() {
					if err := meter.read(c); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			wantWithin(t, &meter, test.quota)
			if n := len(meter.calls); test.quota.MaxTPM == 0 && n < 2*requests {
				t.Errorf("%d were admitted after the %d of the file, want %[2]d at least", n-requests, requests)
			}
		})
	}
}

func wantWithin(t *testing.T, meter *sharedMeter, quota ratelimit.ModelQuota) {
	t.Helper()
	requests, tokens := meter.most()
	t.Logf("%d calls, at most %d requests and %d tokens in a minute, of %d and %d",
		len(meter.calls), requests, tokens, quota.MaxRPM, quota.MaxTPM)
	if quota.MaxRPM > 0 && requests > quota.MaxRPM {
		t.Errorf("%d requests in a minute, want at most %d", requests, quota.MaxRPM)
	}
	if quota.MaxTPM > 0 && tokens > quota.MaxTPM {
		t.Errorf("%d tokens in a minute, want at most %d", tokens, quota.MaxTPM)
	}
}

// The long form: real minutes, in which processes are killed and replaced, and others
// stopped for a while.
func TestSharedProcessesKeepEveryMinuteWithinTheQuotaWhileTheyDie(t *testing.T) {
	if !sqliteLong() {
		t.Skip("takes minutes: set RATELIMIT_LONG")
	}
	t.Parallel()
	const lasts = 130 * time.Second
	quota := ratelimit.ModelQuota{MaxRPM: 600, MaxTPM: 9000, MaxInFlight: 16}
	plan := sharedPlan{
		Path: sqlitePath(t), Quotas: map[string]ratelimit.ModelQuota{"m": quota},
		Goroutines: 8, Model: "m", Calls: time.Second, // so that most are killed in the middle of calls
	}
	var meter sharedMeter
	var readers sync.WaitGroup
	start := func() *sharedChild {
		c := sharedStarted(t, 1, "meter", plan)[0]
		c.tell("go")
		readers.Go(func() {
			if err := meter.read(c); err != nil {
				t.Error(err)
			}
		})
		return c
	}
	children := make([]*sharedChild, 8)
	for i := range children {
		children[i] = start()
	}
	kills, stops := 0, 0
	ticks := time.NewTicker(2 * time.Second)
	defer ticks.Stop()
	for began := time.Now(); time.Since(began) < lasts; kills++ {
		<-ticks.C
		order := rand.Perm(len(children))
		if err := sharedStop(children[order[1]].cmd.Process); err == nil {
			stopped := children[order[1]].cmd.Process
			time.AfterFunc(time.Duration(rand.Int64N(int64(time.Second))), func() { sharedContinue(stopped) })
			stops++
		}
		victim := children[order[0]]
		victim.cmd.Process.Kill()
		children[order[0]] = start()
	}
	for _, c := range children {
		c.in.Close()
	}
	readers.Wait()
	wantWithin(t, &meter, quota)
	span := time.Duration(meter.calls[len(meter.calls)-1].at - meter.calls[0].at)
	full := (int(span/time.Minute) + 1) * quota.MaxRPM
	t.Logf("%d kills, %d stops in %v; %.1f %% of the %d that %d minutes admit", kills, stops, span, 100*float64(len(meter.calls))/float64(full), full, int(span/time.Minute)+1)
	if late := sharedLimiter(t, plan); late.Stats("m").InFlight != 0 {
		t.Errorf("%d are in flight, and nobody lives", late.Stats("m").InFlight)
	}
	sqliteWantSound(t, plan.Path)
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

// Whatever processes do, and when they are killed, all that are left come to the same,
// and so does one that reads the file then.
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

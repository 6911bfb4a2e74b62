//go:build !nosqlite

// Processes that share a file: how tests start them, order and ask them.

package ratelimit_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/money"
)

// sharedPlan is what a child process of these tests is to do. It is told as JSON.
type sharedPlan struct {
	Path       string
	Quotas     map[string]ratelimit.ModelQuota
	Prices     map[string]money.Price
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
		Prices:     p.Prices,
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
			cfg.OnError = ofTheStore(func(err error) {
				if !plan.MayFail {
					failed.Store(&err)
				}
			})
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
	if longRun() {
		return 8, 8
	}
	return 4, 4
}

// Child processes: this test binary, started again to be one machine of several.

package redisstore_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/redisstore"
)

const childEnv = "RATELIMIT_REDIS_CHILD"

// orders are what a child process is to do. They are told as JSON.
type orders struct {
	Addr     string
	Quota    ratelimit.ModelQuota
	LeaseTTL time.Duration
	Do       string
}

func (o orders) config() ratelimit.Config {
	return ratelimit.Config{LeaseTTL: o.LeaseTTL, Quotas: map[string]ratelimit.ModelQuota{model: o.Quota}}
}

// child is another process, with a limiter on a server.
type child struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// startChild starts a process and waits until its limiter is there.
func startChild(t testing.TB, o orders) *child {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: exec.Command(os.Args[0], "-test.run=^TestChild$")}
	c.cmd.Env = append(os.Environ(), childEnv+"="+string(text), "GORACE=atexit_sleep_ms=0")
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	c.expect("ready")
	return c
}

// line returns the next line that the process prints; false at the end of its output, which comes
// after a while at the latest.
func (c *child) line() (string, bool) {
	safety := time.AfterFunc(20*time.Second, func() { c.cmd.Process.Kill() })
	defer safety.Stop()
	ok := c.out.Scan()
	return c.out.Text(), ok
}

func (c *child) expect(want string) {
	c.t.Helper()
	if got, ok := c.line(); !ok || got != want {
		c.t.Fatalf("a process said %q, want %q", got, want)
	}
}

func (c *child) tell(line string) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		c.t.Fatal(err)
	}
}

// kill ends the process as kill -9 does, and returns when it is gone.
func (c *child) kill() {
	c.cmd.Process.Kill()
	c.cmd.Wait()
}

// TestChild is no test: it is what the child processes do.
func TestChild(t *testing.T) {
	text := os.Getenv(childEnv)
	if text == "" {
		t.Skip("only in child processes")
	}
	if err := obey(text); err != nil {
		fmt.Println("error:", err)
	}
	os.Exit(0)
}

func obey(text string) error {
	var o orders
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	client := redis.NewClient(&redis.Options{Addr: o.Addr, ContextTimeoutEnabled: true})
	defer client.Close()
	store, err := redisstore.New(context.Background(), client, redisstore.Options{Prefix: prefix, Timeout: 5 * patience})
	if err != nil {
		return err
	}
	cfg := o.config()
	cfg.Store = store
	rl, err := ratelimit.NewWithConfig(cfg)
	if err != nil {
		return err
	}
	defer rl.Close()
	fmt.Println("ready")
	return childDoes[o.Do](rl, bufio.NewScanner(os.Stdin))
}

// childDoes is what a child can do.
var childDoes = map[string]func(*ratelimit.RateLimiter, *bufio.Scanner) error{
	"hold":   childHolds,
	"hammer": childHammers,
}

// childHolds makes and settles reservations as it is told, and holds all others.
func childHolds(rl *ratelimit.RateLimiter, in *bufio.Scanner) error {
	var held []*ratelimit.Reservation
	for in.Scan() {
		switch what, _, _ := strings.Cut(in.Text(), " "); what {
		case "reserve":
			r, d := rl.Reserve(model, 1, 0)
			if r != nil {
				held = append(held, r)
			}
			fmt.Println(d.Code)
		case "acquire":
			go rl.Acquire(context.Background(), model, 1, 0)
			for rl.Stats(model).Waiting == 0 {
				time.Sleep(time.Millisecond)
			}
			fmt.Println("waits")
		case "commit":
			held[0].Commit(1, 0)
			held = held[1:]
			fmt.Println("committed")
		default:
			return fmt.Errorf("nobody knows how to do %q", what)
		}
	}
	return nil
}

// childHammers reserves and commits until it is killed, and says before and after each what it is
// about. The n-th reservation takes n tokens, and its commit makes them 2n.
func childHammers(rl *ratelimit.RateLimiter, _ *bufio.Scanner) error {
	for n := 1; ; n++ {
		r, d := rl.Reserve(model, n, 0)
		if err := rl.Err(); r == nil || err != nil {
			return fmt.Errorf("reservation %d: %s, %w", n, d.Code, err)
		}
		fmt.Println("reserved", n)
		r.Commit(2*n, 0)
		if err := rl.Err(); err != nil {
			return err
		}
		fmt.Println("committed", n)
	}
}

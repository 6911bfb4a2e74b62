package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/redisstore"
)

// childOf is the environment variable that makes a test binary a process of a crowd: the address
// of the server.
const childOf = "REDISSTORE_BENCH_SERVER"

// A work is what a process of a crowd does, and what came of it.
type work struct {
	Goroutines int
	Holds      bool // one call, while the others work
	For        time.Duration
	Pause      time.Duration // after each pair
	Pairs      int           // of Reserve and Commit
	P99        time.Duration // of Reserve
	CPU        time.Duration // of the process,
	Memory     int64         // and its memory at the end, in bytes; 0 where that is not told
}

func TestMain(m *testing.M) {
	if address := os.Getenv(childOf); address != "" {
		if err := child(address, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child opens a limiter, says so, works when it is told to, and tells what came of it.
func child(address string, in io.Reader, out io.Writer) error {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: address, ContextTimeoutEnabled: true})
	defer client.Close()
	store, err := redisstore.New(ctx, client, redisstore.Options{Prefix: "crowd"})
	if err != nil {
		return err
	}
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{Store: store, Quotas: quotas})
	if err != nil {
		return err
	}
	defer rl.Close()
	fmt.Fprintln(out, "ready")
	var w work
	if err := json.NewDecoder(in).Decode(&w); err != nil {
		return err
	}
	w.do(rl)
	if err := rl.Err(); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(w)
}

// do calls Reserve and Commit on many goroutines.
func (w *work) do(rl *ratelimit.RateLimiter) {
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	if w.Holds {
		r, _ := rl.Reserve("m", 100, 10)
		defer r.Cancel()
	}
	end, used := time.Now().Add(w.For), cpuTime()
	for range w.Goroutines {
		all.Go(func() {
			var own []time.Duration
			for time.Now().Before(end) {
				began := time.Now()
				r, _ := rl.Reserve("m", 100, 10)
				own = append(own, time.Since(began))
				r.Commit(90, 5)
				time.Sleep(w.Pause)
			}
			mu.Lock()
			took = append(took, own...)
			mu.Unlock()
		})
	}
	all.Wait()
	time.Sleep(time.Until(end))
	w.CPU, w.Memory = cpuTime()-used, residentBytes()
	slices.Sort(took)
	w.Pairs = len(took)
	if w.Pairs > 0 {
		w.P99 = took[(w.Pairs-1)*99/100]
	}
}

// cpuTime returns the processor time that this process has used.
func cpuTime() time.Duration {
	var is syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &is)
	return time.Duration(is.Utime.Nano() + is.Stime.Nano())
}

// residentBytes returns the memory of this process, or 0 where that is not told.
func residentBytes() int64 {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if rest, is := strings.CutPrefix(line, "VmRSS:"); is {
			n, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return n << 10
		}
	}
	return 0
}

// BenchmarkCrowd is processes that call Reserve and Commit as fast as they can, beside calls of an
// empty script over one connection, one after the other.
func BenchmarkCrowd(b *testing.B) {
	for _, processes := range []int{1, 4, 10} {
		b.Run(fmt.Sprintf("%dx%d", processes, 1000/processes), func(b *testing.B) {
			address := startServer(b)
			var pairs, bare, slowest float64
			var p99, used time.Duration
			rounds := 0
			for b.Loop() {
				const slice = time.Second
				bare += bareRate(b, address, slice/2)
				all := crowd(b, address, processes, work{Goroutines: 1000 / processes, For: slice})
				together, least := 0, all[0].Pairs
				for _, w := range all {
					together, least = together+w.Pairs, min(least, w.Pairs)
					p99, used = max(p99, w.P99), used+w.CPU
				}
				pairs += float64(together) / slice.Seconds()
				slowest += float64(least) * float64(processes) / float64(together)
				rounds++
			}
			b.ReportMetric(pairs/float64(rounds), "pairs/s")
			b.ReportMetric(pairs/bare, "x-bare")
			b.ReportMetric(float64(used)/pairs/1e3, "cpu-us/pair")
			b.ReportMetric(slowest/float64(rounds), "slowest-x-mean")
			b.ReportMetric(float64(p99)/1e6, "p99-ms")
		})
	}
}

// bareRate returns how many calls of an empty script one connection makes in a second.
func bareRate(b *testing.B, address string, during time.Duration) float64 {
	client, ctx, empty := newClient(b, address), b.Context(), redis.NewScript("return 1")
	if err := empty.Run(ctx, client, nil).Err(); err != nil {
		b.Fatal(err)
	}
	n, began := 0, time.Now()
	for ; time.Since(began) < during; n++ {
		client.EvalSha(ctx, empty.Hash(), nil)
	}
	return float64(n) / time.Since(began).Seconds()
}

// crowd has processes work at the same time.
func crowd(b testing.TB, address string, processes int, w work) []work {
	b.Helper()
	task, err := json.Marshal(w)
	if err != nil {
		b.Fatal(err)
	}
	all := make([]work, processes)
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	ready.Add(processes)
	for i := range all {
		done.Go(func() {
			err := oneOf(b.Context(), address, ready.Done, begin, task, &all[i])
			if err != nil {
				b.Errorf("process %d: %v", i, err)
			}
		})
	}
	ready.Wait()
	close(begin)
	done.Wait()
	return all
}

// oneOf runs a process of a crowd.
func oneOf(ctx context.Context, address string, ready func(), begin <-chan struct{}, task []byte, w *work) error {
	ready = sync.OnceFunc(ready)
	defer ready()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childOf+"="+address)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer cmd.Wait()
	lines := bufio.NewReader(out)
	if _, err := lines.ReadString('\n'); err != nil {
		return err
	}
	ready()
	<-begin
	if _, err := in.Write(task); err != nil {
		return err
	}
	return json.NewDecoder(lines).Decode(w)
}

// BenchmarkOpenLoop is 1,000 calls a second over ten limiters, whether those before have returned
// or not.
func BenchmarkOpenLoop(b *testing.B) {
	address := startServer(b)
	var limiters []*ratelimit.RateLimiter
	for range 10 {
		limiters = append(limiters, newLimiter(b, address, "open"))
	}
	var mu sync.Mutex
	var took []time.Duration
	var all sync.WaitGroup
	for b.Loop() {
		next := time.Now()
		for i := range 1000 {
			next = next.Add(time.Millisecond)
			time.Sleep(time.Until(next))
			all.Go(func() {
				began := time.Now()
				r, _ := limiters[i%len(limiters)].Reserve("m", 100, 10)
				passed := time.Since(began)
				r.Commit(90, 5)
				mu.Lock()
				took = append(took, passed)
				mu.Unlock()
			})
		}
		all.Wait()
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2])/1e6, "p50-ms")
	b.ReportMetric(float64(took[(len(took)-1)*99/100])/1e6, "p99-ms")
	b.ReportMetric(float64(took[len(took)-1])/1e6, "longest-ms")
}

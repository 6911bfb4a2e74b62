package bench

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit"
)

// traffic is what a server has received and sent so far, in bytes, how many entries were added to
// logs, its processor time in seconds, and how many clients it has.
type traffic struct{ received, sent, entries, cpu, clients float64 }

func trafficOf(b testing.TB, client *redis.Client) (is traffic) {
	b.Helper()
	info, err := client.Info(context.Background(), "everything").Result()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		n, _ := strconv.ParseFloat(value, 64)
		switch name {
		case "total_net_input_bytes":
			is.received = n
		case "total_net_output_bytes":
			is.sent = n
		case "cmdstat_xadd":
			calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			is.entries, _ = strconv.ParseFloat(calls, 64)
		case "used_cpu_sys", "used_cpu_user":
			is.cpu += n
		case "connected_clients":
			is.clients = n
		}
	}
	return is
}

func (is traffic) since(was traffic) traffic {
	return traffic{is.received - was.received, is.sent - was.sent, is.entries - was.entries, is.cpu - was.cpu, is.clients}
}

// heap returns the bytes that the program keeps.
func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// BenchmarkHundredLimiters is 100 limiters of one prefix: the bytes that the server receives and
// sends for an admission, a Reserve and its Commit, each of which all limiters hear of; what it
// costs to be idle; and the memory of a limiter, of which its client and its connections are a
// part.
func BenchmarkHundredLimiters(b *testing.B) {
	for _, active := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("%d admit", active), func(b *testing.B) { benchHundred(b, active) })
	}
}

// benchHundred has some of the limiters admit at the same time.
func benchHundred(b *testing.B, active int) {
	const limiters, admissions = 100, 1000
	address := startServer(b)
	client := newClient(b, address)
	before := heap()
	var all []*ratelimit.RateLimiter
	for range limiters {
		all = append(all, newPatientLimiter(b, address, "hundred", 10*time.Second))
	}
	empty := heap() - before

	const idle = 5 * time.Second
	time.Sleep(2 * time.Second)
	quiet := trafficOf(b, client)
	time.Sleep(idle)
	quiet = trafficOf(b, client).since(quiet)

	for b.Loop() {
		from, began := trafficOf(b, client), time.Now()
		var group sync.WaitGroup
		for _, rl := range all[:active] {
			group.Go(func() {
				for range admissions / active {
					r, d := rl.Reserve("m", 100, 10)
					if r == nil {
						b.Error(d)
						return
					}
					r.Commit(90, 5)
				}
			})
		}
		group.Wait()
		took := time.Since(began)
		for i, rl := range all { // until each has heard of everything
			for end := time.Now().Add(time.Minute); rl.Stats("m").InFlight > 0; {
				if time.Now().After(end) {
					b.Fatalf("limiter %d counts %+v", i, rl.Stats("m"))
				}
			}
		}
		busy := trafficOf(b, client).since(from)
		b.ReportMetric(busy.received/admissions, "received-B/admission")
		b.ReportMetric(busy.sent/admissions, "sent-B/admission")
		b.ReportMetric(admissions/took.Seconds(), "admissions/s")
		b.ReportMetric((heap()-before-empty)/limiters/admissions, "limiter-B/charge")
		all[0].Reset("")
	}
	b.ReportMetric(empty/limiters, "limiter-B")
	b.ReportMetric(quiet.received/limiters/idle.Seconds(), "idle-received-B/s")
	b.ReportMetric(quiet.sent/limiters/idle.Seconds(), "idle-sent-B/s")
	if n := errors.Load(); n > 0 {
		b.Errorf("%d errors", n)
	}
	runtime.KeepAlive(all)
}

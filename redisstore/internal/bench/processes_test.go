package bench

import (
	"runtime"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// TestProcesses tells what each of 50 processes costs that share a quota, and what each of many
// limiters of one process costs that have a call open, of which all hear that they live. It takes
// minutes: RATELIMIT_LONG=1 asks for it.
func TestProcesses(t *testing.T) {
	needLong(t)
	const span = 20 * time.Second
	for _, tt := range []struct {
		name string
		work work
	}{
		{"idle", work{For: span}},
		{"with a call open", work{Holds: true, For: span}},
		{"with two calls a second", work{Goroutines: 1, Pause: 500 * time.Millisecond, For: span}},
	} {
		address := startServer(t)
		client := newClient(t, address)
		const n = 50
		var by traffic
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			time.Sleep(span / 2) // they have started by then
			was := trafficOf(t, client)
			time.Sleep(span / 4)
			by = trafficOf(t, client).since(was)
		}()
		var cpu time.Duration
		var memory int64
		for _, w := range crowd(t, address, n, tt.work) {
			cpu, memory = cpu+w.CPU, memory+w.Memory
		}
		<-watched
		t.Logf("50 processes, %s: each %v of CPU a second, %d MiB", tt.name, (cpu / n / time.Duration(span.Seconds())).Round(time.Microsecond), memory/n>>20)
		by.tell(t, n, span/4)
	}
	for _, tt := range []struct {
		n     int
		lease time.Duration // a process with a call open says three times in it that it lives
	}{{100, 10 * time.Second}, {1000, 5 * time.Minute}} {
		address := startServer(t)
		client := newClient(t, address)
		var all []*ratelimit.RateLimiter
		var held []*ratelimit.Reservation
		for range tt.n {
			rl := newLeasingLimiter(t, address, "open", 10*time.Second, tt.lease)
			r, _ := rl.Reserve("m", 100, 10)
			all, held = append(all, rl), append(held, r)
		}
		time.Sleep(span / 4)
		was, used := trafficOf(t, client), cpuTime()
		time.Sleep(span)
		by, cpu := trafficOf(t, client).since(was), cpuTime()-used
		each := cpu / time.Duration(tt.n) / time.Duration(span.Seconds())
		t.Logf("%d limiters with a call open, LeaseTTL %v: each %v of CPU a second", tt.n, tt.lease, each.Round(time.Microsecond))
		by.tell(t, tt.n, span)
		for _, r := range held {
			r.Cancel()
		}
		runtime.KeepAlive(all)
	}
}

// tell logs the traffic of n limiters in a span of time.
func (is traffic) tell(t *testing.T, n int, span time.Duration) {
	each := float64(n) * span.Seconds()
	t.Logf("the server: %.0f entries a second; for each %.2f connections, and a second %.0f B received, %.0f B sent, %.0f µs of CPU",
		is.entries/span.Seconds(), is.clients/float64(n), is.received/each, is.sent/each, is.cpu*1e6/each)
}

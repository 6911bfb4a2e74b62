// Package bench measures redisstore against a redis-server on loopback, beside a bare script and
// beside peers, which users of redisstore need not download.
package bench

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/redisstore"
)

// needLong skips a test that takes minutes, unless RATELIMIT_LONG=1 asks for it.
func needLong(t *testing.T) {
	t.Helper()
	if os.Getenv("RATELIMIT_LONG") == "" {
		t.Skip("RATELIMIT_LONG is not set")
	}
}

// startServer starts a redis-server for the benchmark, and returns its address.
func startServer(b testing.TB) (address string) {
	b.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		b.Skip("there is no redis-server in PATH")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	address = l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(address)
	server := exec.Command(program, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", b.TempDir())
	server.Stdout, server.Stderr = io.Discard, io.Discard
	if err := server.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		server.Process.Kill()
		server.Wait()
	})
	client := newClient(b, address)
	for end := time.Now().Add(10 * time.Second); client.Ping(context.Background()).Err() != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			b.Fatal("redis-server does not answer")
		}
	}
	return address
}

func newClient(b testing.TB, address string) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: address, ContextTimeoutEnabled: true})
	b.Cleanup(func() { client.Close() })
	return client
}

// newLimiter returns a limiter over a server, with a quota for "m" that never binds.
func newLimiter(b testing.TB, address, prefix string) *ratelimit.RateLimiter {
	b.Helper()
	return newPatientLimiter(b, address, prefix, 0)
}

// newPatientLimiter is newLimiter with an Options.Timeout.
func newPatientLimiter(b testing.TB, address, prefix string, timeout time.Duration) *ratelimit.RateLimiter {
	b.Helper()
	return newLeasingLimiter(b, address, prefix, timeout, 0)
}

// newLeasingLimiter is newPatientLimiter with a Config.LeaseTTL.
func newLeasingLimiter(b testing.TB, address, prefix string, timeout, lease time.Duration) *ratelimit.RateLimiter {
	b.Helper()
	store, err := redisstore.New(b.Context(), newClient(b, address), redisstore.Options{Prefix: prefix, Timeout: timeout})
	if err != nil {
		b.Fatal(err)
	}
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		Store: store, Quotas: quotas, LeaseTTL: lease, OnError: func(err error) { errors.Add(1); b.Log(err) },
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { rl.Close() })
	return rl
}

var errors atomic.Int64

var quotas = map[string]ratelimit.ModelQuota{"m": {MaxRPM: 1 << 30, MaxTPM: 1 << 40, MaxInFlight: 1 << 20}}

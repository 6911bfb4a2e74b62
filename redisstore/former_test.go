// A program of the commit before, and this version, at one store.

package redisstore_test

import (
	"os"
	"strings"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/formertest"
	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

// This version takes the log over, with what the program of before did there. That program fails
// with its next step, in words, and does not open the store again, also not after a reset.
func TestFormerProgram(t *testing.T) {
	t.Parallel()
	for name, commit := range map[string]string{"found": formertest.BeforeFound, "pools": formertest.BeforePools} {
		t.Run("before "+name, func(t *testing.T) { testFormerProgram(t, commit) })
	}
}

func testFormerProgram(t *testing.T, commit string) {
	t.Parallel()
	source, err := os.ReadFile("testdata/former/main.go")
	if err != nil {
		t.Fatal(err)
	}
	program := formertest.Build(t, commit, "redisstore", string(source))
	server := redistest.Start(t)
	former, said := formertest.Start(t, program, server.Addr(), prefix)
	if said.Error != "" {
		t.Fatal(said)
	}
	for range 3 {
		if said := former.Do("reserve"); !said.Allowed || said.Error != "" {
			t.Fatalf("reserve: %+v", said)
		}
	}
	adaptive := ratelimit.ModelQuota{MaxTPM: 1000, AdaptiveFloorRPM: 5, AdaptiveCeilingInFlight: 6}
	m := machine{addr: server.Addr(), limiter: ratelimit.Config{Quotas: map[string]ratelimit.ModelQuota{model: adaptive}}}
	one := m.start(t)
	if s := one.Stats(model); s.TPM != 30 || s.RPM != 3 || s.InFlight != 3 {
		t.Errorf("what the program of before did is %+v", s)
	}
	const words = "the store is of a later version of go-ratelimit, update this program"
	former.Do("reserve")
	for began := time.Now(); !strings.Contains(former.Do("state").Error, words); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("the program of before goes on: %+v", former.Do("reserve"))
		}
	}
	if said := former.Do("reserve"); !strings.Contains(said.Error, words) {
		t.Errorf("another step: %+v", said)
	}
	two := m.start(t)
	one.Reset("")
	one.RecordUsage(model, 7, 0)
	redistest.Eventually(t, "another limiter of this version counts alike", func() bool { return two.Stats(model).TPM == 7 })
	if _, said := formertest.Start(t, program, server.Addr(), prefix); !strings.Contains(said.Error, words) {
		t.Errorf("opened again: %+v", said)
	}
	if _, q, _ := two.QuotaFor(model); q != adaptive {
		t.Errorf("the quota is %+v", q)
	}
	for i, rl := range []*ratelimit.RateLimiter{one, two, m.start(t)} {
		if s := rl.Stats(model); s.TPM != 7 || rl.Err() != nil {
			t.Errorf("limiter %d: %+v, %v", i, s, rl.Err())
		}
	}
}

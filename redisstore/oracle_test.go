package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/internal/test/sharedoracle"
	"dappco.re/go/core/go-ratelimit/redisstore/internal/redistest"
)

// seeds returns how many sessions or crowds a test has.
func seeds(short int) int {
	if os.Getenv("RATELIMIT_LONG") != "" {
		return 100 * short
	}
	return max(short/racetest.Factor, 1)
}

// Several limiters of one prefix take random turns. Each of them then says what one limiter alone
// says after all of it.
func TestIsOneLimiter(t *testing.T) {
	t.Parallel()
	oracle(t, 2, oracleSetup, func(*sharedoracle.Session, *redis.Client) {})
}

// The same with calls that wait, some of them for hours, for several models, with limits that
// spread calls, and with what the limiters learn of their provider's reports.
func TestIsOneLimiterWide(t *testing.T) {
	t.Parallel()
	wide := func(seed int, client redis.UniversalClient) sharedoracle.Setup {
		setup := oracleSetup(seed, client)
		setup.Wide, setup.Near = true, 100*time.Millisecond // in which limiters hear of each other
		return setup
	}
	oracle(t, 1, wide, func(*sharedoracle.Session, *redis.Client) {})
}

// The same where a third of the writes meet what another limiter has just written.
func TestIsOneLimiterWhateverConflicts(t *testing.T) {
	t.Parallel()
	oracle(t, 2, oracleSetup, func(s *sharedoracle.Session, client *redis.Client) {
		client.AddHook(&between{session: s, random: rand.New(rand.NewPCG(s.Random.Uint64(), 7))})
	})
}

// oracle runs sessions in a bubble, over a server in this process.
func oracle(t *testing.T, short int, setupOf func(int, redis.UniversalClient) sharedoracle.Setup, disturb func(*sharedoracle.Session, *redis.Client)) {
	for seed := range seeds(short) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				// Shortly before midnight in one of the zones. While limiters wait they ask the
				// server now and then, so the pauses are not long.
				time.Sleep([]time.Duration{7*time.Hour + 50*time.Minute, 22*time.Hour + 50*time.Minute}[seed%2])
				_, client := testServer(t)
				setup := setupOf(seed, client)
				steps := 300
				if setup.Grain = time.Microsecond; setup.Wide { // as the server's clock
					setup.Grain, steps = 701*time.Millisecond, 150
				}
				setup.Sleep = func(d time.Duration) { time.Sleep(d % (20 * time.Minute)) }
				s := sharedoracle.New(t, setup)
				disturb(s, client)
				s.Run(steps)
			})
		})
	}
}

// Crowds of goroutines use limiters on a real server. No more is admitted than the quotas permit,
// and all limiters know all that was charged.
func TestCrowd(t *testing.T) {
	t.Parallel()
	crowd := sharedoracle.Crowd{Limiters: 4, Goroutines: 20, Calls: 20, Unit: 50 * time.Millisecond}
	crowds(t, crowd, (*sharedoracle.Crowd).Run)
}

// Nobody is denied while there is room.
func TestRush(t *testing.T) {
	t.Parallel()
	crowds(t, sharedoracle.Crowd{Limiters: 4, Goroutines: 20, Calls: 20}, (*sharedoracle.Crowd).Rush)
}

func crowds(t *testing.T, crowd sharedoracle.Crowd, run func(*sharedoracle.Crowd, *testing.T)) {
	address := redistest.Start(t).Addr()
	for seed := range seeds(1) {
		client := redis.NewClient(&redis.Options{Addr: address, ContextTimeoutEnabled: true})
		t.Cleanup(func() { client.Close() })
		crowd.Setup = oracleSetup(seed, client)
		crowd.Near = time.Second // how far apart a call and its charge may be on a busy machine
		run(&crowd, t)
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// oracleSetup has limiters share a prefix, each by a Store of its own, as on machines of their own.
func oracleSetup(seed int, client redis.UniversalClient) sharedoracle.Setup {
	const maxStale = 10 * time.Millisecond
	return sharedoracle.Setup{
		Seed: uint64(seed), Shares: true,
		Open: func(t *testing.T, _ int, cfg ratelimit.Config) *ratelimit.RateLimiter {
			t.Helper()
			store, err := New(t.Context(), client, Options{Prefix: "oracle", MaxStale: maxStale, Timeout: 30 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			cfg.Store, cfg.FreshStart = store, true // crowds begin with an emptied server
			rl, err := ratelimit.NewWithConfig(cfg)
			if err != nil {
				t.Fatal(err)
			}
			return rl
		},
		CatchUp: func(*testing.T, *ratelimit.RateLimiter) { time.Sleep(maxStale) },
	}
}

// between is a hook of a client that makes another limiter's step before some of the writes.
type between struct {
	session *sharedoracle.Session
	random  *rand.Rand
	within  bool
}

func (b *between) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (b *between) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// inTurn reports whether the arguments of a write are those of a process in its turn, in which
// others would have to wait for it.
func inTurn(args []any) bool {
	return slices.ContainsFunc(args, func(arg any) bool {
		text, _ := arg.(string)
		return strings.HasPrefix(text, modeQueue+" ")
	})
}

func (b *between) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		args := cmd.Args()
		writes := args[0] == "evalsha" && args[1] == appendScript.Hash() && !inTurn(args)
		if writes && !b.session.Calm() && !b.within && b.random.IntN(3) == 0 {
			b.within = true
			b.session.Between()
			b.within = false
		}
		return next(ctx, cmd)
	}
}

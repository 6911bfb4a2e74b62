// Pools: a pool of one model limits it as a quota of its own does, whatever the quota has in it.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/persist"
)

// poolTwins are two limiters for which all is done twice: the first has a quota for model "m", the
// second has it for a pool of which "m" is the only model.
type poolTwins struct {
	*testing.T
	random *rand.Rand
	quota  ratelimit.ModelQuota
	rl     [2]*ratelimit.RateLimiter
	open   [][2]*ratelimit.Reservation
	mu     sync.Mutex
	ends   [2]map[int]string // how each wait ended, and when
	waits  int
	log    []string
}

func newPoolTwins(t *testing.T, seed uint64) *poolTwins {
	s := &poolTwins{T: t, random: rand.New(rand.NewPCG(seed, 47)), ends: [2]map[int]string{make(map[int]string), make(map[int]string)}}
	s.quota = s.drawQuota()
	cfg := ratelimit.Config{Margin: time.Duration(s.random.IntN(2)) * 100 * time.Millisecond, MaxQueue: s.random.IntN(2) * 3}
	own, pooled := cfg, cfg
	own.Quotas = map[string]ratelimit.ModelQuota{"m": s.quota}
	pooled.Quotas = map[string]ratelimit.ModelQuota{"m": {}}
	pooled.Pools = map[string]ratelimit.Pool{"p": {Models: []string{"m"}, Quota: s.quota}}
	s.rl = [2]*ratelimit.RateLimiter{newLimiterWith(t, own), newLimiterWith(t, pooled)}
	return s
}

// drawQuota draws a quota with any field but those of limits that are found: a refusal counts for
// the model that was refused.
func (s *poolTwins) drawQuota() ratelimit.ModelQuota {
	pick := func(of ...int) int { return of[s.random.IntN(len(of))] }
	q := ratelimit.ModelQuota{
		MaxRPM: pick(0, 6, 12, 60), MaxTPM: pick(0, 0, 300, 600), MaxRPD: pick(0, 0, 50), MaxITPM: pick(0, 0, 240), MaxOTPM: pick(0, 0, 300),
		MaxTPD: pick(0, 0, 3000), MaxInFlight: pick(0, 0, 2, 5), Burst: time.Duration(pick(0, 1, 10, 30)) * time.Second,
		DayZone: []string{"", "Europe/Berlin"}[s.random.IntN(2)],
	}
	return q
}

func (s *poolTwins) note(format string, args ...any) {
	s.log = append(s.log, time.Now().Format("2006-01-02 15:04:05.999999999 ")+fmt.Sprintf(format, args...))
}

func (s *poolTwins) fail(format string, args ...any) {
	s.Helper()
	s.Logf("%+v", s.quota)
	for _, line := range s.log[max(0, len(s.log)-40):] {
		s.Log(line)
	}
	s.Fatalf(format, args...)
}

// same compares decisions on the model: the one of its quota, and that of its pool.
func (s *poolTwins) same(own, pooled ratelimit.Decision) {
	s.Helper()
	// Of several that deny, one that waits for a call in flight says no time, as in ReserveAll.
	slots := own.Code == ratelimit.DecisionCooldown && pooled.RetryAfter == 0
	if own.Allowed != pooled.Allowed || own.RetryAfter != pooled.RetryAfter && !slots || own.Never != pooled.Never ||
		!own.Allowed && own.Code != pooled.Code || own.Cause != pooled.Cause {
		s.fail("a quota says\n%+v, a pool\n%+v", own, pooled)
	}
	if denies := !own.Allowed && own.Code != ratelimit.DecisionCooldown && own.Code != ratelimit.DecisionInvalidTokens; denies && pooled.Pool != "p" &&
		own.Code != ratelimit.DecisionQueued {
		s.fail("the pool denies, and it says %q: %+v", pooled.Pool, pooled)
	}
}

// part reports whether a waiter of the pool was refused before that of the quota, because it would
// come too late: it is looked at more often. From then on the two may differ.
func (s *poolTwins) part() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, end := range s.ends[1] {
		if of := s.ends[0][n]; of != end && strings.HasPrefix(end, context.DeadlineExceeded.Error()) &&
			(of == "" || strings.HasPrefix(of, context.DeadlineExceeded.Error()) && of > end) {
			return true
		}
	}
	return false
}

func (s *poolTwins) compare() {
	own, pooled := s.rl[0].Stats("m"), s.rl[1].PoolStats("p")
	if !own.CooldownUntil.IsZero() {
		own.CooldownUntil = pooled.CooldownUntil // the model's, as before
	}
	if own.RPD == 0 && own.TPD == 0 {
		own.DayStart = pooled.DayStart
	}
	if own != pooled {
		s.fail("a quota has\n%+v, a pool\n%+v", own, pooled)
	}
	req := ratelimit.Request{Model: "m", PromptTokens: s.random.IntN(60), OutputTokens: s.random.IntN(60)}
	s.same(s.rl[0].DecideRequest(req), s.rl[1].DecideRequest(req))
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, end := range s.ends[0] {
		if s.ends[1][n] != end {
			s.fail("wait %d ended with %q for a quota, with %q for a pool", n, end, s.ends[1][n])
		}
	}
	if len(s.ends[0]) != len(s.ends[1]) {
		s.fail("%d waits have ended for a quota, %d for a pool", len(s.ends[0]), len(s.ends[1]))
	}
}

// acquire waits with both.
func (s *poolTwins) acquire(input, output int) {
	n := s.waits
	s.waits++
	ctx, cancel := s.Context(), func() {}
	if s.random.IntN(2) == 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(s.random.Int64N(int64(90*time.Second))))
	}
	s.note("acquire %d: %d, %d", n, input, output)
	var rs [2]*ratelimit.Reservation
	var both sync.WaitGroup
	for i, rl := range s.rl {
		both.Go(func() {
			r, err := rl.Acquire(ctx, "m", input, output)
			end := "served at "
			for _, as := range []error{context.DeadlineExceeded, ratelimit.ErrNeverFits, ratelimit.ErrQueueFull} {
				if errors.Is(err, as) {
					end = as.Error() + " at "
				}
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			rs[i], s.ends[i][n] = r, end+time.Now().String()
		})
	}
	go func() {
		both.Wait()
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		if rs[0] != nil && rs[1] != nil {
			s.open = append(s.open, rs)
		}
	}()
	synctest.Wait()
}

// settle ends an open call, which stays among those that are open if it only arrived.
func (s *poolTwins) settle() {
	s.mu.Lock()
	if len(s.open) == 0 {
		s.mu.Unlock()
		return
	}
	slices.SortStableFunc(s.open, func(a, b [2]*ratelimit.Reservation) int { return a[0].ReservedAt().Compare(b[0].ReservedAt()) })
	at := s.random.IntN(len(s.open))
	pair, how := s.open[at], s.random.IntN(4)
	if how < 3 {
		s.open = slices.Delete(s.open, at, at+1)
	}
	s.mu.Unlock()
	input, output, arrived := s.random.IntN(90), s.random.IntN(90), time.Now().Add(-time.Duration(s.random.Int64N(int64(5*time.Second))))
	s.note("settle %d that of %v: %d, %d", how, pair[0].ReservedAt(), input, output)
	for _, r := range pair {
		switch how {
		case 0:
			r.Cancel()
		case 3:
			r.Arrived(arrived)
		default:
			r.Commit(input, output)
		}
	}
	synctest.Wait()
}

func (s *poolTwins) step() {
	input, output := s.random.IntN(60), s.random.IntN(60)
	switch n := s.random.IntN(40); {
	case n < 10:
		s.note("reserve %d, %d", input, output)
		r0, own := s.rl[0].Reserve("m", input, output)
		r1, pooled := s.rl[1].Reserve("m", input, output)
		if s.same(own, pooled); r0 != nil {
			s.mu.Lock()
			s.open = append(s.open, [2]*ratelimit.Reservation{r0, r1})
			s.mu.Unlock()
		}
	case n < 14:
		s.acquire(input, output)
	case n < 23:
		s.settle()
	case n < 26:
		s.note("record %d, %d", input, output)
		for _, rl := range s.rl {
			rl.RecordUsage("m", input, output)
		}
	case n < 27:
		until := time.Now().Add(time.Duration(s.random.Int64N(int64(time.Minute))))
		s.note("cooldown until %v", until)
		for _, rl := range s.rl {
			rl.Cooldown("m", until)
		}
	case n < 28:
		s.quota = s.drawQuota()
		s.note("quota %+v", s.quota)
		s.rl[0].SetQuota("m", s.quota)
		s.rl[1].SetPool("p", ratelimit.Pool{Models: []string{"m"}, Quota: s.quota})
	case n < 29 && s.random.IntN(4) == 0:
		s.note("reset")
		for _, rl := range s.rl {
			rl.Reset("")
		}
	default:
		d := time.Duration(s.random.Int64N(int64(20 * time.Second)))
		if s.random.IntN(10) == 0 {
			d = time.Duration(s.random.Int64N(int64(20 * time.Hour)))
		}
		s.note("sleep %v", d)
		time.Sleep(d)
	}
	synctest.Wait()
}

func TestFairPoolIsLikeAQuota(t *testing.T) {
	t.Parallel()
	for seed := range uint64(times(25, 4, 3000)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newPoolTwins(t, seed)
				for range 300 {
					if s.step(); s.part() {
						break
					}
					s.compare()
				}
				for _, rl := range s.rl {
					persist.Close(t, rl)
				}
			})
		})
	}
}

// Events: stores that fail, other processes, a process that is taken for dead, and memory that is
// made anew from the log.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
)

var storeEvents = []ratelimit.EventKind{ratelimit.EventStoreDown, ratelimit.EventStoreUp}

// A store that fails is told once, and once that it is back; calls meanwhile are told as ever.
func TestEventsOfAStoreThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake, w := fakestore.New(), witnessOf(t)
		var reported []error
		rl := overStore(t, fake, ratelimit.Config{
			Events: w, OnError: func(err error) { reported = append(reported, err) }, Quotas: quotas{"m": {MaxRPM: 100}},
		})
		before := reserve(t, rl, "m", 1, 0)
		synctest.Wait()
		w.wantLines(w.lines(storeEvents...), nil)
		for range 2 {
			fake.Fail(errDown)
			meanwhile := reserve(t, rl, "m", 2, 0)
			settled := reserve(t, rl, "m", 3, 0)
			settled.Commit(4, 0)
			time.Sleep(10 * time.Second) // attempts that fail
			before.Commit(5, 0)
			synctest.Wait()
			if err := rl.Err(); !errors.Is(err, errDown) {
				t.Errorf("Err says %v", err)
			}
			down := w.take()
			w.wantLines(storeKinds(down), []string{"store_down"})
			recovers(fake, rl)
			before = meanwhile
			synctest.Wait()
			up := w.take()
			w.wantLines(storeKinds(up), []string{"store_up"})
			for _, is := range append(down, up...) {
				if slices.Contains(storeEvents, is.Kind) && is.ctx != context.Background() {
					t.Errorf("%s has the context %v", is.Kind, is.ctx)
				}
				if is.Kind == ratelimit.EventStoreDown && is.Err.Error() == "" {
					t.Errorf("the error is %v", is.Err)
				}
			}
			w.wantOpen(1)
		}
		if len(reported) != 2 || !errors.Is(reported[0], errDown) || !errors.Is(reported[1], errDown) {
			t.Errorf("OnError got %v", reported)
		}
		w.closes(rl)
		w.wantOpen(0)
	})
}

// storeKinds returns the kinds of those events that are of the store.
func storeKinds(all []told) (names []string) {
	for _, is := range all {
		if slices.Contains(storeEvents, is.Kind) {
			names = append(names, string(is.Kind))
		}
	}
	return names
}

// A step that fails admits nothing with FailClosed, whether the store has it or not, and without it
// what is decided in memory. The counts follow.
func TestEventsOfStepsThatFail(t *testing.T) {
	for _, failClosed := range []bool{true, false} {
		for _, written := range []bool{true, false} {
			t.Run(fmt.Sprintf("fail closed %t, written %t", failClosed, written), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					fake, w := fakestore.New(), witnessOf(t)
					fails := failsAtWrite(fake, written)
					cfg := ratelimit.Config{Events: w, FailClosed: failClosed, Quotas: quotas{"m": {MaxRPM: 10}}}
					rl := overStore(t, fake, cfg)
					cfg.Events = nil
					other := overStore(t, fake, cfg)
					first := reserve(t, rl, "m", 1, 0)
					fails.Store(true)
					open, refused := 1, 0
					var made []*ratelimit.Reservation
					for range 2 {
						if r, d := rl.Reserve("m", 5, 5); r != nil {
							made = append(made, r)
							open++
						} else if refused++; d.Code != ratelimit.DecisionStoreError {
							t.Errorf("%+v", d)
						}
					}
					if rs, _ := rl.ReserveAll(ratelimit.Request{Model: "m"}, ratelimit.Request{Model: "m"}); rs != nil {
						made = append(made, rs...)
						open += 2
					} else {
						refused++
					}
					synctest.Wait()
					w.wantOpen(open)
					if n := w.count(ratelimit.EventRefused); n != refused || failClosed != (n == 3) {
						t.Errorf("%d refusals were told, want %d", n, refused)
					}
					first.Commit(2, 2) // while the store is down
					first.Commit(3, 3)
					w.wantOpen(open - 1)
					fails.Store(false)
					recovers(fake, rl)
					synctest.Wait()
					w.wantOpen(open - 1)
					for _, r := range made {
						r.Cancel()
					}
					w.wantOpen(0)
					for _, rl := range []*ratelimit.RateLimiter{rl, other} {
						if s := synced(t, rl).Stats("m"); s.InFlight != 0 || s.RPM != 1 || s.RPD != 1 {
							t.Errorf("%+v", s)
						}
					}
					w.closes(rl)
				})
			})
		}
	}
}

// Any calls on a store that conflicts and fails now and then.
func TestEventsAreCountedExactlyWhateverTheStoreDoes(t *testing.T) {
	t.Parallel()
	for _, failClosed := range []bool{true, false} {
		t.Run(fmt.Sprint(failClosed), func(t *testing.T) {
			for seed := range manySeeds(t, 4) {
				synctest.Test(t, func(t *testing.T) {
					fake := fakestore.New()
					var calm atomic.Bool
					var turns atomic.Uint64
					fail := func(int64) error {
						random := rand.New(rand.NewPCG(seed, turns.Add(1)))
						if !calm.Load() && random.IntN(12) == 0 {
							return errors.New("made up")
						}
						return nil
					}
					fake.Before, fake.After = fail, fail
					calm.Store(true)
					var ws [2]*witness
					var books [2]eventBooks
					for i := range ws {
						ws[i] = newWitness(t)
						books[i].rl = overStore(t, fake, ratelimit.Config{Events: ws[i], FailClosed: failClosed, Quotas: hammerModels})
						books[i].disturbs = true
					}
					calm.Store(false)
					done := make(chan bool)
					for i := range books {
						go func() {
							for round := range uint64(3) {
								books[i].hammer(seed*100+uint64(i)*10+round, 3, times(12, 6, 12))
								time.Sleep(time.Second)
							}
							done <- true
						}()
					}
					<-done
					<-done
					synctest.Wait()
					for i := range books {
						books[i].want(t, ws[i])
					}
					calm.Store(true)
					for i := range books {
						recovers(fake, books[i].rl)
						synctest.Wait()
						books[i].want(t, ws[i])
						if down, up := ws[i].count(ratelimit.EventStoreDown), ws[i].count(ratelimit.EventStoreUp); down != up {
							t.Errorf("the store went down %d times, and came back %d", down, up)
						}
						ws[i].closes(books[i].rl)
						ws[i].wantOpen(0)
					}
				})
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

// Waiters of two limiters in one line: each is told of its own.
func TestEventsOfALineOfTwoLimiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake, ws := fakestore.New(), [2]*witness{witnessOf(t), witnessOf(t)}
		var rls [2]*ratelimit.RateLimiter
		for i := range rls {
			rls[i] = overStore(t, fake, ratelimit.Config{Events: ws[i], Quotas: map[string]ratelimit.ModelQuota{"m": {MaxInFlight: 1}}})
		}
		held := reserve(t, rls[0], "m", 1, 0)
		through := make(chan *ratelimit.Reservation)
		for i := range 4 {
			go func() {
				r, err := rls[i%2].Acquire(callNamed(t.Context(), i), "m", i, 0)
				if err != nil {
					t.Error(err)
				}
				through <- r
			}()
			time.Sleep(time.Second)
		}
		held.Commit(1, 0)
		for range 4 {
			(<-through).Commit(1, 0)
		}
		synctest.Wait()
		for i, own := range [][]string{{"0+0", "2+0"}, {"1+0", "3+0"}} {
			if i == 0 {
				own = append([]string{"1+0"}, own...) // the one that was held
			}
			all := ws[i].take()
			for _, kind := range []ratelimit.EventKind{ratelimit.EventAdmitted, ratelimit.EventSettled} {
				var got []string
				for _, is := range all {
					if is.Kind == kind {
						got = append(got, fmt.Sprintf("%d+%d", is.Estimated.PromptTokens, is.Estimated.OutputTokens))
					}
				}
				slices.Sort(got)
				slices.Sort(own)
				if !slices.Equal(got, own) {
					t.Errorf("limiter %d was told of %v %s, want %v", i, got, kind, own)
				}
			}
			ws[i].wantOpen(0)
			if n := ws[i].count(ratelimit.EventQueued); n != 2 {
				t.Errorf("limiter %d was told that %d wait, want 2", i, n)
			}
		}
	})
}

var cooldownEvents = []ratelimit.EventKind{ratelimit.EventCooldownBegan, ratelimit.EventCooldownEnded}

// A recovery that meets the reset of another model ends no cooldown.
func TestEventsOfARecoveryAndCooldowns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, fake := witnessOf(t), fakestore.New()
		rl := overStore(t, fake, ratelimit.Config{Events: w, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100}, "other": {MaxRPM: 5}}})
		rl.CooldownFor("m", 10*time.Minute, "x")
		rl.RecordUsage("other", 1, 1)
		rl.Reset("other")
		synctest.Wait()
		w.lines()
		fake.Fail(errors.New("made up"))
		rl.RecordUsage("m", 1, 1)
		time.Sleep(10 * time.Second)
		recovers(fake, rl)
		rl.RecordUsage("m", 1, 1)
		rl.Reset("nobody") // has what is pending told
		synctest.Wait()
		if early := w.lines(cooldownEvents...); len(early) != 0 {
			t.Errorf("told %q, while the cooldown lasts: %v", early, rl.Explain("m").CooldownUntil)
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		w.wantLines(w.lines(cooldownEvents...), []string{"cooldown_ended m cause x"})
	})
}

// A quota that is set while the store is down holds, and is told, once it is back.
func TestEventsOfARecoveryAndQuotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, fake := witnessOf(t), fakestore.New()
		rl := overStore(t, fake, ratelimit.Config{Events: w, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100}}})
		fake.Fail(errors.New("made up"))
		rl.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 7})
		synctest.Wait()
		w.wantLines(w.lines(ratelimit.EventQuotaChanged), nil)
		time.Sleep(10 * time.Second)
		recovers(fake, rl)
		rl.Reset("nobody")
		synctest.Wait()
		w.wantLines(w.lines(ratelimit.EventQuotaChanged), []string{"quota_changed m by program rpm 7 tpm 0"})
	})
}

// What a recovery changes is told without a method that would tell it.
func TestEventsOfARecoveryAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, fake := witnessOf(t), fakestore.New()
		rl := overStore(t, fake, ratelimit.Config{Events: w, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100}}})
		rl.CooldownFor("m", 10*time.Minute, "x")
		fake.Fail(errors.New("made up"))
		rl.Reset("m")
		rl.CooldownFor("m", 20*time.Minute, "y")
		rl.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 7})
		fake.Fail(nil)
		time.Sleep(time.Minute) // recovers by itself
		synctest.Wait()
		w.wantLines(w.lines(ratelimit.EventQuotaChanged), []string{"quota_changed m by program rpm 7 tpm 0"})
		rl.Reset("nobody")
		w.want() // nothing that only another method would have told
	})
}

// Config.Events where memory is made anew from the log.

package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
)

// lineKeeper keeps events of some kinds as lines.
type lineKeeper struct {
	mu     sync.Mutex
	prefix string
	began  time.Time
	lines  []string
}

func (k *lineKeeper) HandleEvent(_ context.Context, e *ratelimit.Event) {
	if !strings.HasPrefix(string(e.Kind), k.prefix) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	q := ""
	if e.Quota != nil {
		q = fmt.Sprint(" rpm ", e.Quota.MaxRPM)
	}
	k.lines = append(k.lines, fmt.Sprint(time.Since(k.began).Round(time.Second), " ", e.Kind, " ", e.Model, " ", e.Cause, e.By, q))
}

func (k *lineKeeper) take() []string {
	synctest.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.lines
	k.lines = nil
	return was
}

// A recovery that meets the reset of another model ends no cooldown.
func TestEventsOfARecoveryAndCooldowns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, fake := &lineKeeper{prefix: "cooldown", began: time.Now()}, fakestore.New()
		rl := overStore(t, fake, ratelimit.Config{Events: k, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100}, "other": {MaxRPM: 5}}})
		defer rl.Close()
		rl.CooldownFor("m", 10*time.Minute, "x")
		rl.RecordUsage("other", 1, 1)
		rl.Reset("other")
		k.take()
		fake.Fail(errors.New("made up"))
		rl.RecordUsage("m", 1, 1)
		time.Sleep(10 * time.Second)
		fake.Fail(nil)
		for rl.Err() != nil {
			rl.Persist()
		}
		rl.RecordUsage("m", 1, 1)
		rl.Reset("nobody") // has what is pending told
		if early := k.take(); len(early) != 0 {
			t.Errorf("told %q, while the cooldown lasts: %v", early, rl.Explain("m").CooldownUntil)
		}
		time.Sleep(10 * time.Minute)
		if late := k.take(); len(late) != 1 {
			t.Errorf("at its end told %q", late)
		}
	})
}

// A quota that is set while the store is down holds, and is told, once it is back.
func TestEventsOfARecoveryAndQuotas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, fake := &lineKeeper{prefix: "quota", began: time.Now()}, fakestore.New()
		rl := overStore(t, fake, ratelimit.Config{Events: k, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100}}})
		defer rl.Close()
		fake.Fail(errors.New("made up"))
		rl.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 7})
		if told := k.take(); len(told) != 0 {
			t.Errorf("told %q", told)
		}
		time.Sleep(10 * time.Second)
		fake.Fail(nil)
		for rl.Err() != nil {
			rl.Persist()
		}
		rl.Reset("nobody")
		if told := k.take(); len(told) != 1 {
			t.Errorf("told %q", told)
		}
	})
}

// What a recovery changes is told without a method that would tell it.
func TestEventsOfARecoveryAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, fake := &lineKeeper{began: time.Now()}, fakestore.New()
		rl := overStore(t, fake, ratelimit.Config{Events: k, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100}}})
		defer rl.Close()
		rl.CooldownFor("m", 10*time.Minute, "x")
		fake.Fail(errors.New("made up"))
		rl.Reset("m")
		rl.CooldownFor("m", 20*time.Minute, "y")
		rl.SetQuota("m", ratelimit.ModelQuota{MaxRPM: 7})
		for _, line := range k.take() {
			_ = line
		}
		fake.Fail(nil)
		time.Sleep(time.Minute) // recovers by itself
		for _, line := range k.take() {
			_ = line
		}
		rl.Reset("nobody")
		for _, line := range k.take() {
			if !strings.Contains(line, "saved") {
				t.Errorf("told only when another method came: %s", line)
			}
		}
	})
}

// mirror follows what is told, as a dashboard would.
type toldMirror struct {
	mu    sync.Mutex
	quota map[string]ratelimit.ModelQuota
	cool  map[string]bool
	down  bool
}

func (m *toldMirror) HandleEvent(_ context.Context, e *ratelimit.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch e.Kind {
	case ratelimit.EventQuotaChanged:
		if e.Quota == nil {
			delete(m.quota, e.Model)
		} else {
			m.quota[e.Model] = *e.Quota
		}
	case ratelimit.EventCooldownBegan:
		m.cool[e.Model] = true
	case ratelimit.EventCooldownEnded:
		delete(m.cool, e.Model)
	case ratelimit.EventStoreDown:
		m.down = true
	case ratelimit.EventStoreUp:
		m.down = false
	}
}

// Whatever the log does (it is replaced, forked, down while others change it), the told quotas are
// those in force once all is quiet.
func TestEventsMirrorReplacedLogs(t *testing.T) {
	for name, harm := range map[string]func(f *fakestore.Fake, rls []*ratelimit.RateLimiter){
		"down while another sets": func(f *fakestore.Fake, rls []*ratelimit.RateLimiter) {
			f.Fail(errors.New("made up"))
			rls[0].SetQuota("m", ratelimit.ModelQuota{MaxRPM: 3})
			rls[1].SetQuota("n", ratelimit.ModelQuota{MaxRPM: 4})
			time.Sleep(10 * time.Second)
			f.Fail(nil)
		},
		"emptied": func(f *fakestore.Fake, rls []*ratelimit.RateLimiter) {
			rls[0].SetQuota("m", ratelimit.ModelQuota{MaxRPM: 3})
			f.Empty()
		},
		"without its end": func(f *fakestore.Fake, rls []*ratelimit.RateLimiter) {
			rls[0].SetQuota("m", ratelimit.ModelQuota{MaxRPM: 3})
			f.LoseEnd(1)
		},
		"account while down": func(f *fakestore.Fake, rls []*ratelimit.RateLimiter) {
			f.Fail(errors.New("made up"))
			rls[0].SetAccountQuotas(map[string]ratelimit.ModelQuota{"k": {MaxRPM: 3}, "m": {MaxTPM: 9}})
			time.Sleep(10 * time.Second)
			f.Fail(nil)
		},
		"removed while down": func(f *fakestore.Fake, rls []*ratelimit.RateLimiter) {
			f.Fail(errors.New("made up"))
			rls[0].RemoveQuota("m")
			time.Sleep(10 * time.Second)
			f.Fail(nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fake := fakestore.New()
				var rls []*ratelimit.RateLimiter
				var ms []*toldMirror
				for range 2 {
					m := &toldMirror{quota: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100}, "n": {MaxRPM: 100}}, cool: map[string]bool{}}
					rl := overStore(t, fake, ratelimit.Config{Events: m, Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 100}, "n": {MaxRPM: 100}}})
					defer rl.Close()
					rls, ms = append(rls, rl), append(ms, m)
				}
				rls[0].CooldownFor("m", 10*time.Minute, "x")
				harm(fake, rls)
				for i := range 10 {
					time.Sleep(10 * time.Second)
					for _, rl := range rls {
						rl.Persist()
						rl.RecordUsage("m", 1, i)
						rl.Reset("nobody")
					}
				}
				synctest.Wait()
				for i, rl := range rls {
					ms[i].mu.Lock()
					for model, q := range rl.Quotas {
						if ms[i].quota[model] != q {
							t.Errorf("limiter %d: %s is %+v, told was %+v", i, model, q, ms[i].quota[model])
						}
					}
					for model := range ms[i].quota {
						if _, has := rl.Quotas[model]; !has {
							t.Errorf("limiter %d: %s has no quota, told was %+v", i, model, ms[i].quota[model])
						}
					}
					cools := !rl.Explain("m").CooldownUntil.IsZero()
					if i == 0 && cools != ms[i].cool["m"] {
						t.Errorf("limiter %d: cools is %v, told was %v", i, cools, ms[i].cool["m"])
					}
					ms[i].mu.Unlock()
				}
			})
		})
	}
}

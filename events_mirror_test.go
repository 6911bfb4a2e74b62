// Events: who follows them knows the quotas and the cooldowns of the limiter.

package ratelimit_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/fakestore"
)

// mirror is a handler that follows quotas and cooldowns.
type mirror struct {
	t      *testing.T
	mu     sync.Mutex
	quotas map[string]ratelimit.ModelQuota
	cooled map[string]time.Time
	by     map[string]int
	again  bool // a cooldown that the log has lost is told again
}

func newMirror(t *testing.T, quotas map[string]ratelimit.ModelQuota) *mirror {
	return &mirror{t: t, quotas: maps.Clone(quotas), cooled: make(map[string]time.Time), by: make(map[string]int)}
}

func (m *mirror) HandleEvent(ctx context.Context, e *ratelimit.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch e.Kind {
	case ratelimit.EventQuotaChanged:
		m.by[e.By]++
		was, had := m.quotas[e.Model]
		if e.Quota == nil {
			if delete(m.quotas, e.Model); !had {
				m.t.Errorf("the quota of %s is gone, and there was none", e.Model)
			}
			return
		}
		if had && was == *e.Quota {
			m.t.Errorf("the quota of %s is told by %s, and did not change", e.Model, e.By)
		}
		m.quotas[e.Model] = *e.Quota
	case ratelimit.EventCooldownBegan:
		if !e.Until.After(m.cooled[e.Model]) && !m.again {
			m.t.Errorf("%s: a cooldown until %v is told, after one until %v", e.Model, e.Until, m.cooled[e.Model])
		}
		m.cooled[e.Model] = e.Until
	case ratelimit.EventCooldownEnded:
		if m.cooled[e.Model].IsZero() {
			m.t.Errorf("%s: the end of no cooldown", e.Model)
		}
		delete(m.cooled, e.Model)
	}
}

// want compares the mirror with the limiter.
func (m *mirror) want(step int, rl *ratelimit.RateLimiter) bool {
	m.t.Helper()
	rl.Stats("m") // learns what others did
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !maps.Equal(m.quotas, rl.Quotas) {
		m.t.Errorf("step %d: the quotas by the events are\n%+v, and are\n%+v", step, m.quotas, rl.Quotas)
	}
	return !m.t.Failed()
}

// wantCooled compares the cooldowns, where only this limiter begins some.
func (m *mirror) wantCooled(step int, rl *ratelimit.RateLimiter) {
	m.t.Helper()
	synctest.Wait()
	for _, model := range []string{"m", "n", "o"} {
		until := rl.Stats(model).CooldownUntil
		synctest.Wait()
		m.mu.Lock()
		if !until.After(time.Now()) {
			until = time.Time{}
		}
		if got := m.cooled[model]; !got.Equal(until) {
			m.t.Errorf("step %d: the cooldown of %s lasts until %v by the events, and until %v", step, model, got, until)
		}
		m.mu.Unlock()
	}
}

// change changes a quota at random.
func changeQuotas(random *rand.Rand, rl *ratelimit.RateLimiter, loads bool) {
	model := []string{"m", "n", "o", "gpt-4o", "*"}[random.IntN(5)]
	q := ratelimit.ModelQuota{MaxRPM: random.IntN(4), MaxTPM: 10 * random.IntN(3)}
	switch random.IntN(10) {
	case 0, 1:
		rl.SetQuota(model, q)
	case 2, 3:
		rl.RemoveQuota(model)
	case 4:
		rl.SetAccountQuotas(map[string]ratelimit.ModelQuota{model: q, "n": q})
	case 5:
		rl.SetAccountQuotas(nil)
	case 6, 7:
		rl.Observe(model, limits{RPM: limit(random.IntN(4)), Refused: random.IntN(2) == 0})
	case 8:
		rl.ForgetLearned([]string{model, ""}[random.IntN(2)])
	case 9:
		if !loads {
			return
		}
		if random.IntN(2) == 0 {
			rl.Persist()
		} else {
			rl.Load()
		}
	}
	if random.IntN(30) == 0 {
		rl.AddProvider(ratelimit.ProviderMistral)
	}
}

func TestEventsMirrorQuotas(t *testing.T) {
	eachKind(t, func(t *testing.T, p *place) {
		by := make(map[string]int)
		for seed := range manySeeds(t, 4) {
			path := filepath.Join(t.TempDir(), "state")
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 3))
				own := quotas{"m": {MaxRPM: 5}, "n": {MaxTPM: 70}}
				m := newMirror(t, own)
				one := &place{kind: p.kind, path: path}
				rl := one.open(t, ratelimit.Config{Events: m, Quotas: own, LearnQuotas: true})
				for step := range times(60, 20, 60) {
					changeQuotas(random, rl, true)
					if !m.want(step, rl) {
						t.Fatalf("seed %d", seed)
					}
				}
				for say, n := range m.by {
					by[say] += n
				}
			})
		}
		for _, say := range []string{"program", "account", "header", "refusal"} {
			if by[say] == 0 {
				t.Errorf("nothing was changed by the %s: %v", say, by)
			}
		}
	})
}

// Of two limiters on a store, each follows what the other sets.
func TestEventsMirrorQuotasOfOthers(t *testing.T) {
	for seed := range manySeeds(t, 4) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 4))
			fake := fakestore.New()
			own := quotas{"m": {MaxRPM: 5}, "n": {MaxTPM: 70}}
			var ms [2]*mirror
			var rls [2]*ratelimit.RateLimiter
			for i := range ms {
				ms[i] = newMirror(t, own)
				rls[i] = overStore(t, fake, ratelimit.Config{Events: ms[i], Quotas: own, LearnQuotas: true})
			}
			for step := range times(60, 20, 60) {
				changeQuotas(random, rls[random.IntN(2)], false)
				if !ms[0].want(step, rls[0]) || !ms[1].want(step, rls[1]) {
					t.Fatalf("seed %d", seed)
				}
			}
			if ms[0].by["process"] == 0 {
				t.Error("nothing was set by another process")
			}
		})
	}
}

func TestEventsMirrorCooldowns(t *testing.T) {
	eachKind(t, func(t *testing.T, p *place) {
		for seed := range manySeeds(t, 4) {
			path := filepath.Join(t.TempDir(), "state")
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 5))
				m := newMirror(t, nil)
				one := &place{kind: p.kind, path: path}
				rl := one.open(t, ratelimit.Config{Events: m, Quotas: quotas{"m": {MaxRPM: 5}, "n": {}}})
				for step := range times(100, 30, 100) {
					model := []string{"m", "n", "o"}[random.IntN(3)]
					switch random.IntN(8) {
					case 0, 1, 2:
						rl.CooldownFor(model, time.Duration(random.IntN(20)-2)*time.Second, ratelimit.CauseOverloaded)
					case 3:
						rl.Cooldown(model, time.Now().Add(time.Duration(random.IntN(40))*time.Second))
					case 4:
						rl.Reset([]string{model, ""}[random.IntN(2)])
					case 5:
						rl.Reserve(model, 1, 1)
					default:
						time.Sleep(time.Duration(random.IntN(10_000))*time.Millisecond + time.Microsecond)
					}
					if m.wantCooled(step, rl); t.Failed() {
						t.Fatalf("seed %d", seed)
					}
				}
			})
		}
	})
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
				own := quotas{"m": {MaxRPM: 100}, "n": {MaxRPM: 100}}
				var rls []*ratelimit.RateLimiter
				var ms []*mirror
				for range 2 {
					m := newMirror(t, own)
					m.again = true
					rls, ms = append(rls, overStore(t, fake, ratelimit.Config{Events: m, Quotas: own})), append(ms, m)
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
				for i, rl := range rls {
					ms[i].want(i, rl)
				}
				ms[0].wantCooled(0, rls[0])
			})
		})
	}
}

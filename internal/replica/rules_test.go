package replica

import (
	"context"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
	"dappco.re/go/core/go-ratelimit/internal/store"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// rule is one that is switched off: by what a process sends in place of what it should, by how it
// opens, or by how it hears of answers.
type rule struct {
	bend  func(*process, *store.Entry)
	rash  bool // a newcomer asks at once
	tardy bool // late answers are given
}

// instead has a process send a Tick in place of some commands.
func instead(is func(fleet.Command) bool) func(*process, *store.Entry) {
	return func(_ *process, e *store.Entry) {
		if c, err := fleet.Decode(e.Command); err == nil && is(c) {
			e.Command = fleet.Tick{}.Append(nil)
		}
	}
}

func isOutage(c fleet.Command) bool {
	_, is := c.(fleet.Outage)
	return is
}

func isFact(c fleet.Command) bool {
	verb, is := c.(fleet.Verb)
	if is {
		_, is = verb.Command.(engine.Charged)
	}
	return is
}

// hear notes the store's clock.
func (p *process) hear(news *store.News) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if news.Now != (store.Stamp{}) {
		p.stamp = news.Now
	}
}

// byTheStore has a process expect what the store's clock says.
func byTheStore(p *process, e *store.Entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Expect != 0 {
		e.Expect = p.stamp.Instant
	}
}

// open is Open, or what a rash newcomer does.
func (p *process) open(o Options) (*Replica, error) {
	if !p.kind.rash {
		return Open(p.dead, o)
	}
	r := newReplica(p.dead, o)
	if err := r.boot(p.dead); err != nil {
		return nil, err
	}
	news, err := r.log.Read(p.dead, r.at, 0, 0)
	if err != nil {
		return nil, err
	}
	r.life.stamp, r.life.stampedAt = news.Now, time.Now()
	r.start()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.presume()
	return r, nil
}

// do is Do, or gives answers however late they come.
func (p *process) do(ctx context.Context, c engine.Command) (engine.Outcome, error) {
	if !p.kind.tardy {
		o, err := p.r.Do(ctx, c)
		return o.Outcome, err
	}
	p.r.mu.Lock()
	a := p.r.put(fleet.Verb{Command: c})
	if p.r.status == cutOff {
		p.r.decideAlone(a)
	}
	p.r.mu.Unlock()
	if err := p.r.hearOf(ctx, a, nil); err != nil {
		return engine.Outcome{}, err
	}
	if a.is.outcome == nil {
		return engine.Outcome{}, nil
	}
	return *a.is.outcome, nil
}

// Each rule guards against something: without it, runs break that hold with it.
func TestRules(t *testing.T) {
	if racetest.Factor > 1 {
		t.Skip("TestSim runs the same goroutines")
	}
	for _, tt := range []struct {
		name string
		kind string
		rule rule
		from uint64 // the first seed that breaks
	}{
		{"no Outage comes first", "outages", rule{bend: instead(isOutage)}, 1},
		{"no facts are told after an outage", "outages", rule{bend: instead(isFact)}, 1},
		{"no facts are told to the next log", "lost", rule{bend: instead(isFact)}, 48},
		{"the store's clock is trusted", "clock", rule{bend: byTheStore}, 1},
		{"a newcomer asks at once", "newcomers", rule{rash: true}, 1},
		{"late answers are given", "pauses", rule{tardy: true}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, k := range kinds {
				if k.name != tt.kind {
					continue
				}
				k.rule, k.most = tt.rule, 8
				for seed := tt.from; seed < tt.from+200; seed++ {
					if w := simulate(t, k, seed); w.breaks() {
						most, _ := w.worst()
						t.Logf("seed %d breaks: %.2f of the quota", seed, most)
						return
					}
				}
				t.Error("nothing breaks without it")
			}
		})
	}
}

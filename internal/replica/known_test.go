package replica

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/store"
	"dappco.re/go/core/go-ratelimit/internal/store/memlog"
)

// known is who has heard of what: of entries, by their places, and of calls that are told as facts,
// by their IDs.
type known struct {
	places map[any][]store.Position       // in which logs it is, or was
	heard  map[*process]map[any]time.Time // since when
}

func newKnown() known {
	return known{make(map[any][]store.Position), make(map[*process]map[any]time.Time)}
}

func (k *known) note(p *process, key any, at store.Position) {
	if k.heard[p] == nil {
		k.heard[p] = make(map[any]time.Time)
	}
	if _, is := k.heard[p][key]; !is {
		k.heard[p][key] = time.Now()
	}
	if !slices.Contains(k.places[key], at) {
		k.places[key] = append(k.places[key], at)
	}
}

// know notes what a process hears.
func (p *process) know(news *store.News) {
	p.world.mu.Lock()
	defer p.world.mu.Unlock()
	for i := range news.Entries {
		e := &news.Entries[i]
		p.known.note(p, e.At, e.At)
		c, _ := fleet.Decode(e.Command)
		if verb, is := c.(fleet.Verb); is {
			if told, is := verb.Command.(engine.Charged); is {
				p.known.note(p, told.ID, e.At)
			}
		}
	}
}

// Begin notes that the image of a new log has what its process has heard.
func (g gated) Begin(ctx context.Context, old uint64, image store.Image) error {
	g.p.world.mu.Lock()
	for key := range g.p.known.heard[g.p] {
		g.p.known.note(g.p, key, image.At)
	}
	g.p.world.mu.Unlock()
	return g.Log.Begin(ctx, old, image)
}

// Load notes that a process knows what is in an image.
func (g gated) Load(ctx context.Context) (store.Image, error) {
	image, err := g.Log.Load(ctx)
	g.p.world.mu.Lock()
	defer g.p.world.mu.Unlock()
	covers := func(at store.Position) bool { return at.Log == image.At.Log && at.Seq <= image.At.Seq }
	for key, places := range g.p.known.places {
		if slices.ContainsFunc(places, covers) {
			g.p.known.note(g.p, key, image.At)
		}
	}
	return image, err
}

// stands returns the place up to which a process has applied the log.
func (p *process) stands() store.Position {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	return p.r.at
}

// forget finds the calls that the log has lost, with all who had heard of them. Nobody can tell
// them again, as docs/machines.md says.
func (w *world) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, h := range w.hits {
		h.lost = h.lost || h.alone.shares == 0 && !slices.ContainsFunc(h.keys[:], w.isKnownLocked)
	}
}

// isKnownLocked reports whether the log has something, or a process that lives has heard of it.
func (w *world) isKnownLocked(key any) bool {
	return slices.ContainsFunc(w.known.places[key], w.store.Has) ||
		slices.ContainsFunc(w.processes, func(p *process) bool { return p.dead.Err() == nil && !w.known.heard[p][key].IsZero() })
}

// listen compares the time that a newcomer has heard with the time of the first process. Where the
// store's clock was set while all the others slept or were dead, nobody can know it: the world is
// blind from then on.
func (w *world) listen(p *process) {
	heard := p.r.Now().Instant
	w.mu.Lock()
	defer w.mu.Unlock()
	p.isOpen = true
	if w.firstAt.IsZero() {
		w.firstAt = time.Now().Add(-time.Duration(heard))
	}
	off := heard - int64(time.Since(w.firstAt))
	w.blind = w.blind || max(off, -off) > 2*fleet.Slack && !slices.ContainsFunc(w.processes, func(o *process) bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o != p && o.isOpen && o.dead.Err() == nil && time.Now().After(o.sleeps)
	})
}

// play has what happens to the store happen at its moments.
func (w *world) play(script []memlog.Incident) {
	began := time.Now()
	for _, i := range script {
		if sleep(w.ctx, time.Until(began.Add(i.At))); w.ctx.Err() != nil {
			return
		}
		w.store.Suffer(i)
		w.forget()
	}
}

// A call is lost only with the end of its log and with all who had heard of it. What one of them
// knows is told again.
func TestLostCalls(t *testing.T) {
	for name, tt := range map[string]struct{ heard, ends, killed, lost bool }{
		"it is in the log":                 {killed: true},
		"its process lives":                {ends: true},
		"another one has heard of it":      {heard: true, ends: true, killed: true},
		"nobody lives who has heard of it": {ends: true, killed: true, lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, kind{faults: quiet}, 1)
				one, two := w.enroll(), w.enroll()
				one.r.Do(w.ctx, engine.SetQuota{Counted: "m", Quota: state.Quota{MaxRPM: 10}})
				time.Sleep(time.Second)
				if !tt.heard {
					w.store.Cut(two.id, 5*time.Second)
				}
				o, _ := one.r.Do(w.ctx, engine.Admit{By: byMe, Wants: oneWant})
				w.hits = append(w.hits, &hit{at: time.Now(), keys: [2]any{one.stands(), o.Calls[0]}})
				time.Sleep(time.Second)
				if tt.ends {
					w.store.LoseEnd(1)
				}
				if tt.killed {
					w.store.Kill(one.id)
					one.kill()
				}
				w.forget()
				time.Sleep(10 * time.Second)
				two.r.Sync(w.ctx)
				counts := two.r.state.Engine.Account("m") != nil
				if lost := w.hits[0].lost; lost != tt.lost || counts == lost {
					t.Errorf("lost: %v, want %v; the other process counts it: %v", lost, tt.lost, counts)
				}
				for _, p := range w.processes {
					p.r.Close(w.ctx)
				}
			})
		})
	}
}

// enroll opens a process that does nothing by itself.
func (w *world) enroll() *process {
	w.serial++
	p := &process{world: w, id: w.serial}
	w.processes = append(w.processes, p)
	p.dead, p.kill = context.WithCancel(w.ctx)
	log, err := w.store.Open(p.dead, store.Options{Process: p.id})
	if err == nil {
		p.r, err = Open(p.dead, Options{Log: gated{log, p}, Process: p.id, Lock: new(sync.Mutex), LeaseTTL: 10 * time.Second})
	}
	if err != nil {
		w.Fatal(err)
	}
	return p
}

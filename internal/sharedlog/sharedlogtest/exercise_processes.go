package sharedlogtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/sharedlog"
)

func (e *exercise) leases() {
	a, _ := e.open(1)
	b, img := e.open(2)
	if !slices.Contains(img.Processes, 1) || slices.Contains(img.Processes, 2) {
		e.t.Errorf("the second process is told of %v", img.Processes)
	}
	if life := b.Owner(1); life != sharedlog.Alive {
		e.t.Errorf("at first it is %v", life)
	}
	time.Sleep(e.ttl + time.Millisecond)
	want := sharedlog.Silent
	if _, renews := e.store.(Renewer); renews {
		want = sharedlog.Alive
	}
	if life := b.Owner(1); life != want {
		e.t.Errorf("without a renewal it is %v", life)
	}
	e.commit(e.begin(a, 0), &sharedlog.Batch{Renew: true})
	if life := b.Owner(1); life != sharedlog.Alive {
		e.t.Errorf("renewed it is %v", life)
	}
	e.write(a, 0, &sharedlog.Event{Process: 1, N: 1, Kind: sharedlog.Gone, Ref: 1})
	if img := e.image(b); slices.Contains(img.Processes, 1) && len(img.Events) == 0 {
		e.t.Errorf("after it went there are %v", img.Processes)
	}
}

func (e *exercise) dead() {
	e.open(1)
	b, _ := e.open(2)
	if !e.store.Kill(1) {
		e.t.Skip("the store cannot kill a process")
	}
	if life := b.Owner(1); life != sharedlog.Dead {
		e.t.Errorf("a killed process is %v", life)
	}
	if life := b.Owner(2); life != sharedlog.Alive {
		e.t.Errorf("the process itself is %v", life)
	}
}

func (e *exercise) identity() {
	a, img := e.open(1)
	_, other := e.open(2)
	if img.Identity != other.Identity {
		e.t.Errorf("one log is %q and %q", img.Identity, other.Identity)
	}
	e.write(a, 0, use(1, 1))
	if !e.store.Replace(e.t) {
		e.t.Skip("the store cannot replace its log")
	}
	if step, err := a.Begin(e.t.Context(), 1); err == nil {
		step.Rollback()
		e.t.Error("a step goes on in another log")
	}
	if img := e.image(a); img.Identity == other.Identity || len(img.Events) != 0 {
		e.t.Errorf("the other log is %+v", img)
	}
}

func (e *exercise) span() {
	e.open(1)
	long := e.store.Open(e.t, 2, 7*exerciseSpan, e.ttl)
	defer long.Close()
	e.join(long)
	for _, process := range []int64{2, 3} {
		log := e.store.Open(e.t, 10+process, exerciseSpan, e.ttl)
		defer log.Close()
		step := e.begin(log, sharedlog.Everything)
		if span := step.News().Span; span != 7*exerciseSpan {
			e.t.Errorf("the span is %v", time.Duration(span))
		}
		step.Rollback()
	}
}

func (e *exercise) readers() {
	a, _ := e.open(1)
	b, _ := e.open(2)
	e.write(a, 0, use(1, 1))
	step := e.begin(a, 1)
	var readers sync.WaitGroup
	for _, log := range []sharedlog.Log{a, b} {
		for range 4 {
			readers.Go(func() {
				for range 10 {
					log.Stale(1)
					log.Clock()
					news, err := log.Read(context.Background(), 0)
					if err != nil && !errors.Is(err, sharedlog.ErrNoTime) {
						e.t.Error(err)
					} else if err == nil && len(news.Events) > 1 {
						e.t.Errorf("%d events while the second is not written", len(news.Events))
					}
				}
			})
		}
	}
	readers.Wait()
	e.commit(step, &sharedlog.Batch{Events: []*sharedlog.Event{use(1, 2)}})
	if n := len(e.read(b, 0)); n != 2 {
		e.t.Errorf("%d events in the end", n)
	}
}

func (e *exercise) context() {
	a, _ := e.open(1)
	ctx, cancel := context.WithCancel(e.t.Context())
	cancel()
	for _, seen := range []int64{0, sharedlog.Everything} {
		if step, err := a.Begin(ctx, seen); !errors.Is(err, sharedlog.ErrNoTime) {
			e.t.Errorf("Begin(%d): %v, %v", seen, step, err)
		}
	}
	e.write(a, 0, use(1, 1))
}

func (e *exercise) close() {
	a, _ := e.open(1)
	b, _ := e.open(2)
	if err := a.Close(); err != nil {
		e.t.Errorf("Close: %v", err)
	}
	if step, err := a.Begin(e.t.Context(), 0); err == nil {
		step.Rollback()
		e.t.Error("a closed log begins a step")
	}
	if _, err := a.Read(e.t.Context(), 0); err == nil {
		e.t.Error("a closed log is read")
	}
	e.write(b, 0, use(2, 1))
}

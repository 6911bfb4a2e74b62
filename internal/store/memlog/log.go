package memlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/store"
)

var (
	errClosed = errors.New("the log is closed")
	errAway   = errors.New("no answer from the store in memory")
)

// log is the log of a process. The store's lock guards what follows on ended.
type log struct {
	store   *Store
	process int64
	done    chan struct{} // closed when it has ended

	ended ending
	away  time.Time // until when the process does not reach the store
	calls [begins + 1]uint64
}

type ending int

const (
	lives ending = iota
	closed
	killed
)

// endLocked ends a process, or its log.
func (l *log) endLocked(how ending) {
	if l.ended == lives {
		l.ended = how
		close(l.done)
	}
}

// witness is a log that sees deaths.
type witness struct{ *log }

var _ store.Witness = witness{}

// answer is what the store answers to a call.
type answer struct {
	news  store.News
	image store.Image
	err   error
}

// do sends a call, and waits for its answer: for longer than the timeout where the store may wait
// before it answers. act does the call, with the store's lock held, and answers now or later. It
// may be called twice, and reply does nothing where nobody is to hear it.
func (l *log) do(ctx context.Context, k kind, longer time.Duration, act func(f fate, reply func(answer))) (answer, error) {
	f, err := l.draw(ctx, k)
	if err != nil {
		return answer{}, err
	}
	answers := make(chan answer, 2)
	l.store.send(f.there, &request{f.call, func() {
		if l.reachesLocked() {
			l.arriveLocked(f, act, func(a answer) { l.replyLocked(f.back, answers, a) })
		}
	}})
	over := time.NewTimer(f.there + f.back + timeout + longer)
	defer over.Stop()
	select {
	case a := <-answers:
		return a, a.err
	case <-ctx.Done():
		return answer{}, fmt.Errorf("store in memory: %w", ctx.Err())
	case <-l.done:
		return answer{}, errClosed
	case <-over.C:
		return answer{}, errAway
	}
}

// draw draws what becomes of the next call of a kind.
func (l *log) draw(ctx context.Context, k kind) (fate, error) {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	err := ctx.Err()
	if l.ended != lives {
		err = errClosed
	}
	if err != nil {
		return fate{}, errors.Join(err, store.ErrNotWritten)
	}
	next := call{l.process, k, l.calls[k]}
	l.calls[k]++
	return l.store.faults.fate(next), nil
}

// arriveLocked is what becomes of a call when it has reached the store.
func (l *log) arriveLocked(f fate, act func(fate, func(answer)), reply func(answer)) {
	unheard := func(answer) {}
	switch f.outcome {
	case refused:
		reply(answer{err: fmt.Errorf("refused: %w", store.ErrNotWritten)})
	case replyLost:
		act(f, unheard)
	case answered, twice:
		act(f, reply)
	}
	if f.outcome == late || f.outcome == twice {
		l.store.send(f.lateBy, &request{f.call, func() { act(f, unheard) }})
	}
}

// replyLocked hands an answer over after its way, unless the process is cut off by then.
func (l *log) replyLocked(way time.Duration, answers chan<- answer, a answer) {
	if l.store.faults.Direct {
		answers <- a
		return
	}
	time.AfterFunc(way, func() {
		l.store.mu.Lock()
		defer l.store.mu.Unlock()
		if l.reachesLocked() {
			answers <- a
		}
	})
}

// reachesLocked reports whether anything of the process comes through.
func (l *log) reachesLocked() bool {
	now := time.Now()
	return !now.Before(l.store.away) && !now.Before(l.away)
}

// Append implements store.Log.
func (l *log) Append(ctx context.Context, after store.Position, batch []store.Entry) (store.News, error) {
	s := l.store
	a, err := l.do(ctx, appends, 0, func(f fate, reply func(answer)) {
		if err := s.appendLocked(after, batch, f); err != nil {
			reply(answer{err: err})
			return
		}
		news, err := s.core.page(after, f.page)
		news.Now = s.stampLocked()
		reply(answer{news: news, err: err})
	})
	return a.news, err
}

// Read implements store.Log.
func (l *log) Read(ctx context.Context, after store.Position, wait, gather time.Duration) (store.News, error) {
	s := l.store
	a, err := l.do(ctx, reads, wait, func(f fate, reply func(answer)) {
		until := time.Now().Add(wait)
		over, gathers := false, false
		look := &request{call: call{l.process, reads, 0}}
		look.do = func() {
			if over {
				return
			}
			news, err := s.core.page(after, f.page)
			left := time.Until(until)
			switch {
			case err != nil || left <= 0:
			case len(news.Entries) == 0:
				s.waiting = append(s.waiting, look)
				gathers = gather > 0 // what comes from now on
				return
			case gathers:
				gathers = false
				s.send(min(gather, left), look)
				return
			}
			over = true
			news.Now = s.stampLocked()
			reply(answer{news: news, err: err})
		}
		if look.do(); !over {
			s.send(wait, look)
		}
	})
	return a.news, err
}

// Load implements store.Log.
func (l *log) Load(ctx context.Context) (store.Image, error) {
	a, err := l.do(ctx, loads, 0, func(_ fate, reply func(answer)) {
		image, err := l.store.core.load()
		reply(answer{image: image, err: err})
	})
	return a.image, err
}

// Save implements store.Log.
func (l *log) Save(ctx context.Context, image store.Image) error {
	_, err := l.do(ctx, saves, 0, func(_ fate, reply func(answer)) {
		reply(answer{err: l.store.core.save(image)})
	})
	return err
}

// Begin implements store.Log.
func (l *log) Begin(ctx context.Context, old uint64, image store.Image) error {
	_, err := l.do(ctx, begins, 0, func(_ fate, reply func(answer)) {
		err := l.store.core.begin(old, image)
		l.store.wakeLocked()
		reply(answer{err: err})
	})
	return err
}

// Close implements store.Log.
func (l *log) Close() error {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	l.endLocked(closed)
	return nil
}

// Traits tells how long a call waits for its answer.
func (l *log) Traits() store.Traits {
	return store.Traits{System: "memory", Timeout: timeout, Tick: l.store.faults.Tick}
}

// Dead implements store.Witness.
func (w witness) Dead(process int64) bool {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	l := w.store.logs[process]
	return l != nil && l.ended == killed
}

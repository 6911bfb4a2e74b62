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

// log is the log of a process.
type log struct {
	store   *Store
	process int64
	state   *state
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

// call is one call of a log.
type call struct {
	log  *log
	kind kind
	most time.Duration // until the answer
	// act does it, with the store's lock held, and answers now or later. It may be called twice,
	// and answer does nothing where nobody is to hear it.
	act func(f fate, answer func(answer))
}

// do sends the call, and waits for its answer.
func (c *call) do(ctx context.Context) (answer, error) {
	s, l := c.log.store, c.log
	f, n, err := l.begin(ctx, c.kind)
	if err != nil {
		return answer{}, err
	}
	answers := make(chan answer, 2)
	s.send(f.there, &request{l.process, c.kind, n, func() {
		if s.reachesLocked(l.process) {
			c.arrive(f, n, func(a answer) {
				if s.faults.Direct {
					answers <- a
				} else {
					time.AfterFunc(f.back, func() { l.hear(answers, a) })
				}
			})
		}
	}})
	over := time.NewTimer(f.there + f.back + c.most)
	defer over.Stop()
	select {
	case a := <-answers:
		return a, a.err
	case <-ctx.Done():
		return answer{}, fmt.Errorf("store in memory: %w", ctx.Err())
	case <-l.state.done:
		return answer{}, errClosed
	case <-over.C:
		return answer{}, errAway
	}
}

// arrive is what becomes of the call when it has reached the store.
func (c *call) arrive(f fate, n uint64, reply func(answer)) {
	again := func() {
		c.log.store.send(f.lateBy, &request{c.log.process, c.kind, n, func() { c.act(f, func(answer) {}) }})
	}
	switch f.outcome {
	case refused:
		reply(answer{err: fmt.Errorf("refused: %w", store.ErrNotWritten)})
	case requestLost:
	case replyLost:
		c.act(f, func(answer) {})
	case late:
		again()
	case twice:
		c.act(f, reply)
		again()
	default:
		c.act(f, reply)
	}
}

// begin draws what becomes of the next call of a kind.
func (l *log) begin(ctx context.Context, k kind) (fate, uint64, error) {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	is := l.state
	err := ctx.Err()
	if is.ended != lives {
		err = errClosed
	}
	if err != nil {
		return fate{}, 0, errors.Join(err, store.ErrNotWritten)
	}
	n := is.calls[k]
	is.calls[k]++
	return l.store.faults.fate(l.process, k, n), n, nil
}

// hear hands an answer over, unless the process is cut off.
func (l *log) hear(answers chan<- answer, a answer) {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	if l.store.reachesLocked(l.process) {
		answers <- a
	}
}

// Append implements store.Log.
func (l *log) Append(ctx context.Context, after store.Position, batch []store.Entry) (store.News, error) {
	s := l.store
	c := call{l, appends, s.faults.timeout(), func(f fate, reply func(answer)) {
		if err := s.appendLocked(after, batch, f); err != nil {
			reply(answer{err: err})
			return
		}
		news, err := s.core.page(after, f.page)
		news.Now = s.stampLocked()
		reply(answer{news: news, err: err})
	}}
	a, err := c.do(ctx)
	return a.news, err
}

// Read implements store.Log.
func (l *log) Read(ctx context.Context, after store.Position, wait, gather time.Duration) (store.News, error) {
	s := l.store
	c := call{l, reads, wait + s.faults.timeout(), func(f fate, reply func(answer)) {
		r := &reading{store: s, after: after, gather: gather, until: time.Now().Add(wait), page: f.page, reply: reply}
		r.request = &request{l.process, reads, 0, r.look}
		if r.look(); !r.over && wait > 0 {
			s.send(wait, r.request)
		}
	}}
	a, err := c.do(ctx)
	return a.news, err
}

// reading is a Read that has reached the store.
type reading struct {
	store    *Store
	request  *request
	after    store.Position
	gather   time.Duration
	until    time.Time
	page     int
	reply    func(answer)
	gathered bool // the news may be told
	over     bool
}

// look answers if there is something to tell, and waits otherwise.
func (r *reading) look() {
	if r.over {
		return
	}
	news, err := r.store.core.page(r.after, r.page)
	left := time.Until(r.until)
	switch {
	case err != nil || left <= 0:
	case len(news.Entries) == 0:
		r.store.waiting = append(r.store.waiting, r.request)
		r.gathered = true
		return
	case r.gathered && r.gather > 0:
		r.gathered = false
		r.store.send(min(r.gather, left), r.request)
		return
	}
	r.over = true
	news.Now = r.store.stampLocked()
	r.reply(answer{news: news, err: err})
}

// Load implements store.Log.
func (l *log) Load(ctx context.Context) (store.Image, error) {
	c := call{l, loads, l.store.faults.timeout(), func(_ fate, reply func(answer)) {
		image, err := l.store.core.load()
		reply(answer{image: image, err: err})
	}}
	a, err := c.do(ctx)
	return a.image, err
}

// Save implements store.Log.
func (l *log) Save(ctx context.Context, image store.Image) error {
	c := call{l, saves, l.store.faults.timeout(), func(_ fate, reply func(answer)) {
		reply(answer{err: l.store.core.save(image)})
	}}
	_, err := c.do(ctx)
	return err
}

// Begin implements store.Log.
func (l *log) Begin(ctx context.Context, old uint64, image store.Image) error {
	c := call{l, begins, l.store.faults.timeout(), func(_ fate, reply func(answer)) {
		err := l.store.core.begin(old, image)
		l.store.wakeLocked()
		reply(answer{err: err})
	}}
	_, err := c.do(ctx)
	return err
}

// Close implements store.Log.
func (l *log) Close() error {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	l.state.endLocked(closed)
	return nil
}

// Traits tells how long a call waits for its answer.
func (l *log) Traits() store.Traits {
	return store.Traits{System: "memory", Timeout: l.store.faults.timeout(), Tick: l.store.faults.Tick}
}

// Dead implements store.Witness.
func (w witness) Dead(process int64) bool {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	is := w.store.logs[process]
	return is != nil && is.ended == killed
}

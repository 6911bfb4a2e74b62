package notice

import (
	"sync"
	"sync/atomic"
	"time"
)

// mostLax bounds the events in the queue at which those that may be lost are, and mostQueued those
// at which all are: the function is stuck then.
const (
	mostLax    = 1 << 10
	mostQueued = 1 << 16
)

// Outlet hands events to handlers, so that its owner can tell when the last one is through: at
// once on the goroutine of whoever has one, or from a queue on a goroutine of its own. It begins
// closed. The owner has a lock, under which it calls Begin, Post, PostLax and PostLater (a lock for
// reading will do), Open and Close.
//
// All methods are safe for concurrent use.
type Outlet[E any] struct {
	by   Handing[E]
	open atomic.Bool   // events may begin
	over atomic.Bool   // nothing is handed out any more
	ends chan struct{} // has a token when an event ended after the outlet was closed

	// Events that were begun, and those that have ended.
	begunLocked  int64 // guarded by the owner's lock, and read by Drain, when it changes no more
	begun, ended atomic.Int64

	draining atomic.Bool
	drained  chan struct{} // closed at the end of Drain

	mu      sync.Mutex // taken after the owner's lock
	queue   []E
	running bool // the goroutine that hands the queue out
}

// NewOutlet returns a closed outlet.
func NewOutlet[E any](by Handing[E]) *Outlet[E] {
	return &Outlet[E]{by: by, ends: make(chan struct{}, 1), drained: make(chan struct{})}
}

// Open lets events begin.
func (o *Outlet[E]) Open() { o.open.Store(true) }

// IsOpen reports whether events may begin.
func (o *Outlet[E]) IsOpen() bool { return o.open.Load() }

// Close lets no further event begin. It reports whether the outlet was open.
func (o *Outlet[E]) Close() (was bool) { return o.open.Swap(false) }

// Begin announces one event that End follows, and reports whether it may be handed out. Drain
// waits for it.
func (o *Outlet[E]) Begin() bool {
	if !o.open.Load() {
		return false
	}
	o.begun.Add(1)
	return true
}

// BeginLocked is Begin where the owner's lock is held for writing, which takes no time.
func (o *Outlet[E]) BeginLocked() bool {
	if !o.open.Load() {
		return false
	}
	o.begunLocked++
	return true
}

// Keep is Begin for an event that follows one which has not ended yet.
func (o *Outlet[E]) Keep() { o.begun.Add(1) }

// active returns how many events were begun and have not ended, of a closed outlet.
func (o *Outlet[E]) active() int64 { return o.begunLocked + o.begun.Load() - o.ended.Load() }

// End ends what Begin or Keep announced.
func (o *Outlet[E]) End() {
	if o.ended.Add(1); !o.open.Load() {
		select {
		case o.ends <- struct{}{}:
		default:
		}
	}
}

// IsOver reports whether an event that was begun is to be handed out no more, because Drain has
// waited for it long enough.
func (o *Outlet[E]) IsOver() bool { return o.over.Load() }

// Post has an event handed out by the goroutine of the outlet.
func (o *Outlet[E]) Post(e E) { o.post(e, false, true) }

// PostLax is Post for an event that is left out while many others wait. It reports whether it is
// not.
func (o *Outlet[E]) PostLax(e E) bool { return o.post(e, true, true) }

// PostBegun is Post for an event that was begun. Its End follows by itself.
func (o *Outlet[E]) PostBegun(e E) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = append(o.queue, e)
	o.startLocked()
}

// PostLater is Post for callers that may start no goroutine. The next Post or Drain hands the event
// out.
func (o *Outlet[E]) PostLater(e E) { o.post(e, false, false) }

func (o *Outlet[E]) post(e E, lax, now bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n := len(o.queue); lax && n >= mostLax || n >= mostQueued || !o.Begin() {
		return false
	}
	o.queue = append(o.queue, e)
	if now {
		o.startLocked()
	}
	return true
}

func (o *Outlet[E]) startLocked() {
	if !o.running && len(o.queue) > 0 {
		o.running = true
		go o.run()
	}
}

// run hands out the queue until it is empty.
func (o *Outlet[E]) run() {
	defer func() { // also where hand ends the goroutine
		o.mu.Lock()
		defer o.mu.Unlock()
		o.running = false
		o.startLocked()
	}()
	for {
		e, ok := o.next()
		if !ok {
			return
		}
		o.handQueued(e)
	}
}

// next takes the oldest event out of the queue.
func (o *Outlet[E]) next() (e E, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		o.queue = nil
		return e, false
	}
	e, o.queue[0] = o.queue[0], e
	o.queue = o.queue[1:]
	return e, true
}

// Drain waits until all events that were begun have ended, has the goroutine of the outlet hand out
// the last ones, and waits for those. It gives up a wait in which no event ends for the given time,
// and after that nothing more is handed out. The outlet must be closed, and no lock may be held. A
// second call waits for the first, for as long.
func (o *Outlet[E]) Drain(patience time.Duration, last ...E) {
	if o.draining.Swap(true) {
		select {
		case <-o.drained:
		case <-time.After(patience):
		}
		return
	}
	defer close(o.drained)
	defer o.over.Store(true)
	o.await(patience)
	if len(last) == 0 {
		return
	}
	o.begun.Add(int64(len(last)))
	o.mu.Lock()
	o.queue = append(o.queue, last...)
	o.mu.Unlock()
	o.await(patience)
}

// await waits until all events that were begun have ended, as long as some end.
func (o *Outlet[E]) await(patience time.Duration) {
	o.mu.Lock()
	o.startLocked()
	o.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for o.active() > 0 {
		select {
		case <-o.ends:
			timer.Reset(patience)
		case <-timer.C:
			return
		}
	}
}

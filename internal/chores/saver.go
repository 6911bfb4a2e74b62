// Package chores has the work that a limiter does beside its calls: a Saver saves its state some
// time after a change, Every prunes it now and then, and a Worker walks over all models and lets
// others in meanwhile.
package chores

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit/debounce"
)

const (
	// maxGrain is the longest time in which a Saver takes changes for one. Telling it of each
	// would cost half as much as the change.
	maxGrain = time.Millisecond

	// The pause after a failure, which doubles from the first to the last. It is never shorter
	// than SaverOptions.Delay.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// SaverOptions are what a Saver saves, and when. Delay, Storage and Save must be set.
type SaverOptions struct {
	// Delay is the time from the last change to the write.
	Delay time.Duration
	// MaxWait is the longest time that a change stays unwritten while more keep coming. Zero is
	// ten times Delay.
	MaxWait time.Duration
	// Storage is the storage lock.
	Storage sync.Locker
	// Save writes the state. It is called with Storage held, and calls Begin before it copies
	// the state, and End with its result.
	Save func() error
	// Report gets the errors of writes in the background, without a lock.
	Report func(error)
}

// maxWait returns MaxWait, or ten times Delay where it is zero.
func (o *SaverOptions) maxWait() time.Duration {
	switch {
	case o.MaxWait > 0:
		return o.MaxWait
	case o.Delay > math.MaxInt64/10:
		return math.MaxInt64
	}
	return 10 * o.Delay
}

// Saver has a state saved in the background: some time after a change, one write at a time, with
// pauses after failures, and once more at the end. The limiter's AutoPersist is a Saver of its
// state file.
//
// Two locks of the owner guard a Saver, and the owner takes them in this order: the storage
// lock, under which it saves, and the state lock, under which it makes changes. Each method
// says which of them must be held; where it says nothing, no lock may be held. On a nil Saver,
// ChangedAt, Begin, End, Stop and Finish do nothing.
type Saver struct {
	options SaverOptions
	writer  *debounce.Debouncer[struct{}]
	grain   time.Duration // see maxGrain

	// unsaved says that something changed since the last write began. Changed and Begin set it
	// with the state lock held, so that no change falls between a copy of the state and its mark.
	unsaved atomic.Bool
	// next is the instant from which on ChangedAt looks at changes. The state lock guards it.
	next int64

	// What follows is guarded by the storage lock.
	retries *retryTimer // pauses after a failure
	paused  bool        // the writer leaves the next write to the retry
	lost    error       // the error of the last save of Finish
}

// NewSaver returns a Saver of a state without unsaved changes. Stop and Finish end it.
func NewSaver(o SaverOptions) *Saver {
	s := &Saver{
		options: o,
		grain:   min(maxGrain, o.Delay/16),
		next:    math.MinInt64,
	}
	s.retries = newRetryTimer(max(firstRetry, o.Delay), lastRetry, s.retry)
	s.writer = debounce.New(debounce.Options{
		Delay: o.Delay, MaxWait: o.maxWait(), DropOnStop: true,
	}, s.write)
	return s
}

// Changed notes an unsaved change. It returns for how long the Saver need not be told of
// further ones, unless Begin is called meanwhile. The state lock must be held.
func (s *Saver) Changed() time.Duration {
	s.unsaved.Store(true)
	s.writer.Trigger(struct{}{})
	return s.grain
}

// ChangedAt is Changed at an instant, in nanoseconds, and does nothing as long as it need not be
// told. The state lock must be held.
func (s *Saver) ChangedAt(instant int64) {
	if s != nil && instant >= s.next {
		s.next = instant + int64(s.Changed())
	}
}

// write is the action of the debouncer.
func (s *Saver) write(struct{}) {
	s.options.Storage.Lock()
	var err error
	if !s.paused && s.unsaved.Load() {
		err = s.options.Save()
	}
	s.options.Storage.Unlock()
	if err != nil {
		s.options.Report(fmt.Errorf("autosave: %w", err))
	}
}

// Begin marks all changes so far as saved, because the caller is about to copy the state. A
// change during the copy is copied and causes another write; a later one only causes that write.
// Both locks must be held.
func (s *Saver) Begin() {
	if s == nil {
		return
	}
	s.next = math.MinInt64
	s.unsaved.Store(false)
	s.writer.Cancel()
}

// End takes the result of the write that Begin announced. After an error the changes are unsaved
// again, and the write is retried after a pause. The storage lock must be held.
func (s *Saver) End(err error) {
	if s == nil {
		return
	}
	if err == nil {
		s.paused = false
		s.retries.Succeeded()
		return
	}
	s.unsaved.Store(true)
	s.paused = true
	s.retries.Failed()
}

// retry ends the pause after a failure.
func (s *Saver) retry() {
	s.options.Storage.Lock()
	s.paused = false
	s.options.Storage.Unlock()
	// By way of the debouncer, so that it stays one write at a time.
	s.writer.Trigger(struct{}{})
	s.writer.Flush()
}

// Stop ends the saving in the background, and waits for a write that is under way. It may be
// called more than once.
func (s *Saver) Stop() {
	if s != nil {
		s.writer.Stop(context.Background()) // cannot fail, because this context never ends
	}
}

// Finish saves the remaining changes after Stop. Where the storage is closed it saves nothing and
// returns the error of the last Finish. It may be called more than once. The caller holds the
// storage lock, and keeps it until it has closed the storage.
func (s *Saver) Finish(closed bool) error {
	if s == nil {
		return nil
	}
	s.retries.Stop()
	if !closed && s.unsaved.Load() {
		s.lost = s.options.Save()
	}
	return s.lost
}

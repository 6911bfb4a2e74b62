// Package replica is one process's part in a shared quota: it sends the commands of its process to
// a log, applies those of all processes to a state of its own, and goes on with a share of the
// quota while the log is away.
package replica

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/fleet"
	"dappco.re/go/core/go-ratelimit/internal/store"
)

// Options are what a Replica has to know of its limiter.
type Options struct {
	Log     store.Log
	Process int64 // the number under which the log was opened

	// Lock guards what readers see of the engine. It is held while entries are applied, a few at a
	// time, and never over I/O. The methods of a Replica must be called without it, but for Now.
	Lock sync.Locker
	// Observer is told what happens to the engine, with Lock held. It may be nil.
	Observer engine.Observer
	// Swapped gets the engine, with Lock held, at first and whenever another one takes its place.
	Swapped func(*engine.Engine)
	// Next is told, with Lock held, of each command of the engine before it is applied, and whose
	// it is. It may be nil.
	Next func(process int64, c engine.Command)
	// OnError gets errors that no call returns; nil discards them. It must not call the Replica.
	OnError func(error)
	// Away is told why the log is away, and with nil that it is there again; it may be nil. It must
	// not call the Replica.
	Away func(error)
	// Sent is told of each append, when it began and how it ended; it may be nil.
	Sent func(began time.Time, err error)

	// Bounds returns the day and the month of a zone that last at a time, in UnixNano. They are
	// told to the log before they are needed, because the tables of two machines may differ. Nil
	// tells nothing.
	Bounds func(zone string, wall int64) (day, month account.Span)

	LeaseTTL   time.Duration // how long slots belong to a process that is silent; 0 is 30 s
	MaxModels  int
	FailClosed bool // nothing is admitted while the log is away
	FreshStart bool // a log whose predecessor cannot be read begins unused, and not as used up
}

// Errors of a Replica.
var (
	// ErrClosed is the error of a call after Close.
	ErrClosed = errors.New("the shared limiter is closed")
	// ErrAway says that the log is away, and that the process has no share to go on with.
	ErrAway = errors.New("the store of the shared quota is away")
)

// status is how a Replica stands to the log.
type status int

const (
	joining  status = iota // it does not know the time yet, and asks for nothing
	here                   // it sends and hears
	cutOff                 // it sends nothing, and goes on with its share
	catching               // it was cut off or has loaded an image, and reads what it has missed
)

// Replica is one process's part. It is safe for concurrent use.
type Replica struct {
	options Options
	log     store.Log
	process int64
	traits  store.Traits
	timeout time.Duration // of the traits

	ctx  context.Context
	stop context.CancelFunc
	done sync.WaitGroup

	clock clock

	inbox      inbox
	signals    sync.Pool    // channels of asks whose callers have been told, which are empty
	zonedUntil atomic.Int64 // the wall time up to which the days of all zones are known

	turn chan struct{} // has a value while somebody appends, who may take mu

	mu       sync.Mutex
	state    *fleet.State
	at       store.Position // of the last entry applied, or of the image
	status   status
	err      error         // why the log is away
	changed  chan struct{} // closed and made anew when something has changed that others wait for
	moved    func()        // ends a read from a place where the process does not stand any more
	wake     chan struct{} // has the sender look
	look     chan struct{} // has the keeper look
	lookNow  chan struct{} // has it not wait with that
	asks     asks
	mine     map[account.ID]*record // open calls of this process; nil where the engine knows more
	expires  bool                   // it had calls that expire
	doubts   bool                   // nobody knows what was used before its log
	journal  journal
	pace     pace
	digests  digests
	contact  time.Time   // when the last request was sent that was answered
	steady   time.Time   // since when there was contact without a gap
	isAway   bool        // that was told
	isAlone  atomic.Bool // it is cut off, for those who do not hold the lock
	alone    *alone      // what was decided without the log; nil for nothing
	life     life
	reads    reads
	poisoned poisoned
	one      result         // of the entry that is being applied,
	results  []result       // and of those before it that concern this process
	settled  engine.Charged // see settledBy
	volume   int64          // bytes of the entries since the last image,
	kept     int64          // and between that and the one before
	saving   bool           // an image is being made
	image    fleet.Saved    // the last, as far as this process knows,
	imageBy  int64          // and who has saved it,
	imageAt  time.Time      // and when it heard of that
}

// Open joins those that share a log. It returns once the process knows what time it is there, and
// may ask.
func Open(ctx context.Context, options Options) (*Replica, error) {
	r := newReplica(ctx, options)
	if err := r.boot(ctx); err != nil {
		r.stop()
		return nil, err
	}
	r.start()
	if err := r.await(ctx, func() bool { return r.status == here }); err != nil {
		err = cmp.Or(r.Err(), err)
		r.Close(ctx)
		return nil, err
	}
	return r, nil
}

func newReplica(ctx context.Context, options Options) *Replica {
	if options.LeaseTTL == 0 {
		options.LeaseTTL = 30 * time.Second
	}
	r := &Replica{
		options: options, log: options.Log, process: options.Process,
		changed: make(chan struct{}), moved: func() {},
		turn: make(chan struct{}, 1), wake: make(chan struct{}, 1), look: make(chan struct{}, 1), lookNow: make(chan struct{}, 1),
		asks: asks{of: make(map[int64]*ask), lined: make(map[int64]bool)}, mine: make(map[account.ID]*record),
	}
	r.traits = store.TraitsOf(options.Log)
	r.timeout = r.traits.Timeout
	r.ctx, r.stop = context.WithCancel(context.WithoutCancel(ctx))
	return r
}

// start has a replica that was booted join, and go on until it is closed.
func (r *Replica) start() {
	r.mu.Lock()
	r.join()
	r.mu.Unlock()
	for _, run := range []func(){r.send, r.follow, r.keep} {
		r.done.Go(run)
	}
}

// await waits until something is so. is is called with the lock held.
func (r *Replica) await(ctx context.Context, is func() bool) error {
	for {
		r.mu.Lock()
		so, changed := is(), r.changed
		r.mu.Unlock()
		if so {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-r.ctx.Done():
			return ErrClosed
		}
	}
}

// change tells those that wait for something.
func (r *Replica) change() {
	r.progress()
	poke(r.wake)
}

// progress is change where nothing is to be sent because of it.
func (r *Replica) progress() {
	close(r.changed)
	r.changed = make(chan struct{})
	poke(r.look)
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Now returns the moment by the time of the log, as far as this process knows it.
func (r *Replica) Now() account.Now { return r.clock.now() }

// Err returns why the log is away; nil where it is not.
func (r *Replica) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Close says that the process shares the quota no more, and waits for that until ctx ends. The
// second time it does nothing.
func (r *Replica) Close(ctx context.Context) error {
	r.mu.Lock()
	var a *ask
	r.inbox.close()
	r.take()
	for _, is := range r.asks.open() {
		is.answer(answer{err: ErrClosed})
	}
	if r.status == here && r.ctx.Err() == nil {
		a, r.life.leaves = r.put(fleet.Bye{}), true
	}
	r.mu.Unlock()
	if a != nil {
		select {
		case <-a.done:
		case <-ctx.Done():
		case <-time.After(2 * r.timeout): // for one append in vain, and another one
		}
	}
	r.mu.Lock()
	r.stop()
	r.mu.Unlock()
	err := r.log.Close()
	r.done.Wait()
	return err
}

// tell hands an error to the program.
func (r *Replica) tell(err error) {
	if r.options.OnError != nil && err != nil {
		r.options.OnError(err)
	}
}
